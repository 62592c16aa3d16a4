#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The control socket and vmdefragctl, with a fake guest behind the daemon."""

import contextlib
import grp
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

from vmtest import wire
from vmtest.control import Client, answers_soon
from vmtest.fakes import FakeGuest
from vmtest.tap import Failed, Suite, check, equal, holds, within
from vmlab.daemon import Daemon
from vmlab.util import build_dir

CTL = str(build_dir() / "daemon" / "vmdefragctl")
CLIENTS_MAX = 32                    # daemon/control.h
LINE_MAX = 4096
STRANGER = 4242                     # a uid and gid that nobody has
GROUP = "games"                     # any but the daemon user's own
ALL = 0xFFFFFFFF                     # ACTION_BLOCKS_ALL
suite = Suite()


class World(contextlib.ExitStack):
    def __enter__(self):
        super().__enter__()
        self.dir = self.enter_context(tempfile.TemporaryDirectory())
        os.chmod(self.dir, 0o755)
        self.guest = FakeGuest(self.dir + "/guest.sock")
        self.callback(self.guest.close)
        self.guest.live()
        vm = f"name=web1,channel={self.dir}/guest.sock,mode=balanced"
        other = f"name=gone,channel={self.dir}/none.sock"
        self.daemon = self.enter_context(Daemon(args=[
            "--vm", vm, "--vm", other, "--report-interval", "200ms",
            "--lease", "5s", "--group", GROUP]))
        self.daemon.wait_session("web1")
        within(5, lambda: self.daemon.vm_status("web1").get("report"),
               "a report")
        return self

    def alive(self):
        """It answers at once, and the guest's session is what it was."""
        answers_soon(self.daemon)
        vm = self.daemon.vm_status("web1")
        equal((vm["session"], vm["channel"]["sessions"]), ("up", 1),
              "the session")

    def as_user(self, uid, gid, groups, *args):
        r = subprocess.run([CTL, "--socket", str(self.daemon.socket), *args],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=20, user=uid,
                           group=gid, extra_groups=groups)
        return r.returncode, r.stdout.decode(), r.stderr.decode()

    def after_failure(self):
        self.guest.answer_actions = True
        self.daemon.ctl("resume", "--all")
        return self.daemon.log[-1500:]


def replay(path, *args):
    r = subprocess.run([CTL, "replay", path, *args], timeout=20,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE)
    return r.returncode, r.stdout.decode(), r.stderr.decode()


@suite.case("40 clients at once: those beyond the bound are told so, and "
            "slots come back")
def _(w):
    clients = [Client(w.daemon) for _ in range(40)]
    answers = []
    for c in clients:
        with contextlib.suppress(OSError):
            c.send(b'{"cmd":"dump-config"}\n')
        answers.append(c.line())
    ok = sum(1 for a in answers if a["ok"])
    equal(ok, CLIENTS_MAX, "clients served")
    for a in answers:
        if not a["ok"]:
            holds(a["error"], "too many")
    rc, _, err = w.daemon.ctl("status")
    equal(rc, 1, "vmdefragctl's exit status while all slots are taken")
    holds(err, "too many")
    for c in clients:
        c.close()
    within(5, lambda: w.daemon.ctl("status")[0] == 0, "a free slot")
    w.alive()


@suite.case("a core that stands still is replaced, and the session is back")
def _(w):
    with Daemon(args=["--vm", f"name=web3,channel={w.dir}/third.sock",
                      "--report-interval", "200ms"]) as d:
        guest = FakeGuest(w.dir + "/third.sock").live()
        try:
            d.wait_session("web3")
            core = d.pids()["core"]
            d.kill("core", signal.SIGSTOP)
            within(30, lambda: d.pids()["core"] not in ([], core),
                   "another core")
            d.wait_session("web3")
            holds(d.log, "has not turned its loop")
        finally:
            guest.close()


@suite.case("record and replay: the same decisions again, other ones with "
            "another configuration")
def _(w):
    path = w.dir + "/web1.rec"
    vm = f"name=web2,channel={w.dir}/late.sock,mode=balanced"
    with Daemon(args=["--vm", vm, "--report-interval", "200ms"]) as d:
        with subprocess.Popen([CTL, "--socket", str(d.socket), "record",
                               "web2", path],
                              stdout=subprocess.PIPE) as p:
            # before the agent: so the policy knows no more than the recording
            within(5, lambda: os.path.getsize(path) > 0
                   if os.path.exists(path) else 0, "the header")
            guest = FakeGuest(w.dir + "/late.sock")
            # one block where ten are to be kept
            guest.report_body = wire.report(free_blocks=[
                40000, 20000, 4000, 1000, 200, 50, 10, 5, 2, 1, 0])
            try:
                guest.live()
                within(20, lambda: guest.actions, "an action")
                within(5, lambda: d.vm_status("web2")["decision"], "decisions")
                time.sleep(1)
            finally:
                p.send_signal(signal.SIGINT)
                out, _ = p.communicate(timeout=10)
                guest.close()
        equal(p.returncode, 0, f"record's exit status ({out})")
    lines = open(path, encoding="ascii").read().splitlines()
    holds(lines[0], '"recording":1', '"vm":"web2"')
    rc, out, err = replay(path, "--json")
    equal(rc, 0, f"replay's exit status ({err})")
    doc = json.loads(out)
    check(doc["decides"] > 5 and doc["actions"] >= 1, f"hardly any: {doc}")
    check(doc["recorded_decisions"], "none was recorded")
    equal(doc["same_decisions"], doc["recorded_decisions"], "the same again")
    # a policy that must not act
    equal(json.loads(replay(path, "--json", "--mode", "off")[1])["actions"],
          0, "actions in mode off")
    conf = w.dir + "/other.conf"
    with open(conf, "w", encoding="ascii") as f:
        f.write("[policy]\nMode=balanced\nReserveMinPercent=0\n"
                "ReserveMaxPercent=0\n")
    doc = json.loads(replay(path, "--json", "--config", conf)[1])
    equal(doc["actions"], 0, "actions with no reserve")
    holds(replay(path)[1], "actions for", "reserve_blocks=")
    # bad input: what, where
    rc, _, err = replay(path + ".none")
    equal(rc, 1, "a file that is not there")
    bad = w.dir + "/bad.rec"
    with open(bad, "w", encoding="ascii") as f:
        f.write(lines[0] + "\n" + lines[1][:40] + "\n")
    rc, _, err = replay(bad)
    equal(rc, 1, "exit status for a broken line")
    holds(err, "bad.rec:2:", "JSON")
    with open(bad, "w", encoding="ascii") as f:
        f.write("\n".join(lines[:4]) + "\n" + lines[4][:40])
    rc, _, err = replay(bad)
    equal(rc, 0, f"a recording that was cut off ({err})")
    holds(err, "cut off")
    rc, _, err = w.daemon.ctl("record", "web1", path)
    equal(rc, 1, "a file that exists")
    holds(err, "never overwritten")
    w.alive()


@suite.case("half requests: nobody waits for their rest")
def _(w):
    with contextlib.ExitStack() as stack:
        halves = [stack.enter_context(Client(w.daemon)) for _ in range(8)]
        for c in halves:
            c.send(b'{"cmd":"sta')
        w.alive()
        for c in halves:
            c.send(b'tus"}\n')
            equal(c.line()["ok"], True, "the answer to the whole")


@suite.case("garbage is answered in words, and the connection stays of use")
def _(w):
    rows = [b"hello\n", b"\n", b"{}\n", b"[]\n", b"17\n", b'{"cmd":3}\n',
            b'{"cmd":"fly"}\n', b'{"cmd":"status","cmd":"status"}\n',
            b'{"cmd":"explain"}\n', b'{"cmd":"explain","vm":"nobody"}\n',
            b'{"cmd":"compact","vm":"web1","blocks":0}\n',
            b'{"cmd":"compact","vm":"web1","blocks":-1}\n',
            b'{"cmd":"compact","vm":"web1","blocks":1.5}\n',
            b'{"cmd":"compact","vm":"web1","time_ms":1}\n',
            b'{"cmd":"compact","vm":"web1","backend":"magic"}\n',
            b'{"cmd":"cancel"}\n', b'{"cmd":"pause","vm":"nobody"}\n',
            b'\x00\xff\xfe\n', b'{"cmd":"st\x00atus"}\n',
            b'[' * 4000 + b'\n', b'"\\ud800"\n']
    with Client(w.daemon) as c:
        for row in rows:
            c.send(row)
            answer = c.line()
            equal(answer["ok"], False, f"ok for {row[:60]!r}")
            check(answer["error"], f"no words about {row[:60]!r}")
        equal(c.ask(cmd="status")["ok"], True, "a sound request after these")
    w.alive()


@suite.case("a line without end is refused at its bound")
def _(w):
    with Client(w.daemon) as c:
        c.send(b"x" * (LINE_MAX + 1))
        answer = c.line()
        holds(answer["error"], str(LINE_MAX))
        check(c.ended(), "the connection is still open")
    w.alive()


@suite.case("a client that does not read is dropped at its bound, and costs "
            "nobody time")
def _(w):
    core = w.daemon.pids()["core"][0]
    with Client(w.daemon) as c:
        c.sock.settimeout(0.2)
        request = b'{"cmd":"status"}\n' * 200
        sent, end = 0, time.monotonic() + 20
        try:
            while time.monotonic() < end:
                try:
                    sent += c.sock.send(request)
                except socket.timeout:
                    pass
                answers_soon(w.daemon)
            raise Failed(f"not dropped after {sent} bytes of requests")
        except (BrokenPipeError, ConnectionResetError):
            pass
    w.alive()
    equal(w.daemon.pids()["core"], [core], "the core's process")


def compacting(w):
    """Start a compaction that the guest will not end -> the client."""
    w.guest.answer_actions = False
    w.guest.actions.clear()
    w.guest.cancels.clear()
    c = Client(w.daemon)
    c.send(b'{"cmd":"compact","vm":"web1"}\n')
    equal(c.line().get("event"), "started", "the first event")
    within(5, lambda: w.guest.actions, "the action in the guest")
    return c


def idle(w):
    w.guest.answer_actions = True
    within(5, lambda: "action" not in w.daemon.vm_status("web1"),
           "the end of the action")


@suite.case("a disconnect during compact cancels it in the guest")
def _(w):
    c = compacting(w)
    c.close()
    within(3, lambda: w.guest.cancels, "CANCEL in the guest")
    idle(w)


@suite.case("cancel is for the client that asked; a second compact is "
            "refused as busy")
def _(w):
    with compacting(w) as c:
        with Client(w.daemon) as other:
            holds(other.ask(cmd="cancel")["error"], "nothing")
            holds(other.ask(cmd="compact", vm="web1")["error"], "under way")
        check(not w.guest.cancels, "another client's cancel got through")
        c.send(b'{"cmd":"cancel"}\n')
        events = [c.line()]
        while not events[-1].get("done"):
            events.append(c.line())
        equal(events[-1]["ok"], False, "the last event")
        holds(events[-1]["error"], "cancel")
    idle(w)


@suite.case("Ctrl-C of vmdefragctl compact cancels, waits for the result and "
            "says it")
def _(w):
    w.guest.answer_actions = False
    w.guest.cancels.clear()
    with subprocess.Popen([CTL, "--socket", str(w.daemon.socket), "compact",
                           "web1"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as p:
        holds(p.stdout.readline().decode(), "started")
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=10)
    equal(p.returncode, 1, "exit status")
    holds(err.decode(), "cancelling", "cancelled")
    holds(out.decode(), "cancelled")
    check(w.guest.cancels, "no CANCEL in the guest")
    idle(w)


@suite.case("compact while the daemon's own action runs: that one makes way")
def _(w):
    calm = w.guest.report_body
    w.guest.answer_actions = False
    w.guest.actions.clear()
    w.guest.cancels.clear()
    w.guest.report_body = wire.report(
        free_blocks=[60000, 30000, 10000, 3000, 500, 100, 20, 10, 4, 0, 0])
    try:
        within(20, lambda: w.guest.actions, "an action of the daemon's own")
        check(w.guest.actions[0]["blocks"] < ALL, "the wrong action")
        w.guest.answer_actions = True
        rc, out, err = w.daemon.ctl("compact", "web1", timeout=30)
        equal(rc, 0, f"exit status ({out}{err})")
        equal(w.guest.cancels, [w.guest.actions[0]["id"]], "cancelled")
        equal(w.guest.actions[1]["blocks"], ALL, "the second action")
    finally:
        w.guest.report_body = calm
    idle(w)


@suite.case("SIGTERM of the daemon tells guests to put their knobs back")
def _(w):
    within(10, lambda: w.guest.directives and w.guest.directives[-1]["mask"],
           "knobs held")
    equal(w.daemon.stop(), 0, "exit status")
    within(2, lambda: not w.guest.directives[-1]["mask"],
           "a last directive that holds nothing")
    equal(w.guest.directives[-1]["quiet"], 1, "quiet")
    w.daemon.start()
    w.daemon.wait_session("web1")
    within(5, lambda: w.daemon.vm_status("web1").get("report"), "a report")


@suite.case("the session ends during compact: its client is told")
def _(w):
    with compacting(w) as c:
        w.guest.still()
        w.guest.drop()
        w.guest.live()
        events = [c.line()]
        while not events[-1].get("done"):
            events.append(c.line())
        holds(events[-1]["error"], "session")
    idle(w)
    within(10, lambda: w.daemon.vm_status("web1")["session"] == "up",
           "the session")
    w.guest.close()
    w.guest = FakeGuest(w.dir + "/guest.sock").live()
    w.callback(w.guest.close)
    within(40, lambda: w.daemon.vm_status("web1")["session"] == "up",
           "the session")


@suite.case("who is not in the group is refused, and told who may")
def _(w):
    rc, out, err = w.as_user(STRANGER, STRANGER, [], "status")
    equal((rc, out), (3, ""), "exit status and output")
    holds(err, "Permission denied", "group")


@suite.case("a member of the group may look, and change nothing")
def _(w):
    gid = grp.getgrnam(GROUP).gr_gid
    for words in (["status"], ["explain", "web1"], ["history", "web1"],
                  ["dump-config"], ["top", "--turns", "1"]):
        rc, out, err = w.as_user(STRANGER, STRANGER, [gid], *words)
        equal((rc, err), (0, ""), f"{words}")
    w.guest.actions.clear()
    for words in (["compact", "web1"], ["pause", "web1"], ["pause", "--all"],
                  ["resume", "--all"]):
        rc, out, err = w.as_user(STRANGER, STRANGER, [gid], *words)
        equal(rc, 1, f"exit status of {words}")
        holds(err, "only root")
    check(not w.guest.actions, "the guest was asked to act")
    equal(w.daemon.vm_status("web1")["paused"], False, "paused")


@suite.case("status, explain, history, dump-config: a table for people, JSON "
            "with --json")
def _(w):
    rows = [(["status"], ["web1", "gone"], "vms"),
            (["explain", "web1"], ["agent 0.1.0"], "lines"),
            (["explain", "gone"], ["not open"], "lines"),
            (["history", "web1"], ["session up"], "history"),
            (["dump-config"], ["[vm web1]", "Lease=5s"], "text")]
    for words, parts, key in rows:
        rc, out, err = w.daemon.ctl(*words)
        equal((rc, err), (0, ""), f"{words}")
        holds(out, *parts)
        check("\033" not in out, f"{words}: escape sequences in a pipe")
        check("{" not in out.replace("{}", ""), f"{words}: JSON in the table")
        doc = w.daemon.ctl_json(*words)
        check(doc["ok"] is True and doc[key], f"--json {words}: {doc}")


@suite.case("top --turns 2 into a pipe prints plain text, twice")
def _(w):
    rc, out, err = w.daemon.ctl("top", "--turns", "2")
    equal((rc, err), (0, ""), "exit status, errors")
    check("\033" not in out, "escape sequences in a pipe")
    lines = out.splitlines()
    equal(sum("web1" in s and "up" in s for s in lines) >= 2, True,
          f"two turns in: {out}")
    rc, out, _ = w.daemon.ctl("--json", "top", "--turns", "2")
    equal([json.loads(s)["ok"] for s in out.splitlines()], [True, True],
          "a line of JSON each turn")


@suite.case("top on a terminal refreshes in place, and q ends it")
def _(w):
    pid, fd = pty.fork()
    if not pid:
        os.execv(CTL, [CTL, "--socket", str(w.daemon.socket), "top"])
    seen, end, asked = b"", time.monotonic() + 10, False
    while time.monotonic() < end:
        if select.select([fd], [], [], 0.2)[0]:
            try:
                seen += os.read(fd, 65536)
            except OSError:
                break
        if seen.count(b"\033[H") >= 2 and not asked:
            os.write(fd, b"q")
            asked = True
    os.close(fd)
    if not asked:
        os.kill(pid, signal.SIGKILL)
    equal(os.waitpid(pid, 0)[1], 0, "its exit status")
    check(seen.count(b"\033[H") >= 2, "not refreshed in place")


@suite.case("vmdefragctl: wrong words are usage (2), no daemon is 3, a "
            "refusal is 1")
def _(w):
    rows = [([], 2), (["fly"], 2), (["explain"], 2), (["pause"], 2),
            (["pause", "web1", "--all"], 2), (["compact", "a", "b"], 2),
            (["compact", "web1", "--blocks", "many"], 2),
            (["compact", "web1", "--blocks", "0"], 2),
            (["--bogus"], 2), (["explain", "nobody"], 1),
            (["compact", "gone"], 1)]
    for words, status in rows:
        rc, _, err = w.daemon.ctl(*words)
        equal(rc, status, f"exit status of {words} ({err.strip()})")
        check(err, f"no words about {words}")
    r = subprocess.run([CTL, "--socket", w.dir + "/none", "status"],
                       stderr=subprocess.PIPE, timeout=10)
    equal(r.returncode, 3, "exit status without a daemon")
    holds(r.stderr.decode(), "is it running?")


@suite.case("compact in a mode that changes nothing is refused with the "
            "reason, in both output forms")
def _(w):
    guest = FakeGuest(w.dir + "/seen.sock")
    guest.live()
    try:
        with Daemon(args=["--vm", f"name=seen,channel={w.dir}/seen.sock",
                          "--report-interval", "200ms"]) as d:
            d.wait_session("seen")
            within(5, lambda: d.vm_status("seen").get("report"), "a report")
            rc, _, err = d.ctl("compact", "seen")
            equal(rc, 1, "exit status")
            holds(err, "mode changes nothing")
            rc, out, _ = d.ctl("--json", "compact", "seen")
            doc = json.loads(out)
            equal((rc, doc["ok"]), (1, False), "with --json")
            time.sleep(1)
            check(not guest.actions, "the guest was asked to act")
            check(not any(x["mask"] for x in guest.directives),
                  "a directive holds knobs in mode observe")
            decisions = [e for e in d.ctl_json("history", "seen")["history"]
                         if e["kind"] == "decision"]
            check(decisions, "observe decides nothing")
            check(not any(e["carried_out"] for e in decisions),
                  "a decision is said to be carried out")
    finally:
        guest.close()


if __name__ == "__main__":
    sys.exit(suite.run(World))
