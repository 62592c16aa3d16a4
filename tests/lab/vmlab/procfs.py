# SPDX-License-Identifier: GPL-2.0-or-later
"""Parsers of /proc text, pure but for rss_kib()."""

import os

from .util import LabError

PMD_ORDER = 9


def parse_pairs(text):
    """'name value' lines -> {name: int}."""
    pairs = (s.split() for s in text.splitlines())
    return {p[0]: int(p[1]) for p in pairs if len(p) >= 2}


def parse_meminfo(text):
    """'Name:  123 kB' lines -> {name: KiB} (or a count, without unit)."""
    return {k.rstrip(":"): v for k, v in parse_pairs(text).items()}


def parse_buddyinfo(text):
    """-> [{'node': 0, 'zone': 'DMA32', 'free': [blocks by order]}]."""
    out = []
    for line in text.splitlines():
        w = line.replace(",", " ").split()
        if len(w) > 4 and w[0] == "Node" and w[2] == "zone":
            out.append({"node": int(w[1]), "zone": w[3],
                        "free": [int(n) for n in w[4:]]})
    return out


def free_2m_blocks(zones):
    return sum(n << (o - PMD_ORDER) for z in zones
               for o, n in enumerate(z["free"]) if o >= PMD_ORDER)


def free_pages(zones):
    """Pages on the free lists (those on per-CPU lists are not)."""
    return sum(n << o for z in zones for o, n in enumerate(z["free"]))


def parse_cpu_ms(text):
    """Lines 'kcompactd0 RUN_NS WAIT_NS N' and 'usage_usec N'."""
    ms = {"kcompactd": 0.0, "kswapd": 0.0, "agent": None}
    for line in text.splitlines():
        w = line.split()
        if len(w) < 2:
            continue
        if w[0] == "usage_usec":
            ms["agent"] = round(int(w[1]) / 1000, 3)
            continue
        for name in ("kcompactd", "kswapd"):
            if w[0].startswith(name):
                ms[name] = round(ms[name] + int(w[1]) / 1e6, 3)
    return ms


def rss_kib(pid):
    """Rss of a process of this host, in KiB."""
    if pid is None:
        raise LabError("no process to measure")
    for path, key in ((f"/proc/{pid}/smaps_rollup", "Rss:"),
                      (f"/proc/{pid}/status", "VmRSS:")):
        try:
            with open(path, encoding="utf-8") as f:
                for line in f:
                    if line.startswith(key):
                        return int(line.split()[1])
        except OSError:
            continue
    raise LabError(f"cannot read the memory of process {pid}")


def run_delay_s(pid):
    """Seconds on a run queue, of the thread of a process with most of them."""
    waits = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/schedstat",
                      encoding="ascii") as f:
                waits.append(int(f.read().split()[1]))
        except OSError:
            continue                # a thread that has just ended
    return round(max(waits, default=0) / 1e9, 2)
