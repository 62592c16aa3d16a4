# SPDX-License-Identifier: GPL-2.0-or-later
"""vmdefragd under the lab's control, and vmdefragctl beside it."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from .util import (LabError, LabTimeout, build_dir, make_run_dir,
                   popen_bound, tail, wait_for)

ROLES = ("core", "helper", "broker", "knobs")


def _program(name, variable):
    path = Path(os.environ.get(variable) or build_dir() / "daemon" / name)
    if not path.exists():
        raise LabError(f"no {name} at {path}: build it first (make), or name "
                       f"one in ${variable}")
    return str(path)


class Daemon:
    """One vmdefragd in the foreground, with folders of its own.

    `guests` is {name: Guest}; `args` are further arguments of the daemon.
    """

    def __init__(self, guests=None, mode=None, args=()):
        self._program = _program("vmdefragd", "VMDEFRAGD")
        self._ctl = _program("vmdefragctl", "VMDEFRAGCTL")
        self.dir, self._dir_fd = make_run_dir("vmlabd-")
        # The core gives up root, and must still reach its own folders.
        self.dir.chmod(0o755)
        self.run_dir = self.dir / "run"
        self.state_dir = self.dir / "state"
        self.socket = self.run_dir / "control.sock"
        self.log_path = self.dir / "vmdefragd.log"
        self.run_dir.mkdir(mode=0o755)
        self.state_dir.mkdir(mode=0o755)
        self._guests = dict(guests or {})
        self._mode, self._args = mode, list(args)
        self._proc = None
        self.rc = None

    def __enter__(self):
        if self._proc is None:
            self.start()
        return self

    def __exit__(self, kind, value, trace):
        self.kill_all()
        shutil.rmtree(self.dir, ignore_errors=True)
        if self._dir_fd is not None:
            os.close(self._dir_fd)
            self._dir_fd = None

    def command(self):
        cmd = [self._program, "--run-dir", str(self.run_dir),
               "--state-dir", str(self.state_dir)]
        if "--user" not in self._args:
            # A machine that only runs tests has no user of ours.
            cmd += ["--user", "nobody"]
        if self._mode:
            cmd += ["--mode", self._mode]
        for name, g in self._guests.items():
            spec = (f"name={name},channel={g.channel},qmp={g.qmp_socket},"
                    f"pid={g.pid}")
            cmd += ["--vm", spec]
        return cmd + self._args

    def start(self, timeout=20):
        """Start, and wait until it answers on the control socket."""
        with open(self.log_path, "ab") as log:
            self._proc = popen_bound(self.command(), stdin=subprocess.DEVNULL,
                                     stdout=log, stderr=log,
                                     start_new_session=True)
        self._wait(self._answers, timeout, "vmdefragd's control socket")
        return self

    def _answers(self):
        return self.socket.exists() and self.ctl("--json", "status")[0] == 0

    def _wait(self, predicate, timeout, what):
        def check():
            if self._proc.poll() is not None:
                raise LabError(f"vmdefragd ended with {self._proc.returncode}:"
                               f"\n{tail(self.log)}")
            return predicate()
        try:
            return wait_for(check, timeout, what, 0.1)
        except LabTimeout as e:
            raise LabTimeout(f"{e}; vmdefragd's log:\n{tail(self.log)}") \
                from None

    @property
    def pid(self):
        return self._proc.pid if self._proc else None

    @property
    def log(self):
        try:
            return self.log_path.read_text(errors="replace")
        except OSError:
            return ""

    # ------------------------------------------------------ vmdefragctl

    def ctl(self, *args, timeout=120):
        """vmdefragctl --socket ... ARGS -> (rc, stdout, stderr)."""
        cmd = [self._ctl, "--socket", str(self.socket), *map(str, args)]
        try:
            r = subprocess.run(cmd, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               timeout=timeout)
        except subprocess.TimeoutExpired:
            raise LabTimeout(f"vmdefragctl {' '.join(map(str, args))}: no end "
                             f"within {timeout} s; vmdefragd's log:\n"
                             f"{tail(self.log)}") from None
        return (r.returncode, r.stdout.decode(errors="replace"),
                r.stderr.decode(errors="replace"))

    def ctl_json(self, *args, timeout=120):
        """The same with --json, parsed; failure raises with its words."""
        rc, out, err = self.ctl("--json", *args, timeout=timeout)
        what = "vmdefragctl " + " ".join(map(str, args))
        if rc:
            raise LabError(f"{what}: exit {rc}\n{tail(err or out)}")
        try:
            return json.loads(out)
        except ValueError as e:
            raise LabError(f"{what}: no JSON ({e}):\n{tail(out)}") from e

    def vm_status(self, name="lab"):
        """The VM's part of `status`, or None."""
        return find_vm(self.ctl_json("status"), name)

    def wait_session(self, name="lab", timeout=30):
        """Until the agent's session of this VM is up -> its status."""
        def up():
            vm = self.vm_status(name)
            return vm if vm and vm.get("session") == "up" else None
        return self._wait(up, timeout, f"the session of VM '{name}'")

    def compact(self, name="lab", blocks=None, timeout=300):
        """`compact VM [--blocks N]` -> (rc, parsed answer or None, text)."""
        args = ["compact", name]
        if blocks is not None:
            args += ["--blocks", blocks]
        rc, out, err = self.ctl(*args, "--json", timeout=timeout)
        try:
            answer = json.loads(out) if out.strip() else None
        except ValueError:
            answer = None
        return rc, answer, (err or out).strip()

    def history(self, name="lab"):
        return self.ctl_json("history", name)

    # ------------------------------------------------------ processes

    def pids(self):
        """{role: [pids]} of the supervisor and its children."""
        found = {"supervisor": [self.pid] if self.pid else []}
        for role in ROLES:
            found[role] = []
        parents = _parents()
        for pid in parents:
            if not _descends(pid, self.pid, parents):
                continue
            title = _title(pid)
            for role in ROLES:
                if title.startswith(f"vmdefragd: {role}"):
                    found[role].append(pid)
        return found

    def kill(self, role, sig=signal.SIGKILL):
        """Signal the processes of one role -> their pids."""
        pids = self.pids().get(role)
        if not pids:
            raise LabError(f"vmdefragd has no process '{role}': {self.pids()}")
        for pid in pids:
            os.kill(pid, sig)
        return pids

    def stop(self, timeout=20):
        """SIGTERM -> exit status."""
        if self._proc is None:
            return self.rc
        self._proc.send_signal(signal.SIGTERM)
        try:
            self.rc = self._proc.wait(timeout)
        except subprocess.TimeoutExpired:
            raise LabTimeout(f"vmdefragd did not end within {timeout} s of "
                             f"SIGTERM:\n{tail(self.log)}") from None
        self._proc = None
        return self.rc

    def kill_all(self):
        """SIGKILL to all of them at once, as a crash of the host would."""
        if self._proc is None:
            return
        everyone = [p for pids in self.pids().values() for p in pids]
        # first still all of them: the core would end orderly when it sees the
        # supervisor gone, and a crash does not
        for sig in (signal.SIGSTOP, signal.SIGKILL):
            for pid in everyone:
                try:
                    os.kill(pid, sig)
                except ProcessLookupError:
                    pass
        self.rc = self._proc.wait()
        self._proc = None
        end = time.monotonic() + 5
        while time.monotonic() < end and any(_title(p) for p in everyone):
            time.sleep(0.02)


def find_vm(status, name):
    """The object of one VM, wherever it stands in a status document."""
    if isinstance(status, dict):
        if name in (status.get("name"), status.get("vm")) \
                and "session" in status:
            return status
        status = list(status.values())
    if isinstance(status, list):
        for item in status:
            found = find_vm(item, name)
            if found:
                return found
    return None


def find_number(doc, key):
    """The first number under `key` in a nested document, or None."""
    if isinstance(doc, dict):
        if isinstance(doc.get(key), (int, float)):
            return doc[key]
        doc = list(doc.values())
    if isinstance(doc, list):
        for item in doc:
            found = find_number(item, key)
            if found is not None:
                return found
    return None


def _parents():
    out = {}
    for p in os.listdir("/proc"):
        if p.isdigit():
            try:
                with open(f"/proc/{p}/stat", encoding="latin-1") as f:
                    out[int(p)] = int(f.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                pass
    return out


def _descends(pid, ancestor, parents):
    while pid in parents and pid > 1:
        pid = parents[pid]
        if pid == ancestor:
            return True
    return False


def _title(pid):
    """What ps shows; empty for the dead."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
