# SPDX-License-Identifier: GPL-2.0-or-later
"""What the end-to-end tests share: TAP, the wire in Python, fake ends of it."""

import os
import sys

sys.dont_write_bytecode = True
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(TOP, "tests", "lab"))
