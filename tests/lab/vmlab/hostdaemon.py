# SPDX-License-Identifier: GPL-2.0-or-later
"""vmdefragd on a nested host: vmlab.daemon.Daemon, run over there."""

import shlex
import time
from pathlib import PurePosixPath

from .daemon import Daemon, ROLES, _program
from .util import LabError, LabTimeout, tail, wait_for

DIR = PurePosixPath("/run/vmlabd")
BIN = "/usr/local/bin"


class HostDaemon(Daemon):
    """`guests` is {name: KvmGuest}; the rest as Daemon's."""

    def __init__(self, host, guests=None, mode=None, args=(), vm_args=""):
        self.host = host
        for name, variable in (("vmdefragd", "VMDEFRAGD"),
                               ("vmdefragctl", "VMDEFRAGCTL")):
            host.push_program(_program(name, variable), f"{BIN}/{name}")
        self._program, self._ctl = f"{BIN}/vmdefragd", f"{BIN}/vmdefragctl"
        self.dir = DIR
        self.run_dir, self.state_dir = DIR / "run", DIR / "state"
        self.socket = self.run_dir / "control.sock"
        self.log_path = DIR / "vmdefragd.log"
        self.guests = self._guests = dict(guests or {})
        self._mode, self._args, self._vm_args = mode, list(args), vm_args
        self._pid = self.rc = None

    def __enter__(self):
        if self._pid is None:
            self.start()
        return self

    def __exit__(self, kind, value, trace):
        try:
            self.kill_all()
        except LabError:
            pass                    # the host has gone before

    def start(self, timeout=60):
        self.host.check(f"mkdir -p {self.run_dir} {self.state_dir}; "
                        f"rm -f {DIR}/rc {DIR}/pid")
        words = " ".join(shlex.quote(w) for w in self.command())
        self.host.spawn(f"sh -c 'echo $$ >{DIR}/pid; exec \"$@\"' sh {words} "
                        f">>{self.log_path} 2>&1; echo $? >{DIR}/rc")
        self._pid = wait_for(
            lambda: int(self.host.sh(f"cat {DIR}/pid 2>/dev/null")[1] or 0),
            20, "vmdefragd's pid")
        self._wait(self._answers, timeout, "vmdefragd's control socket")
        return self

    def _answers(self):
        return self.ctl("--json", "status")[0] == 0

    def _wait(self, predicate, timeout, what):
        def check():
            rc = self._exit_status()
            if rc is not None:
                raise LabError(f"vmdefragd ended with {rc}:\n{tail(self.log)}")
            return predicate()
        try:
            return wait_for(check, timeout, what, 0.2)
        except LabTimeout as e:
            raise LabTimeout(f"{e}; vmdefragd's log:\n{tail(self.log)}") \
                from None

    def _exit_status(self):
        out = self.host.sh(f"cat {DIR}/rc 2>/dev/null")[1]
        return int(out) if out.strip() else None

    @property
    def pid(self):
        return self._pid

    @property
    def log(self):
        try:
            return self.host.text(str(self.log_path))
        except LabError:
            return ""

    def ctl(self, *args, timeout=120):
        """vmdefragctl --socket ... ARGS -> (rc, stdout, stderr)."""
        words = " ".join(shlex.quote(str(a)) for a in
                         (self._ctl, "--socket", self.socket, *args))
        rc, out = self.host.sh(f"{words} 2>/tmp/ctl.err", timeout)
        err = self.host.sh("cat /tmp/ctl.err")[1] if rc else ""
        return rc, out, err

    def pids(self):
        """{role: [pid]} of the daemon's processes, by their titles."""
        out = self.host.sh("ps -eo pid=,args= | grep '[v]mdefragd: '")[1]
        found = {role: [] for role in ROLES}
        for line in out.splitlines():
            pid, _, title = line.strip().partition(" ")
            for role in ROLES:
                if title.startswith(f"vmdefragd: {role}"):
                    found[role].append(int(pid))
        return found

    def kill(self, role, sig=9):
        pids = self.pids().get(role)
        if not pids:
            raise LabError(f"vmdefragd has no process '{role}': {self.pids()}")
        self.host.check(f"kill -{int(sig)} " + " ".join(map(str, pids)))
        return pids

    def stop(self, timeout=30):
        """SIGTERM -> exit status."""
        if self._pid is None:
            return self.rc
        self.host.check(f"kill -TERM {self._pid}")
        self._wait_end(timeout)
        return self.rc

    def kill_all(self):
        if self._pid is None:
            return
        self.host.sh("pkill -9 -x vmdefragd")
        self._wait_end(20)

    def _wait_end(self, timeout):
        end = time.monotonic() + timeout
        while self.rc is None:
            self.rc = self._exit_status()
            if self.rc is None and time.monotonic() > end:
                raise LabTimeout("vmdefragd did not end:\n" + tail(self.log))
            time.sleep(0.1)
        self._pid = None
