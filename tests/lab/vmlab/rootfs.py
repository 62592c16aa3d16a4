# SPDX-License-Identifier: GPL-2.0-or-later
"""The root file system of nested hosts: Debian with QEMU and libvirt.

Made once by debootstrap and kept in the cache as an ext4 image, which hosts
use with snapshot=on. Mirror, proxy and keyring are those of the machine's apt.

Cache: nested/root-<key>.img; the key is over format, suite and package list, so
that a finished image is never rewritten.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from . import kernels
from .util import LabError, cache_dir, locked, need, run_checked

FORMAT = 1

# What the tree is built on: vmdefragd is linked against this libc.
SUITE = "bookworm"
PACKAGES = (
    "qemu-system-x86", "libvirt-daemon-system", "libvirt-clients",
    "dbus", "systemd-sysv", "libpam-systemd", "numactl", "procps", "socat", "kmod",
    "libinih1", "libjansson4", "liburing2", "libcap-ng0", "libsystemd0",
    "libnuma1",
)
IMAGE_BYTES = 3 << 30           # sparse; guests' files go there, too
# Half of the installed size, and nothing reads them here.
USELESS = ("usr/share/doc", "usr/share/man", "usr/share/locale",
           "usr/share/info", "var/cache/apt", "var/lib/apt/lists")
DEBOOTSTRAP_S = 1800


def key():
    text = f"{FORMAT} {SUITE} " + " ".join(sorted(PACKAGES))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def path():
    return cache_dir() / "nested" / f"root-{key()}.img"


def get():
    """Path of the image; made first where it is missing."""
    final = path()
    if final.exists():
        return final
    with locked(final.with_suffix(".lock")):
        if not final.exists():
            _make(final)
    return final


def _make(final):
    if os.geteuid() != 0:
        raise LabError("making a nested host's root needs root")
    kernels.say(f"nested: making the hosts' root of {SUITE} (once)")
    with tempfile.TemporaryDirectory(prefix=".make-",
                                     dir=final.parent) as work:
        tree = Path(work) / "tree"
        _debootstrap(tree)
        _clean(tree)
        image = Path(work) / "root.img"
        with open(image, "wb") as f:
            f.truncate(IMAGE_BYTES)
        run_checked([need("mke2fs", "e2fsprogs"), "-q", "-F", "-t", "ext4",
                     "-O", "^has_journal", "-E",
                     "lazy_itable_init=0,lazy_journal_init=0",
                     "-d", str(tree), str(image)], "making the root image")
        os.rename(image, final)


def _proxy_env():
    """debootstrap fetches with wget, which does not ask apt."""
    out = subprocess.run([need("apt-config", "apt"), "shell", "P",
                          "Acquire::http::Proxy"], stdout=subprocess.PIPE,
                         check=True, timeout=30).stdout.decode()
    m = re.search(r"P='([^']+)'", out)
    return {"http_proxy": m.group(1)} if m and m.group(1) != "DIRECT" else {}


def _debootstrap(tree):
    uri, signed = kernels.source_for(SUITE)
    cmd = [need("debootstrap", "debootstrap"), "--variant=minbase",
           "--include=" + ",".join(PACKAGES)]
    keyring = signed.strip()
    if keyring.startswith("/"):
        cmd.append(f"--keyring={keyring}")
    run_checked(cmd + [SUITE, str(tree), uri], "debootstrap",
                timeout=DEBOOTSTRAP_S,
                env=dict(os.environ, LC_ALL="C", **_proxy_env()))


def _clean(tree):
    for d in USELESS:
        shutil.rmtree(tree / d, ignore_errors=True)
    (tree / "etc/hostname").write_text("labhost\n", encoding="ascii")
    (tree / "etc/fstab").write_text("", encoding="ascii")
    # A root that boots in seconds: nothing that waits for time or network.
    for unit in ("systemd-timesyncd.service", "apt-daily.timer",
                 "apt-daily-upgrade.timer", "e2scrub_all.timer",
                 "e2scrub_reap.service", "getty@.service", "fstrim.timer",
                 "dpkg-db-backup.timer", "libvirt-guests.service",
                 "libvirtd.service", "libvirtd.socket", "libvirtd-ro.socket",
                 "libvirtd-admin.socket", "virtlogd.socket",
                 "virtlockd.socket", "libvirtd.timer"):
        link = tree / "etc/systemd/system" / unit
        for wants in (tree / "etc/systemd/system").glob(f"*.wants/{unit}"):
            wants.unlink()
        if unit.startswith(("libvirt", "virt")):
            continue                # off, but to be started by hand
        link.unlink(missing_ok=True)
        link.symlink_to("/dev/null")
