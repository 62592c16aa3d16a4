#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Kill the agent at random instants of each backend's work.

After its restart all is as before: knobs and THP switches have their values,
no journal is left, no child, no held memory. 20 instants a backend, with
SOAK=1 200; SEED repeats a run, KERNEL takes another one.
"""

import os
import random
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "e2e"), str(TESTS / "lab")]

from vmtest.acting import BACKGROUND, ActingGuest           # noqa: E402
from vmtest.tap import Suite, check, equal, within          # noqa: E402

KILLS = 200 if os.environ.get("SOAK") else 20
SEED = int(os.environ.get("SEED", time.time()))
KERNEL = os.environ.get("KERNEL", "6.12")
# Long enough for every action here to be under way, and some to have ended.
LATEST_S = 1.2
# Work makes the guest less fragmented: it is fragmented anew each so often.
KILLS_A_STATE = 10
HELD_MIB = 48
suite = Suite()


class World(ActingGuest):
    def __init__(self):
        super().__init__(kernel=KERNEL)

    def __enter__(self):
        super().__enter__()
        print(f"# seed {SEED}", flush=True)
        # Not the least value of each: nobody must take it for ours.
        self.guest.check("sysctl -w vm.compaction_proactiveness=1")
        return self

    def agent_pid(self):
        return self.guest.sh("cat /run/agent.pid")[1].strip()

    def free_mib(self):
        return int(self.guest.check(
            "awk '/^MemFree/ { print $2 }' /proc/meminfo")) // 1024


def kill_once(w, delay_s, *action):
    settings, free_mib, pid = w.settings(), w.free_mib(), w.agent_pid()
    w.begin(*action)
    time.sleep(delay_s)
    w.guest.check(f"kill -9 {pid}")
    within(20, lambda: w.agent_pid() not in ("", pid), "the agent's restart")
    w.open()
    w.wait_nothing_left()
    equal(w.settings(), settings, f"settings after {delay_s:.3f} s")
    check(w.free_mib() > free_mib - HELD_MIB,
          f"{w.free_mib()} MiB are free after {delay_s:.3f} s, were {free_mib}")


def kill_many(w, *action):
    rng = random.Random(f"{SEED} {action}")
    for i in range(KILLS):
        if i % KILLS_A_STATE == 0:
            w.fragment(1126)
        kill_once(w, rng.uniform(0, LATEST_S), *action)
    w.guest.sh("fragment --release")


@suite.case(f"compact: {KILLS} kills")
def _(w):
    kill_many(w, "compact", 9)


@suite.case(f"fault, order 9: {KILLS} kills")
def _(w):
    kill_many(w, "fault", 9, 200)


@suite.case(f"fault, order 4, with its switch: {KILLS} kills")
def _(w):
    kill_many(w, "fault", 4, 7000)


@suite.case(f"proactive: {KILLS} kills")
def _(w):
    kill_many(w, "proactive", 9, 300, BACKGROUND)


if __name__ == "__main__":
    sys.exit(suite.run(World))
