#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""io_uring refused, and what a guest lacks: said, and service goes on.

The agent is the real one on a copy of a guest's /proc and /sys; a relay
stands for virtio-serial between it and the daemon.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

from vmtest import TOP
from vmtest.fakes import FakeGuest, Listener
from vmtest.tap import Suite, check, equal, holds, within
from vmlab.daemon import Daemon
from vmlab.util import build_dir

AGENT = str(build_dir() / "guest-agent" / "vmdefrag-agent")
TREE = os.path.join(TOP, "tests", "data", "guest-6.12")
NO_URING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "vmtest",
                        "no_uring.py")
suite = Suite()


class World(contextlib.ExitStack):
    def __enter__(self):
        super().__enter__()
        self.dir = self.enter_context(tempfile.TemporaryDirectory())
        os.chmod(self.dir, 0o755)
        return self


class Refused(Daemon):
    """Started where the kernel refuses io_uring."""

    def command(self):
        return [sys.executable, NO_URING, *super().command()]


@contextlib.contextmanager
def serving(w, kind, *args):
    """A daemon with a well-behaved fake guest -> (daemon, guest)"""
    guest = FakeGuest(w.dir + "/guest.sock").live()
    try:
        with kind(args=["--vm", f"name=web1,channel={w.dir}/guest.sock,"
                                "mode=balanced",
                        "--report-interval", "200ms", *args]) as d:
            d.wait_session("web1")
            within(5, lambda: d.vm_status("web1").get("report"), "a report")
            yield d, guest
            equal(d.stop(), 0, "exit status on SIGTERM")
    finally:
        guest.close()


def works(d, guest):
    """A session, a compaction, a client that leaves, a channel that does."""
    rc, out, err = d.ctl("compact", "web1", timeout=30)
    equal(rc, 0, f"compact ({out}{err})")
    check(guest.actions, "no action came")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.connect(str(d.socket))
        s.sendall(b'{"cmd":"stat')
    guest.still()
    guest.drop()
    guest.live()
    within(15, lambda: d.vm_status("web1")["session"] == "up"
           and d.vm_status("web1")["channel"]["sessions"] == 2,
           "the session after a lost channel")


def loop_of(d):
    return d.ctl_json("status")["daemon"]["loop"]


@suite.case("io_uring refused: auto falls back to poll, says so, and serves")
def _(w):
    with serving(w, Refused) as (d, guest):
        equal(loop_of(d), "poll", "the loop")
        holds(d.log, "io_uring", "poll")
        works(d, guest)


@suite.case("io_uring refused though asked for: said in words, core tried "
            "again")
def _(w):
    with contextlib.ExitStack() as stack:
        d = Refused(args=["--loop", "uring"])
        stack.push(d)
        with subprocess.Popen(d.command(), stderr=subprocess.PIPE) as p:
            timer = threading.Timer(1.5, p.terminate)
            timer.start()
            said = p.stderr.read().decode()
            timer.cancel()
        holds(said, "event loop 'uring': Operation not permitted",
              "Starting the core again in")


@suite.case("--loop poll and --loop uring serve alike")
def _(w):
    for kind in ("poll", "uring"):
        with serving(w, Daemon, "--loop", kind) as (d, guest):
            equal(loop_of(d), kind, "the loop")
            works(d, guest)


# ------------------------------------------------------- what a guest lacks

class Relay:
    """Two listening sockets, joined, in the place of virtio-serial."""

    def __init__(self, a, b):
        self.ends = [Listener(a), Listener(b)]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        with contextlib.suppress(Exception):
            socks = [end.accept(30) for end in self.ends]
            t = threading.Thread(target=self._copy, args=socks, daemon=True)
            t.start()
            self._copy(socks[1], socks[0])

    @staticmethod
    def _copy(a, b):
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                b.sendall(data)
        with contextlib.suppress(OSError):
            b.shutdown(socket.SHUT_RDWR)

    def close(self):
        for end in self.ends:
            end.close()


LACKING = [
    # taken away, and the names that must be shown
    (["proc/sys/vm/compaction_proactiveness"],
     ["compaction_proactiveness"], []),
    (["proc/sys/vm/watermark_boost_factor",
      "proc/sys/vm/percpu_pagelist_high_fraction",
      "sys/kernel/mm/transparent_hugepage"],
     ["watermark_boost_factor", "percpu_pagelist_high_fraction",
      "thp_defrag"], []),
    (["sys/devices/system/node/node0/compact"], [], ["compact"]),
    (["proc/pressure"], [], []),
]


def tree_without(w, name, paths):
    tree = os.path.join(w.dir, name)
    shutil.copytree(TREE, tree)
    with open(tree + "/sys/devices/system/node/node0/compact", "w",
              encoding="ascii"):
        pass
    for path in paths:
        path = os.path.join(tree, path)
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    return tree


@suite.case("--once shows by name which knobs and backends are missing")
def _(w):
    for i, (paths, knobs, backends) in enumerate(LACKING):
        tree = tree_without(w, f"once{i}", paths)
        r = subprocess.run([AGENT, "--once", "--proc", tree + "/proc",
                            "--sys", tree + "/sys"], timeout=10,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        equal(r.returncode, 0, f"exit status without {paths}: "
                               f"{r.stderr.decode()}")
        doc = json.loads(r.stdout)
        equal(sorted(doc["knobs"]["missing"]), sorted(knobs),
              f"missing knobs without {paths}")
        for name in backends:
            check(name in doc["backends"]["missing"]
                  and name not in doc["backends"]["usable"],
                  f"backends without {paths}: {doc['backends']}")
        check(doc["nodes"][0]["free_pages"] > 0, "no sample")


@suite.case("explain shows by name what a guest lacks, and the rest is "
            "steered")
def _(w):
    for i, (paths, knobs, backends) in enumerate(LACKING):
        tree = tree_without(w, f"tree{i}", paths)
        relay = Relay(tree + "/host.sock", tree + "/guest.sock")
        with open(tree + "/log", "wb") as log, Daemon(args=[
                "--vm", f"name=a,channel={tree}/host.sock,mode=performance",
                "--report-interval", "200ms"]) as d, subprocess.Popen(
                [AGENT, "--transport", f"unix:{tree}/guest.sock", "--proc",
                 tree + "/proc", "--sys", tree + "/sys", "--run-dir",
                 tree + "/run"], stderr=log) as agent:
            try:
                d.wait_session("a")
                within(10, lambda: d.vm_status("a").get("report"), "a report")
                said = d.ctl("explain", "a")[1]
                holds(said, *knobs, *backends)
                if "proc/pressure" in paths:
                    holds(said, "psi=1")
                if backends:
                    rc, _, err = d.ctl("compact", "a")
                    equal(rc, 1, "compact without a backend")
                    check(err.strip(), "refused without a word")
                vm = d.vm_status("a")
                equal(vm["session"], "up", f"the session without {paths}")
                for name in knobs:
                    check(name not in vm["report"]["knobs"],
                          f"{name} has a value")
            finally:
                agent.send_signal(signal.SIGTERM)
                equal(agent.wait(10), 0, "the agent's exit status")
                relay.close()


if __name__ == "__main__":
    sys.exit(suite.run(World))
