#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Every scenario of tests/lab/scenarios holds; broken THPs on 7.3 as well."""

import sys

import nestedtest
from nestedtest import SCENARIOS, expect, run_scenario

NEWER = ("broken-thps",)


def make(name, kernel=None):
    def test():
        out = run_scenario(name, kernel)
        expect(out["host_exit"] == 0, "the host's exit status")
        expect(all(out["timeline"].values()), "no page counts over time")
    test.__doc__ = f"scenario {name}" + (f" on {kernel}" if kernel else "")
    return test


TESTS = [make(p.stem) for p in sorted(SCENARIOS.glob("*.toml"))] \
    + [make(name, "7.3") for name in NEWER]

if __name__ == "__main__":
    sys.exit(nestedtest.main(TESTS))
