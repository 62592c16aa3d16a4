# SPDX-License-Identifier: GPL-2.0-or-later
"""What a gain was paid with, and whether somebody else paid.

Harm is what a guest's own tasks feel: memory taken from them (reclaimed,
swapped, read again), time taken from them (allocation stalls, direct reclaim,
kswapd). More of it than the plain kernel causes in the same state is a row
that is not met. The limit is 5 % beyond the plain kernel, or a floor where
the plain figure is about nothing, whichever is larger.

The price is what the work itself takes: moves, scans, map reads, CPU of those
who do it. It is always printed, beside the plain kernel's.
"""

from .rows import Row, median

HARM_SHARE = 0.05

# (name, unit, floor); the floor is what no user of a guest can notice, and
# what chance brings about in runs of the very same thing.
HARM = (
    # 4 MiB, 0.2 % of the smallest guest here: one wake-up of kswapd that
    # balances a zone by a few batches of 32 pages
    ("reclaimed", "pages", 1024),
    # one batch of reclaim (SWAP_CLUSTER_MAX): steering may not swap
    ("swapped", "pages", 32),
    # 1 MiB read again
    ("refaults", "pages", 256),
    # each is one task that waits in direct reclaim, 1 to 10 ms
    ("allocstall", "times", 2),
    # two such tasks, two batches each
    ("pgscan_direct", "pages", 128),
    # a wake-up with nothing to do is 1 ms natively, 10 to 30 under emulation
    ("kswapd CPU", "ms", 20),
)

PRICE = (
    ("pages migrated", "pages"),
    ("pages that failed to migrate", "pages"),
    ("scanned by compaction", "pages"),
    ("kpageflags words read", "words"),
    ("agent CPU", "ms"),
    ("kcompactd CPU", "ms"),
    ("compaction CPU in all", "ms"),
    ("direct compactions", "times"),
    ("page cache lost", "pages"),
    ("memory stalls of tasks (PSI some)", "ms"),
)


def _sum(v, *prefixes):
    return sum(n for k, n in v.items() if k.startswith(prefixes))


def _psi_ms(text):
    for line in text.splitlines():
        if line.startswith("some"):
            return int(line.rsplit("total=", 1)[1]) / 1000
    return None


def snapshot(g, words=0):
    """The counters of a guest now; `words`: kpageflags words so far."""
    psi = g.sh("cat /proc/pressure/memory 2>/dev/null")[1]
    return {"vmstat": g.vmstat(), "cpu_ms": g.cpu_ms(), "words": words,
            "psi_ms": _psi_ms(psi if isinstance(psi, str)
                              else psi.decode(errors="replace"))}


def between(a, b, writer_ms=0.0):
    """{harm and price by name}; `writer_ms`: CPU of a plain compaction."""
    v = {k: n - a["vmstat"].get(k, 0) for k, n in b["vmstat"].items()}
    cpu = {k: (b["cpu_ms"][k] or 0) - (a["cpu_ms"][k] or 0)
           for k in b["cpu_ms"]}
    agent = cpu["agent"]
    psi = None if b["psi_ms"] is None else b["psi_ms"] - a["psi_ms"]
    return {
        "reclaimed": _sum(v, "pgsteal_kswapd", "pgsteal_direct",
                          "pgsteal_khugepaged", "pgsteal_proactive"),
        "swapped": v.get("pswpout", 0) + v.get("pswpin", 0),
        "refaults": _sum(v, "workingset_refault"),
        "allocstall": _sum(v, "allocstall"),
        "pgscan_direct": v.get("pgscan_direct", 0),
        "kswapd CPU": cpu["kswapd"],
        "pages migrated": v.get("pgmigrate_success", 0),
        "pages that failed to migrate": v.get("pgmigrate_fail", 0),
        # kcompactd's share is within these two on all kernels
        "scanned by compaction": v.get("compact_migrate_scanned", 0)
        + v.get("compact_free_scanned", 0),
        "kpageflags words read": b["words"] - a["words"],
        "agent CPU": agent,
        "kcompactd CPU": cpu["kcompactd"],
        "compaction CPU in all": agent + cpu["kcompactd"] + writer_ms,
        "direct compactions": v.get("compact_stall", 0),
        "page cache lost": max(0, -v.get("nr_file_pages", 0)),
        "memory stalls of tasks (PSI some)": psi,
    }


def _limit(plain, floor):
    return round(plain + max(HARM_SHARE * plain, floor), 3)


def harm_rows(group, ours, plain):
    """One row a kind; `ours` and `plain` are lists of between()."""
    out = []
    for name, unit, floor in HARM:
        base = median([p[name] for p in plain])
        goal = None if base is None else f"<= {_limit(base, floor):.10g}"
        out.append(Row(group, f"harm: {name}", unit, [o[name] for o in ours],
                       baseline=base, goal=goal or "<= 0"))
    return out


def price_rows(group, ours, plain):
    return [Row(group, f"price: {name}", unit, [o[name] for o in ours],
                baseline=[p[name] for p in plain])
            for name, unit in PRICE]
