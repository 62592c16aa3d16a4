# SPDX-License-Identifier: GPL-2.0-or-later
"""What tests of real guests share: a guest that a daemon serves."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading

from vmlab import programs
from vmlab.daemon import Daemon
from vmlab.guest import Guest
from vmlab.procfs import free_2m_blocks, free_pages

from .fakes import FakeGuest
from .tap import check, equal, within

BLOCK_PAGES = 512
KNOBS = {
    "compaction_proactiveness": "/proc/sys/vm/compaction_proactiveness",
    "watermark_scale_factor": "/proc/sys/vm/watermark_scale_factor",
    "watermark_boost_factor": "/proc/sys/vm/watermark_boost_factor",
    "thp_defrag": "/sys/kernel/mm/transparent_hugepage/defrag",
    "percpu_pagelist_high_fraction":
        "/proc/sys/vm/percpu_pagelist_high_fraction",
}
RUN_DIR = "/run/vmdefrag-agent"
# What a restart of one side may cost the session, by the design; and the
# slack of a busy machine that runs an emulated guest beside this.
SESSION_S = 2.0


def strace_files():
    """FILE:PATH of strace and what it is linked to, for initrd_add."""
    strace = shutil.which("strace")
    check(strace, "strace is not installed")
    out = subprocess.run(["ldd", strace], check=True, timeout=10,
                         stdout=subprocess.PIPE).stdout.decode()
    files = [f"{strace}:/usr/bin/strace"]
    for word in out.split():
        if word.startswith("/"):
            files.append(f"{os.path.realpath(word)}:{word}")
    return files


class RealGuest(contextlib.ExitStack):
    """A guest, a daemon that serves it as "lab", and a fake VM "other" that
    must never notice what happens to the first."""

    MODE = "balanced"
    DAEMON_ARGS = ["--report-interval", "300ms", "--lease", "4s"]
    LEASE_S = 4

    def __init__(self, kernel="6.12", mem="2G", **keywords):
        super().__init__()
        self._guest_args = dict(kernel=kernel, mem=mem, agent=True,
                                **keywords)
        self.daemon = None

    def __enter__(self):
        super().__enter__()
        self.dir = self.enter_context(tempfile.TemporaryDirectory())
        os.chmod(self.dir, 0o755)
        self.guest = self.enter_context(Guest(**self._guest_args))
        self.other = FakeGuest(self.dir + "/other.sock").live()
        self.callback(self.other.close)
        self.link()
        self.original = self.knobs()
        return self

    def __exit__(self, *exc):
        self.end_daemon()
        return super().__exit__(*exc)

    # A guest that is started anew has other paths; the daemon keeps these.

    def link(self):
        for name, path in (("channel", self.guest.channel),
                           ("qmp", self.guest.qmp_socket)):
            where = f"{self.dir}/{name}"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(where)
            os.symlink(path, where)

    def new_guest(self):
        """Another QEMU in the place of the old one."""
        gone = self.guest.channel
        start = threading.Thread(target=self.guest.start)
        start.start()
        # at once: the daemon must not have to wait for the boot
        within(30, lambda: self.guest.channel != gone
               and self.guest.channel.exists(), "QEMU's sockets")
        self.link()
        start.join()

    # ------------------------------------------------------ the daemon

    def new_daemon(self, mode=None, args=(), kind=Daemon):
        self.end_daemon()
        self.daemon = kind(mode=mode or self.MODE, args=[
            "--vm", f"name=lab,channel={self.dir}/channel,"
                    f"qmp={self.dir}/qmp",
            "--vm", f"name=other,channel={self.dir}/other.sock",
            *self.DAEMON_ARGS, *args])
        self.daemon.start()
        return self.served()

    def served(self):
        """Both sessions are up, and reports were seen."""
        for name in ("lab", "other"):
            self.daemon.wait_session(name)
            within(15, lambda: self.daemon.vm_status(name).get("report"),
                   f"a report of {name}")
        return self.daemon

    def end_daemon(self):
        if self.daemon:
            self.daemon.__exit__(None, None, None)
        self.daemon = None

    def ensure_daemon(self):
        """A daemon that steers; the one that there is, if it does."""
        if self.daemon is None or self.daemon.pid is None:
            self.new_daemon()
        self.served()

    def session(self, name="lab"):
        vm = self.daemon.vm_status(name)
        return vm["session"] if vm else None

    def bystander(self):
        vm = self.daemon.vm_status("other")
        equal(vm["session"], "up", "the other VM's session")
        check(vm["report_age_ms"] < 3000, "the other VM is not heard")
        return vm["channel"]["sessions"]

    # ------------------------------------------------------ the guest

    def knobs(self):
        out = self.guest.check("cat " + " ".join(KNOBS.values()))
        return dict(zip(KNOBS, out.split("\n")))

    def managed(self):
        """Knobs that the daemon's newest report says are ours."""
        knobs = self.daemon.vm_status("lab")["report"]["knobs"]
        return sorted(k for k, v in knobs.items()
                      if v["owner"] == "vmdefrag")

    def held(self):
        """Wait until steering holds a knob -> their names."""
        return within(20, self.managed, "a knob held by vmdefrag")[0]

    def journal(self):
        """Names in the agent's run directory beside its lock."""
        return [n for n in self.guest.check(f"ls {RUN_DIR}").split()
                if n != "lock"]

    def compaction(self):
        """Counters of compaction and migration."""
        return {k: v for k, v in self.guest.vmstat().items()
                if k.startswith(("compact_", "pgmigrate_"))}

    def fragment(self, free_mib=1126):
        """Scatter the free memory at random, as FACTS.md says."""
        self.guest.sh("fragment --release", timeout=60)
        self.guest.check(f"fragment --free-mib {free_mib} --seed 1",
                         timeout=150)

    def release(self):
        self.guest.sh("fragment --release", timeout=60)

    def compact_killed(self):
        """tests/probe/compact-killed on scattered memory: the first write
        was cut short, and soon."""
        probe = programs.probe_program("compact-killed")
        self.guest.put("/tmp/compact-killed", probe.read_bytes(), mode=0o755)
        out = json.loads(self.guest.check("/tmp/compact-killed 0 50"))
        check(out["killed"] and not out["writes"],
              f"a compaction of scattered memory went on or ended: {out}")
        return out

    def blocks_pct(self):
        """Share of the free memory that lies in 2 MiB blocks."""
        buddy = self.guest.buddyinfo()
        return (free_2m_blocks(buddy) * BLOCK_PAGES * 100
                / max(1, free_pages(buddy)))

    def agent_starts(self, timeout=20):
        """Let the restart loop start it, wait -> pid."""
        self.guest.sh("rm -f /run/agent.norestart")
        return within(timeout, self.guest.agent_pid, "the agent", 0.2)[0]

    def kill_agent(self):
        """SIGKILL, and nobody starts it again."""
        self.guest.put("/run/agent.norestart", b"")
        self.guest.check("kill -9 $(cat /run/agent.pid)")
        within(5, lambda: self.guest.agent_pid() is None, "the agent's end",
               0.1)

    def after_failure(self):
        said = []
        if self.daemon:
            said.append(self.daemon.log[-2500:])
        said.append(self.guest.agent_log()[-1500:])
        self.guest.sh("rm -f /run/agent.norestart /dev/shm/fill")
        self.end_daemon()
        return "\n".join(said)
