#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Are hugetlb pages that a guest reports usable by anybody else?

By kernel of the host, and by kind of mapping. Usable is free - reserved. With
a private mapping on 6.12 and later they stay reserved for the guest: no gift.
"""

import sys

import nestedtest
from nestedtest import expect, note

from vmlab.host import Host
from vmlab.kvmguest import KvmGuest
from vmlab.util import wait_for

NODE, POOL, MEM_MIB = 1, 100, 192
GUEST_PAGES = MEM_MIB // 2
# (kernel, backing) -> do the pages that leave the guest become usable?
USABLE = {("6.1", "hugetlb"): True, ("6.1", "hugetlb-memfd"): True,
          ("6.12", "hugetlb"): False, ("6.12", "hugetlb-memfd"): True,
          ("7.3", "hugetlb"): False, ("7.3", "hugetlb-memfd"): True}
FEW = 20                        # pages that a booted guest has free at least


def pool(host):
    p = host.pool(NODE)
    p["reserved"] = host.pool_reserved()
    p["usable"] = p["free"] - p["reserved"]
    return p


def returned(host, backing):
    """Start a guest with all of its pages there; -> (before, after)."""
    name = backing.replace("-", "_")
    with KvmGuest(host, name, mem=f"{MEM_MIB}M", node=NODE, backing=backing,
                  prealloc=True, agent=False) as g:
        wait_for(lambda: pool(host)["free"] > POOL - GUEST_PAGES + FEW, 60,
                 f"pages of {backing} to be returned", 0.5)
        after = pool(host)
        free_mib = g.meminfo()["MemFree"] >> 10
        note(f"{host.kernel} {backing}: the guest has {free_mib} MiB free; "
             f"pool {after}")
        return after




def make(kernel):
    def test():
        with Host(kernel=kernel, nodes=["768M", "768M"]) as host:
            host.set_pool(NODE, POOL)
            for backing in ("hugetlb", "hugetlb-memfd"):
                after = returned(host, backing)
                usable = after["usable"] > POOL - GUEST_PAGES + FEW
                expect(usable == USABLE[kernel, backing],
                       f"{kernel} {backing}: usable {usable}, {after}")
                wait_for(lambda: pool(host)["usable"] == POOL, 20,
                         "the pool to be whole again", 0.3)
            expect(not host.kernel_complaints(),
                   f"{host.kernel_complaints()}")
    test.__doc__ = f"reported hugetlb pages on {kernel}: private and memfd"
    return test


TESTS = [make(k) for k in ("6.1", "6.12", "7.3")]

if __name__ == "__main__":
    sys.exit(nestedtest.main(TESTS))
