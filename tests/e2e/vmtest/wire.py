# SPDX-License-Identifier: GPL-2.0-or-later
"""The wire (include/proto.h) once more, in Python.

Written from the header and not from the codec, so that the two check each
other. Encodes all messages, decodes those that tests look into.
"""

import struct

MAGIC = 0x46444D56
HEADER = struct.Struct("<IHHIIQII")
BODY_MAX = 32768
KNOBS = ("compaction_proactiveness", "watermark_scale_factor",
         "watermark_boost_factor", "thp_defrag",
         "percpu_pagelist_high_fraction")
NR_CTRS = 24
(SYNC, HELLO, WELCOME, BYE, REPORT, DIRECTIVE, ACTION, CANCEL,
 RESULT) = range(1, 10)
BYE_EXIT, BYE_VERSION, BYE_VIOLATION, BYE_RATE, BYE_REFUSED = range(1, 6)
DONE, STOPPED, REFUSED, FAILED = range(4)
ALL = 0xFFFFFFFF
WHY_TARGET, WHY_EXHAUSTED = 0, 1
WHY_CANCELLED = 6


RESULT_HEAD = struct.Struct("<QBBBBBIII14Q")


def _table():
    out = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        out.append(i)
    return out


_CRC = _table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for b in data:
        crc = _CRC[(crc ^ b) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def frame(kind, body=b"", seq=1, session=0, *, magic=MAGIC, length=None,
          body_crc=None, hdr_crc=None):
    """One frame; the keywords make it a broken one."""
    head = struct.pack("<IHHIIQI", magic, kind, 0,
                       len(body) if length is None else length, seq, session,
                       (crc32c(body) if body else 0) if body_crc is None
                       else body_crc)
    return head + struct.pack("<I", crc32c(head) if hdr_crc is None
                              else hdr_crc) + body


def text(s):
    raw = s.encode("latin-1")
    return bytes([len(raw)]) + raw


def hello(nonce=1, ver=(1, 1), page_size=4096, orders=11, nodes=1,
          release="6.12.0-fake", knobs=0x1F, knobs_missing=0, backends=0x2,
          backends_missing=0x7C, tail=b""):
    return (struct.pack("<HHQ", *ver, nonce) + bytes(range(16))
            + struct.pack("<IBBBBIQ", page_size, orders, 9, 9, nodes, 2,
                          262144)
            + struct.pack("<8I", knobs, knobs_missing, 0, backends,
                          backends_missing, 0, 1, 0)
            + text("0.1.0") + text(release) + tail)


def welcome(nonce, version=1, interval_ms=200, lease_ms=5000):
    return struct.pack("<HQII", version, nonce, interval_ms, lease_ms)


def bye(reason, words=""):
    return struct.pack("<I", reason) + text(words)


def _zone(node, kind, present, free_blocks):
    free = sum(n << o for o, n in enumerate(free_blocks))
    return (struct.pack("<BB6Q", node, kind, present, present, free, 512,
                        1024, 1536)
            + struct.pack("<16I", *(free_blocks + [0] * 16)[:16]))


def _node(node, total, free, unusable=900):
    return (struct.pack("<B7Q", node, total, free, 1000, 1000, 0, 100, 0)
            + struct.pack("<16H", *[0] + [50] * 15)
            + struct.pack("<16H", *[0] + [unusable] * 15)
            + struct.pack("<H", 40)
            + struct.pack("<BI", 0, 0) + struct.pack("<IQ", 0, 0) * 8)


def report(action_id=0, directive_id=0, free_blocks=None, present=262144):
    blocks = free_blocks or [20000, 10000, 4000, 1000, 200, 50, 10, 5, 2, 40,
                             0]
    free = sum(n << o for o, n in enumerate(blocks))
    head = (struct.pack("<QQQ", 1000000, directive_id, action_id)
            + struct.pack("<BHHQQ", 1, 0, 0, 0, 0)
            + struct.pack("<QB", (1 << NR_CTRS) - 1, NR_CTRS)
            + struct.pack(f"<{NR_CTRS}Q", *[0] * NR_CTRS)
            + struct.pack("<IIIB", 0x1F, 0, 0, len(KNOBS))
            + struct.pack("<5q", 20, 10, 15000, 3, 0)
            + struct.pack("<QQIQQBH", 1000, 200, 2000, 0, 0, 3, 0xFFFF))
    node, zone = _node(0, present, free), _zone(0, 1, present, blocks)
    return (head + struct.pack("<BH", 0, 0)
            + struct.pack("<BH", 1, len(node)) + node
            + struct.pack("<BH", 1, len(zone)) + zone)


def result(action_id, status=DONE, why=WHY_EXHAUSTED, before=40, after=140,
           asked=0xFFFFFFFF):
    return (struct.pack("<QBBBBBIII", action_id, status, why, 1, 0, 9, asked,
                        before, after)
            + struct.pack("<14Q", *[0] * 14) + text(""))


def directive(ident, knobs=None, lease_ms=5000, quiet=0, reason="test"):
    """knobs: {name: value} that are to be held."""
    mask, values = 0, [0] * len(KNOBS)
    for name, value in (knobs or {}).items():
        i = KNOBS.index(name)
        mask |= 1 << i
        values[i] = value
    return (struct.pack("<QIBIB", ident, lease_ms, quiet, mask, len(KNOBS))
            + struct.pack("<5q", *values)
            + struct.pack("<IH", 0, 0) + text(reason))


def action(ident, node=0, backend=0, order=9, urgency=1, blocks=0xFFFFFFFF,
           max_time_us=0, max_pages=0, max_cpu_us=0, reason="test",
           hold_ms=None):
    return (struct.pack("<QBBBBI", ident, node, backend, order, urgency,
                        blocks)
            + struct.pack("<QQQ", max_pages, max_cpu_us, max_time_us)
            + text(reason)
            # hosts of before it end here
            + (b"" if hold_ms is None else struct.pack("<I", hold_ms)))


def decode_hello(body):
    ver_min, ver_max, nonce = struct.unpack_from("<HHQ", body)
    return {"ver": (ver_min, ver_max), "nonce": nonce, "boot_id": body[12:28]}


def decode_bye(body):
    n = body[4]
    return struct.unpack_from("<I", body)[0], body[5:5 + n].decode()


def decode_welcome(body):
    return dict(zip(("version", "nonce", "interval_ms", "lease_ms"),
                    struct.unpack_from("<HQII", body)))


def decode_directive(body):
    ident, lease_ms, quiet, mask = struct.unpack_from("<QIBI", body)
    return {"id": ident, "lease_ms": lease_ms, "quiet": quiet, "mask": mask}


def decode_action(body):
    ident, node, backend, order, urgency, blocks = \
        struct.unpack_from("<QBBBBI", body)
    return {"id": ident, "node": node, "backend": backend, "order": order,
            "urgency": urgency, "blocks": blocks}


def decode_result(body):
    fields = dict(zip(RESULT_FIELDS, RESULT_HEAD.unpack_from(body)))
    at = RESULT_HEAD.size
    words = body[at + 1:at + 1 + body[at]]
    return {**fields, "text": words.decode()}


RESULT_FIELDS = ("id", "status", "why", "backend", "node", "order", "asked",
                 "before", "after", "free_before", "free_after", "migrated",
                 "migrate_failed", "reclaimed", "migrate_scanned",
                 "free_scanned", "allocstall", "pgscan_direct", "swapped_out",
                 "refaults", "kpageflags_words", "cpu_us", "elapsed_us")


def decode_result_all(body):
    """Every field of a RESULT."""
    values = struct.unpack_from("<QBBBBBIII14Q", body)
    return {**dict(zip(RESULT_FIELDS, values)),
            "text": decode_result(body)["text"]}


def decode_report_knobs(body):
    at = struct.calcsize("<QQQBHHQQQB") + 8 * NR_CTRS
    valid, managed, foreign, n = struct.unpack_from("<IIIB", body, at)
    values = struct.unpack_from(f"<{n}q", body, at + 13)
    return {"valid": valid, "managed": managed, "foreign": foreign,
            "value": dict(zip(KNOBS, values))}


def decode_report_head(body):
    """-> guest_us, directive_id, action_id, bad_frames"""
    guest_us, directive_id, action_id = struct.unpack_from("<QQQ", body)
    at = (struct.calcsize("<QQQBHHQQQB") + 8 * NR_CTRS
          + struct.calcsize("<IIIB") + 8 * len(KNOBS)
          + struct.calcsize("<QQIQ"))
    return {"guest_us": guest_us, "directive_id": directive_id,
            "action_id": action_id,
            "bad_frames": struct.unpack_from("<Q", body, at)[0]}


class Frames:
    """Cuts a stream of sound frames; what is none raises."""

    def __init__(self):
        self.buf = b""

    def feed(self, data):
        """-> [(kind, seq, session, body)]"""
        self.buf += data
        out = []
        while len(self.buf) >= HEADER.size:
            magic, kind, _, size, seq, session, crc, hcrc = \
                HEADER.unpack_from(self.buf)
            if magic != MAGIC or crc32c(self.buf[:28]) != hcrc:
                raise ValueError("the peer sent bytes that are no frame")
            if len(self.buf) < HEADER.size + size:
                break
            body = self.buf[HEADER.size:HEADER.size + size]
            self.buf = self.buf[HEADER.size + size:]
            if (crc32c(body) if body else 0) != crc:
                raise ValueError("the peer sent a wrong checksum")
            out.append((kind, seq, session, body))
        return out
