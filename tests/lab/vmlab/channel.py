# SPDX-License-Identifier: GPL-2.0-or-later
"""The host's side of labexec (guest/labexec.c describes the frames)."""

import os
import queue
import socket
import struct
import threading
import time

from .util import LabError, LabTimeout

MAGIC = b"\x7fVMLAB1\n"
HEADER = struct.Struct("<8sIIII")
SYNC, RUN, KILL, PUT, GET, OUT, EXIT = range(1, 8)
PUT_APPEND = 0x10000
CHUNK = 256 << 10
POLL_S = 0.2
# SYNC is resent so often until it is answered. Longer than labexec's STALL_MS:
# half a frame that a killed lab left there swallows all until it has stalled.
RESYNC_S = 1.5
# A kernel that died does not hang up: its console is looked at so often.
ALIVE_S = 2


class ChannelLost(LabError):
    """The connection to QEMU is gone, or the guest was reset."""


class Channel:
    """One connection; many requests at a time, from any thread."""

    def __init__(self, path):
        self._path = path
        self._sock = None
        self._reader = None
        self._lock = threading.Lock()       # of _waiting, _seq and sends
        self._waiting = {}
        self._seq = 0

    # ------------------------------------------------------ connection

    def connect(self, timeout, alive=lambda: None):
        """Connect and synchronise; `alive` raises when waiting is vain."""
        self.close()
        end = time.monotonic() + timeout
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(str(self._path))
            sock.settimeout(POLL_S)
            rest = self._sync(sock, end, timeout, alive)
            sock.settimeout(None)
        except OSError as e:
            sock.close()
            raise ChannelLost(f"lab channel: {e}") from e
        except BaseException:
            sock.close()
            raise
        self._sock = sock
        self._reader = threading.Thread(target=self._read_loop,
                                        args=(sock, rest), daemon=True)
        self._reader.start()

    @staticmethod
    def _sync(sock, end, timeout, alive):
        nonce = os.urandom(16)
        frame = HEADER.pack(MAGIC, SYNC, 0, 0, len(nonce)) + nonce
        buf = b""
        sent = 0.0
        while time.monotonic() < end:
            alive()
            if time.monotonic() - sent >= RESYNC_S:
                # While the guest has not opened its port nobody reads this,
                # and the socket may fill up: that is no error.
                sent = time.monotonic()
                try:
                    sock.send(frame)
                except socket.timeout:
                    pass
            try:
                data = sock.recv(65536)
            except socket.timeout:
                continue
            if not data:
                raise ChannelLost("lab channel: QEMU closed it")
            buf += data
            at = buf.rfind(frame)
            if at >= 0:
                return buf[at + len(frame):]
            buf = buf[-(1 << 20):]
        raise LabTimeout(f"the guest's labexec did not answer within "
                         f"{timeout:g} s")

    def close(self):
        sock, self._sock = self._sock, None
        if sock:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            if self._reader is not threading.current_thread():
                self._reader.join(5)
            sock.close()
        self._fail_all()

    def _fail_all(self):
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for q in waiting.values():
            q.put((None, 0, b""))

    def _read_loop(self, sock, buf):
        buf = bytearray(buf)
        try:
            while True:
                while len(buf) >= HEADER.size:
                    magic, kind, seq, arg, size = HEADER.unpack_from(buf)
                    if magic != MAGIC:
                        return          # a reset guest: sync again
                    if len(buf) < HEADER.size + size:
                        break
                    data = bytes(buf[HEADER.size:HEADER.size + size])
                    del buf[:HEADER.size + size]
                    with self._lock:
                        q = self._waiting.get(seq)
                    if q and kind in (OUT, EXIT):
                        q.put((kind, arg, data))
                data = sock.recv(262144)
                if not data:
                    return
                buf += data
        except OSError:
            return
        finally:
            self._fail_all()

    # ------------------------------------------------------ requests

    def request(self, kind, arg, payload, timeout, on_output=None,
                alive=lambda: None):
        """Send one request, wait for its end -> (rc, output).

        `alive` is asked each ALIVE_S, and raises when waiting is vain.
        """
        with self._lock:
            sock = self._sock
            if not sock:
                raise ChannelLost("lab channel: not connected")
            self._seq += 1
            seq = self._seq
            q = self._waiting[seq] = queue.Queue()
            self._send(sock, kind, seq, arg, payload)
        try:
            return self._collect(q, seq, timeout, on_output, alive)
        finally:
            with self._lock:
                self._waiting.pop(seq, None)

    def _send(self, sock, kind, seq, arg, payload):
        try:
            sock.sendall(HEADER.pack(MAGIC, kind, seq, arg, len(payload))
                         + payload)
        except OSError as e:
            self._waiting.pop(seq, None)
            raise ChannelLost(f"lab channel: {e}") from e

    def _collect(self, q, seq, timeout, on_output, alive):
        out = bytearray()
        end = time.monotonic() + timeout
        while True:
            left = max(0, end - time.monotonic())
            try:
                kind, arg, data = q.get(timeout=min(left, ALIVE_S))
            except queue.Empty:
                if left > ALIVE_S:
                    alive()
                    continue
                with self._lock:
                    if self._sock:
                        self._send(self._sock, KILL, seq, 0, b"")
                raise LabTimeout(f"no end within {timeout:g} s",
                                 bytes(out)) from None
            if kind is None:
                raise ChannelLost("the guest or QEMU went away while a "
                                  "command was running")
            if kind == EXIT:
                rc = arg - (1 << 32) if arg >= 1 << 31 else arg
                return rc, bytes(out)
            out += data
            if on_output:
                on_output(data)
