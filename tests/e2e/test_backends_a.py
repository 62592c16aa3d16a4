#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The backends fault and proactive, and auto, on a real guest."""

import sys
import time

from vmtest import wire
from vmtest.acting import BACKENDS, BACKGROUND, ActingGuest
from vmtest.tap import Suite, check, equal, holds, within

WHY_TARGET, WHY_EXHAUSTED, WHY_MISSING, WHY_LOW_MEMORY = 0, 1, 10, 8
suite = Suite()


class World(ActingGuest):
    def __enter__(self):
        super().__enter__()
        self.fragment(1126)
        return self


def expect_gain(r, wanted):
    equal((r["status"], r["why"]), (wire.DONE, WHY_TARGET),
          f"how it ended ({r['text']})")
    check(wanted <= r["gained"] <= 1.3 * wanted or
          "overshot" in r["text"],
          f"asked for {wanted}, got {r['gained']}: {r['text']}")
    equal(r["allocstall"], 0, "reclaim stalls of others")
    check(r["cpu_us"] > 0 and r["migrated"] > 0, f"not accounted: {r}")


@suite.case("fault: as many PMD blocks as asked for, switches untouched")
def _(w):
    r = w.act("fault", 9, 20)
    expect_gain(r, 20)
    equal(r["text"], "", "its words")
    w.nothing_left()


@suite.case("fault: blocks of order 4, its switch put back")
def _(w):
    r = w.act("fault", 4, 400)
    expect_gain(r, 400)
    # Free memory is as it was: nothing is held, nothing was reclaimed for it.
    check(abs(r["free_after"] - r["free_before"]) < 8192,
          f"free pages {r['free_before']} -> {r['free_after']}")
    w.nothing_left()


@suite.case("fault: blocks of order 3, for which the kernel would reclaim")
def _(w):
    before = w.vmstat("pgsteal_direct", "pgscan_direct")
    expect_gain(w.act("fault", 3, 400), 400)
    equal(w.vmstat("pgsteal_direct", "pgscan_direct"), before, "reclaim")


@suite.case("fault: orders without a folio size, and too many blocks, are "
            "refused in words")
def _(w):
    r = w.act("fault", 10, 10)
    equal((r["status"], r["why"]), (wire.REFUSED, WHY_MISSING), "order 10")
    holds(r["text"], "folio size")
    r = w.act("fault", 4, 100000)
    equal((r["status"], r["why"]), (wire.REFUSED, WHY_LOW_MEMORY), "too many")


@suite.case("fault: with THP off and defrag off, by MADV_COLLAPSE")
def _(w):
    thp = "/sys/kernel/mm/transparent_hugepage"
    old = {f: w.guest.check(f"sed 's/.*\\[//; s/\\].*//' {thp}/{f}").strip()
           for f in ("enabled", "defrag")}
    for f in old:
        w.guest.check(f"echo never >{thp}/{f}")
    try:
        expect_gain(w.act("fault", 9, 10), 10)
    finally:
        for f, value in old.items():
            w.guest.check(f"echo {value} >{thp}/{f}")


@suite.case("fault: cancelled, it ends at once and leaves nothing")
def _(w):
    settings = w.settings()
    w.begin("fault", 4, 8000)
    time.sleep(0.5)
    w.cancel()
    start = time.monotonic()
    r = w.end()
    took = time.monotonic() - start
    equal(r["why"], wire.WHY_CANCELLED, "why it ended")
    check(took < 2, f"it took {took:.1f} s to end")
    w.nothing_left()
    equal(w.settings(), settings, "settings")


@suite.case("fault: what was made is held until it is needed, cancelled, or "
            "the agent dies")
def _(w):
    g = w.guest

    def hold(order, blocks):
        before = w.free_blocks(order)
        r = w.act("auto", order, blocks, hold_ms=600000)
        expect_gain(r, blocks)
        holds(r["text"], "fault")
        equal(len(w.holders()), 1, "holders")
        check(w.free_blocks(order) < before + blocks // 2,
              "blocks that are held are free")
        return before

    def all_back(order, least, what):
        within(10, lambda: not w.holders(), what)
        within(10, lambda: w.free_blocks(order) >= least, "the blocks, free")

    # told to let go; of an order that no per-CPU list takes
    before = hold(4, 400)
    time.sleep(1)
    equal(len(w.holders()), 1, "holders after a second")
    w.cancel()
    all_back(4, before + 380, "the end after a cancel")
    # somebody who finds no huge page
    w.fragment(1126)
    hold(9, 30)
    g.sh("thpprobe --count 100 --hold-ms 0", timeout=60)
    all_back(9, 0, "the end once somebody needs blocks")
    holds(g.agent_log(), "somebody needs it")
    # it dies with the agent
    w.fragment(1126)
    hold(9, 20)
    holder = w.holders()[0]
    pid = g.check("cat /run/agent.pid").strip()
    g.check(f"kill -9 {pid}")
    within(10, lambda: g.sh(f"test -d /proc/{holder}")[0], "the holder's end")
    within(20, lambda: g.sh("cat /run/agent.pid")[1].strip()
           not in ("", pid), "the agent's restart")
    w.open()
    w.wait_nothing_left()
    w.act("fault", 9, 5)
    equal(w.holders(), [], "holders without being asked for")


@suite.case("proactive: the kernel's own, stopped at the target")
def _(w):
    r = w.act("proactive", 9, 40, BACKGROUND)
    equal((r["status"], r["why"]), (wire.DONE, WHY_TARGET),
          f"how it ended ({r['text']})")
    check(40 <= r["gained"] <= 60, f"asked for 40, got {r['gained']}")
    check(r["cpu_us"] > 0 and r["migrate_scanned"] > 0, f"{r}")
    r = w.act("proactive", 4, 40, BACKGROUND)
    equal((r["status"], r["why"]), (wire.REFUSED, WHY_MISSING), "order 4")


@suite.case("auto: says which it took and why")
def _(w):
    for order, blocks in ((9, 10), (4, 200)):
        r = w.act("auto", order, blocks, BACKGROUND)
        expect_gain(r, blocks)
        holds(r["text"], f"auto: {BACKENDS[r['backend']]}, ")


if __name__ == "__main__":
    sys.exit(suite.run(World))
