#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What backs a real guest, seen by the daemon and by readers of their own."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile

from vmtest.backing import (MIB, RAM, World, WORKLOAD_BLOCKS, backingmap,
                            compare_layout, workload)
from vmtest.control import answers_soon
from vmtest.tap import Suite, check, equal, holds, within
from vmlab import smaps
from vmlab.qmp import Qmp

suite = Suite()


@suite.case("one backend: the layout is what the monitor says")
def _(w):
    found = compare_layout(w.guest)
    equal(sum(s["len"] for s in found["slots"]), RAM, "memory found")
    check(not found["slots"][0]["doubtful"], "its slot is doubtful")
    check(found["slots"][0]["congruent"], "addresses disagree mod 2 MiB")
    holds(" ".join(found["facts"]), "balloon")


@suite.case("the map agrees with smaps and pagemap")
def _(w):
    # a standing guest: what is compared must not change meanwhile
    w.guest.qmp("stop")
    try:
        found = backingmap(w.guest.pid)
        slot = found["slots"][0]
        pages = smaps.present_pages(w.guest.pid, slot["hva"], slot["len"])
        equal(found["huge"] * 2048, smaps.huge_kib(w.guest.pid, RAM),
              "KiB mapped by 2 MiB entries")
        equal(found["present_pages"], sum(pages), "pages present")
    finally:
        w.guest.qmp("cont")


class Bare:
    """A QEMU that stands at its first instruction: memory and no guest."""

    def __init__(self, *args):
        self.args = args

    def __enter__(self):
        self.dir = tempfile.TemporaryDirectory()
        path = self.dir.name + "/qmp"
        self.proc = subprocess.Popen(
            ["qemu-system-x86_64", "-S", "-nodefaults", "-display", "none",
             "-accel", "tcg", "-qmp", f"unix:{path},server=on,wait=off",
             *self.args], stdin=subprocess.DEVNULL)
        self.pid = self.proc.pid
        within(20, lambda: os.path.exists(path), "QEMU's socket")
        self.monitor = Qmp(path)
        return self

    def qmp(self, command, **args):
        return self.monitor.command(command, 30, **args)

    def __exit__(self, *exc):
        self.monitor.close()
        self.proc.kill()
        self.proc.wait()
        self.dir.cleanup()


def ram(ident, size, *more):
    return ["-object", ",".join([f"memory-backend-ram,id={ident},size={size}",
                                 *more])]


LAYOUTS = {
    "pc, 4 GiB: a hole": ["-M", "pc", "-m", "4G"],
    "pc, 3200 MiB: none": ["-M", "pc", "-m", "3200M"],
    "q35, 3 GiB: a hole from 2 GiB": ["-M", "q35", "-m", "3G"],
    "two nodes of one size": ["-m", "2G", *ram("a", "1G"), *ram("b", "1G"),
                              "-numa", "node,memdev=a",
                              "-numa", "node,memdev=b"],
    "nodes in reverse order": ["-m", "2G", *ram("a", "1G"), *ram("b", "1G"),
                               "-numa", "node,nodeid=1,memdev=a",
                               "-numa", "node,nodeid=0,memdev=b"],
    "a memfd beside anonymous memory": [
        "-m", "1280M", *ram("a", "1G"), "-object",
        "memory-backend-memfd,id=m,size=256M", "-numa", "node,memdev=a",
        "-numa", "node,memdev=m"],
}


@suite.case("other machines and backends: the same")
def _(w):
    for name, args in LAYOUTS.items():
        with Bare(*args) as q:
            found = compare_layout(q)
            check(not any(s["doubtful"] for s in found["slots"]),
                  f"{name}: doubtful")
            equal(found["facts"], [], f"{name}: facts")


@suite.case("a DIMM and virtio-mem, placed by QEMU")
def _(w):
    with Bare("-m", "1G,slots=2,maxmem=8G", *ram("d", "512M"),
              "-device", "pc-dimm,id=dimm0,memdev=d", *ram("v", "768M"),
              *ram("r", "1G"), "-numa", "node,memdev=r",
              "-device", "virtio-mem-pci,id=vm0,memdev=v,requested-size=0") \
            as q:
        equal(len(backingmap(q.pid)["slots"]), 1, "slots without their places")
        hints = []
        for d in q.qmp("query-memory-devices"):
            data, vm = d["data"], d["type"] == "virtio-mem"
            hints.append(f"{data['memdev'].rsplit('/', 1)[1]}="
                         f"{data['memaddr' if vm else 'addr']}:"
                         f"{data['max-size' if vm else 'size']}")
        found = backingmap(q.pid, *hints)
        equal(len(found["slots"]), 3, "slots with them")
        compare_layout(q, *hints)


@suite.case("memfd is linted where address and offset disagree")
def _(w):
    with Bare("-m", "512M", "-object",
              "memory-backend-memfd,id=m,size=512M", "-M",
              "pc,memory-backend=m") as q:
        slot = backingmap(q.pid)["slots"][0]
        [m] = smaps.ram(q.pid, 512 * MIB)
        equal(slot["kind"], "shmem", "kind")
        equal(slot["file_congruent"], m["start"] % (2 * MIB) == 0,
              "congruent with the file")


@suite.case("the guest's huge pages are seen, and lie on the host's")
def _(w):
    w.serve()
    workload(w)
    a = w.fresh()["all"]
    huge = w.guest.meminfo()["AnonHugePages"] // 2048
    seen = a["huge_on_huge"] + a["guest_only"]
    check(abs(seen - huge) <= huge // 50 + 8,
          f"{seen} blocks of folios, the guest says {huge}")
    check(a["host_huge"] * 2048 <= smaps.huge_kib(w.guest.pid, RAM) * 1.05
          + 64 * 1024, "more huge pages than smaps has")


@suite.case("map draws both sides, and says what the letters mean")
def _(w):
    rc, out, err = w.daemon.ctl("map", "lab")
    equal(rc, 0, f"exit status: {err}")
    holds(out, "guest ", "host ", "fit ", "#", "huge on huge",
          "a character is 2 MiB", "score")
    doc = w.daemon.ctl_json("map", "lab")
    equal(sum(r["blocks"] for r in doc["ranges"]), RAM // (2 * MIB),
          "blocks drawn")
    for r in doc["ranges"]:
        for side in ("guest", "host", "fit"):
            equal(len(r[side]), r["blocks"], f"cells of {side}")


@suite.case("QEMU stopped: its memory is looked at all the same")
def _(w):
    os.kill(w.guest.pid, signal.SIGSTOP)
    try:
        passes = w.alignment()["passes"]
        within(30, lambda: w.alignment()["passes"] >= passes + 2,
               "two passes over a stopped QEMU", 0.3)
        answers_soon(w.daemon)
    finally:
        os.kill(w.guest.pid, signal.SIGCONT)


@suite.case("QEMU gone: the map is stale, with its age, and explain says so")
def _(w):
    os.kill(w.guest.pid, signal.SIGKILL)
    within(30, lambda: w.alignment().get("error"), "an error", 0.3)
    age = w.alignment()["host_age_ms"]
    within(30, lambda: w.alignment()["host_age_ms"] > age, "age that grows",
           0.3)
    causes = [s["cause"] for s in w.daemon.ctl_json("explain", "lab")["lines"]
              if "cause" in s]
    equal(causes[:1], ["stale"], "main cause")
    answers_soon(w.daemon)


sys.exit(suite.run(World))
