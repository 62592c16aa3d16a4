# SPDX-License-Identifier: GPL-2.0-or-later
"""One QEMU guest: start, look at, run commands in, stop."""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from . import accel, initramfs, kernels, procfs, programs
from .channel import (CHUNK, GET, PUT, PUT_APPEND, RUN, Channel, ChannelLost)
from .qmp import Qmp
from .util import (LabError, LabTimeout, make_run_dir, need, parse_size,
                   popen_bound, run_checked, tail, wait_for)

AGENT_PORT = "org.vmdefrag.agent.0"
LAB_PORT = "org.vmdefrag.lab.0"
BOOT_TRIES = 3
SOCKET_PATH_MAX = 107

# What a kernel writes when something is wrong with it. Out of memory is not
# among these: a workload may want it.
COMPLAINT = re.compile(
    r"(kernel BUG at|BUG: |Oops[: ]|WARNING: |Kernel panic|general protection "
    r"fault|Bad page state|bad pmd|list_(add|del) corruption|blocked for more "
    r"than \d+ seconds|soft lockup|rcu: INFO: .* detected stalls|"
    r"Unable to handle|divide error|lab-init: FAILED)")
FATAL = re.compile(r"(Kernel panic|Oops[: ]|not syncing|end Kernel panic)")


class GuestDied(LabError):
    """QEMU ended, or the guest's kernel did."""


class Guest:
    """A guest that lives in a private folder; use as a context manager.

    Sizes are like '2G'. `disk` is 'SIZE:FS' (ext4 or xfs), `swap` a size.
    `agent` is True, False or the path of another agent binary.
    """

    def __init__(self, kernel="6.12", mem="2G", smp=2, numa=1, swap=None,
                 disk=None, agent=False, agent_args=(),
                 free_page_reporting=True, qemu_args=(), initrd_add=(),
                 seed=1, modules=(), cmdline="", shell=False,
                 boot_timeout=None, keep_dir=None):
        self.kernel = kernel
        self.mem_bytes = parse_size(mem)
        self.smp, self.numa, self.seed = int(smp), int(numa), int(seed)
        self.swap_bytes = parse_size(swap) if swap else 0
        self.disk = _parse_disk(disk)
        self.free_page_reporting = free_page_reporting
        self.boot_retries = 0
        self.boot_failures = []
        self.qemu_rc = None
        self._agent = None
        if agent:
            self._agent = programs.agent(None if agent is True else agent)
        self._agent_args = list(agent_args)
        self._qemu_args, self._add = list(qemu_args), list(initrd_add)
        self._modules, self._cmdline = list(modules), cmdline
        self._shell = shell
        if self.smp < 1 or self.numa < 1:
            raise LabError("--smp and --numa must be at least 1")
        self.accel, self._accel_args, self.accel_reason = accel.choose()
        slow = self.accel == "tcg"
        self._boot_timeout = boot_timeout or (120 if slow else 60)
        self._keep = keep_dir
        self.dir = self.console_path = None
        self._last_console = None
        self._proc = None
        self._qmp = None
        self._channel = None

    # ------------------------------------------------------ life

    def __enter__(self):
        if self._proc is None:
            self.start()
        return self

    def __exit__(self, kind, value, trace):
        self.kill()

    def start(self):
        """Boot until commands can be run; early deaths are retried."""
        self.kill()
        self._kernel_dir, self.meta = kernels.get(self.kernel)
        self.boot_retries, self.boot_failures = 0, []
        self._make_dir()
        try:
            self._make_files()
            while True:
                try:
                    self._boot()
                    return self
                except (GuestDied, LabTimeout) as e:
                    self.boot_failures.append(str(e).splitlines()[0])
                    self._end_qemu()
                    if len(self.boot_failures) >= BOOT_TRIES:
                        raise GuestDied(
                            f"guest {self.kernel} did not boot in "
                            f"{BOOT_TRIES} tries; the last:\n{e}") from e
                    self.boot_retries += 1
        except BaseException:
            self.kill()
            raise

    def _make_dir(self):
        self._last_console = None
        self.dir, self._dir_fd = make_run_dir("vmlab-")
        self.qmp_socket = self.dir / "qmp-daemon.sock"
        self.channel = self.dir / "agent.sock"
        self.console_path = self.dir / "console.log"
        if len(str(self.qmp_socket)) > SOCKET_PATH_MAX:
            raise LabError(f"{self.dir}: too long for unix sockets; set "
                           "TMPDIR to a shorter path")

    def _make_files(self):
        wanted = list(initramfs.BASE_MODULES) + self._modules
        settings = {"LAB_SWAP": "", "LAB_DISK_FS": "", "LAB_AGENT": "",
                    "LAB_AGENT_ARGS": " ".join(self._agent_args),
                    "LAB_SHELL": "1" if self._shell else ""}
        if self.swap_bytes or self.disk:
            wanted.append("virtio_blk")
        if self.swap_bytes:
            settings["LAB_SWAP"] = "1"
            _sparse(self.dir / "swap.img", self.swap_bytes)
        if self.disk:
            wanted.append(self.disk[1])
            settings["LAB_DISK_FS"] = self.disk[1]
            _mkfs(self.dir / "disk.img", *self.disk)
        if self._agent:
            settings["LAB_AGENT"] = "1"
        initramfs.build(self.dir / "initrd", self._kernel_dir, self.meta,
                        modules=wanted, settings=settings, agent=self._agent,
                        add=self._add)

    def _command(self):
        d = self.dir
        cmd = [need("qemu-system-x86_64", "qemu-system-x86"), "-nodefaults",
               "-no-user-config", "-display", "none", *self._accel_args,
               "-smp", f"{self.smp},{self._topology()}", "-m", f"{self.mem_bytes >> 20}M",
               *self._memory_args(),
               "-kernel", str(self._kernel_dir / "vmlinuz"),
               "-initrd", str(d / "initrd"),
               # A panic leaves the guest standing: the lab reads why.
               "-append", f"console=ttyS0 loglevel=5 panic=0 {self._cmdline}",
               "-device", "virtio-serial-pci,id=vser"]
        for name, path, port in (("lab", d / "lab.sock", LAB_PORT),
                                 ("agent", self.channel, AGENT_PORT)):
            cmd += ["-chardev", f"socket,id={name},path={path},server=on,"
                                "wait=off",
                    "-device", f"virtserialport,bus=vser.0,chardev={name},"
                               f"name={port},id=port-{name}"]
        for name, path in (("qmplab", d / "qmp-lab.sock"),
                           ("qmpdaemon", self.qmp_socket)):
            cmd += ["-chardev", f"socket,id={name},path={path},server=on,"
                                "wait=off",
                    "-mon", f"chardev={name},mode=control"]
        fpr = "on" if self.free_page_reporting else "off"
        cmd += ["-device", f"virtio-balloon-pci,id=balloon0,"
                           f"free-page-reporting={fpr}"]
        for name in ("swap", "disk"):
            img = d / f"{name}.img"
            if img.exists():
                cmd += ["-drive", f"if=none,id={name},file={img},format=raw,"
                                  "cache=unsafe",
                        "-device", f"virtio-blk-pci,drive={name},"
                                   f"serial=lab{name}"]
        if self._shell:
            cmd += ["-chardev", f"stdio,id=con,signal=off,logfile="
                                f"{self.console_path}"]
        else:
            cmd += ["-chardev", f"file,id=con,path={self.console_path},"
                                "append=on"]
        return cmd + ["-serial", "chardev:con"] + self._qemu_args

    def _topology(self):
        """A socket on two nodes makes the guest's kernel warn."""
        return ("sockets=1" if self.numa == 1 else "cores=1,threads=1")

    def _memory_args(self):
        """Anonymous memory always: THP and free-page reporting need it."""
        mib = self.mem_bytes >> 20
        if self.numa == 1:
            return ["-object", f"memory-backend-ram,id=ram0,size={mib}M",
                    "-machine", "pc,memory-backend=ram0"]
        args = ["-machine", "pc"]
        for n in range(self.numa):
            # Whole 2 MiB; the last node takes the remainder.
            size = (mib // self.numa) & ~1
            if n == self.numa - 1:
                size = mib - size * (self.numa - 1)
            first = n * self.smp // self.numa
            last = (n + 1) * self.smp // self.numa - 1
            cpus = f",cpus={first}-{last}" if last >= first else ""
            args += ["-object", f"memory-backend-ram,id=ram{n},size={size}M",
                     "-numa", f"node,nodeid={n}{cpus},memdev=ram{n}"]
        return args

    def _boot(self):
        self.console_path.unlink(missing_ok=True)
        started = time.monotonic()
        with open(self.dir / "qemu.log", "ab") as log:
            self._proc = popen_bound(
                self._command(), stderr=log, start_new_session=not self._shell,
                stdin=None if self._shell else subprocess.DEVNULL,
                stdout=None if self._shell else log)
        lab = self.dir / "lab.sock"
        qmp = self.dir / "qmp-lab.sock"
        wait_for(lambda: self._check_alive() or (lab.exists()
                                                 and qmp.exists()),
                 20, "QEMU's sockets")
        self._qmp = Qmp(qmp)
        self._channel = Channel(lab)
        self._connect(self._boot_timeout)
        self.boot_s = round(time.monotonic() - started, 2)

    def _connect(self, timeout):
        try:
            self._channel.connect(timeout, self._check_alive)
        except ChannelLost as e:
            self._check_alive(2)
            raise self._error(str(e)) from e
        except LabTimeout as e:
            raise LabTimeout(f"{e}; console:\n{tail(self.console)}") from e

    def _check_alive(self, wait=0.0):
        """Raise GuestDied if QEMU ended or the kernel reported its end."""
        if self._proc is None:
            raise GuestDied("the guest is not running")
        end = time.monotonic() + wait
        while self._proc.poll() is None:
            text = self.console
            if FATAL.search(text):
                time.sleep(0.5)     # let it finish what it has to say
                raise self._error("the guest's kernel died: "
                                  + "; ".join(self.kernel_complaints()[:3]))
            if time.monotonic() >= end:
                return
            time.sleep(0.05)
        raise self._error(f"QEMU ended with {self._proc.returncode}")

    def _error(self, text):
        qemu = _read_text(self.dir / "qemu.log").strip()
        more = f"\nQEMU said:\n{tail(qemu, 10)}" if qemu else ""
        return GuestDied(f"{text}{more}\nconsole:\n{tail(self.console)}")

    def stop(self, timeout=30):
        """Clean power-off; -> QEMU's exit status."""
        if self._proc is None:
            return self.qemu_rc
        self.spawn("cd /; swapoff -a; umount /mnt/disk; sync; poweroff -f")
        try:
            self.qemu_rc = self._proc.wait(timeout)
        except subprocess.TimeoutExpired:
            raise LabTimeout(f"the guest did not power off within {timeout} "
                             f"s; console:\n{tail(self.console)}") from None
        self._end_qemu()
        return self.qemu_rc

    def wait(self):
        """Until QEMU ends by itself (interactive use)."""
        self.qemu_rc = self._proc.wait()
        return self.qemu_rc

    def kill(self):
        """End it now, and remove its folder."""
        self._end_qemu()
        if self.dir and self.dir.exists():
            if self._keep:
                shutil.copytree(self.dir, self._keep, dirs_exist_ok=True,
                                ignore=shutil.ignore_patterns(
                                    "*.sock", "*.img", "initrd"))
            self._last_console = self.console
            shutil.rmtree(self.dir, ignore_errors=True)
            os.close(self._dir_fd)

    def _end_qemu(self):
        if self._channel:
            self._channel.close()
        if self._qmp:
            self._qmp.close()
        if self._proc:
            if self._proc.poll() is None:
                self._proc.kill()
            self.qemu_rc = self._proc.wait()
        self._proc = self._qmp = self._channel = None

    def reboot(self, timeout=None):
        """Reset the machine and wait until the lab is connected again."""
        self._channel.close()
        self.qmp("system_reset")
        # labexec of the old life may still answer: ask for a new boot id.
        time.sleep(0.2)
        self._connect(timeout or self._boot_timeout)

    # ------------------------------------------------------ commands

    def sh(self, cmd, timeout=60, on_output=None):
        """Run a shell command in the guest -> (rc, output as text).

        stdout and stderr come together. `on_output` gets bytes as they come.
        """
        rc, out = self._request(RUN, 0, cmd.encode(), timeout, on_output,
                                f"'{cmd}'")
        return rc, out.decode(errors="replace")

    def check(self, cmd, timeout=60, on_output=None):
        """sh() for commands that must succeed -> output."""
        rc, out = self.sh(cmd, timeout, on_output)
        if rc:
            raise LabError(f"in the guest: '{cmd}': exit {rc}\n{tail(out)}")
        return out

    def spawn(self, cmd):
        """Start a shell command in the background -> its pid there."""
        rc, out = self._request(RUN, 1, cmd.encode(), 20, None, f"'{cmd}'")
        if rc:
            raise LabError(f"in the guest: spawning '{cmd}': "
                           f"{os.strerror(-rc)}")
        return int(out)

    def put(self, path, data, mode=0o644):
        """Write a file in the guest."""
        head = path.encode() + b"\0"
        for at in range(0, max(len(data), 1), CHUNK):
            arg = mode | (PUT_APPEND if at else 0)
            rc, _ = self._request(PUT, arg, head + data[at:at + CHUNK], 60,
                                  None, f"writing {path}")
            if rc:
                raise LabError(f"in the guest: writing {path}: "
                               f"{os.strerror(-rc)}")

    def get(self, path):
        """Read a file of the guest -> bytes."""
        rc, out = self._request(GET, 0, path.encode(), 60, None,
                                f"reading {path}")
        if rc:
            raise LabError(f"in the guest: reading {path}: "
                           f"{os.strerror(-rc)}")
        return out

    def _request(self, kind, arg, payload, timeout, on_output, what):
        if self._channel is None:
            raise GuestDied("the guest is not running")
        try:
            return self._channel.request(kind, arg, payload, timeout,
                                         on_output, self._check_alive)
        except ChannelLost as e:
            self._check_alive(2)
            raise self._error(f"in the guest: {what}: {e}") from e
        except LabTimeout as e:
            self._check_alive()
            seen = e.output.decode(errors="replace")
            raise LabTimeout(f"in the guest: {what}: {e}; output:\n"
                             f"{tail(seen)}\nconsole:\n{tail(self.console)}",
                             e.output) from e

    def qmp(self, command, timeout=30, **args):
        return self._qmp.command(command, timeout, **args)

    # ------------------------------------------------------ agent

    def agent_pid(self):
        """Pid of the agent's main process in the guest, or None."""
        rc, out = self.sh("p=$(cat /run/agent.pid) && kill -0 $p && echo $p")
        return int(out) if rc == 0 else None

    def agent_exits(self):
        """Exit status of each agent that has ended so far."""
        return [int(s) for s in
                self.sh("cat /run/agent.exits 2>/dev/null")[1].split()]

    def agent_log(self):
        return self.sh("cat /run/agent.log 2>/dev/null")[1]

    def stop_agent(self, timeout=15):
        """SIGTERM, no restart -> its exit status."""
        before = len(self.agent_exits())
        self.put("/run/agent.norestart", b"")
        pid = self.agent_pid()
        if pid is None:
            return self.agent_exits()[-1] if before else None
        self.check(f"kill -TERM {pid}")
        wait_for(lambda: len(self.agent_exits()) > before, timeout,
                 "the agent's end after SIGTERM", 0.1)
        return self.agent_exits()[-1]

    # ------------------------------------------------------ looking

    def waited_s(self):
        """How long the thread of QEMU that had to wait most for a processor of
        this machine has waited: others run here, too."""
        return procfs.run_delay_s(self._proc.pid)

    @property
    def pid(self):
        return self._proc.pid if self._proc else None

    @property
    def console(self):
        """The serial log so far; still there after the end."""
        if self._last_console is not None:
            return self._last_console
        return _read_text(self.console_path).replace("\r", "")

    def kernel_complaints(self):
        """Lines with panics, oopses, BUGs, WARNINGs; [] is what you want."""
        return [s for s in self.console.splitlines() if COMPLAINT.search(s)]

    def rss_kib(self):
        """Host memory of the QEMU process."""
        return procfs.rss_kib(self.pid)

    def text(self, path):
        return self.get(path).decode(errors="replace")

    def vmstat(self):
        """/proc/vmstat -> {name: value}."""
        return procfs.parse_pairs(self.text("/proc/vmstat"))

    def meminfo(self):
        """/proc/meminfo -> {name: KiB}."""
        return procfs.parse_meminfo(self.text("/proc/meminfo"))

    def buddyinfo(self):
        """-> [{'node', 'zone', 'free': [blocks per order]}]."""
        return procfs.parse_buddyinfo(self.text("/proc/buddyinfo"))

    def free_2m_blocks(self):
        """Free memory in whole 2 MiB blocks, counted in those."""
        return procfs.free_2m_blocks(self.buddyinfo())

    def sysctl(self, name, value=None):
        """Read or write /proc/sys/...; the name with dots."""
        path = "/proc/sys/" + name.replace(".", "/")
        if value is not None:
            self.put(path, f"{value}\n".encode())
        return self.text(path).strip()

    def cpu_ms(self):
        """CPU time so far of kcompactd, kswapd (all nodes) and the agent
        with its children (None without one)."""
        out = self.check(
            "for p in /proc/[0-9]*; do read -r c <$p/comm || continue; "
            "case $c in kcompactd*|kswapd*) "
            "echo $c $(cat $p/schedstat);; esac; done 2>/dev/null; "
            "if [ -e /sys/fs/cgroup/agent/cpu.stat ]; then "
            "grep usage_usec /sys/fs/cgroup/agent/cpu.stat; fi")
        return procfs.parse_cpu_ms(out)


def _parse_disk(spec):
    if not spec:
        return None
    size, _, fs = spec.partition(":")
    if fs not in ("ext4", "xfs"):
        raise LabError(f"disk '{spec}' is not SIZE:ext4 or SIZE:xfs")
    return parse_size(size), fs


def _sparse(path, size):
    with open(path, "wb") as f:
        f.truncate(size)


def _mkfs(path, size, fs):
    _sparse(path, size)
    if fs == "ext4":
        # Everything now: lazy initialisation would run inside the test.
        cmd = [need("mkfs.ext4", "e2fsprogs"), "-q", "-F", "-E",
               "lazy_itable_init=0,lazy_journal_init=0", str(path)]
    else:
        # 6.1 does not know the newest on-disk features.
        cmd = [need("mkfs.xfs", "xfsprogs"), "-q", "-f", str(path)]
    run_checked(cmd, f"making {fs} of {size >> 20} MiB")


def _read_text(path):
    try:
        return Path(path).read_bytes().decode(errors="replace")
    except (OSError, TypeError):
        return ""
