# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's own programs: built here when make has not done so."""

import os

from .util import (LAB_DIR, ROOT, LabError, build_dir, is_static_elf, locked,
                   need, run_checked)

GUEST = ("labexec", "fragment", "thpprobe", "churn")
# The same for nested hosts, and where they go.
HOST = {"labexec": "/usr/local/lib/vmlab", "labrelay": "/usr/local/lib/vmlab",
        **{name: "/usr/local/bin" for name in
           ("fragment", "nodefrag", "nodemap", "collapse", "touchmem")}}
CFLAGS = ["-O2", "-Wall", "-Wextra"]


def _build(source, out):
    if out.exists() and out.stat().st_mtime >= source.stat().st_mtime:
        return out
    with locked(out.parent / ".lock"):
        if out.exists() and out.stat().st_mtime >= source.stat().st_mtime:
            return out
        temp = out.with_name(f".{out.name}.{os.getpid()}")
        cmd = [need("cc", "gcc"), *CFLAGS, "-static",
               "-o", str(temp), str(source)]
        run_checked(cmd, f"building {source.relative_to(ROOT)}")
        os.rename(temp, out)
    return out


def guest_program(name):
    """Path of build/lab/NAME, built if missing or older than its source."""
    return _build(LAB_DIR / "guest" / f"{name}.c", build_dir() / "lab" / name)


def probe_program(name):
    """Path of build/probe/NAME, likewise, from tests/probe."""
    return _build(ROOT / "tests" / "probe" / f"{name}.c",
                  build_dir() / "probe" / name)


def busybox():
    """The host's static busybox."""
    path = need("busybox", "busybox-static")
    if not is_static_elf(path):
        raise LabError(f"{path} is not static: apt-get install busybox-static")
    return path


def agent(path=None):
    """Path of the guest agent, checked to be something a guest can run."""
    path = path or os.environ.get("VMDEFRAG_AGENT") \
        or build_dir() / "guest-agent" / "vmdefrag-agent"
    if not os.path.exists(path):
        raise LabError(f"no guest agent at {path}: build it first (make), or "
                       f"name one in $VMDEFRAG_AGENT")
    if not is_static_elf(path):
        raise LabError(f"{path} is not a static x86-64 program; "
                       f"it could not run in the lab's guest")
    return path
