# SPDX-License-Identifier: GPL-2.0-or-later
"""A process's memory by host node, on a nested host, by three readers.

numa_maps knows nodes, smaps_rollup knows huge mappings; guest/nodemap.c knows
both, from pagemap and kpageflags, and is there to check the others.
"""

import re

HUGE_KEYS = ("AnonHugePages", "ShmemPmdMapped", "FilePmdMapped",
             "Private_Hugetlb", "Shared_Hugetlb")


def parse_words(text):
    """'a 1 b 2' -> {'a': 1, 'b': 2}."""
    w = text.split()
    return {k: int(v) for k, v in zip(w[::2], w[1::2])}


def parse_numa_maps(text, files=True):
    """-> {node: KiB}. A line's unit is its kernelpagesize.

    Without `files` pages of files are left out (QEMU's program, libraries); of
    a private mapping that has both kinds, all of it.
    """
    nodes = {}
    for line in text.splitlines():
        # "mapped" is told where it is more than "anon"
        if not files and " file=" in line and (
                " anon=" not in line or " mapped=" in line):
            continue
        m = re.search(r"kernelpagesize_kB=(\d+)", line)
        if not m:
            continue
        for n, pages in re.findall(r"\bN(\d+)=(\d+)", line):
            nodes[int(n)] = nodes.get(int(n), 0) + int(pages) * int(m.group(1))
    return nodes


def parse_smaps(text):
    """smaps_rollup -> {'rss_kib', 'huge_kib'}, hugetlb in both."""
    kib = {}
    for line in text.splitlines():
        w = line.split()
        if len(w) == 3 and w[2] == "kB":
            kib[w[0].rstrip(":")] = int(w[1])
    hugetlb = kib.get("Private_Hugetlb", 0) + kib.get("Shared_Hugetlb", 0)
    return {"rss_kib": kib["Rss"] + hugetlb,
            "huge_kib": sum(kib.get(k, 0) for k in HUGE_KEYS)}


def parse_nodemap(text):
    """'nodeN rss_kib R huge_kib H' lines -> {node: {...}}."""
    out = {}
    for line in text.splitlines():
        head, rest = line.split(None, 1)
        out[int(head[4:])] = parse_words(rest)
    return out


def read(host, pid):
    """-> {'nodes': {n: {'rss_kib', 'huge_kib'}}, 'numa_maps': {n: KiB},
    'smaps': {...}}; `nodes` comes from nodemap."""
    out = host.check(f"nodemap {pid} && echo == && cat /proc/{pid}/numa_maps "
                     f"&& echo == && cat /proc/{pid}/smaps_rollup", 120)
    nodes, numa, smaps = out.split("==\n")
    return {"nodes": parse_nodemap(nodes),
            "numa_maps": parse_numa_maps(numa), "smaps": parse_smaps(smaps)}


def rss_kib(host, pid):
    return parse_smaps(host.text(f"/proc/{pid}/smaps_rollup"))["rss_kib"]
