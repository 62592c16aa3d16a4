#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""tests/e2e/test_backends_b.py on all kernels, with more kills.

BACKENDS_KILLS and BACKENDS_KERNELS choose others.
"""

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
KERNELS = os.environ.get("BACKENDS_KERNELS", "6.1 6.12 7.3").split()
# on three kernels 201 instants a backend, or a tenth of that
KILLS = "67" if os.environ.get("SOAK") else "7"

rc = 0
for kernel in KERNELS:
    print(f"# kernel {kernel}", flush=True)
    env = {"BACKENDS_KILLS": KILLS, **os.environ, "BACKENDS_KERNEL": kernel}
    rc |= subprocess.run([HERE + "/../e2e/test_backends_b.py", *sys.argv[1:]],
                         env=env, stdin=subprocess.DEVNULL).returncode
sys.exit(rc)
