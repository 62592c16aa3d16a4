#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Host base pages under a guest's huge ones: seen, explained and mended."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from vmtest.backing import (MIB, RAM, World, WORKLOAD_BLOCKS,  # noqa: E402
                            ram_huge_kib, stop, workload)
from vmtest.tap import Suite, check, equal, holds, within      # noqa: E402

suite = Suite()


@suite.case("a balloon of 4 KiB pages breaks the host's huge pages: seen")
def _(w):
    g = w.guest
    w.serve()
    g.check("fragment --free-mib 1500 --seed 3", timeout=200)
    before = ram_huge_kib(w)
    g.qmp("balloon", value=600 * MIB)
    within(60, lambda: g.qmp("query-balloon")["actual"] <= 620 * MIB,
           "an inflated balloon", 0.5)
    g.qmp("balloon", value=RAM)
    within(60, lambda: g.qmp("query-balloon")["actual"] >= RAM - 4 * MIB,
           "a deflated balloon", 0.5)
    g.check("fragment --release", timeout=60)
    check(ram_huge_kib(w) < before / 2,
          f"huge pages of the host: {before} -> {ram_huge_kib(w)} KiB")
    # free memory must not be given back, or it comes back huge
    workload(w)
    a = w.fresh()["all"]
    huge = a["huge_on_huge"] + a["guest_only"]
    print(f"# after the balloon: {a}")
    check(huge >= WORKLOAD_BLOCKS * 9 // 10, f"{huge} huge blocks in guest")
    check(a["guest_only"] > huge // 4, f"nothing to mend: {a}")


@suite.case("observe decides the same, and changes nothing")
def _(w):
    before = ram_huge_kib(w)
    state = w.alignment()["collapse"]
    equal(state["state"], "go", "what would be done")
    equal(state["asked"], 0, "blocks asked for")
    check(abs(ram_huge_kib(w) - before) <= 32 * 1024, "smaps has changed")
    holds(str(w.daemon.history()), "observed only")


@suite.case("explain names the balloon as the main cause")
def _(w):
    lines = [s for s in w.daemon.ctl_json("explain", "lab")["lines"]
             if "cause" in s]
    check(lines, "no cause is named")
    equal(lines[0]["cause"], "balloon", "main cause")
    holds(lines[0]["text"], "main cause")
    check(lines[0]["cure"], "no cure")


@suite.case("collapse impossible: no blocks of 2 MiB are made in the guest")
def _(w):
    w.serve("balanced", "Collapse = off\n")
    within(30, lambda: (w.alignment().get("collapse") or {}).get("state")
           == "off" and w.alignment().get("guest_known"), "collapse off")
    within(30, lambda: "host-base" in str(w.daemon.history()),
           "the policy's reason")
    before = w.guest.vmstat()
    deaf = [d for d in w.daemon.history()["history"]
            if d.get("decision") == "action"]
    equal(deaf, [], "actions asked for")
    equal(w.guest.vmstat()["pgmigrate_success"],
          before["pgmigrate_success"], "pages moved")
    equal(w.alignment()["collapse"]["asked"], 0, "blocks asked for")
    w.serve()
    w.fresh()


@suite.case("balanced collapses what the guest holds huge, and no more")
def _(w):
    before = w.alignment()
    w.end_daemon()
    w.serve("balanced")
    rss = w.guest.rss_kib()
    goal = lambda: (lambda a: a if a.get("guest_known") and
                    a["all"]["score_permille"] >= 950 else None)(
                        w.alignment())
    a, took = within(120, goal, "95 % huge on huge", 0.5)
    print(f"# {took:.0f} s; {a['all']}; {a['collapse']}")
    check(a["collapse"]["done"] > 0, "nothing was collapsed")
    check(ram_huge_kib(w) // 2048 >= a["all"]["huge_on_huge"] * 0.95,
          "smaps knows nothing of it")
    grown = w.guest.rss_kib() - rss
    check(grown <= RAM // 1024 // 50,
          f"host memory grew by {grown} KiB of {rss}")
    check(before["all"]["score_permille"] < 900, "it was good before")


sys.exit(suite.run(World))
