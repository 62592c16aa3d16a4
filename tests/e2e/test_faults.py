#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What happens to a guest as a whole: short of memory, rebooted, gone.

SECONDS of standstill of QEMU are few here; tests/full has the 30 of it.
"""

import os
import re
import signal
import sys
import time

from vmtest import wire
from vmtest.control import answers_soon
from vmtest.fakes import FakeHost
from vmtest.real import RealGuest
from vmtest.tap import Suite, check, equal, holds, within

STOPPED_S = int(os.environ.get("VMTEST_STOPPED_S", "5"))
suite = Suite()


class World(RealGuest):
    def __init__(self):
        super().__init__(mem="512M")


def answers(w, seconds):
    """The daemon answers within 0.5 s, all the time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answers_soon(w.daemon)
        time.sleep(0.1)


@suite.case("less than 64 MiB free: compact is refused as low memory, by the "
            "daemon and by the agent")
def _(w):
    w.new_daemon()
    w.daemon.ctl("pause", "--all")
    min_free = w.guest.sysctl("vm.min_free_kbytes")
    try:
        w.guest.sysctl("vm.min_free_kbytes", 8192)
        # in steps, so that the last one is small
        w.guest.check(
            "mount -o remount,size=100% /dev/shm; i=0; while "
            "f=$(awk '/^MemFree/ {print int($2 / 1024)}' /proc/meminfo); "
            "[ $f -gt 52 ] && [ $i -lt 40 ]; do i=$((i + 1)); "
            "dd if=/dev/zero bs=1M count=$(((f - 50) / 2 + 1)) "
            ">>/dev/shm/fill 2>/dev/null; done",
            timeout=120)
        check(w.guest.meminfo()["MemFree"] < 64 << 10, "the guest's memory "
              "could not be filled")
        w.daemon.ctl("resume", "--all")
        within(10, lambda: w.daemon.vm_status("lab")["report"]["nodes"][0]
               ["free_kib"] < 64 << 10, "a report of it")
        before = w.compaction()
        rc, out, err = w.daemon.ctl("compact", "lab")
        equal(rc, 1, f"exit status ({out})")
        holds(err, "Too little free memory")
        # a host that asks all the same
        w.end_daemon()
        host = FakeHost(w.dir + "/unused.sock")
        host.attach(w.guest.channel)
        host.open()
        host.send(wire.DIRECTIVE, wire.directive(1 << 50))
        host.send(wire.ACTION, wire.action(1 << 50))
        _, _, body = host.peer.expect(wire.RESULT)
        host.close()
        result = wire.decode_result(body)
        equal((result["status"], result["why"]), (wire.REFUSED, 8),
              f"the agent's answer ({result['text']})")
        equal({k: v for k, v in w.compaction().items() if "scanned" in k},
              {k: v for k, v in before.items() if "scanned" in k},
              "pages scanned by compaction")
    finally:
        w.guest.sh("rm -f /dev/shm/fill")
        w.guest.sysctl("vm.min_free_kbytes", min_free)


@suite.case("a knob that the guest lacks is shown by name, and the rest goes "
            "on")
def _(w):
    w.guest.stop_agent()
    w.guest.check("mount -t tmpfs none /sys/kernel/mm/transparent_hugepage")
    try:
        rc, out = w.guest.sh("vmdefrag-agent --once")
        equal(rc, 0, "exit status of --once")
        missing = re.search(r'"knobs": \{.*?"missing": \[(.*?)\]', out, re.S)
        holds(missing.group(1), "thp_defrag")
        w.agent_starts()
        w.ensure_daemon()
        within(10, lambda: "no thp_defrag" in w.daemon.ctl(
            "explain", "lab")[1], "explain names it")
        check(w.daemon.vm_status("lab")["report"]["nodes"], "no report")
    finally:
        w.guest.sh("umount /sys/kernel/mm/transparent_hugepage")
        w.kill_agent()
        w.agent_starts()


@suite.case("a reboot of the guest: the session is back, nothing of the old "
            "boot is replayed")
def _(w):
    w.ensure_daemon()
    sessions = w.bystander()
    before = w.daemon.vm_status("lab")["channel"]["sessions"]
    old = w.guest.text("/proc/sys/kernel/random/boot_id")
    w.guest.reboot()
    check(w.guest.text("/proc/sys/kernel/random/boot_id") != old,
          "no reboot")
    within(20, lambda: w.session() == "up" and w.daemon.vm_status("lab")
           ["channel"]["sessions"] > before, "the session")
    w.served()
    equal(w.bystander(), sessions, "sessions of the other VM")
    equal(w.guest.agent_log().count("put back"), 0, "knobs put back")
    equal(w.guest.kernel_complaints(), [], "the guest's kernel")


@suite.case(f"QEMU stopped for {STOPPED_S} s: the daemon answers, the other "
            "VM does not notice, the session goes on")
def _(w):
    w.ensure_daemon()
    sessions = w.bystander()
    os.kill(w.guest.pid, signal.SIGSTOP)
    try:
        answers(w, STOPPED_S)
        w.daemon.ctl("explain", "lab")
        rc, _, err = w.daemon.ctl("compact", "lab", "--time", "1", timeout=30)
        equal(rc, 1, "compact of a VM that stands still")
        equal(w.bystander(), sessions, "sessions of the other VM")
    finally:
        os.kill(w.guest.pid, signal.SIGCONT)
    within(15, lambda: w.session() == "up" and w.daemon.vm_status("lab")
           ["report_age_ms"] < 1500, "fresh reports")
    rc, out, err = w.daemon.ctl("compact", "lab", timeout=60)
    equal(rc, 0, f"compact afterwards ({out}{err})")


@suite.case("QEMU killed amid a frame: the daemon answers, the other VM does "
            "not notice, a new QEMU has its session")
def _(w):
    w.ensure_daemon()
    sessions = w.bystander()
    w.guest.stop_agent()
    port = w.guest.check("readlink -f /dev/virtio-ports/"
                         "org.vmdefrag.agent.0").strip()
    half = wire.frame(wire.HELLO, wire.hello())[:50]
    w.guest.put("/tmp/half", half)
    before = w.daemon.vm_status("lab")["channel"]["bytes"]
    w.guest.check(f"cat /tmp/half >{port}")
    within(5, lambda: w.daemon.vm_status("lab")["channel"]["bytes"]
           >= before + 50, "half a frame at the daemon")
    w.guest.kill()
    answers(w, 3)
    check(w.session() != "up", "a session without QEMU")
    holds(w.daemon.ctl("explain", "lab")[1], "not open")
    equal(w.bystander(), sessions, "sessions of the other VM")
    w.new_guest()
    within(45, lambda: w.session() == "up", "the session with a new QEMU")


if __name__ == "__main__":
    sys.exit(suite.run(World))
