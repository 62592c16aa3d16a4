# SPDX-License-Identifier: GPL-2.0-or-later
"""Write a cpio archive in the "newc" form that the kernel unpacks."""

import stat


class Archive:
    """Collects files; parents are created as they are needed."""

    def __init__(self):
        self._out = bytearray()
        self._seen = {""}
        self._ino = 0

    def _entry(self, path, mode, data=b"", rdev=(0, 0)):
        self._ino += 1
        name = path.encode() + b"\0"
        fields = (self._ino, mode, 0, 0, 1, 0, len(data), 0, 0, rdev[0],
                  rdev[1], len(name), 0)
        self._out += b"070701" + b"".join(b"%08X" % f for f in fields) + name
        self._pad()
        self._out += data
        self._pad()

    def _pad(self):
        self._out += b"\0" * (-len(self._out) % 4)

    def mkdir(self, path, mode=0o755):
        path = path.strip("/")
        if path in self._seen:
            return
        self._parents(path)
        self._seen.add(path)
        self._entry(path, stat.S_IFDIR | mode)

    def _parents(self, path):
        if "/" in path:
            self.mkdir(path.rsplit("/", 1)[0])

    def file(self, path, data, mode=0o644):
        path = path.strip("/")
        self._parents(path)
        if isinstance(data, str):
            data = data.encode()
        self._entry(path, stat.S_IFREG | mode, bytes(data))

    def symlink(self, path, target):
        path = path.strip("/")
        self._parents(path)
        self._entry(path, stat.S_IFLNK | 0o777, target.encode())

    def char_device(self, path, major, minor, mode=0o600):
        path = path.strip("/")
        self._parents(path)
        self._entry(path, stat.S_IFCHR | mode, rdev=(major, minor))

    def finish(self):
        self._entry("TRAILER!!!", 0)
        return bytes(self._out)
