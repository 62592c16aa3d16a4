# SPDX-License-Identifier: GPL-2.0-or-later
"""An emulated host: SVM, NUMA nodes, Debian with QEMU and libvirt.

A Host is a Guest of this machine whose root is a real disk; what it can do is
what a Guest can (sh, put, get, vmstat...). Guests in it are kvmguest.KvmGuest;
their sockets come out through virtio-serial ports and guest/labrelay.c.

Always software emulation with an SVM of its own: it needs no KVM here, and
behaves alike everywhere.
"""

import os
import re
import shlex
from pathlib import Path

from . import initramfs, kernels, nodeview, programs, rootfs
from .guest import Guest, LAB_PORT
from .util import LabError, locked, need, parse_size, run_checked, wait_for

# Those that a kernel does not have it has built in, or needs no more.
MODULES = ["virtio_pci", "virtio_console", "virtio_blk", "ext4",
           "crc32c_generic", "kvm", "irqbypass", "kvm_amd"]
# erms: the kernel would clear pages byte by byte, and a page that held code
# costs the emulator a look at all of its translations for each.
CPU = "max,+svm,-erms,-fsrm"
# Translations are kept by virtual address: with random ones every process
# leaves another set, of its own, on every page of libc. Measured here after a
# few thousand of them: 16 bytes a second when such a page is cleared.
CMDLINE = "norandmaps"
# Nobody logs in; and without udev, systemd waits in vain for the terminal.
SYSTEMD_CMDLINE = "systemd.show_status=0 systemd.getty_auto=no"
# Two ports a guest, and one for the lab, of the 31 that a device can have.
SLOTS = 14
KERNELS = ("6.1", "6.12", "7.3")
INIT = {"plain": "/usr/local/lib/vmlab/host-run plain", "systemd": "/sbin/init"}
LIB = "/usr/local/lib/vmlab"
FILES = "/srv/lab"              # kernels and initial file systems of guests
RUN = "/run/lab"                # a folder for each guest
SERVICE = f"""[Unit]
Description=labexec
After=local-fs.target systemd-tmpfiles-setup.service
[Service]
ExecStart={LIB}/host-run service
Restart=always
OOMScoreAdjust=-1000
[Install]
WantedBy=multi-user.target
"""
QEMU_CONF = """user = "root"
group = "root"
security_driver = "none"
remember_owner = 0
"""


class Host(Guest):
    """A nested host; use as a context manager.

    `nodes` is a list of sizes, one for each NUMA node, such as ["2G", "2G"].
    `init` is "plain" (a script, 4 s) or "systemd".
    """

    def __init__(self, kernel="6.12", nodes=("2G", "2G"), smp=2, init="plain",
                 cmdline="", seed=1, boot_timeout=None, keep_dir=None):
        sizes = [parse_size(n) for n in nodes]
        if not 1 <= len(sizes) <= 4:
            raise LabError("a nested host has 1 to 4 nodes")
        if init not in INIT:
            raise LabError(f"init '{init}' is not plain or systemd")
        if kernel not in KERNELS:
            raise LabError(f"nested host: kernel '{kernel}' is not one of "
                           + ", ".join(KERNELS))
        super().__init__(kernel=kernel, mem=f"{sum(sizes) >> 20}M", smp=smp,
                         numa=len(sizes), cmdline=cmdline, seed=seed,
                         boot_timeout=boot_timeout or 240, keep_dir=keep_dir)
        self.accel, self.accel_reason = "tcg", "nested hosts are emulated"
        self._accel_args = ["-accel", "tcg,thread=multi", "-cpu", CPU]
        self.node_bytes, self.init = sizes, init
        self.guests = {}
        self._slot = 0
        self._pushed = {}

    # ------------------------------------------------------ boot

    def _make_files(self):
        rootfs.get()
        settings = {"LAB_HOST_INIT": INIT[self.init].split()[0]}
        payload = [f"{programs.guest_program(n)}:/payload{p}/{n}"
                   for n, p in programs.HOST.items()]
        payload.append(f"{initramfs.LAB_DIR}/guest/host-run:"
                       f"/payload{LIB}/host-run")
        for path, text in self._config_files().items():
            local = self.dir / path.replace("/", "_")
            local.write_text(text, encoding="ascii")
            payload.append(f"{local}:/payload{path}")
        initramfs.build(self.dir / "initrd", self._kernel_dir, self.meta,
                        modules=[m for m in MODULES
                                 if m not in self.meta["absent"]],
                        settings=settings, add=payload,
                        init="host-init", tools=())

    @staticmethod
    def _config_files():
        return {"/etc/systemd/system/labexec.service": SERVICE,
                "/etc/libvirt/qemu.conf": QEMU_CONF}

    def _command(self):
        d = self.dir
        cmd = [need("qemu-system-x86_64", "qemu-system-x86"), "-nodefaults",
               "-no-user-config", "-display", "none", *self._accel_args,
               "-smp", f"{self.smp},{self._topology()}",
               "-m", f"{self.mem_bytes >> 20}M", *self._memory_args(),
               "-kernel", str(self._kernel_dir / "vmlinuz"),
               "-initrd", str(d / "initrd"),
               "-append", "console=ttyS0 loglevel=5 panic=0 "
                          f"{SYSTEMD_CMDLINE} {CMDLINE} {self._cmdline}",
               "-drive", f"if=none,id=root,file={rootfs.path()},format=raw,"
                         "snapshot=on,cache=unsafe",
               "-device", "virtio-blk-pci,drive=root",
               "-chardev", f"socket,id=qmp,path={d}/qmp-lab.sock,server=on,"
                           "wait=off", "-mon", "chardev=qmp,mode=control",
               "-chardev", f"file,id=con,path={self.console_path},append=on",
               "-serial", "chardev:con",
               "-device", "virtio-serial-pci,id=vser,max_ports=31"]
        for name, path in [(LAB_PORT, d / "lab.sock"), *self._slot_ports()]:
            cmd += ["-chardev", f"socket,id={name},path={path},server=on,"
                                "wait=off",
                    "-device", f"virtserialport,bus=vser.0,chardev={name},"
                               f"name={name}"]
        return cmd

    def _slot_ports(self):
        for i in range(SLOTS):
            for kind in ("lab", "qmp"):
                yield port_name(i, kind), self.dir / f"{kind}{i}.sock"

    def _memory_args(self):
        args = ["-machine", "pc"]
        count = len(self.node_bytes)
        for n, size in enumerate(self.node_bytes):
            cpus = "".join(f",cpus={c}" for c in range(self.smp)
                           if c % count == n)
            args += ["-object",
                     f"memory-backend-ram,id=ram{n},size={size >> 20}M",
                     "-numa", f"node,nodeid={n}{cpus},memdev=ram{n}"]
        return args

    def start(self):
        super().start()
        self._pushed = {}
        self.check(f"mkdir -p {FILES} {RUN}")
        return self

    def stop(self, timeout=60):
        """Power off at once: guests must have been stopped before."""
        return super().stop(timeout)

    def kill(self):
        for g in list(self.guests.values()):
            g.forget()
        super().kill()

    # ------------------------------------------------------ files

    def push(self, local, remote, mode=None):
        """Copy a file of this machine, unless that was done before."""
        local = Path(local)
        stamp = (str(local), local.stat().st_mtime_ns)
        if self._pushed.get(remote) != stamp:
            if mode is None:
                mode = 0o755 if os.access(local, os.X_OK) else 0o644
            self.check(f"mkdir -p {shlex.quote(os.path.dirname(remote))}")
            self.put(remote, local.read_bytes(), mode)
            self._pushed[remote] = stamp
        return remote

    def push_program(self, local, remote):
        """The same without debug information: it has to cross a serial port
        and is several times the program."""
        local = Path(local)
        if remote in self._pushed:
            return remote
        slim = local.with_name(f".{local.name}.stripped")
        with locked(local.with_name(f".{local.name}.lock")):
            if not slim.exists() or \
                    slim.stat().st_mtime < local.stat().st_mtime:
                run_checked([need("strip", "binutils"), "-o", str(slim),
                             str(local)], f"stripping {local.name}")
        return self.push(slim, remote, 0o755)

    def next_slot(self):
        """Ports of a guest that has ended are used again, oldest first."""
        busy = {g.slot for g in self.guests.values()}
        for _ in range(SLOTS):
            slot, self._slot = self._slot, (self._slot + 1) % SLOTS
            if slot not in busy:
                return slot
        raise LabError(f"a nested host has at most {SLOTS} guests")

    # ------------------------------------------------------ host memory

    def node_ids(self):
        return range(len(self.node_bytes))

    def node_free_2m(self, node):
        """Free 2 MiB blocks of a node, from buddyinfo."""
        return sum(n << (o - 9) for z in self.buddyinfo()
                   if z["node"] == node
                   for o, n in enumerate(z["free"]) if o >= 9)

    def node_meminfo(self, node):
        """/sys .../nodeN/meminfo -> {name: KiB}."""
        text = self.text(f"/sys/devices/system/node/node{node}/meminfo")
        rows = (s.split() for s in text.splitlines())
        return {w[2].rstrip(":"): int(w[3]) for w in rows if len(w) > 3}

    def pool(self, node, size="2M"):
        """A hugetlb pool of one node -> {'total', 'free', 'surplus'}."""
        base = self._pool_dir(node, size)
        out = self.check(f"cd {base} && cat nr_hugepages free_hugepages "
                         "surplus_hugepages").split()
        return dict(zip(("total", "free", "surplus"), map(int, out)))

    def pool_reserved(self, size="2M"):
        """Reserved huge pages; the kernel counts these for all nodes only."""
        return int(self.text("/sys/kernel/mm/hugepages/hugepages-"
                             f"{parse_size(size) >> 10}kB/resv_hugepages"))

    def set_pool(self, node, pages, size="2M"):
        """Resize a pool; less than was asked for is an error."""
        base = self._pool_dir(node, size)
        self.put(f"{base}/nr_hugepages", f"{pages}\n".encode())
        got = self.pool(node, size)["total"]
        if got != pages:
            raise LabError(f"node {node}: {pages} huge pages of {size} asked "
                           f"for, {got} were to be had")

    @staticmethod
    def _pool_dir(node, size):
        return (f"/sys/devices/system/node/node{node}/hugepages/hugepages-"
                f"{parse_size(size) >> 10}kB")

    def thp(self, name="enabled", value=None):
        """Read or set /sys/kernel/mm/transparent_hugepage/NAME."""
        path = f"/sys/kernel/mm/transparent_hugepage/{name}"
        if value is not None:
            self.put(path, f"{value}\n".encode())
        text = self.text(path)
        m = re.search(r"\[(\S+)\]", text)
        return m.group(1) if m else text.strip()

    def memory_of(self, pid):
        """Memory of a process by host node, from two independent readers."""
        return nodeview.read(self, pid)

    # ------------------------------------------------------ libvirt

    def start_libvirt(self, timeout=60):
        """virtlogd and libvirtd, until virsh answers."""
        if self.sh("pidof libvirtd")[0] == 0:
            return
        if self.init == "systemd":
            self.check("systemctl start libvirtd.service", timeout)
        else:
            self.check("mkdir -p /run/libvirt; virtlogd -d && libvirtd -d",
                       timeout)
        wait_for(lambda: self.sh("virsh -q list", timeout)[0] == 0, timeout,
                 "libvirtd", 0.3)

    def virsh(self, *args, timeout=60):
        return self.check("virsh -q " + " ".join(map(shlex.quote, args)),
                          timeout)


def port_name(slot, kind):
    return f"org.vmdefrag.l2.{kind}{slot}"
