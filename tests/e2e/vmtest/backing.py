# SPDX-License-Identifier: GPL-2.0-or-later
"""What tests of the backing map share."""

import contextlib
import json
import re
import subprocess

from vmlab import smaps
from vmlab.daemon import Daemon
from vmlab.guest import Guest
from vmlab.util import build_dir

from .tap import check, equal, within

GIB, MIB = 1 << 30, 1 << 20
RAM = 2 * GIB
WORKLOAD_BLOCKS = 820
PASS_S = 30

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
        return self

    def __exit__(self, *exc):
        self.end_daemon()
        return super().__exit__(*exc)

    def serve(self, mode="observe", policy=""):
        self.end_daemon()
        self.conf.write_text("[policy]\nMapInterval = 1s\n" + policy)
        self.daemon = Daemon({"lab": self.guest}, mode=mode,
                             args=["--report-interval", "300ms",
                                   "--config", str(self.conf)])
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


def ram_huge_kib(w):
    return smaps.huge_kib(w.guest.pid, RAM)
