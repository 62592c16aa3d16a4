# SPDX-License-Identifier: GPL-2.0-or-later
"""A KVM guest of a nested host: a Guest whose QEMU runs in there.

Files have the same names as a Guest's, below Host's RUN instead of here; the
sockets for commands and QMP reach us through a relay on the host.
"""

import hashlib
import os
import shlex
import shutil
import tempfile
import time
from pathlib import Path

from . import kernels, libvirtxml, nodeview, programs
from .channel import Channel, ChannelLost, GET
from .guest import FATAL, Guest, GuestDied
from .host import CMDLINE, FILES, LIB, RUN, port_name
from .qmp import Qmp
from .util import LabError, tail, wait_for

# How the host backs the guest's memory.
BACKINGS = ("thp", "memfd", "shmfile", "hugetlb", "hugetlb-memfd")
STATS = ("pages_4k", "pages_2m", "pages_1g")
# Asking costs the host a shell: not with each of the channel's polls.
ALIVE_S = 3.0
CGROUP = "/sys/fs/cgroup"
QEMU = "/usr/bin/qemu-system-x86_64"


class KvmGuest(Guest):
    """`host` must run. `node` binds memory to a host node, `start` is "qemu"
    or "libvirt"; `prealloc` makes QEMU touch all memory at its start. The rest
    is Guest's, without disks."""

    def __init__(self, host, name, kernel="6.12", mem="256M", smp=1,
                 node=None, backing="thp", start="qemu", prealloc=False,
                 agent=True, **more):
        if backing not in BACKINGS:
            raise LabError(f"backing '{backing}' is not one of "
                           + ", ".join(BACKINGS))
        if start not in ("qemu", "libvirt"):
            raise LabError(f"start '{start}' is not qemu or libvirt")
        for key in ("swap", "disk", "shell"):
            if more.get(key):
                raise LabError(f"guests of a nested host have no {key}")
        more.setdefault("boot_timeout", 180)
        more["initrd_add"] = [*more.get("initrd_add", ()),
                              f"{programs.guest_program('touchmem')}"
                              ":/bin/touchmem"]
        # for the emulator below: host.CMDLINE says why
        more["cmdline"] = f"{CMDLINE} {more.get('cmdline', '')}".rstrip()
        super().__init__(kernel=kernel, mem=mem, smp=smp, agent=agent, **more)
        self.host, self.name, self.node = host, name, node
        self.backing, self.prealloc, self.how = backing, prealloc, start
        self.accel, self.accel_reason = "kvm", "in a nested host"
        self._accel_args = ["-accel", "kvm", "-cpu", "host"]
        self.slot = None
        self._asked = 0.0       # when it was last seen alive
        self._local = self._pid = None

    # ------------------------------------------------------ boot

    def _make_dir(self):
        self._last_console = None
        base = os.environ.get("TMPDIR") or "/tmp"
        self._local = Path(tempfile.mkdtemp(prefix="vmlab-", dir=base))
        self.dir = Path(RUN) / self.name
        self.qmp_socket = self.dir / "qmp-daemon.sock"
        self.channel = self.dir / "agent.sock"
        self.console_path = self.dir / "console.log"
        if self.name in self.host.guests:
            raise LabError(f"the host has a guest {self.name} already")
        self.slot = self.host.next_slot()
        self.host.guests[self.name] = self
        self.host.check(f"rm -rf {self.dir}; mkdir -p {self.dir}")

    def _make_files(self):
        remote, self.dir = self.dir, self._local
        try:
            super()._make_files()
        finally:
            self.dir = remote
        # Guests of one kind share their initial file system and its pages.
        initrd = self._local / "initrd"
        key = hashlib.sha256(initrd.read_bytes()).hexdigest()[:12]
        there = f"{FILES}/initrd-{key}"
        if self.host.sh(f"test -s {there}")[0]:
            self.host.put(f"{there}.new", initrd.read_bytes())
            self.host.check(f"mv {there}.new {there}")
        self.host.check(f"ln -sf {there} {self.dir}/initrd")
        self._kernel_dir = Path(FILES) / f"kernel-{self.kernel}"
        self.host.push(kernels.folder(self.kernel) / "vmlinuz",
                       str(self._kernel_dir / "vmlinuz"))

    def _memory_args(self):
        if self.numa != 1:
            raise LabError("guests of a nested host have one node")
        return ["-object", self.memory_object(), "-machine",
                "pc,memory-backend=ram0"]

    def memory_object(self):
        kind = {"thp": "memory-backend-ram", "memfd": "memory-backend-memfd",
                "shmfile": "memory-backend-file,share=on,align=2M,"
                           f"mem-path=/dev/shm/{self.name}",
                "hugetlb": "memory-backend-file,mem-path=/dev/hugepages",
                "hugetlb-memfd": "memory-backend-memfd,hugetlb=on,"
                                 "hugetlbsize=2M"}[self.backing]
        text = f"{kind},id=ram0,size={self.mem_bytes >> 20}M"
        if self.node is not None:
            text += f",host-nodes={self.node},policy=bind"
        if self.prealloc:
            text += ",prealloc=on"
        return text

    @property
    def guest_kernel(self):
        return f"{self._kernel_dir}/vmlinuz"

    @property
    def has_agent(self):
        return self._agent is not None

    @property
    def guest_cmdline(self):
        return self._cmdline

    def _command(self):
        cmd = super()._command()
        cmd[0] = QEMU
        return cmd + ["-pidfile", f"{self.dir}/qemu.pid"]

    def _boot(self):
        started = time.monotonic()
        self.host.check(f"cd {self.dir} && rm -f console.log qemu.rc qemu.pid "
                        "*.sock")
        if self.how == "libvirt":
            self._start_libvirt()
        else:
            # in a control group of its own, as libvirt's guests are
            words = " ".join(shlex.quote(w) for w in self._command())
            group = f"{CGROUP}/vm-{self.name}"
            self.host.spawn(
                f"cd {self.dir}; echo +memory >{CGROUP}/cgroup.subtree_control"
                f"; mkdir -p {group}; sh -c 'echo $$ >"
                f"{group}/cgroup.procs; exec \"$@\"' sh {words} "
                ">qemu.log 2>&1; echo $? >qemu.rc")
        self._wait_pid()
        for kind, path in (("lab", "lab.sock"), ("qmp", "qmp-lab.sock")):
            self.host.spawn(f"exec {LIB}/labrelay {port_name(self.slot, kind)}"
                            f" {self.dir}/{path} >>{self.dir}/relay.log 2>&1")
        outside = self.host.dir
        self._qmp = Qmp(outside / f"qmp{self.slot}.sock", timeout=60)
        self._channel = Channel(outside / f"lab{self.slot}.sock")
        self._connect(self._boot_timeout)
        self.boot_s = round(time.monotonic() - started, 2)

    def _start_libvirt(self):
        self.host.start_libvirt()
        xml = libvirtxml.domain(self)
        self.host.put(f"{self.dir}/domain.xml", xml.encode())
        self.host.virsh("create", f"{self.dir}/domain.xml", timeout=120)
        self.host.check(f"cp /run/libvirt/qemu/{self.name}.pid "
                        f"{self.dir}/qemu.pid")

    def _wait_pid(self):
        def started():
            rc, out = self.host.sh(f"cat {self.dir}/qemu.rc 2>/dev/null || "
                                   f"cat {self.dir}/qemu.pid", 30)
            if out.strip() and self._ended() is not None:
                raise self._error(f"QEMU ended with {self._ended()}")
            return int(out) if rc == 0 and out.strip() else None
        self._pid = None
        self._pid = wait_for(started, 60, f"QEMU of {self.name}", 0.2)
        self._proc = self._pid

    def _ended(self):
        """QEMU's exit status; None while it runs; -1: unknown."""
        alive = f"kill -0 {self._pid}" if self._pid else "true"
        rc, out = self.host.sh(f"cat {self.dir}/qemu.rc 2>/dev/null || "
                               f"{alive} 2>/dev/null || echo -1", 30)
        return int(out) if rc == 0 and out.strip() else None

    def _check_alive(self, wait=0.0):
        if self._pid is None:
            raise GuestDied("the guest is not running")
        if not wait and time.monotonic() < self._asked + ALIVE_S:
            return
        end = time.monotonic() + wait
        while True:
            rc = self._ended()
            self._asked = time.monotonic()
            if rc is not None:
                raise self._error(f"QEMU ended with {rc}")
            if FATAL.search(self.console):
                raise self._error("the guest's kernel died: "
                                  + "; ".join(self.kernel_complaints()[:3]))
            if time.monotonic() >= end:
                return
            time.sleep(0.2)

    def _error(self, text):
        qemu = self._remote_text("qemu.log").strip()
        more = f"\nQEMU said:\n{tail(qemu, 10)}" if qemu else ""
        return GuestDied(f"{self.name}: {text}{more}\nconsole:\n"
                         f"{tail(self.console)}")

    # ------------------------------------------------------ end

    def stop(self, timeout=60):
        """Clean power-off; -> QEMU's exit status."""
        if self._pid is None:
            return self.qemu_rc
        self.spawn("sync; poweroff -f")
        try:
            self.qemu_rc = wait_for(self._ended_value, timeout,
                                    f"{self.name}'s power-off", 0.2)[0]
        finally:
            self._last_console = self.console
        self.kill()
        return self.qemu_rc

    def _ended_value(self):
        rc = self._ended()
        return None if rc is None else (rc,)

    def kill(self):
        """End it now, and remove its folder. The host must still run."""
        self._end_qemu()
        if self.dir is not None and self.name in self.host.guests:
            self._last_console = self.console
            self.host.sh(f"rm -rf {self.dir} /dev/shm/{self.name}", 30)
        self.forget()

    def forget(self):
        """What of it is on this machine; the host is going away."""
        for c in (self._channel, self._qmp):
            if c:
                c.close()
        self._channel = self._qmp = self._pid = self._proc = None
        if self._local:
            shutil.rmtree(self._local, ignore_errors=True)
        if self.host.guests.get(self.name) is self:
            del self.host.guests[self.name]

    def _end_qemu(self):
        for c in (self._channel, self._qmp):
            if c:
                c.close()
        if self.how == "libvirt" and self.name in self.host.guests:
            # there may be a domain though its start was given up
            self.host.sh(f"virsh -q destroy {self.name}", 60)
        if self._pid is not None:
            self.host.sh(f"kill -CONT {self._pid}; kill -9 {self._pid}", 30)
            wait_for(lambda: self._ended() is not None, 30,
                     f"the end of {self.name}'s QEMU", 0.1)
            self.host.sh(f"pkill -f '{LIB}/labrelay .* {self.dir}/'", 30)
        self._channel = self._qmp = self._pid = self._proc = None

    # ------------------------------------------------------ looking

    @property
    def pid(self):
        """QEMU's pid on the host."""
        return self._pid

    def _remote_text(self, name):
        try:
            # Not through host.text(): no message of its own when it is gone.
            rc, out = self.host._request(GET, 0, f"{self.dir}/{name}".encode(),
                                         30, None, f"reading {name}")
        except (LabError, ChannelLost):
            return ""
        return out.decode(errors="replace") if rc == 0 else ""

    @property
    def console(self):
        if self._last_console is not None:
            return self._last_console
        return self._remote_text("console.log").replace("\r", "")

    def rss_kib(self):
        return nodeview.rss_kib(self.host, self.pid)

    def memory(self):
        """Memory by host node: see Host.memory_of()."""
        return self.host.memory_of(self.pid)

    def kvm_stats(self):
        """KVM's page counts through QMP query-stats."""
        rows = self.qmp("query-stats", target="vm", providers=[
            {"provider": "kvm", "names": list(STATS)}])
        found = {s["name"]: s["value"] for r in rows for s in r["stats"]}
        if set(found) != set(STATS):
            raise LabError(f"query-stats answered {rows}")
        return found

    def kvm_debugfs(self):
        """The same from debugfs; kvm/PID-FD/ holds one file each."""
        out = self.host.check(
            f"cd /sys/kernel/debug/kvm/{self.pid}-*/ && cat "
            + " ".join(STATS)).split()
        return dict(zip(STATS, map(int, out)))

    # ------------------------------------------------------ doing

    def balloon(self, mem, timeout=120):
        """Set the balloon's target, wait until it is reached -> MiB."""
        self.qmp("balloon", value=int(mem) << 20)

        def near():
            now = self.qmp("query-balloon")["actual"] >> 20
            return now if abs(now - mem) <= 2 else None
        return wait_for(near, timeout, f"{self.name}'s balloon at {mem} MiB",
                        0.3)

    def touch(self, mib, timeout=300):
        """Write to each page of so much memory in the guest, and let go."""
        self.check(f"touchmem --mib {mib}", timeout)

    def collapse(self, timeout=300):
        """process_madvise(MADV_COLLAPSE) on its memory, from outside."""
        return nodeview.parse_words(self.host.check(
            f"collapse --pid {self.pid} --map-mib {self.mem_bytes >> 20}",
            timeout))

    def freeze(self):
        """A stuck QEMU: nothing in it answers until thaw()."""
        self.host.check(f"kill -STOP {self.pid}")

    def thaw(self):
        self.host.check(f"kill -CONT {self.pid}")
