#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""no_uring.py PROGRAM [ARG...]: run it where io_uring_setup(2) is refused.

A seccomp filter says EPERM, as kernel.io_uring_disabled=2 and many
containers do.
"""

import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
IO_URING_SETUP = 425            # on all architectures
EPERM = 1


def instruction(code, k, jt=0, jf=0):
    return struct.pack("<HBBI", code, jt, jf, k)


def main():
    program = b"".join((
        instruction(0x20, 0),                       # load the number
        instruction(0x15, IO_URING_SETUP, 0, 1),    # equal?
        instruction(0x06, 0x00050000 | EPERM),      # errno
        instruction(0x06, 0x7FFF0000)))             # allow
    buf = ctypes.create_string_buffer(program)
    fprog = struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(buf))
    libc = ctypes.CDLL(None, use_errno=True)
    for args in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
                 (PR_SET_SECCOMP, SECCOMP_MODE_FILTER,
                  ctypes.c_char_p(fprog), 0, 0)):
        if libc.prctl(*args):
            sys.exit(f"no_uring: prctl: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[1], sys.argv[1:])


main()
