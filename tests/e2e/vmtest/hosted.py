# SPDX-License-Identifier: GPL-2.0-or-later
"""A real guest with its agent, and the test as its host."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lab"))

from vmlab.guest import Guest                           # noqa: E402

from . import wire                                      # noqa: E402
from .fakes import FakeHost                             # noqa: E402
from .tap import Failed                                 # noqa: E402

BACKENDS = ("auto", "compact", "fault", "hugetlb", "memblock", "proactive",
            "kmod")
WHYS = ("target", "exhausted", "cpu", "pages", "time", "pressure",
        "cancelled", "quiet", "low-memory", "denied", "missing", "observe",
        "busy", "error", "session", "reclaim")
STATUSES = ("done", "stopped", "refused", "failed")


class Hosted(FakeHost):
    """The host's end of a Guest's channel."""

    def __init__(self, guest):                # no listener: QEMU listens
        self.guest = guest
        self.listener = self.peer = None
        self.session = self.seq = self.nonce = self.actions = 0

    def __enter__(self):
        self.attach(self.guest.channel)
        self.open(timeout=20)
        return self

    def __exit__(self, kind, value, trace):
        self.drop()

    def open(self, timeout=20, **keywords):
        """A session, whatever became of the one before."""
        end = time.monotonic() + timeout
        while True:
            try:
                # a SYNC that came before the agent is lost
                self.sync(timeout=3)
                self.welcome(**keywords)
                return self.report(timeout=5)
            except Failed:
                if time.monotonic() > end:
                    raise

    def ask(self, backend, blocks=wire.ALL, **keywords):
        """Send an action -> its id."""
        self.actions += 1
        self.send(wire.ACTION, wire.action(
            self.actions, backend=BACKENDS.index(backend), blocks=blocks,
            **keywords))
        return self.actions

    def result(self, timeout=120):
        """The next result, its enums by name."""
        _, _, body = self.peer.expect(wire.RESULT, timeout)
        r = wire.decode_result(body)
        r["why"], r["status"] = WHYS[r["why"]], STATUSES[r["status"]]
        r["backend"] = BACKENDS[r["backend"]]
        r["gained"] = r["after"] - r["before"]
        return r

    def act(self, backend, blocks=wire.ALL, timeout=120, **keywords):
        number = self.ask(backend, blocks, **keywords)
        while True:
            r = self.result(timeout)
            if r["id"] == number:       # not that of one before
                return r
