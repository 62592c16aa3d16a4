# SPDX-License-Identifier: GPL-2.0-or-later
"""Fake ends of the channel: a guest for the daemon, a host for the agent."""

import os
import socket
import threading
import time

from . import wire
from .tap import Failed


class Peer:
    """A connection that speaks the wire, frames kept as they come."""

    def __init__(self, sock):
        self.sock = sock
        self.frames, self.got = wire.Frames(), []
        self.closed = False

    def send(self, data, timeout=5):
        self.sock.settimeout(timeout)
        self.sock.sendall(data)

    def pump(self, timeout):
        """Take what comes within the time -> whether something came."""
        if self.closed:
            time.sleep(timeout)
            return False
        self.sock.settimeout(max(timeout, 0.001))
        try:
            data = self.sock.recv(65536)
        except socket.timeout:
            return False
        except ConnectionError:
            data = b""
        if not data:
            self.closed = True
            return False
        self.got += self.frames.feed(data)
        return True

    def forget(self):
        while self.pump(0.02):
            pass
        self.got.clear()

    def expect(self, kind, timeout=10, match=lambda body: True):
        """The next frame of this kind, taken out -> (seq, session, body)."""
        end = time.monotonic() + timeout
        while True:
            for i, (k, seq, session, body) in enumerate(self.got):
                if k == kind and match(body):
                    del self.got[:i + 1]
                    return seq, session, body
            left = end - time.monotonic()
            if left <= 0 or (self.closed and not self.got):
                raise Failed(f"no frame of type {kind} within {timeout:g} s"
                             + (", the channel is closed" if self.closed
                                else ""))
            self.pump(min(left, 0.2))

    def close(self):
        self.sock.close()


class Listener:
    """A listening unix socket that takes one connection at a time."""

    def __init__(self, path):
        self.path = str(path)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.sock.bind(self.path)
        self.sock.listen(4)

    def accept(self, timeout=15):
        self.sock.settimeout(timeout)
        try:
            return self.sock.accept()[0]
        except socket.timeout:
            raise Failed(f"nobody connected to {os.path.basename(self.path)} "
                         f"within {timeout:g} s") from None

    def close(self):
        self.sock.close()
        if os.path.exists(self.path):
            os.unlink(self.path)


class FakeGuest:
    """Plays QEMU's chardev and the agent behind it, in words of the tests.

    `live()` turns it into a well-behaved agent in a thread of its own, for
    tests that need a session and look elsewhere.
    """

    def __init__(self, path):
        self.listener = Listener(path)
        self.peer = None
        self.nonce = int.from_bytes(os.urandom(7), "little")
        self.session = self.seq = 0
        self._thread = None
        self._stop = threading.Event()
        self.actions, self.cancels, self.directives = [], [], []
        self.answer_actions = True
        self.report_body = wire.report()

    def connect(self, timeout=15):
        """Wait for the daemon's connection and its SYNC."""
        self.drop()
        self.peer = Peer(self.listener.accept(timeout))
        self.peer.expect(wire.SYNC, timeout)
        return self

    def drop(self):
        if self.peer:
            self.peer.close()
        self.peer = None

    def greet(self, body=None, timeout=10):
        """HELLO -> the WELCOME's fields."""
        self.nonce += 1
        self.peer.send(wire.frame(wire.HELLO,
                                  body or wire.hello(self.nonce)))
        seq, self.session, body = self.peer.expect(wire.WELCOME, timeout)
        self.seq = 0
        return wire.decode_welcome(body)

    def send(self, kind, body, **keywords):
        self.seq += 1
        self.peer.send(wire.frame(kind, body, self.seq, self.session,
                                  **keywords))

    def report(self, **keywords):
        self.send(wire.REPORT, wire.report(**keywords))

    def expect_bye(self, reason, timeout=10):
        _, _, body = self.peer.expect(wire.BYE, timeout)
        got, words = wire.decode_bye(body)
        if got != reason:
            raise Failed(f"BYE with reason {got} ({words}), not {reason}")
        return words

    # ---------------------------------------------------- well-behaved

    def live(self):
        self._stop.clear()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()
        return self

    def still(self):
        self._stop.set()
        if self._thread:
            self._thread.join(10)
        self._thread = None

    def _live(self):
        while not self._stop.is_set():
            try:
                self._serve()
            except (Failed, OSError, ValueError):
                self.drop()
                time.sleep(0.05)

    def _serve(self):
        if not self.peer:
            self.peer = Peer(self.listener.accept(0.3))
            self.session = 0
        next_report = next_hello = 0.0
        running = 0
        while not self._stop.is_set():
            now = time.monotonic()
            if not self.session and now >= next_hello:
                self.nonce += 1
                self.peer.send(wire.frame(wire.HELLO, wire.hello(self.nonce)))
                next_hello = now + 2
            if self.session and now >= next_report:
                body = (self.report_body if not running
                        else wire.report(action_id=running))
                self.send(wire.REPORT, body)
                next_report = now + 0.2
            self.peer.pump(0.05)
            if self.peer.closed:
                raise Failed("closed")
            frames, self.peer.got = self.peer.got, []
            for kind, _, session, body in frames:
                if kind == wire.WELCOME:
                    self.session, self.seq = session, 0
                    next_report = 0.0
                elif kind in (wire.SYNC, wire.BYE):
                    self.session, next_hello = 0, now + 0.05
                elif kind == wire.DIRECTIVE:
                    self.directives.append(wire.decode_directive(body))
                elif kind == wire.ACTION:
                    act = wire.decode_action(body)
                    self.actions.append(act)
                    if self.answer_actions:
                        self.send(wire.RESULT, wire.result(act["id"]))
                    else:
                        running = act["id"]
                elif kind == wire.CANCEL and running:
                    self.cancels.append(running)
                    self.send(wire.RESULT, wire.result(
                        running, wire.STOPPED, wire.WHY_CANCELLED, after=50))
                    running = 0

    def close(self):
        self.still()
        self.drop()
        self.listener.close()


class FakeHost:
    """Plays the daemon on a listening socket, for an agent that connects."""

    def __init__(self, path):
        self.listener = Listener(path)
        self.peer = None
        self.session = self.seq = self.nonce = 0

    def connect(self, timeout=15):
        self.drop()
        self.peer = Peer(self.listener.accept(timeout))
        return self

    def attach(self, path):
        """Connect to QEMU's side of a real guest's channel instead."""
        self.drop()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(str(path))
        self.peer = Peer(sock)
        return self

    def drop(self):
        if self.peer:
            self.peer.close()
        self.peer = None

    def sync(self, timeout=10):
        """SYNC -> (HELLO's fields, its body); the newest if there are more."""
        self.peer.forget()
        self.peer.send(wire.frame(wire.SYNC))
        _, _, body = self.peer.expect(wire.HELLO, timeout)
        self.hello = wire.decode_hello(body)
        self.nonce = self.hello["nonce"]
        return self.hello, body

    def welcome(self, **keywords):
        self.session = int.from_bytes(os.urandom(7), "little") | 1
        self.seq = 1
        self.peer.send(wire.frame(wire.WELCOME,
                                  wire.welcome(self.nonce, **keywords),
                                  1, self.session))

    def open(self, **keywords):
        """A session, proven by a report."""
        self.sync()
        self.welcome(**keywords)
        return self.report()

    def send(self, kind, body=b"", **keywords):
        self.seq += 1
        self.peer.send(wire.frame(kind, body, self.seq, self.session,
                                  **keywords))

    def report(self, timeout=10, match=lambda body: True):
        """The next report of this session -> its body."""
        end = time.monotonic() + timeout
        while True:
            _, session, body = self.peer.expect(
                wire.REPORT, max(0.01, end - time.monotonic()), match)
            if session == self.session:
                return body

    def close(self):
        self.drop()
        self.listener.close()
