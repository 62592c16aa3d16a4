#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Run the probes of this folder on this machine, in TAP.

Exit status 77 of a probe is a skip; what it printed last is the reason. In a
nested host they are run by tests/nested, where none may be skipped.
"""

import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
BUILD = TOP / os.environ.get("BUILD", "build") / "tests" / "probe"
LIMIT_S = 60
# asks what the lab needs to know; that it says no is no failure
ANSWERS = {"kvm-runs-guest"}


def run(path):
    try:
        r = subprocess.run([str(path)], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return None, [f"no end within {LIMIT_S} s"]
    except OSError as e:
        return None, [str(e)]
    return r.returncode, r.stdout.decode(errors="replace").splitlines()


def main():
    names = sorted(p.stem for p in Path(__file__).parent.glob("*.c"))
    print(f"1..{len(names)}")
    failed = 0
    for i, name in enumerate(names, 1):
        rc, lines = run(BUILD / name)
        for line in lines:
            print(f"# {name}: {line}")
        reason = lines[-1] if lines else "no reason given"
        if rc == 77 and name not in ANSWERS:
            print(f"ok {i} - {name} # SKIP {reason}")
        elif rc == 0 or (rc == 77 and name in ANSWERS):
            print(f"ok {i} - {name}")
        else:
            failed += 1
            print(f"not ok {i} - {name}: exit status {rc}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
