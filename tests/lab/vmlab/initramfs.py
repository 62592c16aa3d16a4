# SPDX-License-Identifier: GPL-2.0-or-later
"""Build the initramfs of one guest: busybox, modules, programs, settings."""

import os
import shlex
import subprocess
from pathlib import Path

from . import programs
from .cpio import Archive
from .util import LAB_DIR, LabError

BASE_MODULES = ["virtio_pci", "virtio_console", "virtio_balloon"]


def module_order(meta, wanted):
    """Modules to load, each after what it needs; built-in ones are left out."""
    order = []

    def visit(name, path):
        if name in order or name not in meta["modules"]:
            return
        if name in path:
            raise LabError(f"modules need each other: {path + [name]}")
        for dep in meta["modules"][name]:
            visit(dep, path + [name])
        order.append(name)

    for name in wanted:
        if name in meta["absent"]:
            raise LabError(f"kernel {meta['release']} has no {name}")
        visit(name, [])
    return order


def _applets(busybox):
    out = subprocess.run([busybox, "--list"], check=True,
                         stdout=subprocess.PIPE, timeout=10).stdout
    return out.decode().split()


def _add_extra(archive, spec):
    """FILE:PATH; a static program keeps its executable bit."""
    src, sep, dst = spec.rpartition(":")
    if not sep or not src or not dst.startswith("/"):
        raise LabError(f"'{spec}' is not FILE:PATH with an absolute PATH")
    try:
        data = Path(src).read_bytes()
    except OSError as e:
        raise LabError(f"cannot read {src}: {e.strerror}") from e
    mode = 0o755 if os.access(src, os.X_OK) else 0o644
    archive.file(dst, data, mode)


def build(out, kernel_dir, meta, *, modules, settings, agent=None, add=(),
          init="init", tools=programs.GUEST):
    """Write the archive to `out`, uncompressed: unpacking costs guest time.

    `init` names the script below guest/ that is PID 1, `tools` the programs of
    ours that go to /bin.
    """
    a = Archive()
    for d in ("dev", "proc", "sys", "mnt", "root", "etc"):
        a.mkdir(d)
    a.char_device("dev/console", 5, 1)
    a.char_device("dev/null", 1, 3, 0o666)
    box = programs.busybox()
    a.file("bin/busybox", Path(box).read_bytes(), 0o755)
    for name in _applets(box):
        if name != "busybox":
            a.symlink(f"bin/{name}", "busybox")
    a.symlink("sbin", "bin")
    a.file("init", (LAB_DIR / "guest" / init).read_bytes(), 0o755)
    a.file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"
                         "nobody:x:65534:65534:nobody:/:/bin/false\n")
    a.file("etc/group", "root:x:0:\nnogroup:x:65534:\n")
    a.file("etc/os-release", 'ID=vmdefrag-lab\nNAME="vmdefrag lab guest"\n')
    order = module_order(meta, modules)
    for name in order:
        a.file(f"lib/modules/{name}.ko",
               (kernel_dir / "modules" / f"{name}.ko").read_bytes())
    for name in tools:
        a.file(f"bin/{name}", programs.guest_program(name).read_bytes(), 0o755)
    if agent:
        a.file("bin/vmdefrag-agent", Path(agent).read_bytes(), 0o755)
    settings = dict(settings, LAB_MODULES=" ".join(order))
    a.file("etc/lab.conf", "".join(f"{k}={shlex.quote(str(v))}\n"
                                   for k, v in settings.items()))
    for spec in add:
        _add_extra(a, spec)
    Path(out).write_bytes(a.finish())
