#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A host of two nodes: probes, readers, reporting, moves between nodes."""

import contextlib
import sys
import time

import nestedtest
from nestedtest import expect, near, note

from vmlab import programs, recipes
from vmlab.host import Host
from vmlab.hostdaemon import HostDaemon
from vmlab.kvmguest import KvmGuest
from vmlab.util import LAB_DIR, wait_for

PROBES = sorted(p.stem for p in (LAB_DIR.parent / "probe").glob("*.c"))
READERS_PERCENT = 2


class Lab:
    def __init__(self, host):
        self.host = host
        self.guest = self.daemon = None


@contextlib.contextmanager
def lab():
    with Host(nodes=["1536M", "1536M"]) as host:
        host.sysctl("vm.compaction_proactiveness", 0)
        yield Lab(host)


def test_probes(x):
    """every probe of tests/probe holds on a real KVM, none skipped"""
    for name in PROBES:
        there = f"/usr/local/bin/{name}"
        x.host.push(programs.probe_program(name), there)
        rc, out = x.host.sh(there, 120)
        for line in out.splitlines():
            note(f"{name}: {line}")
        expect(rc == 0, f"{name}: exit status {rc}")


def test_guest_on_its_node(x):
    """a guest's memory lies on the node it is bound to, in huge pages"""
    x.guest = KvmGuest(x.host, "a", node=1, mem="256M").start()
    x.guest.touch(150)
    m = x.guest.memory()["nodes"]
    note(f"{m}")
    expect(m[1]["rss_kib"] > 200 << 10, "less than 200 MiB on node 1")
    expect(m[1]["huge_kib"] > 0.9 * m[1]["rss_kib"], "not in huge pages")
    # QEMU's own memory is on either node.
    expect(m[0]["huge_kib"] < 16 << 10, "huge pages on node 0")


def test_statistics_agree(x):
    """query-stats and debugfs tell the same page counts"""
    a, b = x.guest.kvm_stats(), x.guest.kvm_debugfs()
    note(f"{a}")
    expect(a == b, f"{a} but {b}")
    expect(a["pages_2m"] > 50 and a["pages_1g"] == 0, f"{a}")


def _readers(x, when):
    # they look one after the other, and freed memory leaves by and by
    _settled_rss(x.guest)
    m = x.guest.memory()
    for n in x.host.node_ids():
        near(m["nodes"][n]["rss_kib"], m["numa_maps"].get(n, 0),
             READERS_PERCENT, f"{when}: node {n}, nodemap and numa_maps")
    total = {k: sum(r[k] for r in m["nodes"].values())
             for k in ("rss_kib", "huge_kib")}
    for k in total:
        near(total[k], m["smaps"][k], READERS_PERCENT,
             f"{when}: {k}, nodemap and smaps")
    note(f"{when}: {m['nodes']}")
    return m["nodes"]


def test_readers(x):
    """numa_maps, smaps and nodemap agree, also across a move between nodes"""
    _readers(x, "before")
    recipes.migrate(x.host, x.guest, 1, 0)
    moved = _readers(x, "moved to node 0")
    expect(moved[1]["rss_kib"] < 4096, "memory was left on node 1")
    recipes.migrate(x.host, x.guest, 0, 1)
    back = _readers(x, "back on node 1")
    expect(back[1]["huge_kib"] > 100 << 10, "huge pages were lost by moving")


def test_reporting(x):
    """free-page reporting returns what a directed compaction has freed"""
    g = x.guest
    g.sysctl("vm.compaction_proactiveness", 0)
    x.daemon = HostDaemon(x.host, {"a": g}, mode="balanced").start()
    x.daemon.wait_session("a")
    g.check("fragment --free-mib 130 --pid-file /run/frag.pid", 200)
    rss = _settled_rss(g)
    before = g.free_2m_blocks()
    rc, _, text = x.daemon.compact("a", 20)
    expect(rc == 0, text)
    gained = g.free_2m_blocks() - before
    expect(gained >= 20, f"{before} blocks, and {gained} more")
    wanted = rss - gained * 2048 * 8 // 10
    wait_for(lambda: g.rss_kib() < wanted, 30, "the memory's return", 0.5)
    note(f"{gained} blocks more; RSS {rss >> 10} -> {g.rss_kib() >> 10} MiB")


def _settled_rss(g):
    """What was free before leaves first: until nothing does for 3 s."""
    last, since = g.rss_kib(), time.monotonic()
    end = since + 60
    while time.monotonic() < min(end, since + 3):
        time.sleep(0.5)
        now = g.rss_kib()
        if abs(now - last) > 512:
            last, since = now, time.monotonic()
    return last


def test_stop(x):
    """daemon, guest and host end as they should"""
    expect(x.daemon.stop() == 0, "vmdefragd's exit status")
    expect(x.guest.stop() == 0, "QEMU's exit status")
    expect(not x.host.kernel_complaints(), f"{x.host.kernel_complaints()}")
    expect(x.host.stop() == 0, "the host's exit status")


TESTS = [test_probes, test_guest_on_its_node, test_statistics_agree,
         test_readers, test_reporting, test_stop]

if __name__ == "__main__":
    sys.exit(nestedtest.main(TESTS, lab))
