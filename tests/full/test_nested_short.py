#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A short part of check-nested: a KVM host, a guest, steered.

The rest is `make check-nested`.
"""

import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "nested"))

import nestedtest                                       # noqa: E402
from nestedtest import expect, run_scenario             # noqa: E402


def test_first_steer():
    """a KVM guest on an emulated host is steered, and its memory returns"""
    out = run_scenario("first-steer")
    expect(out["host_exit"] == 0, "the host's exit status")
    expect(all(out["timeline"].values()), "no page counts over time")


if __name__ == "__main__":
    sys.exit(nestedtest.main([test_first_steer]))
