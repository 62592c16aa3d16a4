# SPDX-License-Identifier: GPL-2.0-or-later
"""A client of the control socket, without a vmdefragctl to start for it."""

import json
import socket
import time

from .tap import Failed, check

ANSWER_S = 0.5


class Client:
    def __init__(self, daemon):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(5)
        self.sock.connect(str(daemon.socket))
        self.buf = b""

    def send(self, data):
        self.sock.sendall(data)

    def line(self):
        while b"\n" not in self.buf:
            data = self.sock.recv(65536)
            if not data:
                raise Failed("the daemon closed the connection")
            self.buf += data
        line, self.buf = self.buf.split(b"\n", 1)
        return json.loads(line)

    def ask(self, **request):
        self.send(json.dumps(request).encode() + b"\n")
        return self.line()

    def ended(self):
        """Has the daemon hung up?"""
        try:
            return self.sock.recv(65536) == b""
        except ConnectionError:
            return True

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def answers_soon(daemon):
    """`status` comes within half a second.

    Asked once more where it does not: on a machine with more to do than it
    has CPUs a wait now and then is the scheduler's, a daemon that blocks is
    slow each time.
    """
    for _ in range(2):
        start = time.monotonic()
        with Client(daemon) as c:
            check(c.ask(cmd="status")["ok"], "status is refused")
        took = time.monotonic() - start
        if took < ANSWER_S:
            return
    raise Failed(f"status took {took:.2f} s")
