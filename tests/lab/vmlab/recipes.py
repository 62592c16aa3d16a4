# SPDX-License-Identifier: GPL-2.0-or-later
"""Host states that are hard to come by otherwise, on a nested host."""

import shlex

from .nodeview import parse_words
from .util import LabError, wait_for

NODEFRAG_S = 300


def fragment_node(host, node, free_mib, pin=True, seed=1):
    """Leave `free_mib` of a node free, none of it in a 2 MiB block.

    Pinned (the default) the state lasts; else compaction may undo it, and a
    direct one at a fault surely does. -> nodefrag's figures.
    """
    base = f"/run/lab-nodefrag{node}"
    pin = " --pin" if pin else ""
    host.check(f"rm -f {base}.*")
    host.spawn(f"echo 1000 >/proc/self/oom_score_adj; exec nodefrag --node "
               f"{int(node)} --free-mib {int(free_mib)} --seed {int(seed)}"
               f"{pin} --pid-file {base}.pid >{base}.out 2>&1 </dev/null")

    def done():
        rc, _ = host.sh(f"test -s {base}.pid")
        if rc and host.sh("pgrep -x nodefrag")[0]:
            raise LabError("nodefrag: " + host.sh(f"cat {base}.out")[1])
        return rc == 0
    wait_for(done, NODEFRAG_S, f"nodefrag on node {node}", 0.3)
    return parse_words(host.text(f"{base}.out"))


def unfragment_node(host, node):
    """Give the memory of fragment_node() back."""
    base = f"/run/lab-nodefrag{node}"
    held = parse_words(host.text(f"{base}.out"))["held_kib"]
    free = host.node_meminfo(node)["MemFree"]
    host.check(f"kill -9 $(cat {base}.pid); rm {base}.pid")
    wait_for(lambda: host.node_meminfo(node)["MemFree"] - free > held * 9 // 10,
             60, f"the memory of node {node} to be free again", 0.2)


def start_in_base_pages(host, guest):
    """Start a guest whose memory the host gives in base pages only.

    THP is off for the host while QEMU touches all of it, and then as before.
    """
    guest.prealloc = True
    before = host.thp("enabled")
    host.thp("enabled", "never")
    try:
        guest.start()
    finally:
        host.thp("enabled", before)
    return guest


def break_thps(guest, take_mib, hold_mib=None):
    """Break the host's THPs under a guest by its balloon, 4 KiB at a time.

    The balloon must find scattered free pages, or it takes whole blocks: the
    guest is fragmented first (by fragment, which keeps running if `hold_mib` is
    None: stop it with unbreak()). Inflating by `take_mib` and deflating leaves
    holes of single pages in the host's mapping.
    """
    free = hold_mib or take_mib + 40
    guest.check("sysctl -w vm.compaction_proactiveness=0")
    guest.check(f"fragment --free-mib {free} --pid-file /run/frag.pid", 180)
    full = guest.qmp("query-balloon")["actual"] >> 20
    guest.balloon(full - take_mib)
    guest.balloon(full)
    return guest.kvm_stats()


def release_guest(guest):
    """End the fragmenter of break_thps() in the guest."""
    guest.check("fragment --release --pid-file /run/frag.pid", 60)


def odd_pools(host, pages_by_node, size="2M"):
    """Pools of another size on each node: {0: 3, 1: 37}."""
    for node, pages in pages_by_node.items():
        host.set_pool(int(node), int(pages), size)


def migrate(host, guest, source, target, timeout=180):
    """Move a guest's memory between host nodes (migratepages)."""
    host.check(f"migratepages {guest.pid} {int(source)} {int(target)}",
               timeout)


def host_sh(host, words, timeout=120):
    """Run a command on the host, given as a list."""
    return host.check(" ".join(map(shlex.quote, words)), timeout)
