#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A host of two nodes: probes, readers, reporting, moves between nodes."""

import contextlib
import json
import sys
import time

import nestedtest
from nestedtest import expect, near, note

from vmlab import nodeview, programs, recipes
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
    expect(m[1]["huge_kib"] > 0.8 * m[1]["rss_kib"], "not in huge pages")
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
    before, mapped = g.free_2m_blocks(), g.kvm_stats()["pages_2m"]
    rc, _, text = x.daemon.compact("a", 20)
    expect(rc == 0, text)
    gained = g.free_2m_blocks() - before
    expect(gained >= 20, f"{before} blocks, and {gained} more")
    # QEMU's own heap grows by huge pages meanwhile, so RSS tells less
    wanted = mapped - gained * 8 // 10
    wait_for(lambda: g.kvm_stats()["pages_2m"] <= wanted, 30,
             "the memory's return", 0.5)
    expect(g.rss_kib() < rss, "RSS did not fall")
    note(f"{gained} blocks more; KVM maps {mapped} -> "
         f"{g.kvm_stats()['pages_2m']} of 2 MiB, RSS {rss >> 10} -> "
         f"{g.rss_kib() >> 10} MiB")


def _view(x):
    """`vmdefragctl nodes` -> ({node: {...}}, {node: the guest's KiB})."""
    rc, out, err = x.daemon.ctl("--json", "nodes")
    expect(rc == 0, err)
    doc = json.loads(out)
    vm = next(v for v in doc["vms"] if v["name"] == "a")
    expect("nodes" in vm, f"the guest's memory by node: {vm}")
    return ({n["node"]: n for n in doc["nodes"]},
            {n["node"]: n["kib"] for n in vm["nodes"]}, vm["age_ms"])


def _numastat(x):
    """{node: {field: KiB}} by numastat -m, which shares no code with us."""
    table = {}
    for line in x.host.check("numastat -m", 60).splitlines():
        w = line.split()
        if len(w) == len(x.host.node_ids()) + 2 and w[0][0].isalpha() \
                and w[0] != "Node":
            for n, mib in zip(x.host.node_ids(), w[1:]):
                table.setdefault(n, {})[w[0]] = float(mib) * 1024
    return table


def _between(value, a, b, what, slack_kib):
    """One look lies between two others, within 2 %."""
    low, high = min(a, b), max(a, b)
    off = max(high * READERS_PERCENT / 100, slack_kib)
    expect(low - off <= value <= high + off,
           f"{what}: {value}, and the view said {a}, then {b}")


def _compare(x, when):
    """The view, an independent look, and a view that is newer than that."""
    nodes, mine, _ = _view(x)
    asked = time.monotonic()
    theirs = nodeview.parse_numa_maps(
        x.host.text(f"/proc/{x.guest.pid}/numa_maps"), files=False)
    system = _numastat(x)
    looked = time.monotonic()

    def newer():
        n, v, age_ms = _view(x)
        # its sample was taken after the look
        return (n, v) if time.monotonic() - age_ms / 1000 > looked else None
    later_nodes, later = wait_for(newer, 30, "a newer view", 0.2)
    for n in x.host.node_ids():
        _between(theirs.get(n, 0), mine.get(n, 0), later.get(n, 0),
                 f"{when}: the guest on node {n}", 4096)
        for field, key in (("MemTotal", "total_kib"), ("MemFree", "free_kib"),
                           ("AnonPages", "anon_kib")):
            _between(system[n][field], nodes[n][key], later_nodes[n][key],
                     f"{when}: {field} of node {n}", 4096)
    note(f"{when}: view {mine}, then {later}; numa_maps {theirs}, "
         f"look took {looked - asked:.1f} s")
    return later


def test_view(x):
    """the view of each node equals numastat, /sys and numa_maps, moving or not"""
    x.daemon = HostDaemon(x.host, {"a": x.guest}, mode="observe").start()
    x.daemon.wait_session("a")
    wait_for(lambda: "nodes" in x.daemon.ctl("--json", "nodes")[1], 30,
             "a first sample", 0.5)
    wait_for(lambda: _sampled(x), 30, "the guest's memory by node", 0.5)
    _compare(x, "at rest")
    x.host.set_pool(1, 7)
    wait_for(lambda: any(p["pages"] == 7 and p["free"] == 7 for p in
                         _view(x)[0][1]["pools"]), 10, "the pool of node 1")
    expect(all(p["pages"] == 0 for p in _view(x)[0][0]["pools"]),
           "a pool on node 0")
    x.host.set_pool(1, 0)
    for source, target in ((1, 0), (0, 1)):
        x.host.spawn(f"migratepages {x.guest.pid} {source} {target}; "
                     "echo >/run/moved")
        looks = 0
        while x.host.sh("test -e /run/moved")[0] or not looks:
            _compare(x, f"moving {source} to {target}")
            looks += 1
        x.host.check("rm /run/moved")
        after = _compare(x, f"moved {source} to {target}")
        expect(after.get(target, 0) > 100 << 10, f"not moved: {after}")


def _sampled(x):
    doc = json.loads(x.daemon.ctl("--json", "nodes")[1])
    return any("nodes" in v for v in doc["vms"])


def test_kvm_counts(x):
    """KVM's page counts, by query-stats and, without QMP, by debugfs"""
    def counts():
        rc, out, err = x.daemon.ctl("--json", "status")
        expect(rc == 0, err)
        return next(v for v in json.loads(out)["vms"]
                    if v["name"] == "a").get("kvm")

    def newest():
        k = counts()
        return k if k and k["age_ms"] < 2000 else None
    for source, vm in (("query-stats", ""), ("debugfs", "qmp=")):
        if vm:
            x.daemon.stop()
            path = f"{x.guest.dir}/agent.sock"
            x.daemon = HostDaemon(x.host, {}, mode="observe", args=[
                "--vm", f"name=a,channel={path},pid={x.guest.pid}"]).start()
        k = wait_for(newest, 40, f"page counts by {source}", 0.3)
        expect(k["source"] == source, f"{k}")
        real = x.guest.kvm_debugfs()
        note(f"{k}; debugfs {real}")
        for name in ("pages_4k", "pages_2m", "pages_1g"):
            # a guest at rest still touches a page now and then
            expect(abs(k[name] - real[name]) <= 8, f"{name}: {k} and {real}")
    rc, out, err = x.daemon.ctl("explain", "a")
    expect("KVM maps" in out, out)
    x.daemon.stop()
    x.daemon = HostDaemon(x.host, {"a": x.guest}, mode="observe").start()
    x.daemon.wait_session("a")


def test_compact_node(x):
    """compact-node: the knob writer compacts a host node, up to its target"""
    recipes.fragment_node(x.host, 0, 400, pin=False)
    before = x.host.node_free_2m(0)
    rc, out, err = x.daemon.ctl("--json", "compact-node", "0", "--blocks",
                                "20", timeout=120)
    expect(rc == 0, err)
    gained = x.host.node_free_2m(0) - before
    note(f"{before} free, asked for 20, {gained} more: {out}")
    expect(20 <= gained <= 60, f"{before} free, then {gained} more")
    # and all that can be had
    rc, out, err = x.daemon.ctl("--json", "compact-node", "0", timeout=180)
    expect(rc == 0, err)
    all_of = x.host.node_free_2m(0) - before
    note(f"all: {all_of} more")
    expect(all_of > 2 * gained, f"{gained} with a target, {all_of} without")
    recipes.unfragment_node(x.host, 0)
    expect(x.daemon.stop() == 0, "vmdefragd's exit status")


def test_pageblocks(x):
    """nodes --pageblocks: free pages as zoneinfo's, all memory classified"""
    rc, out, err = x.daemon.ctl("--json", "nodes", "--pageblocks",
                                timeout=300)
    expect(rc == 0, err)
    for n in json.loads(out)["nodes"]:
        b = n["blocks"]
        note(f"node {n['node']}: {b}")
        expect(b["whole"] and b["age_ms"] < 5000, f"not whole or old: {b}")
        free = x.host.check(
            f"awk '/^Node {n['node']},/ {{ on = 1 }} /^Node/ && "
            f"!/^Node {n['node']},/ {{ on = 0 }} on && /nr_free_pages/ "
            "{ s += $2 } END { print s }' /proc/zoneinfo")
        near(b["pages"]["free"] * 4, int(free) * 4, READERS_PERCENT,
             f"free KiB of node {n['node']}")
        seen = sum(b["pages"].values()) - b["pages"]["hole"]
        near(seen * 4, n["total_kib"], 12, f"all KiB of node {n['node']}")
        near(b["free"] * 2048, n["free_blocks"] * 2048, 3,
             f"free blocks of node {n['node']}")
        expect(b["pageblocks"] >= b["free"] + b["movable"] + b["unmovable"],
               f"more than there are: {b}")


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
         test_readers, test_view, test_kvm_counts, test_pageblocks, test_compact_node, test_reporting, test_stop]

if __name__ == "__main__":
    sys.exit(nestedtest.main(TESTS, lab))
