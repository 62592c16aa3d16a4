#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The goal of compaction on the kernels that `make check` leaves out, with
SOAK=1 over and over: a guest of 2 GiB, 1.1 GiB of it free, scattered."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "e2e"))

from vmtest.real import RealGuest                           # noqa: E402
from vmtest.tap import Suite, check, equal                  # noqa: E402

ROUNDS = 20 if os.environ.get("SOAK") else 1
GOAL_PCT = 90
suite = Suite()


def compact(kernel):
    with RealGuest(kernel=kernel) as w:
        for turn in range(ROUNDS):
            w.end_daemon()
            w.guest.sysctl("vm.compaction_proactiveness", 0)
            w.fragment()
            if not turn:
                w.compact_killed()
                w.fragment()
            w.new_daemon()
            before = w.blocks_pct()
            rc, out, err = w.daemon.ctl("compact", "lab", timeout=150)
            after = w.blocks_pct()
            where = f"round {turn + 1} of {ROUNDS}"
            equal(rc, 0, f"{where}: exit status ({out}{err})")
            check(before < 60 and after >= GOAL_PCT,
                  f"{where}: {before:.0f} % before, {after:.0f} % after")
            vm = w.daemon.vm_status("lab")["report"]
            check(vm["agent_rss_kib"] <= 3072,
                  f"{where}: the agent has {vm['agent_rss_kib']} KiB")
        equal(w.guest.kernel_complaints(), [], "the guest's kernel")


for series in ("6.1", "7.3") + (("6.12",) if ROUNDS > 1 else ()):
    suite.case(f"{series}: compact brings at least {GOAL_PCT} % of the free "
               "memory into 2 MiB blocks")(lambda w, k=series: compact(k))


if __name__ == "__main__":
    sys.exit(suite.run())
