# SPDX-License-Identifier: GPL-2.0-or-later
"""What a host maps under a guest, by smaps and pagemap alone.

Shares no code with kvm/: tests compare the two.
"""

import re
import struct

HEAD = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S+) ([0-9a-f]+) \S+ (\d+)\s*(.*)$")
BLOCK, PAGE = 2 << 20, 4096
PRESENT, SWAPPED = 1 << 63, 1 << 62


def mappings(pid):
    """-> [{'start', 'end', 'perms', 'path', 'AnonHugePages': KiB, ...}]."""
    out = []
    with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as f:
        for line in f:
            m = HEAD.match(line)
            if m:
                out.append({"start": int(m[1], 16), "end": int(m[2], 16),
                            "perms": m[3], "path": m[6]})
                continue
            key, _, value = line.partition(":")
            words = value.split()
            if words and words[0].isdigit():
                out[-1][key] = int(words[0])
    return out


def ram(pid, size):
    """Mappings of exactly that size."""
    return [m for m in mappings(pid) if m["end"] - m["start"] == size]


def huge_kib(pid, size):
    """Of these, mapped by entries of 2 MiB."""
    return sum(m.get("AnonHugePages", 0) + m.get("ShmemPmdMapped", 0)
               + m.get("FilePmdMapped", 0) for m in ram(pid, size))


def present_pages(pid, start, length):
    """Pages that are there, one number for each 2 MiB."""
    out = []
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as f:
        f.seek(start // PAGE * 8)
        data = f.read(length // PAGE * 8)
        while len(data) < length // PAGE * 8:
            more = f.read(length // PAGE * 8 - len(data))
            if not more:
                break
            data += more
    words = struct.unpack(f"<{len(data) // 8}Q", data)
    for at in range(0, len(words), BLOCK // PAGE):
        out.append(sum(1 for w in words[at:at + BLOCK // PAGE]
                       if w & PRESENT))
    return out
