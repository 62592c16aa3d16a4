#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The backends fault and proactive, and auto, on a real guest."""

import sys
import time

from vmtest import wire
from vmtest.acting import BACKENDS, BACKGROUND, ActingGuest
from vmtest.tap import Suite, check, equal, holds

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
