#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What backs a real guest, seen by the daemon and by readers of their own."""

import contextlib
import json
import re
import subprocess
import sys

from vmtest.tap import Suite, check, equal, holds, within
from vmlab import smaps
from vmlab.daemon import Daemon
from vmlab.guest import Guest
from vmlab.util import build_dir

GIB, MIB = 1 << 30, 1 << 20
RAM = 2 * GIB
WORKLOAD_BLOCKS = 820
PASS_S = 30
suite = Suite()


def backingmap(pid, *hints):
    out = subprocess.run([str(build_dir() / "tests/tools/backingmap"),
                          str(pid), *hints], check=True, timeout=60,
                         stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    return json.loads(out.stdout)


def hmp(guest, line):
    return guest.qmp("human-monitor-command", **{"command-line": line})


def gpa2hva(guest, gpa):
    text = hmp(guest, f"gpa2hva {gpa:#x}")
    m = re.search(r"is 0x([0-9a-f]+)", text)
    check(m, f"gpa2hva {gpa:#x}: {text}")
    return int(m[1], 16)


class World(contextlib.ExitStack):
    def __enter__(self):
        super().__enter__()
        self.guest = self.enter_context(Guest(kernel="6.12", mem="2G",
                                              agent=True,
                                              # what it frees must stay as
                                              # the host has it
                                              free_page_reporting=False))
        # what is fragmented must stay so, until we say otherwise
        self.guest.check("sysctl -w vm.compaction_proactiveness=0")
        self.daemon = None
        self.conf = self.guest.dir / "vmdefragd.conf"
        self.conf.write_text("[policy]\nMapInterval = 1s\n")
        return self

    def __exit__(self, *exc):
        self.end_daemon()
        return super().__exit__(*exc)

    def serve(self, mode="observe", *args):
        self.end_daemon()
        self.daemon = Daemon({"lab": self.guest}, mode=mode,
                             args=["--report-interval", "300ms",
                                   "--config", str(self.conf), *args])
        self.daemon.start()
        self.daemon.wait_session("lab")

    def end_daemon(self):
        if self.daemon:
            self.daemon.__exit__(None, None, None)
        self.daemon = None

    def alignment(self):
        return self.daemon.vm_status("lab").get("alignment") or {}

    def fresh(self):
        """Both sides looked at after this call -> alignment."""
        before = self.alignment()
        passes = before.get("passes", 0)

        def newer():
            a = self.alignment()
            done = (a.get("passes", 0) >= passes + 2
                    and a.get("guest_age_ms", 1e9) < a.get("host_age_ms", 0)
                    + 10000 and a.get("guest_known"))
            return a if done else None
        return within(PASS_S, newer, "a fresh map of both sides", 0.3)[0]

    def after_failure(self):
        said = self.daemon.log[-2500:] if self.daemon else ""
        if self.daemon:
            said += f"\n{json.dumps(self.alignment())[:1500]}\n"
        return said + self.guest.agent_log()[-1500:]


def compare_layout(guest, *hints):
    """Every slot that we found lies where QEMU's monitor says."""
    found = backingmap(guest.pid, *hints)
    check(found["slots"], f"no slot was found: {found['facts']}")
    for s in found["slots"]:
        for gpa in (s["gpa"], s["gpa"] + s["len"] // 2 // 4096 * 4096,
                    s["gpa"] + s["len"] - 4096):
            # the VGA hole has no RAM in it for the monitor
            if 0xA0000 <= gpa < 0x100000:
                continue
            equal(s["hva"] + gpa - s["gpa"], gpa2hva(guest, gpa),
                  f"host address of gpa {gpa:#x}")
    return found


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


def workload(w):
    """820 huge pages, held until stop()."""
    w.pid = w.guest.spawn(f"exec thpprobe --count {WORKLOAD_BLOCKS} --hold-ms 3600000"
                  " >/run/workload.out 2>&1")
    within(90, lambda: w.guest.meminfo()["AnonHugePages"]
           >= WORKLOAD_BLOCKS * 2048 * 9 // 10, "the workload's huge pages",
           0.5)


def stop(w):
    w.guest.check(f"kill -9 {w.pid}")
    within(30, lambda: w.guest.meminfo()["AnonHugePages"] < 64 * 1024,
           "the workload's end", 0.3)


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


# ------------------------------------------------------------------ collapse


def ram_huge_kib(w):
    return smaps.huge_kib(w.guest.pid, RAM)


@suite.case("a balloon of 4 KiB pages breaks the host's huge pages: seen")
def _(w):
    g = w.guest
    stop(w)
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
