#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""tests/mutants as part of the long tests."""

import os
import sys

PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(
    __file__))), "mutants")
os.execv(sys.executable, [sys.executable, PROGRAM, *sys.argv[1:]])
