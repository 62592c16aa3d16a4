#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Configuration of both programs, and starts that must be refused in words."""

import contextlib
import os
import re
import subprocess
import sys
import tempfile

from vmtest.tap import Suite, check, equal, holds, within
from vmlab.daemon import Daemon
from vmlab.util import build_dir

DAEMON = str(build_dir() / "daemon" / "vmdefragd")
AGENT = str(build_dir() / "guest-agent" / "vmdefrag-agent")
STATUS_NOPERM, STATUS_RUNNING, STATUS_CONFIG, STATUS_USAGE = 77, 75, 78, 64
AGENT_WRONG, AGENT_RUNNING = 2, 3
suite = Suite()


class World(contextlib.ExitStack):
    def __enter__(self):
        super().__enter__()
        self.dir = self.enter_context(tempfile.TemporaryDirectory())
        os.chmod(self.dir, 0o755)
        return self

    def file(self, text):
        path = os.path.join(self.dir, "some.conf")
        with open(path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        return path


def run(*argv, **keywords):
    """-> (exit status, stdout, stderr)"""
    r = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=20, **keywords)
    return r.returncode, r.stdout.decode(), r.stderr.decode()


def refuse_all(w, program, status, rows):
    """Each (text, line, key): the message has file, line and key, once."""
    for text, line, key in rows:
        path = w.file(text)
        rc, out, err = run(program, "--config", path, "--check-config")
        equal(rc, status, f"exit status for {text!r} ({err.strip()})")
        equal(out, "", f"standard output for {text!r}")
        equal(err.count("\n"), 1, f"lines said about {text!r}")
        holds(err, f"{path}:{line}: ", key)


DAEMON_ROWS = [
    ("[daemon]\n\nSpeed = 3\n", 3, "'Speed'"),
    ("[policies]\nMode = observe\n", 2, "[policies]"),
    ("Mode = observe\n", 1, "Mode"),
    ("[daemon]\nReportInterval = 5 parsecs\n", 2, "ReportInterval"),
    ("[daemon]\nReportInterval = 1ms\n", 2, "ReportInterval"),
    ("[daemon]\nReportInterval = -1s\n", 2, "ReportInterval"),
    ("[daemon]\nReportInterval =\n", 2, "ReportInterval"),
    ("[daemon]\nVerbose = maybe\n", 2, "Verbose"),
    ("[daemon]\nLoop = epoll\n", 2, "Loop"),
    ("[daemon]\nRunDir = here\n", 2, "RunDir"),
    ("[policy]\n# of what\nMode = fast\n", 3, "Mode"),
    ("[policy]\nReserveMinPercent = 91\n", 2, "ReserveMinPercent"),
    ("[policy]\nReserveMinPercent = 2.5\n", 2, "ReserveMinPercent"),
    ("[policy]\nActionMaxPages = 0x1000\n", 2, "ActionMaxPages"),
    ("[policy]\nActionMaxPages = 99999999999999999999\n", 2,
     "ActionMaxPages"),
    ("[policy]\nLease = 30 parsecs\n", 2, "Lease"),
    ("[vm a]\nChannel = relative\n", 2, "Channel"),
    ("[vm a]\nQmp = /x\n", 1, "Channel"),
    ("[vm a]\nChannel = /x\nUuid = 12\n", 3, "Uuid"),
    ("[vm a]\nChannel = /x\nPid = init\n", 3, "Pid"),
    ("[vm a]\nChannel = /x\n[vm a]\nChannel = /y\n", 3, "'a'"),
    ("[daemon\nVerbose = yes\n", 1, "]"),
    ("[daemon]\nwhat is this\n", 2, ""),
]

AGENT_ROWS = [
    ("[agent]\nSpeed = 3\n", 2, "'Speed'"),
    ("[agents]\nMinFreeMiB = 64\n", 2, "[agents]"),
    ("[agent]\n\nCpuBurstSec = 3 moons\n", 3, "CpuBurstSec"),
    ("[agent]\nCpuBudgetPercent = 101\n", 2, "CpuBudgetPercent"),
    ("[agent]\nMinFreeMiB = 1\n", 2, "MinFreeMiB"),
    ("[agent]\nMinFreeMiB = 64M\n", 2, "MinFreeMiB"),
    ("[agent]\nAllowKnobs = thp_defrag speed\n", 2, "AllowKnobs"),
    ("[agent]\nAllowBackends = magic\n", 2, "AllowBackends"),
    ("[agent]\nAllowIsolatedCpus = perhaps\n", 2, "AllowIsolatedCpus"),
    ("[agent]\n\nTransport = pigeon\n", 3, "Transport"),
    ("[agent]\nRunDir = here\n", 2, "RunDir"),
]


@suite.case("daemon: each fault of a configuration is said with file, line "
            "and key")
def _(w):
    refuse_all(w, DAEMON, STATUS_CONFIG, DAEMON_ROWS)


@suite.case("agent: each fault of a configuration is said with file, line "
            "and key")
def _(w):
    refuse_all(w, AGENT, AGENT_WRONG, AGENT_ROWS)


@suite.case("daemon: values that don't go together are refused with their "
            "keys")
def _(w):
    rows = [
        ("[policy]\nLease = 1s\n[daemon]\nReportInterval = 2s\n",
         ["Lease", "ReportInterval"]),
        ("[policy]\nReserveMinPercent = 20\nReserveMaxPercent = 10\n",
         ["ReserveMinPercent", "ReserveMaxPercent"]),
        ("[vm a]\nChannel = /x\n[vm b]\nChannel = /x\n",
         ["'a'", "'b'", "Channel"]),
    ]
    for text, words in rows:
        rc, _, err = run(DAEMON, "--config", w.file(text), "--check-config")
        equal(rc, STATUS_CONFIG, text)
        holds(err, *words)


@suite.case("what is no text is refused: NUL bytes, a directory, a missing "
            "file")
def _(w):
    for program, status in ((DAEMON, STATUS_CONFIG), (AGENT, AGENT_WRONG)):
        for path in (w.file(b"[daemon]\n\0\n"), w.dir, "/no/such/file"):
            rc, _, err = run(program, "--config", path, "--check-config")
            equal(rc, status, f"exit status with {path}")
            holds(err, path)


@suite.case("--check-config says that all is well, with exit status 0")
def _(w):
    good = ((DAEMON, "[daemon]\nReportInterval = 500ms\n"
                     "[vm a]\nChannel = /x\n[policy]\nMode=density\n",
             "1 VMs"),
            (AGENT, "[agent]\nMinFreeMiB = 128\nCpuBurstSec = 2min\n", ""))
    for program, text, words in good:
        rc, out, err = run(program, "--config", w.file(text),
                           "--check-config")
        equal((rc, err), (0, ""), "exit status, what was said")
        holds(out, "Configuration is", words)


@suite.case("--dump-config reads back to itself")
def _(w):
    cases = ((DAEMON, ["--mode", "density", "--lease", "90s", "--vm",
                       "name=a b,channel=/run/x.sock,qmp=/run/q,pid=7"]),
             (AGENT, ["--transport", "unix:/run/x"]))
    for program, options in cases:
        rc, first, _ = run(program, *options, "--dump-config")
        equal(rc, 0, "exit status of --dump-config")
        holds(first, "=", "[")
        rc, second, err = run(program, "--config", w.file(first),
                              "--dump-config")
        equal((rc, err), (0, ""), "reading it back")
        equal(second, first, "the second dump")


@suite.case("bad options are refused by name, with the documented status")
def _(w):
    for program, status in ((DAEMON, STATUS_USAGE), (AGENT, AGENT_WRONG)):
        for words in (["--speed"], ["--config"], ["word"]):
            rc, _, err = run(program, *words)
            equal(rc, status, f"exit status of {words}")
            holds(err, words[-1], "--help")
    rc, _, err = run(DAEMON, "--vm", "channel=/x", "--check-config")
    equal(rc, STATUS_CONFIG, "--vm without a name")
    holds(err, "--vm", "name=")


@suite.case("a second daemon on a run directory is refused in words")
def _(w):
    with Daemon() as d:
        rc, _, err = run(*d.command())
        equal(rc, STATUS_RUNNING, "exit status of the second")
        holds(err, "Another vmdefragd", str(d.run_dir))
        equal(d.ctl("status")[0], 0, "the first still answers")


@suite.case("a run directory that others may write to is refused in words")
def _(w):
    with contextlib.ExitStack() as stack:
        d = Daemon()
        stack.push(d)
        d.run_dir.chmod(0o777)
        rc, _, err = run(*d.command())
        equal(rc, STATUS_NOPERM, "exit status")
        holds(err, str(d.run_dir), "writable")


@suite.case("a user that does not exist is refused in words")
def _(w):
    with contextlib.ExitStack() as stack:
        d = Daemon(args=["--user", "no-such-user"])
        stack.push(d)
        rc, _, err = run(*d.command())
        equal(rc, STATUS_NOPERM, "exit status")
        holds(err, "no-such-user", "--user")


@suite.case("daemon without root: runs, and says what it cannot do")
def _(w):
    run_dir, state = os.path.join(w.dir, "u"), os.path.join(w.dir, "s")
    for path in (run_dir, state):
        os.mkdir(path)
        os.chown(path, 65534, 65534)
    log = open(os.path.join(w.dir, "log"), "w+", encoding="utf-8")
    with subprocess.Popen(
            [DAEMON, "--run-dir", run_dir, "--state-dir", state,
             "--vm", f"name=a,channel={w.dir}/none.sock"], stderr=log,
            user=65534, group=65534, extra_groups=[]) as p:
        ctl = [str(build_dir() / "daemon" / "vmdefragctl"), "--socket",
               os.path.join(run_dir, "control.sock"), "status"]
        try:
            within(10, lambda: run(*ctl)[0] == 0, "an answer to status")
        finally:
            p.terminate()
        equal(p.wait(20), 0, "its end on SIGTERM")
    log.seek(0)
    said = log.read()
    log.close()
    check(re.search(r"Not started as root: .*refused", said),
          f"not said what it cannot do: {said}")


@suite.case("two agents on a run directory: the second is refused in words")
def _(w):
    run_dir = os.path.join(w.dir, "agent-run")
    argv = [AGENT, "--transport", f"unix:{w.dir}/none.sock", "--run-dir",
            run_dir, "--observe"]
    log = open(os.path.join(w.dir, "agent-log"), "w", encoding="utf-8")
    with subprocess.Popen(argv, stderr=log) as p:
        try:
            within(10, lambda: os.path.exists(run_dir + "/lock"), "its lock")
            rc, _, err = run(*argv)
        finally:
            p.terminate()
        equal(p.wait(10), 0, "the first one's end on SIGTERM")
    log.close()
    equal(rc, AGENT_RUNNING, "exit status of the second")
    holds(err, "Another agent", run_dir)


if __name__ == "__main__":
    sys.exit(suite.run(World))
