#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A real guest, from observing to compacting, and every process killed."""

import json
import re
import signal
import subprocess
import sys
import threading
import time

from vmtest.real import (KNOBS, RUN_DIR, SESSION_S, RealGuest,
                         strace_files)
from vmtest.tap import Suite, check, equal, holds, within
from vmlab.daemon import ROLES

IDLE_S = 4
AGENT_RSS_KIB, CORE_RSS_KIB = 3072, 16384
suite = Suite()


class World(RealGuest):
    def __init__(self):
        super().__init__(initrd_add=strace_files())


# ------------------------------------------------------------------- observe

# What may be called at will: nothing outside the process is changed by it.
HARMLESS = set("""execve brk arch_prctl set_tid_address set_robust_list rseq
prlimit64 getrandom mprotect mmap munmap read pread64 close fstat newfstatat
lseek ppoll poll clock_gettime clock_nanosleep getrusage rt_sigprocmask
rt_sigaction rt_sigreturn restart_syscall signalfd4 getdents64 faccessat
faccessat2 access uname getpid getppid readlink readlinkat ioctl statx
getuid geteuid getgid getegid sched_getaffinity exit_group exit madvise
gettimeofday time futex""".split())
CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)$")


def inside(path):
    return path.startswith((RUN_DIR, "/dev/vport", "/run/agent-traced.log"))


def writes_outside(trace):
    """Lines of strace -y that may have written elsewhere."""
    bad = []
    for line in trace.splitlines():
        m = CALL.match(line)
        if not m or m.group(1) in HARMLESS:
            continue
        call, args = m.groups()
        if call in ("write", "pwrite64", "writev", "fsync", "fcntl",
                    "ftruncate"):
            path = re.match(r"\d+<([^>]*)>", args)
            reads = call == "fcntl" and "F_SETLK" not in args
            if reads or (path and inside(path.group(1))):
                continue
        elif call in ("open", "openat"):
            if not re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND)", args):
                continue
            path = re.search(r"= \d+<([^>]*)>", args)
            if not path or inside(path.group(1)):
                continue        # an error, or allowed
        elif call in ("mkdir", "unlinkat", "renameat", "renameat2"):
            paths = re.findall(r'"([^"]*)"', args)
            base = re.match(r"(?:\d+|AT_FDCWD)<([^>]*)>", args)
            base = base.group(1) + "/" if base else ""
            if all(inside(p if p.startswith("/") else base + p)
                   for p in paths):
                continue
        bad.append(line)
    return bad


def traced(w, *args):
    """The agent under strace for a while -> the trace."""
    w.guest.stop_agent()
    w.guest.check("rm -f /tmp/trace")
    w.guest.spawn(
        "exec /usr/bin/strace -f -y -s 64 -o /tmp/trace /bin/vmdefrag-agent "
        "--transport virtio-serial:org.vmdefrag.agent.0 --run-dir "
        f"{RUN_DIR} {' '.join(args)} >/run/agent-traced.log 2>&1")
    w.served()
    before = w.daemon.vm_status("lab")["report"]["agent_cpu_us"]
    time.sleep(IDLE_S)
    vm = w.daemon.vm_status("lab")
    check(vm["report"]["agent_cpu_us"] > before, "no reports while traced")
    w.guest.check("kill -TERM $(pidof vmdefrag-agent)")
    within(10, lambda: w.guest.sh("pidof strace")[0], "strace's end", 0.2)
    return w.guest.text("/tmp/trace")


@suite.case("observe: knobs and compaction counters are as with no agent")
def _(w):
    w.guest.stop_agent()
    before = w.compaction()
    time.sleep(IDLE_S)
    without = {k: v - before[k] for k, v in w.compaction().items()}
    w.agent_starts()
    w.new_daemon("observe")
    before = w.compaction()
    time.sleep(IDLE_S)
    observed = {k: v - before[k] for k, v in w.compaction().items()}
    equal(observed, without, "growth of the counters")
    equal(w.knobs(), w.original, "knobs")
    check(any(e["kind"] == "decision"
              for e in w.daemon.ctl_json("history", "lab")["history"]),
          "observe decided nothing")


@suite.case("observe: strace shows no write outside run directory and channel")
def _(w):
    trace = traced(w)
    check(len(trace.splitlines()) > 100, "hardly anything was traced")
    holds(trace, "/dev/vport", "write(")
    bad = writes_outside(trace)
    check(not bad, "writes elsewhere:\n" + "\n".join(bad[:20]))
    equal(w.knobs(), w.original, "knobs")


@suite.case("agent --observe under a daemon that steers: no write either")
def _(w):
    w.end_daemon()
    w.agent_starts()
    w.new_daemon()
    trace = traced(w, "--observe")
    bad = writes_outside(trace)
    check(not bad, "writes elsewhere:\n" + "\n".join(bad[:20]))
    equal(w.knobs(), w.original, "knobs")
    equal(w.journal(), [], "the run directory")


@suite.case("agent --observe refuses a compaction, and says why")
def _(w):
    w.guest.spawn("exec /bin/vmdefrag-agent --observe --transport "
                  "virtio-serial:org.vmdefrag.agent.0 --run-dir "
                  f"{RUN_DIR} >/run/agent-traced.log 2>&1")
    try:
        w.ensure_daemon()
        before = w.compaction()
        rc, out, err = w.daemon.ctl("compact", "lab")
        equal(rc, 1, "exit status")
        holds(out + err, "observe")
        holds(w.daemon.ctl("explain", "lab")[1], "observes only")
        after = w.compaction()
        equal(after, before, "compaction counters")
    finally:
        w.guest.sh("kill -TERM $(pidof vmdefrag-agent)")
        w.agent_starts()


# ------------------------------------------------------------------- compact

# One state of random fragmentation, which takes long to make, is used up from
# case to case.

def fragmented(w):
    """The memory is still scattered, or is once more; nobody mends it."""
    w.guest.sysctl("vm.compaction_proactiveness", 0)
    if w.blocks_pct() > 50 or w.guest.sh("pidof fragment")[0]:
        w.fragment()


def compacting_child(w):
    """Pid of the agent's child, or None."""
    rc, out = w.guest.sh(
        "p=$(cat /run/agent.pid); for s in /proc/[0-9]*/stat; do "
        "read -r i c t pp x <$s || continue; "
        "[ \"$pp\" = $p ] && echo $i; done 2>/dev/null")
    return out.split()[0] if out.split() else None


@suite.case("Ctrl-C of compact ends it in the guest, too")
def _(w):
    w.new_daemon()
    fragmented(w)
    with subprocess.Popen([w.daemon._ctl, "--socket", str(w.daemon.socket),
                           "compact", "lab"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as p:
        p.stdout.readline()
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=20)
    equal(p.returncode, 1, f"exit status ({out.decode()})")
    holds(err.decode(), "cancelled")
    within(5, lambda: not compacting_child(w), "the child's end")
    equal(w.guest.sysctl("vm.percpu_pagelist_high_fraction"), "0",
          "per-CPU lists")


@suite.case("the kernel: SIGKILL cuts a compaction of scattered memory short")
def _(w):
    w.end_daemon()
    fragmented(w)
    w.compact_killed()


@suite.case("SIGKILL of the agent amid a compaction: its child dies, knobs go "
            "back at the next start")
def _(w):
    w.end_daemon()
    fragmented(w)
    within(10, lambda: not w.journal(), "the end of the lease")
    found = w.knobs()
    w.new_daemon()
    w.guest.put("/run/agent.norestart", b"")
    # all in the guest: the compaction lasts hardly longer than a round trip
    w.guest.put("/tmp/kill-amid", b"""
p=$(cat /run/agent.pid)
n=0
while [ $n -lt 3000 ]; do
	n=$((n + 1))
	for s in /proc/[0-9]*/stat; do
		read -r i c t pp x <$s || continue
		[ "$pp" = $p ] || continue
		echo high=$(cat /proc/sys/vm/percpu_pagelist_high_fraction)
		kill -9 $p
		sleep 0.1 # dies within 20 ms, else works on for longer
		[ -e /proc/$i ] && echo child alive || echo child dead
		exit 0
	done
done 2>/dev/null
echo no child seen
""")
    ended = []
    t = threading.Thread(target=lambda: ended.append(
        w.daemon.ctl("compact", "lab", timeout=60)))
    script = threading.Thread(target=lambda: ended.append(
        w.guest.sh("sh /tmp/kill-amid", timeout=60)))
    script.start()
    time.sleep(0.3)
    t.start()
    script.join()
    seen = next(e[1] for e in ended if "child" in e[1])
    holds(seen, "child dead")
    check("high=0" not in seen, f"not amid a compaction: {seen}")
    w.daemon.kill_all()
    t.join()
    w.agent_starts()
    within(5, lambda: w.knobs() == found, "knobs as found")
    equal(w.journal(), [], "the journal")


@suite.case("compact --blocks 40 gives at least 40 more, and stops there")
def _(w):
    fragmented(w)
    w.new_daemon()
    before = w.guest.free_2m_blocks()
    rc, out, _ = w.daemon.ctl("--json", "compact", "lab", "--blocks", "40",
                              timeout=150)
    gained = w.guest.free_2m_blocks() - before
    equal(rc, 0, f"exit status: {out}")
    told = [e["blocks_after"] - e["blocks_before"]
            for e in json.loads(out)["events"] if e["event"] == "result"]
    check(sum(told) >= 40, f"{told} blocks more, as it says")
    # the per-CPU lists, that were capped meanwhile, fill up again and take a
    # block or two apart
    check(gained >= 32, f"{gained} blocks more when all is put back")
    check(gained < 250, f"{gained} more: not stopped at the target")
    holds(out, '"why": "target"')


@suite.case("6.12: compact brings at least 90 % of the free memory into "
            "2 MiB blocks")
def _(w):
    fragmented(w)
    w.ensure_daemon()
    before = w.blocks_pct()
    rc, out, err = w.daemon.ctl("compact", "lab", timeout=150)
    after = w.blocks_pct()
    equal(rc, 0, f"exit status ({out}{err})")
    check(before < 60 and after >= 90,
          f"{before:.0f} % before, {after:.0f} % after: {out}")
    result = [e for e in w.daemon.ctl_json("history", "lab")["history"]
              if e["kind"] == "result"][-1]
    check(result["blocks_after"] > result["blocks_before"]
          and result["cost"]["pages_migrated"] > 0, f"result: {result}")
    w.guest.sysctl("vm.compaction_proactiveness",
                   w.original["compaction_proactiveness"])


@suite.case("agent and core stay within their memory")
def _(w):
    w.ensure_daemon()
    pid = w.guest.agent_pid()
    out = w.guest.check(f"grep -E 'VmRSS|VmHWM' /proc/{pid}/status")
    rss = max(int(s.split()[1]) for s in out.splitlines())
    check(rss <= AGENT_RSS_KIB, f"the agent had {rss} KiB")
    core = w.daemon.pids()["core"][0]
    with open(f"/proc/{core}/status", encoding="ascii") as f:
        rss = max(int(s.split()[1]) for s in f if s.startswith(("VmRSS",
                                                                "VmHWM")))
    check(rss <= CORE_RSS_KIB, f"the core had {rss} KiB")


# --------------------------------------------------------------------- pause

@suite.case("pause --all puts every knob back within 5 s, and survives a "
            "restart of the daemon")
def _(w):
    w.new_daemon()
    w.held()
    check(w.knobs() != w.original, "nothing is steered")
    rc, out, _ = w.daemon.ctl("pause", "--all")
    equal(rc, 0, "exit status")
    within(5, lambda: w.knobs() == w.original, "knobs as found")
    equal(w.journal(), [], "the journal")
    d = w.daemon
    d.stop()
    d.start()
    w.served()
    time.sleep(2)
    equal(w.daemon.vm_status("lab")["paused"], True, "paused")
    equal(w.knobs(), w.original, "knobs after the restart")
    holds(w.daemon.ctl("explain", "lab")[1], "paused")
    rc, _, err = w.daemon.ctl("compact", "lab")
    equal(rc, 1, "exit status of compact while paused")
    holds(err, "Paused")
    w.daemon.ctl("resume", "--all")
    w.held()


@suite.case("pause of one VM leaves the other one steered")
def _(w):
    w.ensure_daemon()
    w.held()
    w.daemon.ctl("pause", "lab")
    within(5, lambda: w.knobs() == w.original, "knobs as found")
    equal(w.daemon.vm_status("other")["paused"], False, "the other VM")
    check([x for x in w.other.directives[-3:] if x["mask"]],
          "the other VM is not steered")
    w.daemon.ctl("resume", "lab")
    w.held()


@suite.case("a knob that somebody else changes is theirs: said, and left "
            "alone")
def _(w):
    w.new_daemon()
    name = w.held()[0]
    theirs = {"thp_defrag": "never"}.get(name, "33")
    w.guest.check(f"echo {theirs} >{KNOBS[name]}")
    within(10, lambda: name not in w.managed(), "the report")
    holds(w.daemon.ctl("explain", "lab")[1], "left alone", name)
    w.daemon.ctl("pause", "--all")
    time.sleep(2)
    holds(w.guest.check(f"cat {KNOBS[name]}"), theirs)
    value = re.search(r"\[(.*)\]", w.original[name])
    w.guest.check(f"echo {value.group(1) if value else w.original[name]} "
                  f">{KNOBS[name]}")
    w.end_daemon()
    w.kill_agent()                      # a new one may manage it again
    w.agent_starts()


# --------------------------------------------------------- killed and missing

@suite.case("SIGKILL of the agent while it holds knobs: put back at its next "
            "start")
def _(w):
    w.new_daemon()
    w.held()
    w.daemon.kill_all()                 # nobody sets them once more
    w.kill_agent()
    check(w.knobs() != w.original, "knobs were put back by nobody?")
    check(w.journal(), "no journal")
    w.agent_starts()
    within(5, lambda: w.knobs() == w.original, "knobs as found")
    equal(w.journal(), [], "the journal")


def others(pids, role):
    return {r: p for r, p in pids.items() if r != role}


def kill_role(w, role):
    w.ensure_daemon()
    before = within(10, lambda: all(w.daemon.pids()[r] for r in ROLES)
                    and w.daemon.pids(), "all processes")[0]
    sessions = w.bystander()
    w.daemon.kill(role)
    # "the session is up" must not be what the dead one's socket still says
    _, took = within(10, lambda: role_back(w, role, before), f"a new {role}")
    equal(others(w.daemon.pids(), role), others(before, role),
          "the others' processes")
    return before, sessions, took


def role_back(w, role, before):
    now = w.daemon.pids()[role]
    return now and now != before[role] and w.daemon.ctl("status")[0] == 0


@suite.case("SIGKILL of the core: the others go on, the session is back "
            "within 2 s")
def _(w):
    start = time.monotonic()
    kill_role(w, "core")
    start = time.monotonic()
    within(SESSION_S, lambda: w.session() == "up", "the session")
    check(time.monotonic() - start < SESSION_S, "the session took longer")
    w.served()
    w.held()


@suite.case("SIGKILL of the helper, the broker, the knob writer: the others "
            "go on, sessions too")
def _(w):
    for role in ("helper", "broker", "knobs"):
        _, sessions, _ = kill_role(w, role)
        vm = w.daemon.vm_status("lab")
        equal(vm["session"], "up", f"the session without the {role}")
        equal(w.bystander(), sessions, "sessions of the other VM")
    # the new helper does a helper's work
    w.other.still()
    w.other.drop()
    w.other.live()
    within(15, lambda: w.session("other") == "up", "a channel opened by the "
           "new helper")


@suite.case("all of the daemon killed: the lease ends, the agent puts its "
            "knobs back; a new daemon has its session within 2 s")
def _(w):
    w.ensure_daemon()
    w.held()
    d = w.daemon
    d.kill_all()
    start = time.monotonic()
    check(w.knobs() != w.original, "knobs are already back")
    within(w.LEASE_S + 3, lambda: w.knobs() == w.original, "knobs as found")
    check(time.monotonic() - start > w.LEASE_S / 3, "put back too early")
    equal(w.journal(), [], "the journal")
    d.start()
    start = time.monotonic()
    within(SESSION_S, lambda: w.session() == "up", "the session")
    w.served()


@suite.case("SIGTERM of the daemon puts knobs back at once, not at the "
            "lease's end")
def _(w):
    w.ensure_daemon()
    w.held()
    equal(w.daemon.stop(), 0, "exit status")
    within(2, lambda: w.knobs() == w.original, "knobs as found")


@suite.case("SIGTERM of the agent: knobs put back, exit status 0, and the "
            "daemon knows")
def _(w):
    w.new_daemon()
    w.held()
    equal(w.guest.stop_agent(), 0, "exit status")
    equal(w.knobs(), w.original, "knobs")
    equal(w.journal(), [], "the journal")
    within(5, lambda: w.session() == "down", "the session's end")
    holds(w.daemon.ctl("explain", "lab")[1], "agent ended")
    w.agent_starts()
    within(10, lambda: w.session() == "up", "the session")


@suite.case("nothing of all this made the guest's kernel complain")
def _(w):
    equal(w.guest.kernel_complaints(), [], "the guest's kernel")


if __name__ == "__main__":
    sys.exit(suite.run(World))
