# SPDX-License-Identifier: GPL-2.0-or-later
"""`lab run`: one guest, one workload, one JSON document.

Order of events:

    boot, daemon and session up (unless --steer none)
    --guest-sh
    prepare    demo only: fragment the memory
    --- vmstat_delta and cpu_ms begin ---
    workload   fragment: it runs here, and --compact after it
    compact    all others: --compact first, then the workload
    --- vmstat_delta and cpu_ms end ---
    agent, daemon and guest are ended, in this order

Each step stands in `phases` with figures of its own.
"""

import json
import os
import signal
import time

from . import procfs
from .daemon import Daemon, find_number
from .guest import Guest
from .util import LabError, LabTimeout, is_static_elf, tail

VM = "lab"
WORKLOADS = ("idle", "fragment", "thpprobe", "churn", "demo")
FREE_SHARE = 0.55       # of the memory: 1126 MiB of a 2 GiB guest
IDLE_S = 10


class Run:
    def __init__(self, opts):
        self.o = opts
        self.daemon = None
        # Every key is there, however the run ends.
        self.doc = {"error": None, "notes": [], "kernel": opts.kernel,
                    "workload_lines": [], "vmstat_delta": {},
                    "cpu_ms": {"kcompactd": None, "kswapd": None,
                               "agent": None},
                    "kpageflags_words": None, "decisions": [],
                    "compact": None, "phases": [],
                    "exit": {"guest": None, "workload": None, "agent": None,
                             "daemon": None}}
        self._validate()

    def _validate(self):
        o = self.o
        if o.steer == "none":
            if o.compact:
                raise LabError("--compact asks the daemon: it needs --steer")
            if o.backend != "auto":
                raise LabError("--backend needs --steer on or observe")
        if o.compact not in (None, "all") and not o.compact.isdigit():
            raise LabError(f"--compact {o.compact}: write all or a number of "
                           "2 MiB blocks")
        if o.workload and o.workload_bin:
            raise LabError("--workload and --workload-bin exclude each other")
        if not o.workload and not o.workload_bin:
            o.workload = "idle"
        if o.workload_bin:
            if not os.path.exists(o.workload_bin):
                raise LabError(f"no program at {o.workload_bin}")
            if not is_static_elf(o.workload_bin):
                raise LabError(f"{o.workload_bin} is not a static program: "
                               "the guest has no shared libraries")

    # ------------------------------------------------------ set up

    def _guest(self):
        o = self.o
        add = list(o.initrd_add)
        if o.workload_bin:
            add.append(f"{o.workload_bin}:/bin/lab-workload")
        return Guest(kernel=o.kernel, mem=o.mem, smp=o.smp, numa=o.numa,
                     swap=o.swap, disk=o.disk, agent=o.steer != "none",
                     qemu_args=o.qemu_arg, initrd_add=add, seed=o.seed)

    def _describe(self, g):
        o = self.o
        self.doc.update(
            kernel_release=g.meta["release"],
            kernel_version=g.meta["version"], accel=g.accel,
            accel_reason=g.accel_reason, boot_retries=g.boot_retries,
            boot_failures=g.boot_failures, boot_s=g.boot_s,
            mem_mib=g.mem_bytes >> 20, smp=g.smp, numa=g.numa, swap=o.swap,
            disk=o.disk, seed=o.seed, steer=o.steer,
            mode=self._mode(), backend=o.backend,
            workload=o.workload or o.workload_bin,
            workload_args=o.workload_args, guest_sh=o.guest_sh)

    def _mode(self):
        return {"on": self.o.mode, "observe": "observe"}.get(self.o.steer)

    def _start_daemon(self, g):
        # Whether it can be had is for the daemon and the agent to say.
        self.daemon = Daemon({VM: g}, mode=self._mode(),
                             args=["--backend", self.o.backend])
        self.daemon.start()
        self.daemon.wait_session(VM)

    # ------------------------------------------------------ phases

    def _commands(self):
        """(prepare, workload) as shell commands; None for nothing."""
        o = self.o
        extra = " " + o.workload_args if o.workload_args else ""
        seed = f" --seed {o.seed}"
        free = int(FREE_SHARE * self.doc["mem_mib"])
        frag = f"fragment --free-mib {free}{seed}{extra}"
        if o.workload_bin:
            return None, "exec /bin/lab-workload" + extra
        return {
            "idle": (None, f"sleep {o.workload_args or IDLE_S}"),
            "fragment": (None, frag),
            "thpprobe": (None, "thpprobe" + extra),
            "churn": (None, f"churn{seed}{extra}"),
            "demo": (frag, "thpprobe"),
        }[o.workload]

    def _sample(self, g):
        buddy = g.buddyinfo()
        return {"vmstat": g.vmstat(), "cpu_ms": g.cpu_ms(),
                "time": time.monotonic(),
                "memory": {"free_kib": g.meminfo()["MemFree"],
                           "free_2m_blocks": procfs.free_2m_blocks(buddy),
                           "buddyinfo": buddy, "rss_kib": g.rss_kib()}}

    @staticmethod
    def _delta(a, b):
        va, vb = a["vmstat"], b["vmstat"]
        ca, cb = a["cpu_ms"], b["cpu_ms"]
        return {"seconds": round(b["time"] - a["time"], 3),
                "vmstat_delta": {k: v - va.get(k, 0) for k, v in vb.items()},
                "cpu_ms": {k: None if cb[k] is None else
                           round(cb[k] - (ca[k] or 0), 3) for k in cb}}

    def _phase(self, g, name, act):
        before = self._sample(g)
        result = act()
        after = self._sample(g)
        phase = {"name": name, "before": before["memory"],
                 "after": after["memory"], **self._delta(before, after)}
        phase.update(result or {})
        self.doc["phases"].append(phase)

    def _sh(self, g, cmd):
        """Run a command, showing its lines as they come."""
        pending = bytearray()
        lines = []

        def feed(data):
            pending.extend(data)
            while b"\n" in pending:
                line, _, rest = bytes(pending).partition(b"\n")
                pending[:] = rest
                lines.append(line.decode(errors="replace"))
                print(lines[-1], flush=True)

        rc, _ = g.sh(cmd, self.o.timeout, feed)
        if pending:
            feed(b"\n")
        return {"lines": lines, "rc": rc}

    def _workload(self, g, cmd):
        def act():
            r = self._sh(g, cmd)
            self.doc["workload_lines"] += r["lines"]
            self.doc["exit"]["workload"] = r["rc"]
            return r
        self._phase(g, "workload", act)

    def _compact(self, g):
        if not self.o.compact:
            return

        def act():
            blocks = None if self.o.compact == "all" else self.o.compact
            rc, answer, text = self.daemon.compact(VM, blocks,
                                                   self.o.timeout)
            self.doc["compact"] = {"rc": rc, "answer": answer, "text": text}
            if rc:
                raise LabError(f"vmdefragctl compact: exit {rc}\n{tail(text)}")
            return {"rc": rc}
        self._phase(g, "compact", act)

    def _measure(self, g):
        prepare, workload = self._commands()
        if self.o.guest_sh:
            r = self._sh(g, self.o.guest_sh)
            if r["rc"]:
                raise LabError(f"--guest-sh: exit {r['rc']}\n"
                               + tail("\n".join(r["lines"])))
        if prepare:
            self._phase(g, "prepare", lambda: self._prepare(g, prepare))
        before = self._sample(g)
        self.doc["before"] = before["memory"]
        if self.o.workload == "fragment":
            self._workload(g, workload)
            self._compact(g)
        else:
            self._compact(g)
            self._workload(g, workload)
        after = self._sample(g)
        self.doc["after"] = after["memory"]
        self.doc.update(self._delta(before, after))

    def _prepare(self, g, cmd):
        r = self._sh(g, cmd)
        self.doc["workload_lines"] += r["lines"]
        if r["rc"]:
            raise LabError(f"fragment: exit {r['rc']}")
        return r

    # ------------------------------------------------------ the end

    def _collect(self):
        """What daemon and agent counted and decided."""
        if not self.daemon:
            self.doc["kpageflags_words"] = 0
            return
        self.doc["decisions"] = _decisions(self.daemon.history(VM))
        status = self.daemon.vm_status(VM)
        words = find_number(status, "kpageflags_words")
        self.doc["kpageflags_words"] = words
        self.doc["status"] = status
        if words is None:
            self.doc["notes"].append("kpageflags_words: not in vmdefragctl "
                                     "status, so not known")

    def _end(self, g):
        exits = self.doc["exit"]
        if self.o.steer != "none":
            self.doc["agent_died"] = g.agent_exits()
            exits["agent"] = g.stop_agent()
            self.doc["agent_log"] = g.agent_log().splitlines()
            exits["daemon"] = self.daemon.stop()
        exits["guest"] = g.stop()

    def _last_words(self, g):
        """Whatever can still be read, for somebody who wonders why."""
        if g is not None:
            self.doc["kernel_complaints"] = g.kernel_complaints()
            self.doc["console_tail"] = g.console.splitlines()[-40:]
        if self.daemon:
            self.doc["daemon_log"] = self.daemon.log.splitlines()[-200:]

    def execute(self):
        """Run all; the document is complete even after a failure."""
        g = None
        try:
            with _deadline(self.o.timeout):
                g = self._guest()
                g.start()
                self._describe(g)
                if self.o.steer != "none":
                    self._start_daemon(g)
                self._measure(g)
                self._collect()
                self._end(g)
        except LabError as e:
            self.doc["error"] = str(e)
        finally:
            self._last_words(g)
            if self.daemon:
                self.daemon.__exit__(None, None, None)
            if g is not None:
                g.kill()
        return self.doc


class _deadline:
    """SIGALRM turns into LabTimeout, wherever the run hangs."""

    def __init__(self, seconds):
        self._seconds = seconds

    def __enter__(self):
        def on_alarm(sig, frame):
            raise LabTimeout(f"--timeout: the run did not end within "
                             f"{self._seconds} s")
        self._old = signal.signal(signal.SIGALRM, on_alarm)
        signal.alarm(self._seconds)

    def __exit__(self, kind, value, trace):
        signal.alarm(0)
        signal.signal(signal.SIGALRM, self._old)


def _decisions(history):
    """A list, whether the document is one or holds one."""
    if isinstance(history, list):
        return history
    if isinstance(history, dict):
        for key in ("decisions", "history", "entries"):
            if isinstance(history.get(key), list):
                return history[key]
    return [history]


def write_json(path, doc):
    """Complete or not at all: somebody may be waiting for this file."""
    temp = f"{path}.tmp.{os.getpid()}"
    try:
        with open(temp, "w", encoding="utf-8") as f:
            json.dump(doc, f, indent=1)
            f.write("\n")
        os.rename(temp, path)
    except OSError as e:
        raise LabError(f"cannot write {path}: {e.strerror}") from e


def main(opts):
    doc = Run(opts).execute()
    write_json(opts.json, doc)
    for line in doc.get("kernel_complaints", []):
        print(f"lab: guest kernel: {line}", flush=True)
    if doc["error"]:
        raise LabError(doc["error"])
    rc = doc["exit"]["workload"]
    if rc:
        raise LabError(f"the workload ended with {rc}; figures are in "
                       f"{opts.json}")
    return 0
