# SPDX-License-Identifier: GPL-2.0-or-later
"""A small QMP client: one command at a time, events kept on the side."""

import json
import socket
import threading
import time

from .util import LabError, LabTimeout


class QmpError(LabError):
    """QEMU refused a command."""


def _connect(path, end):
    """QEMU's socket is there a moment before it listens."""
    while True:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(str(path))
            return sock
        except ConnectionRefusedError as e:
            sock.close()
            if time.monotonic() > end:
                raise LabError(f"QMP: {e}") from e
            time.sleep(0.05)


class Qmp:
    def __init__(self, path, timeout=10):
        self.events = []
        self._lock = threading.Lock()
        self._buf = b""
        self._id = 0
        end = time.monotonic() + timeout
        self._sock = _connect(path, end)
        if "QMP" not in self._message(end):
            raise LabError("QMP: no greeting")
        self.command("qmp_capabilities", timeout=timeout)

    def close(self):
        self._sock.close()

    def _message(self, end):
        while b"\n" not in self._buf:
            self._sock.settimeout(max(0.001, end - time.monotonic()))
            try:
                data = self._sock.recv(65536)
            except socket.timeout:
                raise LabTimeout("QMP: no answer in time") from None
            except OSError as e:
                raise LabError(f"QMP: {e}") from e
            if not data:
                raise LabError("QMP: QEMU closed the connection")
            self._buf += data
        line, self._buf = self._buf.split(b"\n", 1)
        return json.loads(line)

    def command(self, name, timeout=30, **args):
        """Run a command, keys with '_' for '-' -> its return value."""
        args = {k.replace("_", "-"): v for k, v in args.items()}
        end = time.monotonic() + timeout
        with self._lock:
            # An answer that came too late for its caller is not the next's.
            self._id += 1
            req = {"execute": name, "id": self._id}
            if args:
                req["arguments"] = args
            try:
                self._sock.sendall(json.dumps(req).encode() + b"\n")
            except OSError as e:
                raise LabError(f"QMP: {e}") from e
            while True:
                m = self._message(end)
                if "event" in m:
                    self.events.append(m)
                elif m.get("id") != self._id:
                    continue
                elif "error" in m:
                    raise QmpError(f"QMP {name}: {m['error'].get('desc')}")
                elif "return" in m:
                    return m["return"]
