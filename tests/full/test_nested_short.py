#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The short part of check-nested: a steered KVM guest, and broken THPs."""

import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "nested"))

import nestedtest                                       # noqa: E402
from nestedtest import note, run_scenario               # noqa: E402


def test_steer():
    """from power-on to a steered KVM guest within 60 s"""
    f = run_scenario("first-steer")["samples"]["run"]
    note(f"{f['steered_s']} s, of which {f['steered_waited_s']} s waiting for "
         "a processor")


def test_broken_thps():
    """pages_2m falls with broken THPs, and comes back"""
    run_scenario("broken-thps")


if __name__ == "__main__":
    sys.exit(nestedtest.main([test_steer, test_broken_thps]))
