#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of the lab itself, in TAP. Under a minute under emulation."""

import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from vmlab import procfs                                # noqa: E402
from vmlab.channel import HEADER, MAGIC, PUT            # noqa: E402
from vmlab.guest import Guest                           # noqa: E402
from vmlab.util import LabError, LabTimeout             # noqa: E402

FREE_MIB = 560      # of 1 GiB
KEYS = {"kernel", "workload_lines", "vmstat_delta", "cpu_ms",
        "kpageflags_words", "decisions", "exit", "accel", "boot_retries"}


def expect(value, wanted, what):
    if value != wanted:
        raise AssertionError(f"{what}: {value!r}, expected {wanted!r}")


def expect_error(call, kind, words):
    try:
        call()
    except kind as e:
        if words not in str(e):
            raise AssertionError(f"'{words}' is not in: {e}") from e
        return
    raise AssertionError(f"no {kind.__name__} was raised")


def lab(*args):
    r = subprocess.run([str(HERE / "lab"), *args], stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       timeout=120)
    return r.returncode, r.stdout.decode(errors="replace")


# ------------------------------------------------------------ in one guest

def test_exit_status(g):
    expect(g.sh("echo out; echo err >&2; exit 7"), (7, "out\nerr\n"), "sh")
    expect(g.sh("kill -9 $$"), (128 + 9, ""), "sh killed")


def test_binary_files(g):
    data = bytes(range(256)) * 3000 + MAGIC * 50
    g.put("/tmp/binary", data, 0o741)
    expect(g.get("/tmp/binary") == data, True, "file as it was written")
    expect(g.check("stat -c %a /tmp/binary"), "741\n", "mode")
    g.put("/tmp/empty", b"")
    expect(g.get("/tmp/empty"), b"", "empty file")
    expect_error(lambda: g.get("/nowhere"), LabError, "No such file")


def test_large_output(g):
    rc, out = g.sh("seq 1 400000")
    expect((rc, out == "".join(f"{i}\n" for i in range(1, 400001))),
           (0, True), "seq")


def test_timeout_kills(g):
    expect_error(lambda: g.sh("echo begun; sleep 987", timeout=1), LabTimeout,
                 "begun")
    time.sleep(0.2)
    expect(g.sh("ps | grep '[s]leep 987'"), (1, ""), "what is left of it")


def test_background(g):
    pid = g.spawn("sleep 0.3; echo over >/tmp/over")
    g.check(f"kill -0 {pid}; while [ ! -e /tmp/over ]; do sleep 0.1; done",
            timeout=10)
    # A pipe that is held open must not keep a finished command waiting.
    start = time.monotonic()
    g.check("sleep 30 & echo done")
    expect(time.monotonic() - start < 10, True, "returned at once")


def test_host_reconnects(g):
    """A lab that was killed in mid-frame must not confuse the next one."""
    channel = g._channel
    channel._sock.sendall(HEADER.pack(MAGIC, PUT, 1, 0o644, 100000) + b"x" * 9)
    channel.connect(10)
    expect(g.sh("echo again"), (0, "again\n"), "sh")
    channel._sock.sendall(os.urandom(5000))
    expect(g.sh("echo after noise"), (0, "after noise\n"), "sh")


def test_fragment(g):
    lines = [json.loads(s) for s in
             g.check(f"fragment --free-mib {FREE_MIB} --seed {g.seed}",
                     timeout=60).splitlines() if s.startswith("{")]
    after = lines[-1]
    off = abs(after["free_kib"] / 1024 / FREE_MIB - 1)
    if off > 0.05:
        raise AssertionError(f"free memory is off by {off:.1%}: {after}")
    if after["free_in_2m_pct"] > 10:
        raise AssertionError(f"not fragmented: {after}")


def test_compaction_gives_memory_back(g):
    # before it compacts: on a busy machine reporting is done by the time that
    # the guest answers
    start = g.rss_kib()
    before = g.free_2m_blocks()
    g.check("echo 1 >/sys/devices/system/node/node0/compact")
    after = g.free_2m_blocks()
    if after < before + 150:
        raise AssertionError(f"2 MiB blocks: {before}, compacted {after}")
    end = time.monotonic() + 60
    rss = g.rss_kib()
    while time.monotonic() < end and rss > start - 128 * 1024:
        time.sleep(0.5)
        rss = g.rss_kib()
    if rss > start - 128 * 1024:
        raise AssertionError(f"QEMU's RSS: {start} KiB, then {rss}")


def test_reboot(g):
    g.check("touch /tmp/first-life")
    g.reboot()
    expect(g.sh("ls /tmp/first-life")[0], 1, "a file of the first life")
    expect(g.sh("echo back"), (0, "back\n"), "sh")


def test_no_complaints(g):
    expect(g.kernel_complaints(), [], "the kernel's complaints")
    expect(g.stop(), 0, "QEMU's exit status")


IN_GUEST = [test_exit_status, test_binary_files, test_large_output,
            test_timeout_kills, test_background, test_host_reconnects,
            test_fragment, test_compaction_gives_memory_back, test_reboot,
            test_no_complaints]


# ------------------------------------------------------------ without

def test_run_json():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "out.json")
        rc, out = lab("run", "--kernel", "6.1", "--mem", "768M", "--steer",
                      "none", "--workload", "thpprobe", "--workload-args",
                      "--count 20", "--guest-sh", "echo prepared",
                      "--qemu-arg", "-device", "virtio-rng-pci",
                      "--json", path)
        expect(rc, 0, f"exit status, with {out}")
        with open(path, encoding="utf-8") as f:
            doc = json.load(f)
    expect(KEYS - set(doc), set(), "missing keys")
    expect(doc["exit"], {"guest": 0, "workload": 0, "agent": None,
                         "daemon": None}, "exit")
    expect(json.loads(doc["workload_lines"][0])["huge"], 20, "huge pages")
    expect(doc["vmstat_delta"]["thp_fault_alloc"] >= 20, True,
           "thp_fault_alloc")
    expect(set(doc["cpu_ms"]), {"kcompactd", "kswapd", "agent"}, "cpu_ms")


def test_clear_errors():
    cases = [
        (["run", "--kernel", "6.12", "--compact", "all", "--json", "x"],
         "needs --steer"),
        (["run", "--kernel", "6.12", "--workload-bin", "/nowhere", "--json",
          "x"], "no program at /nowhere"),
        (["run", "--kernel", "6.12", "--mem", "lots", "--json", "x"],
         "'lots' is no size"),
        (["run", "--kernel", "6.12", "--disk", "1G:vfat", "--json", "x"],
         "ext4 or"),
        (["fetch", "5.10"], "is not one of"),
    ]
    with tempfile.TemporaryDirectory() as d:
        for args, words in cases:
            args = [os.path.join(d, a) if a == "x" else a for a in args]
            rc, out = lab(*args)
            if rc != 1 or words not in out or "Traceback" in out:
                raise AssertionError(f"{args}: exit {rc}, {out}")


def test_buddyinfo_parser():
    text = ("Node 0, zone      DMA      1      0      0      0      0      0"
            "      0      0      1      1      3\n")
    zones = procfs.parse_buddyinfo(text)
    expect(zones[0]["zone"], "DMA", "zone")
    expect(procfs.free_2m_blocks(zones), 7, "2 MiB blocks")
    expect(procfs.free_pages(zones), 1 + 256 + 512 + 3 * 1024, "pages")


ALONE = [test_buddyinfo_parser, test_clear_errors, test_run_json]


class Tap:
    def __init__(self, count):
        print(f"1..{count}", flush=True)
        self.n = self.failed = 0

    def run(self, test, *args):
        name = test.__name__[len("test_"):].replace("_", " ")
        self.n += 1
        try:
            test(*args)
            print(f"ok {self.n} - lab: {name}", flush=True)
        except Exception:                               # noqa: BLE001
            self.failed += 1
            for line in traceback.format_exc().splitlines():
                print(f"# {line}")
            print(f"not ok {self.n} - lab: {name}", flush=True)


def no_guest(reason):
    def test_needs_guest(_):
        raise LabError(f"no guest: {reason}")
    return test_needs_guest


def main():
    tap = Tap(len(ALONE) + len(IN_GUEST))
    for test in ALONE:
        tap.run(test)
    g = Guest(kernel="6.12", mem="1G", seed=7)
    try:
        g.start()
        why = None
    except LabError as e:
        why = e
    try:
        for test in IN_GUEST:
            fail = no_guest(why)
            fail.__name__ = test.__name__
            tap.run(fail if why else test, g)
    finally:
        g.kill()
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
