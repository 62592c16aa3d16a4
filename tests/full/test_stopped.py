#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""QEMU stopped for 30 s: the case of tests/e2e/test_faults.py, at length."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(os.path.dirname(HERE), "e2e", "test_faults.py")

os.environ["VMTEST_STOPPED_S"] = "30"
os.execv(sys.executable, [sys.executable, PROGRAM, "QEMU stopped"])
