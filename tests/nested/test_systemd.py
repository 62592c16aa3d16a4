#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""vmdefragd as its unit on a host with systemd, a KVM guest served by it."""

import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import nestedtest
from nestedtest import TOP, expect, note

from vmlab.host import Host
from vmlab.hostdaemon import ROLES
from vmlab.kvmguest import KvmGuest
from vmlab.util import wait_for

UNIT = "vmdefragd.service"
CTL = "/usr/bin/vmdefragctl"
PROGRAMS = ("usr/sbin/vmdefragd", "usr/bin/vmdefragctl")


class Lab:
    def __init__(self, host, root):
        self.host, self.root, self.guest = host, root, None

    def ctl(self, *args):
        rc, out = self.host.sh(f"{CTL} --json " + " ".join(args), 60)
        return json.loads(out) if rc == 0 else None

    def vm(self):
        doc = self.ctl("status")
        return next((v for v in doc["vms"] if v["name"] == "a"), None) \
            if doc else None

    def pids(self):
        out = self.host.sh("ps -eo pid=,args= | grep '[v]mdefragd: '")[1]
        found = {}
        for line in out.splitlines():
            pid, _, title = line.strip().partition(" ")
            found.setdefault(title.split()[1], []).append(int(pid))
        return found

    def property(self, name):
        return self.host.check(
            f"systemctl show -P {name} {UNIT}").strip()

    def journal(self, lines=40):
        return self.host.sh(f"journalctl -u {UNIT} --no-pager -n {lines}")[1]


@contextlib.contextmanager
def lab():
    with tempfile.TemporaryDirectory() as d, \
            Host(nodes=["1G", "1G"], init="systemd") as host:
        subprocess.run(["make", "-s", "-C", str(TOP), "install-host",
                        f"DESTDIR={d}"], check=True, timeout=120)
        yield Lab(host, Path(d))


def test_install(x):
    """make install-host, sysusers, tmpfiles: the user and its folders"""
    for path in sorted(p for p in x.root.rglob("*") if p.is_file()):
        name = str(path.relative_to(x.root))
        there = f"/{name}"
        if name in PROGRAMS:
            x.host.push_program(path, there)
        else:
            x.host.push(path, there, path.stat().st_mode & 0o777)
    x.host.check("systemd-sysusers vmdefrag.conf && "
                 "systemd-tmpfiles --create vmdefrag.conf && "
                 "systemctl daemon-reload", 60)
    owner = x.host.check("stat -c '%U %a' /var/lib/vmdefrag").split()
    expect(owner == ["vmdefrag", "750"], f"/var/lib/vmdefrag: {owner}")


def test_start(x):
    """the unit starts with all of its restrictions, and serves a KVM guest"""
    x.host.check("mkdir -p /etc/vmdefrag/vmdefragd.conf.d")
    x.guest = KvmGuest(x.host, "a", node=1, mem="192M").start()
    x.host.put("/etc/vmdefrag/vmdefragd.conf.d/vms.conf",
               f"[vm a]\nChannel={x.guest.dir}/agent.sock\n"
               f"Qmp={x.guest.dir}/qmp-daemon.sock\nMode=balanced\n".encode())
    rc, out = x.host.sh(f"systemctl start vmdefragd.socket {UNIT}", 90)
    expect(rc == 0, f"{out}\n{x.journal()}")
    expect(x.property("ActiveState") == "active", x.journal())
    wait_for(lambda: (x.vm() or {}).get("session") == "up", 40,
             "the guest's session", 0.5)
    expect(sorted(x.pids()) == sorted(ROLES), f"processes: {x.pids()}")
    log = x.journal()
    expect("by uring" in log, f"no io_uring in the unit:\n{log}")
    for word in ("Cannot", "Failed", "refused", "without"):
        expect(word not in log, f"'{word}' in the journal:\n{log}")
    host = x.vm()["host"]
    expect(host.get("rss_kib", 0) > 50 << 10, f"QEMU as seen: {host}")
    note(f"{x.property('MemoryCurrent')} bytes in the unit's group")


def test_acts(x):
    """status for the group, actions for root, host knobs written"""
    x.guest.check("sysctl -w vm.compaction_proactiveness=0; "
                  "fragment --free-mib 80", 200)
    doc = wait_for(lambda: x.ctl("compact", "a", "--blocks", "8"), 30,
                   "a compaction", 2)
    expect(doc["ok"], f"{doc}")
    x.host.check("useradd -M looker; usermod -a -G vmdefrag looker", 30)
    rc, out = x.host.sh("setpriv --reuid=looker --regid=looker "
                        f"--init-groups {CTL} status")
    expect(rc == 0 and "a" in out, f"status for the group: {out}")
    rc, out = x.host.sh("setpriv --reuid=looker --regid=looker "
                        f"--init-groups {CTL} pause --all")
    expect(rc == 1 and "only root" in out, f"pause for the group: {out}")
    doc = x.ctl("compact-node", "0", "--blocks", "1")
    expect(doc and doc["ok"], f"compact-node: {doc}\n{x.journal()}")


def test_kills(x):
    """each process killed: it comes back, the unit stays up, a session too"""
    main = x.property("MainPID")
    for role in ROLES:
        before = x.pids()
        expect(before.get(role), f"no {role}: {before}")
        x.host.check(f"kill -9 {before[role][0]}")
        wait_for(lambda: x.pids().get(role) not in (None, before[role]), 20,
                 f"another {role}", 0.2)
        wait_for(lambda: (x.vm() or {}).get("session") == "up", 20,
                 f"the session after {role}", 0.2)
        now = x.property("MainPID")
        expect(now == main, f"{role}: the main process changed")


def test_reload(x):
    """reload takes over a new mode, keeps the session; a bad file is refused"""
    sessions = x.vm()["channel"]["sessions"]
    conf = "/etc/vmdefrag/vmdefragd.conf.d/vms.conf"
    x.host.check(f"sed -i s/balanced/density/ {conf}; "
                 f"systemctl reload {UNIT}", 30)
    wait_for(lambda: x.vm()["mode"] == "density", 10, "the new mode", 0.2)
    expect(x.vm()["channel"]["sessions"] == sessions, "a new session")
    x.host.check("echo '[policy]\nLeese=1s' "
                 ">/etc/vmdefrag/vmdefragd.conf.d/bad.conf; "
                 f"systemctl reload {UNIT}", 30)
    wait_for(lambda: "bad.conf" in x.journal(), 10, "words about bad.conf")
    expect(x.vm()["mode"] == "density" and x.vm()["session"] == "up",
           f"after a bad file: {x.vm()}")
    rc, out = x.host.sh(f"systemctl restart {UNIT}", 60)
    expect(rc != 0, "started with a bad configuration")
    x.host.check("rm /etc/vmdefrag/vmdefragd.conf.d/bad.conf; "
                 f"systemctl restart {UNIT}", 60)


def test_socket(x):
    """the control socket outlives the daemon, and starts it"""
    x.host.check(f"systemctl stop {UNIT}", 60)
    expect(x.property("Result") == "success", x.journal())
    x.host.check("test -S /run/vmdefrag/control.sock")
    expect(x.ctl("status"), f"not started by its socket\n{x.journal()}")
    wait_for(lambda: (x.vm() or {}).get("session") == "up", 40,
             "the session", 0.5)


def test_stop(x):
    """all ends as it should"""
    x.host.check(f"systemctl stop {UNIT} vmdefragd.socket", 60)
    expect(not x.pids(), f"left: {x.pids()}")
    expect(x.guest.stop() == 0, "QEMU's exit status")
    expect(not x.host.kernel_complaints(), f"{x.host.kernel_complaints()}")
    expect(x.host.stop() == 0, "the host's exit status")


TESTS = [test_install, test_start, test_acts, test_kills, test_reload,
         test_socket, test_stop]

if __name__ == "__main__":
    sys.exit(nestedtest.main(TESTS, lab))
