# SPDX-License-Identifier: GPL-2.0-or-later
"""Boot real guests under QEMU for vmdefrag's tests, benchmarks and demo."""
