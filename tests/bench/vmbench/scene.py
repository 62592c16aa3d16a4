# SPDX-License-Identifier: GPL-2.0-or-later
"""What benchmarks do in a guest, and read from it."""

import json
import os
import time

from vmlab import procfs
from vmlab.daemon import Daemon, find_number
from vmlab.util import LabError, tail, wait_for

VM = "lab"
PROACTIVE = "vm.compaction_proactiveness"
NODES = "/sys/devices/system/node/node*/compact"
# From the writer's side: its own CPU time is what the compaction took.
PLAIN_COMPACT = ("read -r a x </proc/self/schedstat; "
                 f"for n in {NODES}; do echo 1 >$n; done; "
                 "read -r b x </proc/self/schedstat; echo $a $b")
COMPACT_TIMEOUT_S = 300


def fragment(g, free_mib, seed, args=""):
    """Build the state -> what the builder says of it."""
    out = g.check(f"fragment --free-mib {free_mib} --seed {seed} {args}",
                  300)
    for line in out.splitlines():
        if line.startswith("{"):
            doc = json.loads(line)
            if doc.get("fragment") == "after":
                return doc
    raise LabError(f"fragment: no 'after' line\n{tail(out)}")


def release(g):
    """Take the state down again, page cache of the builder's file too."""
    g.check("fragment --release; rm -f /mnt/disk/fragment.*")


def memory(g):
    """Free memory, as it is cut up. Pages on per-CPU lists are free, too:
    they count as memory that is not in blocks."""
    zones = g.buddyinfo()
    lists = pcp_pages(g.text("/proc/zoneinfo"))
    blocks = procfs.free_2m_blocks(zones)
    free = procfs.free_pages(zones)
    return {"blocks": blocks, "free_pages": free, "pcp_pages": lists,
            "in_blocks_pct": 100 * blocks * 512 / max(1, free + lists)}


def pcp_pages(zoneinfo):
    """Pages on the per-CPU lists of all zones. Pure."""
    words = (line.split() for line in zoneinfo.splitlines())
    return sum(int(w[1]) for w in words if len(w) == 2 and w[0] == "count:")


def compact_plain(g):
    """echo 1 > nodeN/compact, all nodes -> CPU of the writer in ms."""
    out = g.check(PLAIN_COMPACT, COMPACT_TIMEOUT_S).split()
    return (int(out[1]) - int(out[0])) / 1e6


def compact_ours(daemon, patience_s=30):
    """vmdefragctl compact VM -> parsed answer.

    It is refused before the first report, and where an action runs that it
    may not end: then it is asked again, and all that was done counts. One that
    began and fell short is an answer, too: the figures show it.
    """
    end = time.monotonic() + patience_s
    while True:
        rc, answer, text = daemon.compact(VM, timeout=COMPACT_TIMEOUT_S)
        if rc == 0 or results(answer):
            return answer
        if time.monotonic() > end:
            raise LabError(f"vmdefragctl compact: exit {rc}\n{tail(text)}")
        time.sleep(0.5)


def results(answer):
    """What each node's compaction came to, of vmdefragctl's answer."""
    return [e for e in (answer or {}).get("events", [])
            if e.get("event") == "result"]


def fresh_agent(g, timeout=20):
    """Restart the agent, as in a guest that was just booted: its long-term
    CPU budget (30 s at once, then 10 %) is not what earlier runs left."""
    old = g.agent_pid()
    if old:
        g.check(f"kill -TERM {old}")
    wait_for(lambda: g.agent_pid() not in (None, old), timeout,
             "the agent's restart", 0.2)


def words(daemon):
    """kpageflags words that the agent has read since its start."""
    return find_number(daemon.vm_status(VM), "kpageflags_words") or 0


def start_daemon(g, mode, args=()):
    d = Daemon({VM: g}, mode=mode, args=args)
    try:
        d.start()
        d.wait_session(VM)
    except BaseException:
        d.__exit__(None, None, None)
        raise
    return d


class serving:
    """A daemon for the time of a with block; it ends in an orderly way, and
    the agent has then put its knobs back."""

    def __init__(self, g, mode, args=()):
        self._what = g, mode, args

    def __enter__(self):
        self._daemon = start_daemon(*self._what)
        return self._daemon

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                self._daemon.ctl("pause", VM)
                self._daemon.stop()
        finally:
            self._daemon.__exit__(kind, value, trace)


def settle_rss(g, quiet_s=7, most_s=60, step_kib=4096):
    """Wait until QEMU's RSS no longer falls -> (KiB, seconds).

    Reporting works in batches each 2 s: three of them without a gift.
    """
    started = last = time.monotonic()
    low = g.rss_kib()
    while time.monotonic() - started < most_s \
            and time.monotonic() - last < quiet_s:
        time.sleep(0.5)
        now = g.rss_kib()
        if now < low - step_kib:
            low, last = now, time.monotonic()
    return g.rss_kib(), round(time.monotonic() - started, 1)


def knobs(g):
    """Values of all knobs that the agent could write."""
    out = {}
    for name in (PROACTIVE, "vm.watermark_scale_factor",
                 "vm.watermark_boost_factor",
                 "vm.percpu_pagelist_high_fraction", "vm.extfrag_threshold",
                 "vm.min_free_kbytes", "vm.nr_hugepages"):
        out[name] = g.sysctl(name)
    out["thp defrag"] = g.text(
        "/sys/kernel/mm/transparent_hugepage/defrag").strip()
    return out


def compaction_counters(g):
    v = g.vmstat()
    return {k: n for k, n in v.items()
            if k.startswith(("compact_", "pgmigrate_"))}


def probe_rounds(g, rounds, count, pause_s):
    """Rounds of thpprobe, each of which keeps what it got -> their lines."""
    out = g.check(
        f"rm -f /run/probe.*; i=0; while [ $i -lt {rounds} ]; do "
        f"i=$((i + 1)); thpprobe --count {count} --hold-ms 900000 "
        f">/run/probe.$i 2>&1 & sleep {pause_s}; done; "
        "n=0; while [ $(cat /run/probe.* | grep -c success_pct) "
        f"-lt {rounds} ] && [ $n -lt 60 ]; do n=$((n + 1)); sleep 1; done; "
        "cat /run/probe.*", 240)
    lines = [json.loads(s) for s in out.splitlines() if s.startswith("{")]
    if len(lines) != rounds:
        raise LabError(f"thpprobe: {len(lines)} of {rounds} rounds\n"
                       f"{tail(out)}")
    return lines


def probe_end(g):
    g.sh("killall thpprobe; while pidof thpprobe >/dev/null; do "
         "sleep 0.1; done; rm -f /run/probe.*", 30)


def cpu_a_look_us(looks):
    """CPU time between successive looks, idle ones left out. Pure."""
    return [(b - a) / 1000 for a, b in zip(looks, looks[1:]) if b > a]


def look_at_schedstat(g, pid, looks, pause_s):
    """Nanoseconds on the CPU so far, read `looks` times."""
    out = g.check(f"i=0; while [ $i -lt {looks} ]; do i=$((i + 1)); "
                  f"read -r a x </proc/{pid}/schedstat; echo $a; "
                  f"sleep {pause_s}; done", 120)
    return [int(s) for s in out.split()]


def host_sched_ms(pid):
    """(ran, waited for a core) of all threads of a process of this host."""
    ran = waited = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat",
                  encoding="ascii") as f:
            a, b, _ = f.read().split()
        ran, waited = ran + int(a), waited + int(b)
    return ran / 1e6, waited / 1e6


def agent_memory_kib(g, pid):
    """(Rss now, highest ever)."""
    rss = g.check(f"grep '^Rss:' /proc/{pid}/smaps_rollup || "
                  f"grep '^VmRSS:' /proc/{pid}/status").split()[1]
    top = g.check(f"grep '^VmHWM:' /proc/{pid}/status").split()[1]
    return int(rss), max(int(top), int(rss))
