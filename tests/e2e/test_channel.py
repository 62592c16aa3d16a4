#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Foreign bytes on the channel: a fake guest for the daemon, a fake host for
the agent, which runs here on copies of a guest's /proc and /sys."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from vmtest import TOP, wire
from vmtest.control import answers_soon
from vmtest.fakes import FakeGuest, FakeHost
from vmtest.tap import Failed, Suite, check, equal, holds, within
from vmlab.daemon import Daemon
from vmlab.util import build_dir

AGENT = str(build_dir() / "guest-agent" / "vmdefrag-agent")
TREE = os.path.join(TOP, "tests", "data", "guest-6.12")
RECORDED = os.path.join(TOP, "tests", "data", "handshake", "v1.bin")
# The daemon does not listen to a guest for this long after its first
# violation; each one soon after it doubles the time.
PENALTY_S = 1
suite = Suite()


class World(contextlib.ExitStack):
    """A daemon with two fake guests: `bad` is ours, `good` behaves."""

    def __enter__(self):
        super().__enter__()
        self.dir = self.enter_context(tempfile.TemporaryDirectory())
        os.chmod(self.dir, 0o755)
        self.good = FakeGuest(self.dir + "/good.sock")
        self.callback(self.good.close)
        self.new_daemon()
        self._agents = 0
        return self

    def new_daemon(self):
        """Penalties grow: a case that ends in one wants a new daemon."""
        self.good.still()
        self.good.drop()
        if hasattr(self, "daemon"):
            self.daemon.__exit__(None, None, None)
            self.bad.close()
        self.bad = FakeGuest(self.dir + "/bad.sock")
        args = []
        for name in ("bad", "good"):
            args += ["--vm", f"name={name},channel={self.dir}/{name}.sock,"
                             f"mode=balanced"]
        self.daemon = Daemon(args=args + ["--report-interval", "200ms",
                                          "--lease", "5s"])
        self.daemon.start()
        self.good.live()
        self.bad.connect()
        self.daemon.wait_session("good")
        return self.bad

    def bystander(self):
        """The other guest has the session that it had, and is heard."""
        vm = self.daemon.vm_status("good")
        equal(vm["session"], "up", "the other guest's session")
        equal(vm["channel"]["sessions"], 1, "sessions of the other guest")
        check(vm["report_age_ms"] < 2000, "the other guest is not heard")

    def channel(self):
        return self.daemon.vm_status("bad")["channel"]

    def state(self):
        return self.daemon.vm_status("bad")["session"]

    def after_failure(self):
        said = self.daemon.log[-1500:]
        self.new_daemon()
        return said

    def __exit__(self, *exc):
        self.good.still()
        self.daemon.__exit__(None, None, None)
        self.bad.close()
        return super().__exit__(*exc)

    @contextlib.contextmanager
    def agent(self, *args):
        """The real agent on a copy of a guest's tree, and its fake host."""
        self._agents += 1
        d = f"{self.dir}/agent{self._agents}"
        shutil.copytree(TREE, d)
        node = d + "/sys/devices/system/node/node0"
        with open(node + "/compact", "w", encoding="ascii"):
            pass
        host = FakeHost(d + "/host.sock")
        with open(d + "/log", "wb") as log:
            p = subprocess.Popen(
                [AGENT, "--transport", f"unix:{d}/host.sock", "--run-dir",
                 d + "/run", "--proc", d + "/proc", "--sys", d + "/sys",
                 *args], stderr=log, stdin=subprocess.DEVNULL)
        host.dir, host.process, host.ended = d, p, False
        try:
            host.connect()
            yield host
            end_agent(host)
        except Exception as e:
            with open(d + "/log", encoding="utf-8") as f:
                raise Failed(f"{e!r}; the agent said:\n{f.read()[-1500:]}") \
                    from e
        finally:
            host.process.kill()
            host.process.wait()
            host.close()


def end_agent(host):
    if not host.ended:
        equal(host.process.poll(), None, "the agent ended by itself")
        host.process.send_signal(signal.SIGTERM)
        equal(host.process.wait(10), 0, "the agent's end on SIGTERM")
    host.ended = True


def knob(host, name):
    # A file is no knob: a shorter value would leave the tail of a longer one
    # standing, so tests write values of the same width.
    with open(f"{host.dir}/proc/sys/vm/{name}", encoding="ascii") as f:
        return f.read().strip()


def noise(n, seed=1):
    return random.Random(seed).randbytes(n)


# ---------------------------------------------------------------- the daemon

@suite.case("daemon: garbage before the handshake is skipped, and counted")
def _(w):
    g = w.bad
    g.peer.send(noise(20000) + b"VMDF" * 10)
    g.greet()
    g.report()
    within(5, lambda: w.state() == "up", "the session")
    counted = w.channel()["garbage_bytes"]
    check(counted >= 20000, f"garbage_bytes is {counted}")
    w.bystander()


@suite.case("daemon: a handshake in single bytes, and one cut in two, work")
def _(w):
    g = w.bad
    g.nonce += 1
    for b in wire.frame(wire.HELLO, wire.hello(g.nonce)):
        g.peer.send(bytes([b]))
    _, g.session, _ = g.peer.expect(wire.WELCOME)
    g.seq = 1
    data = wire.frame(wire.REPORT, wire.report(), 1, g.session)
    before = w.channel()["frames"]
    g.peer.send(data[:700])
    time.sleep(0.5)
    g.peer.send(data[700:])
    within(5, lambda: w.channel()["frames"] > before, "the report")
    equal(w.state(), "up", "the session")


def costs_session(w, send, why):
    """What @send does ends the session with a BYE that says why; after the
    penalty the guest can have a new one."""
    g = w.new_daemon()
    g.greet()
    g.report()
    within(5, lambda: w.daemon.vm_status("bad").get("report"), "a report")
    send(g)
    holds(g.expect_bye(wire.BYE_VIOLATION), why)
    status = w.daemon.vm_status("bad")
    equal(status["session"], "penalty", "the session's state")
    equal(status["channel"]["violations"], 1, "violations")
    holds(w.daemon.ctl("explain", "bad")[1], "not listened to", why)
    g.peer.expect(wire.SYNC, PENALTY_S + 8)
    g.greet()
    within(5, lambda: w.state() == "up", "a new session")
    w.bystander()


@suite.case("daemon: a wrong checksum of a body costs the session")
def _(w):
    costs_session(w, lambda g: g.send(wire.REPORT, wire.report(),
                                      body_crc=1), "no frame")


@suite.case("daemon: garbage within a session costs it")
def _(w):
    costs_session(w, lambda g: g.peer.send(noise(512)), "no frame")


@suite.case("daemon: an oversize frame costs the session, and no memory")
def _(w):
    def send(g):
        g.seq += 1
        g.peer.send(wire.frame(wire.REPORT, b"", g.seq, g.session,
                               length=1 << 31) + noise(4096))
    costs_session(w, send, "no frame")


@suite.case("daemon: a truncated message costs the session")
def _(w):
    costs_session(w, lambda g: g.send(wire.REPORT, wire.report()[:-9]), "")


@suite.case("daemon: a value out of range costs the session")
def _(w):
    body = bytearray(wire.report())
    body[24] = 7                            # psi_valid
    costs_session(w, lambda g: g.send(wire.REPORT, bytes(body)), "psi_valid")


@suite.case("daemon: a replayed frame costs the session")
def _(w):
    def send(g):
        g.send(wire.REPORT, wire.report())
        g.seq -= 1
        g.send(wire.REPORT, wire.report())
    costs_session(w, send, "sequence number")


@suite.case("daemon: a message that only the host may send costs the session")
def _(w):
    costs_session(w, lambda g: g.send(wire.ACTION, wire.action(1)),
                  "direction")


@suite.case("daemon: frames of an old session are dropped, and it asks anew")
def _(w):
    g = w.new_daemon()
    g.greet()
    old = g.session
    g.greet()
    check(g.session != old, "the same session id again")
    g.peer.send(wire.frame(wire.REPORT, wire.report(), 1, old))
    within(5, lambda: w.channel()["stale_frames"] == 1, "the count")
    equal(w.state(), "up", "the new session")


@suite.case("daemon: a replayed result is nothing that was asked for")
def _(w):
    g = w.new_daemon()
    g.greet()
    g.report()
    g.send(wire.RESULT, wire.result(1 << 40))
    g.report()
    within(5, lambda: w.channel()["frames"] >= 4, "the frames")
    equal(w.state(), "up", "the session")
    history = w.daemon.ctl_json("history", "bad")["history"]
    check(not any(e["kind"] == "result" for e in history),
          "a result of nothing is in the history")


@suite.case("daemon: unknown types and longer messages of a newer agent are "
            "served")
def _(w):
    g = w.new_daemon()
    g.greet(wire.hello(g.nonce + 1, ver=(1, 9), tail=b"more of it"))
    g.send(77, noise(100))
    g.send(wire.REPORT, wire.report() + b"a longer tail")
    within(5, lambda: w.channel()["unknown_frames"] == 1, "the count")
    within(5, lambda: w.daemon.vm_status("bad").get("report"), "the report")
    equal(w.state(), "up", "the session")


@suite.case("daemon: an agent without a common version is told the ranges")
def _(w):
    g = w.new_daemon()
    g.peer.send(wire.frame(wire.HELLO, wire.hello(ver=(7, 9))))
    holds(g.expect_bye(wire.BYE_VERSION), "7-9 there")
    equal(w.state(), "down", "the session")


@suite.case("daemon: the recorded handshake of version 1 is accepted")
def _(w):
    with open(RECORDED, "rb") as f:
        recorded = f.read()
    g = w.new_daemon()
    g.peer.send(recorded)
    _, g.session, body = g.peer.expect(wire.WELCOME)
    frames = wire.Frames().feed(recorded)
    equal(frames[0][0], wire.HELLO, "type of the recorded frame")
    equal(wire.decode_welcome(body)["nonce"],
          wire.decode_hello(frames[0][3])["nonce"], "nonce")
    equal(wire.decode_welcome(body)["version"], 1, "version")
    within(5, lambda: w.state() == "up", "the session")
    guest = w.daemon.vm_status("bad")["guest"]
    equal((guest["page_size"], guest["pmd_order"], guest["nodes"]),
          (4096, 9, 1), "what it said of the guest")


@suite.case("daemon: a flood costs the session; others and the control "
            "socket don't notice")
def _(w):
    g = w.new_daemon()
    g.greet()
    core = w.daemon.pids()["core"][0]
    flood = b"".join(wire.frame(wire.REPORT, wire.report(), i + 1, g.session)
                     for i in range(300))
    end = time.monotonic() + 3
    sent = 0
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            g.peer.sock.settimeout(0.05)
            sent += g.peer.sock.send(flood)
        answers_soon(w.daemon)
    check(w.channel()["rate_limited"] >= 1, "no rate limit was hit")
    w.bystander()
    with open(f"/proc/{core}/status", encoding="ascii") as f:
        rss = [int(s.split()[1]) for s in f if s.startswith("VmRSS")][0]
    check(rss < 16384, f"the core has {rss} KiB after {sent} bytes")
    equal(w.daemon.pids()["core"], [core], "the core's process")


@suite.case("daemon: a guest that greets without end and never reads costs "
            "nobody else")
def _(w):
    g = w.new_daemon()
    g.greet()
    # a HELLO each 10 ms, none of the answers read
    end = time.monotonic() + 2
    while time.monotonic() < end:
        g.nonce += 1
        with contextlib.suppress(OSError):
            g.peer.sock.settimeout(0.05)
            g.peer.sock.send(wire.frame(wire.HELLO, wire.hello(g.nonce)))
        time.sleep(0.01)
    w.bystander()
    equal(w.daemon.ctl("status")[0], 0, "status")


@suite.case("daemon: the channel is closed amid a frame; it comes back")
def _(w):
    g = w.new_daemon()
    g.greet()
    g.peer.send(wire.frame(wire.REPORT, wire.report(), 1, g.session)[:333])
    g.drop()
    g.connect()
    g.greet()
    within(5, lambda: w.state() == "up", "the session")
    equal(w.channel()["violations"], 0, "violations")
    w.bystander()


# ----------------------------------------------------------------- the agent

@suite.case("agent: garbage, broken and oversize frames cost nothing but a "
            "new handshake")
def _(w):
    with w.agent() as h:
        h.open()
        h.peer.send(noise(30000))
        h.open()
        h.send(wire.DIRECTIVE, wire.directive(1), body_crc=5)
        _, _, body = h.peer.expect(wire.BYE)
        equal(wire.decode_bye(body)[0], wire.BYE_VIOLATION, "reason")
        h.peer.send(wire.frame(wire.DIRECTIVE, b"", 9, h.session,
                               length=1 << 30))
        h.peer.send(wire.frame(wire.DIRECTIVE, noise(200), 9, h.session,
                               hdr_crc=1))
        body = h.open()
        check(wire.decode_report_head(body)["bad_frames"] >= 2,
              "bad frames are not counted")


@suite.case("agent: a truncated frame is given up; the next host is served")
def _(w):
    with w.agent() as h:
        h.open()
        h.peer.send(wire.frame(wire.DIRECTIVE, wire.directive(1), 2,
                               h.session)[:40])
        h.connect()
        h.open()


@suite.case("agent: a replayed directive costs the session and moves no knob")
def _(w):
    with w.agent() as h:
        h.open()
        h.send(wire.DIRECTIVE,
               wire.directive(5, {"compaction_proactiveness": 33}))
        h.report(match=lambda b: wire.decode_report_knobs(b)["managed"] == 1)
        equal(knob(h, "compaction_proactiveness"), "33", "the knob")
        h.seq -= 1
        h.send(wire.DIRECTIVE,
               wire.directive(6, {"compaction_proactiveness": 77}))
        _, _, body = h.peer.expect(wire.BYE)
        holds(wire.decode_bye(body)[1], "sequence")
        equal(knob(h, "compaction_proactiveness"), "33", "the knob")


@suite.case("agent: a replayed WELCOME and one with a foreign nonce are "
            "ignored")
def _(w):
    with w.agent() as h:
        h.open()
        h.peer.send(wire.frame(wire.WELCOME, wire.welcome(h.nonce), 1,
                               h.session))
        h.peer.send(wire.frame(wire.WELCOME, wire.welcome(h.nonce ^ 1), 1,
                               12345))
        h.peer.forget()
        h.report()
        h.report()


@suite.case("agent: frames of no session change nothing")
def _(w):
    with w.agent() as h:
        h.sync()
        h.session = 4711
        h.send(wire.DIRECTIVE,
               wire.directive(1, {"watermark_scale_factor": 99}))
        h.send(wire.ACTION, wire.action(1))
        h.open()
        equal(knob(h, "watermark_scale_factor"), "10", "the knob")


@suite.case("agent: values out of bounds are left out, the others held")
def _(w):
    with w.agent() as h:
        h.open()
        h.send(wire.DIRECTIVE, wire.directive(1, {
            "compaction_proactiveness": 101, "watermark_scale_factor": 3000,
            "watermark_boost_factor": 12345}))
        h.report(match=lambda b: wire.decode_report_knobs(b)["managed"])
        equal([knob(h, "compaction_proactiveness"),
               knob(h, "watermark_scale_factor"),
               knob(h, "watermark_boost_factor")], ["20", "10", "12345"],
              "knobs")


@suite.case("agent: a flood is survived; the newest directive holds")
def _(w):
    with w.agent() as h:
        h.open()
        for i in range(1, 2001):
            h.send(wire.DIRECTIVE, wire.directive(
                i, {"watermark_boost_factor": 10000 + i % 2}))
        h.peer.forget()
        h.report(match=lambda b: wire.decode_report_head(b)["directive_id"]
                 == 2000)
        check(knob(h, "watermark_boost_factor") in ("10000", "10001"),
              "the knob")
        with open(f"/proc/{h.process.pid}/status", encoding="ascii") as f:
            rss = [int(s.split()[1]) for s in f if s.startswith("VmRSS")][0]
        check(rss <= 3072, f"the agent has {rss} KiB")


@suite.case("agent: a host that does not read is no reason to grow or spin")
def _(w):
    with w.agent() as h:
        h.sync()
        h.welcome(interval_ms=100)
        time.sleep(1)
        for _ in range(3000):
            with contextlib.suppress(OSError):
                h.send(wire.ACTION, wire.action(1))     # each is answered
        time.sleep(1)
        with open(f"/proc/{h.process.pid}/status", encoding="ascii") as f:
            rss = [int(s.split()[1]) for s in f if s.startswith("VmRSS")][0]
        check(rss <= 3072, f"the agent has {rss} KiB")


@suite.case("agent: knobs go back when the lease ends, and at SIGTERM")
def _(w):
    with w.agent() as h:
        h.open()
        h.send(wire.DIRECTIVE, wire.directive(
            1, {"watermark_scale_factor": 55}, lease_ms=1500))
        within(5, lambda: knob(h, "watermark_scale_factor") == "55", "set")
        h.drop()
        _, took = within(5, lambda: knob(h, "watermark_scale_factor") == "10",
                         "put back at the lease's end")
        check(took > 0.8, f"put back after {took:.1f} s, before the lease")
        h.connect()
        h.open()
        h.send(wire.DIRECTIVE, wire.directive(
            2, {"watermark_boost_factor": 12345}))
        within(5, lambda: knob(h, "watermark_boost_factor") == "12345", "set")
        end_agent(h)
        equal(knob(h, "watermark_boost_factor"), "15000", "the knob")
        equal(os.listdir(h.dir + "/run"), ["lock"], "the run directory")


@suite.case("agent: a journal of another boot, and a broken one, are never "
            "replayed")
def _(w):
    for what in ("boot", "crc"):
        with w.agent() as h:
            h.open()
            h.send(wire.DIRECTIVE, wire.directive(
                1, {"watermark_scale_factor": 55}))
            within(5, lambda: knob(h, "watermark_scale_factor") == "55",
                   "set")
            h.process.kill()
            h.process.wait()
            d = h.dir
            journal = journal_path(d + "/run")
            if what == "boot":
                path = d + "/proc/sys/kernel/random/boot_id"
                with open(path, "w", encoding="ascii") as f:
                    f.write("00000000-1111-2222-3333-444444444444\n")
            else:
                with open(journal, "r+b") as f:
                    data = f.read().replace(b" 10 55 ", b" 11 55 ")
                    f.seek(0)
                    f.write(data)
            start_again(h)
            h.connect()
            h.open()
            equal(knob(h, "watermark_scale_factor"), "55",
                  f"the knob, with a wrong {what}")
            check(not os.path.exists(journal), "the journal is still there")


@suite.case("agent: an intact journal of this boot is replayed at the start")
def _(w):
    with w.agent() as h:
        h.open()
        h.send(wire.DIRECTIVE, wire.directive(
            1, {"watermark_scale_factor": 55,
                "watermark_boost_factor": 12345}))
        within(5, lambda: knob(h, "watermark_boost_factor") == "12345", "set")
        h.process.kill()
        h.process.wait()
        # one of them is somebody else's by now
        with open(h.dir + "/proc/sys/vm/watermark_boost_factor", "w",
                  encoding="ascii") as f:
            f.write("77777\n")
        start_again(h)
        h.connect()
        h.open()
        equal(knob(h, "watermark_scale_factor"), "10", "ours")
        equal(knob(h, "watermark_boost_factor"), "77777", "somebody else's")
        equal(os.listdir(h.dir + "/run"), ["lock"], "the run directory")


def journal_path(run):
    names = [n for n in os.listdir(run) if n != "lock"]
    equal(len(names), 1, f"files in the run directory beside the lock: "
                         f"{names}")
    return os.path.join(run, names[0])


def start_again(h):
    argv = h.process.args
    with open(h.dir + "/log", "ab") as log:
        h.process = subprocess.Popen(argv, stderr=log,
                                     stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(suite.run(World))
