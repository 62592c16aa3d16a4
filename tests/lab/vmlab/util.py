# SPDX-License-Identifier: GPL-2.0-or-later
"""Errors, paths, locks and the small helpers that every lab module needs."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LAB_DIR = ROOT / "tests" / "lab"


class LabError(Exception):
    """Something the person at the keyboard can read and act upon."""


class LabTimeout(LabError):
    """A deadline passed; what was seen until then is in `output`."""

    def __init__(self, text, output=b""):
        super().__init__(text)
        self.output = output


def build_dir():
    """Where built programs are: build/, or $VMDEFRAG_BUILD."""
    return Path(os.environ.get("VMDEFRAG_BUILD") or ROOT / "build")


def cache_dir():
    """Where downloads are kept between runs; created on first use."""
    path = os.environ.get("VMDEFRAG_CACHE")
    if not path:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        path = os.path.join(base, "vmdefrag")
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def locked(path):
    """Hold an exclusive flock on `path`: two labs may run at once."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def make_run_dir(prefix):
    """A new private folder -> (path, fd that marks it as in use).

    What a killed lab left behind is swept away: its mark is gone with it.
    """
    base = Path(os.environ.get("TMPDIR") or "/tmp")
    for old in base.glob(prefix + "*/.lock"):
        with contextlib.suppress(OSError), open(old, "rb") as f:
            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(old.parent, ignore_errors=True)
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
    # Locked before it has the name that others look for.
    fd = os.open(path / ".lock.new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC,
                 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.rename(path / ".lock.new", path / ".lock")
    return path, fd


def need(program, package):
    """Full path of a host program, or an error that names its package."""
    extra = os.pathsep.join(("/usr/sbin", "/sbin"))
    path = shutil.which(program, path=os.environ.get("PATH", os.defpath)
                        + os.pathsep + extra)
    if not path:
        raise LabError(f"{program} is not installed (Debian package "
                       f"{package}): apt-get install {package}")
    return path


def run_checked(cmd, what, timeout=600, **kwargs):
    """Run a host command; on failure raise with its last lines of output."""
    try:
        r = subprocess.run(cmd, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           timeout=timeout, **kwargs)
    except subprocess.TimeoutExpired as e:
        raise LabError(f"{what}: no end after {timeout} s") from e
    out = r.stdout.decode(errors="replace")
    if r.returncode:
        tail = "\n  ".join(out.strip().splitlines()[-8:])
        raise LabError(f"{what}: exit {r.returncode}\n  {tail}")
    return out


def parse_size(text, unit="M"):
    """'2G', '512M', '64K' or a number of `unit` -> bytes."""
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    s = str(text).strip().upper()
    if s.endswith("IB"):
        s = s[:-2]
    suffix = s[-1:] if s[-1:] in factor else unit
    digits = s[:-1] if s[-1:] in factor else s
    if not digits.isdigit() or int(digits) == 0:
        raise LabError(f"'{text}' is no size; write one like 512M or 4G")
    return int(digits) * factor[suffix]


def wait_for(predicate, timeout, what, interval=0.05):
    """Poll until predicate() is true; its value, or LabTimeout."""
    end = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() >= end:
            raise LabTimeout(f"{what}: not within {timeout:g} s")
        time.sleep(interval)


def is_static_elf(path):
    """True for an ELF program without an interpreter."""
    with open(path, "rb") as f:
        data = f.read(4096)
    if data[:4] != b"\x7fELF" or data[4] != 2:
        return False
    phoff = int.from_bytes(data[32:40], "little")
    size = int.from_bytes(data[54:56], "little")
    count = int.from_bytes(data[56:58], "little")
    types = [data[phoff + i * size: phoff + i * size + 4]
             for i in range(count)]
    return b"\x03\x00\x00\x00" not in types     # PT_INTERP


# Children are started by one thread that lives as long as the interpreter,
# because PR_SET_PDEATHSIG fires when the *thread* that forked is gone: a
# guest started in a worker thread would die with that thread.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="vmlab-spawn")


def popen_bound(cmd, **kwargs):
    """Popen whose child gets SIGKILL when this process dies, however."""
    cmd = [need("setpriv", "util-linux"), "--pdeathsig", "KILL", "--", *cmd]
    return _spawner.submit(subprocess.Popen, cmd, **kwargs).result()


def tail(text, lines=25):
    """The last lines of a log, indented for an error message."""
    return "\n".join("  | " + s for s in text.rstrip().splitlines()[-lines:])
