#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The hugetlb and memblock backends and the map of pageblocks, in a guest.

TAP. BACKENDS_KERNEL chooses another kernel than 6.12.
"""

import contextlib
import json
import os
import random
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from vmtest.hosted import Hosted                        # noqa: E402
from vmtest.tap import Suite, check, equal, holds, within  # noqa: E402

from vmlab.guest import Guest                           # noqa: E402
from vmlab.procfs import free_2m_blocks, parse_buddyinfo  # noqa: E402

POOL = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
MEMORY = "/sys/devices/system/memory"
PCP = "/proc/sys/vm/percpu_pagelist_high_fraction"
CONF = "[agent]\nAllowBackends=compact hugetlb memblock\nCpuBurstSec=300s\n"
BLOCK_MIB = 128
VIRTIO_MIB = 256
# Instants at which the agent is killed, in each backend.
KILLS = int(os.environ.get("BACKENDS_KILLS", "1"))

suite = Suite()


class World(contextlib.ExitStack):
    """A fragmented guest, in which virtio-mem has two memory blocks."""

    chance = random.Random(7)

    def __init__(self, kernel=None):
        super().__init__()
        self.kernel = kernel or os.environ.get("BACKENDS_KERNEL", "6.12")

    def __enter__(self):
        super().__enter__()
        d = self.enter_context(tempfile.TemporaryDirectory())
        conf = os.path.join(d, "agent.conf")
        with open(conf, "w", encoding="ascii") as f:
            f.write(CONF)
        self.g = self.enter_context(Guest(
            kernel=self.kernel, mem="1G", agent=True, modules=("virtio_mem",),
            cmdline="memhp_default_state=online_movable",
            agent_args=["--config", "/etc/agent.conf", "--verbose"],
            initrd_add=[f"{conf}:/etc/agent.conf"],
            qemu_args=["-m", "1G,maxmem=4G",
                       "-object", "memory-backend-ram,id=vm0,size=1G",
                       "-device", "virtio-mem-pci,id=vmem0,memdev=vm0,"
                                  "requested-size=0"]))
        before = self.blocks()
        self.g.qmp("qom-set", path="/machine/peripheral/vmem0",
                   property="requested-size", value=VIRTIO_MIB << 20)
        within(20, lambda: len(self.blocks()) == len(before) +
               VIRTIO_MIB // BLOCK_MIB, "virtio-mem's blocks")
        self.virtio = sorted(set(self.blocks()) - set(before))
        self.were = self.blocks()
        self.g.sysctl("vm.compaction_proactiveness", 0)
        self.fragment()
        self.h = self.enter_context(Hosted(self.g))
        return self

    def fragment(self):
        self.g.check("fragment --release; fragment --free-mib 700 "
                     "--occupancy random-per-block", timeout=120)

    def blocks(self):
        """{number: (state, valid zones)}"""
        out = self.g.check(f"cd {MEMORY}; for m in memory*; do "
                           "echo ${m#memory} $(cat $m/state) "
                           "$(cat $m/valid_zones); done")
        return {int(s.split()[0]): tuple(s.split()[1:])
                for s in out.splitlines()}

    def pool(self):
        return int(self.g.text(POOL))

    def pool_grows(self, seconds):
        """Is a larger pool seen within that time?"""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.pool() > 0:
                return True
        return False

    def needs_nothing(self, pool=0):
        """All that an action changed is as it was."""
        equal(self.pool(), pool, "the pool")
        equal(self.g.text(PCP).strip(), "0", "the cap of the per-CPU lists")
        equal(self.g.check("ls /run/vmdefrag-agent").split(), ["lock"],
              "the run directory")
        equal(self.blocks(), self.were, "memory blocks and their zones")

    def kill_agent(self):
        """SIGKILL; -> once the next one has a session."""
        pid = self.g.agent_pid()
        self.g.check(f"kill -9 {pid}")
        within(15, lambda: self.g.agent_pid() not in (None, pid), "an agent")
        self.h.actions = 0
        self.h.open(timeout=20)

    def after_failure(self):
        return self.g.agent_log()[-1500:]


@suite.case("what this guest can do, by name")
def _(w):
    for args, denied in (("--config /etc/agent.conf", ()),
                         ("", ("memblock",))):
        b = json.loads(w.g.check(f"vmdefrag-agent --once {args}"))["backends"]
        check("hugetlb" in b["usable"], f"hugetlb is not usable: {b}")
        equal("memblock" in b["usable"], not denied, f"memblock usable: {b}")
        for name in denied:
            check(name in b["denied"], f"{name} is not denied: {b}")
    r = w.h.act("fault", 1)
    check(r["why"] in ("missing", "denied"), f"fault: {r}")


@suite.case("the map of pageblocks has the free blocks that buddyinfo has")
def _(w):
    for _try in range(3):
        m = json.loads(w.g.check("vmdefrag-agent --map"))
        off = 0
        for z in m["zones"]:
            mine, theirs = z["free_blocks"], z["buddyinfo"]
            off += sum(abs(a - b) << o
                       for o, (a, b) in enumerate(zip(mine, theirs)))
        free = sum(z["pages"]["free"] for z in m["zones"])
        # what moves between per-CPU lists and buddy while it is read
        if off <= 512:
            break
    check(off <= 512, f"{off} of {free} free pages in other orders: {m}")
    zones = {z["zone"]: z for z in m["zones"]}
    check("Movable" in zones, f"no zone Movable in {list(zones)}")
    equal(sum(sum(z["pages"].values()) for z in m["zones"]) % 512, 0,
          "pages that are not of whole pageblocks")
    check(m["kpageflags_words"] >= (1024 + VIRTIO_MIB) * 256 * 9 // 10,
          "words")
    check(all(z["thp_pages"] <= z["pages"]["movable"] for z in m["zones"]),
          "THP")


@suite.case("hugetlb makes what was asked for, and puts the pool back")
def _(w):
    before = free_2m_blocks(parse_buddyinfo(w.g.text("/proc/buddyinfo")))
    r = w.h.act("hugetlb", 40)
    equal((r["status"], r["why"], r["backend"]), ("done", "target", "hugetlb"),
          f"how it ended: {r}")
    check(40 <= r["gained"] <= 52, f"gained {r['gained']}: {r}")
    check(r["migrated"] > 0 and r["cpu_us"] > 0, f"accounting: {r}")
    equal((r["swapped_out"], r["pgscan_direct"]), (0, 0), "reclaim")
    after = free_2m_blocks(parse_buddyinfo(w.g.text("/proc/buddyinfo")))
    check(after - before >= 36, f"{before} to {after} blocks, seen from here")
    w.needs_nothing()


@suite.case("hugetlb has only the orders of huge pages")
def _(w):
    r = w.h.act("hugetlb", 40, order=4)
    equal((r["status"], r["why"]), ("refused", "missing"), f"order 4: {r}")
    holds(r["text"], "no huge pages of this order")


@suite.case("hugetlb keeps a pool that others have, and theirs if they change "
            "it meanwhile")
def _(w):
    w.g.put(POOL, b"3")
    r = w.h.act("hugetlb", 20)
    equal(r["status"], "done", f"with a pool of 3: {r}")
    w.needs_nothing(pool=3)
    w.h.ask("hugetlb")
    try:
        within(20, lambda: w.pool() > 3, "a pool that grows", 0.01)
        # what lies between the old size and ours could be a part of ours
        w.g.put(POOL, b"1")
        r = w.h.result()
        equal((r["status"], r["why"]), ("stopped", "busy"), f"changed: {r}")
        w.needs_nothing(pool=1)
    finally:
        w.g.put(POOL, b"0")


@suite.case("hugetlb stops at once, and leaves nothing behind, when cancelled "
            "or killed")
def _(w):
    w.h.ask("hugetlb", max_time_us=300000)
    r = w.h.result()
    check(r["why"] in ("time", "low-memory", "exhausted"), f"time limit: {r}")
    w.needs_nothing()
    # A guest that was fragmented often may have little more to give: then an
    # action is over before it can be killed, which proves nothing.
    grown = 0
    for _try in range(KILLS + 4):
        w.fragment()
        w.h.ask("hugetlb")
        grown += w.pool_grows(1)
        time.sleep(w.chance.uniform(0, 1))
        w.kill_agent()
        w.needs_nothing()
        if grown >= KILLS:
            break
    check(grown, "no kill met a pool that grew")


@suite.case("memblock makes what was asked for out of whole memory blocks")
def _(w):
    r = w.h.act("memblock", 20)
    equal((r["status"], r["why"]), ("done", "target"), f"how it ended: {r}")
    # a block of 64, and what others freed and merged meanwhile
    check(20 <= r["gained"] <= 80, f"gained {r['gained']}: {r}")
    check(r["kpageflags_words"] >= (1024 + VIRTIO_MIB) * 256 * 9 // 10,
          f"words: {r}")
    w.needs_nothing()
    r = w.h.act("memblock")
    check(r["why"] in ("exhausted", "low-memory"), f"all of them: {r}")
    w.needs_nothing()
    log = w.g.agent_log()
    holds(log, " moves, zone ")
    for number in w.virtio:
        check(f"Memory block {number}:" not in log,
              f"block {number} is virtio-mem's:\n{log[-800:]}")
    complaints = w.g.kernel_complaints()
    equal(complaints, [], "the kernel's complaints")


@suite.case("memblock leaves nothing behind when killed at any instant")
def _(w):
    for _try in range(KILLS):
        w.fragment()
        w.h.ask("memblock")
        time.sleep(w.chance.uniform(0.5, 3))
        w.kill_agent()
        w.needs_nothing()


if __name__ == "__main__":
    sys.exit(suite.run(World))
