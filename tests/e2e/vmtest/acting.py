# SPDX-License-Identifier: GPL-2.0-or-later
"""A real guest whose agent is told what to do, with no daemon's own ideas."""

import contextlib
import tempfile
import time

from vmlab.guest import Guest

from . import wire
from .fakes import FakeHost
from .tap import Failed, check, within

BACKENDS = ("auto", "compact", "fault", "hugetlb", "memblock", "proactive",
            "kmod")
BACKGROUND, NORMAL, URGENT = range(3)
THP = "/sys/kernel/mm/transparent_hugepage"
# What no action may leave changed.
SETTINGS = (f"cat {THP}/enabled {THP}/defrag {THP}/hugepages-*/enabled "
            "/proc/sys/vm/min_free_kbytes "
            "/proc/sys/vm/percpu_pagelist_high_fraction "
            "/proc/sys/vm/compaction_proactiveness "
            "/proc/sys/vm/nr_hugepages 2>/dev/null")
HARM = ("oom_kill", "pswpout")


class ActingGuest(contextlib.ExitStack):
    """`free_mib` of its memory free, scattered; see fragment()."""

    def __init__(self, kernel="6.12", mem="2G", **keywords):
        super().__init__()
        # CPU time under emulation is no measure of anything.
        self._conf = tempfile.NamedTemporaryFile("w", suffix=".conf")
        self._conf.write("[agent]\nCpuBudgetPercent = 100\nCpuBurstSec = 1h\n")
        self._conf.flush()
        self.guest = Guest(
            kernel=kernel, mem=mem, agent=True,
            initrd_add=[f"{self._conf.name}:/etc/vmdefrag/agent.conf"],
            **keywords)
        self.ident = int(time.time())
        self.host = None

    def __enter__(self):
        super().__enter__()
        self.enter_context(self._conf)
        self.enter_context(self.guest)
        # The kernel must not undo what fragment() makes.
        self.guest.check("sysctl -w vm.compaction_proactiveness=0")
        self.host = FakeHost(self.guest.dir / "unused.sock")
        self.callback(self.host.close)
        self.host.attach(self.guest.channel)
        self.open()
        return self

    def open(self, timeout=20):
        """A session; the agent may just be starting."""
        end = time.monotonic() + timeout
        while True:
            try:
                self.host.sync(2)
                self.host.welcome(interval_ms=60000, lease_ms=600000)
                self.host.report(3)
                return
            except Failed:
                if time.monotonic() > end:
                    raise

    def fragment(self, free_mib, *options):
        self.guest.sh("fragment --release")
        return self.guest.check(f"fragment --free-mib {free_mib} "
                                + " ".join(options), timeout=200)

    def begin(self, backend, order=9, blocks=0xFFFFFFFF, urgency=NORMAL,
              max_time_us=0, hold_ms=None):
        self.ident += 1
        self.host.send(wire.ACTION, wire.action(
            self.ident, 0, BACKENDS.index(backend), order, urgency, blocks,
            max_time_us, hold_ms=hold_ms))
        return self.ident

    def cancel(self):
        self.host.send(wire.CANCEL, self.ident.to_bytes(8, "little"))

    def end(self, timeout=120):
        """-> all that the agent says about the newest action."""
        ident = self.ident.to_bytes(8, "little")
        _, _, body = self.host.peer.expect(
            wire.RESULT, timeout, lambda b: b[:8] == ident)
        r = wire.decode_result_all(body)
        r["gained"] = r["after"] - r["before"]
        return r

    def act(self, *args, **keywords):
        """One action -> its result; settings and harm are looked at."""
        settings, harm = self.settings(), self.vmstat(*HARM)
        self.begin(*args, **keywords)
        r = self.end()
        check(self.settings() == settings, "a setting stayed changed: "
              f"{self.settings()!r} was {settings!r}")
        check(self.vmstat(*HARM) == harm, f"harm: {self.vmstat(*HARM)}")
        return r

    def free_blocks(self, order):
        return sum(n << o - order for z in self.guest.buddyinfo()
                   for o, n in enumerate(z["free"]) if o >= order)

    def holders(self):
        """Children of the agent that hold blocks."""
        agent = self.guest.check("cat /run/agent.pid").strip()
        return self.guest.sh(f"cat /proc/{agent}/task/*/children")[1].split()

    def settings(self):
        return self.guest.check(SETTINGS + " || true")

    def vmstat(self, *keys):
        lines = self.guest.check("cat /proc/vmstat").splitlines()
        all_of = dict(line.split() for line in lines)
        return {k: int(all_of[k]) for k in keys if k in all_of}

    def nothing_left(self):
        """No journal, no child of the agent, nobody marked as a victim."""
        g = self.guest
        journal = g.sh("ls /run/vmdefrag-agent")[1].split()
        check("knobs" not in journal, f"a journal: {journal}")
        agent = g.check("cat /run/agent.pid").strip()
        children = g.sh(f"cat /proc/{agent}/task/*/children")[1].split()
        check(not children, f"children of the agent: {children}")
        victims = g.sh("grep -lx 1000 /proc/[0-9]*/oom_score_adj")[1].split()
        check(not victims, f"processes marked as victims: {victims}")

    def wait_nothing_left(self, seconds=10):
        def gone():
            try:
                self.nothing_left()
                return True
            except Failed:
                return False
        with contextlib.suppress(Failed):
            within(seconds, gone, "", 0.1)
        self.nothing_left()

    def after_failure(self):
        return self.guest.sh("tail -20 /run/agent.log")[1]
