/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: what the host has under each 2 MiB of a guest
 *
 * PAGEMAP_SCAN (6.7) tells runs of pages of one kind, PAGE_IS_HUGE among them,
 * which means mapped by one entry of the page table: what KVM needs for a
 * large entry of its own. Where the kernel has no such call, pagemap is read,
 * 8 bytes a page, which shows no huge mappings: then those come from smaps by
 * mapping only, and the map says "present" at best.
 *
 * Traps. With more than 512 regions in the last call of a range, walk_end is
 * wrong on 6.12 to 7.3: calls are given room for 512 at most. Hugetlb that is
 * not populated is HUGE without PRESENT.
 */
#ifndef VMDEFRAG_BACKING_H
#define VMDEFRAG_BACKING_H

#include "memslot.h"
#include "qemuproc.h"

enum backing_flag {
	BACKING_HUGE = 1,    /* one 2 MiB entry, or part of a larger one */
	BACKING_SWAPPED = 2, /* some page is in swap */
	BACKING_SHARED = 4,  /* some page is mapped elsewhere, too: KSM */
	BACKING_KNOWN = 8,   /* looked at */
};

#define BACKING_NODE_NONE 0xff

struct backing_block {
	uint16_t present; /* 4 KiB pages, 0..512 */
	uint8_t node;	  /* of the host, of its first page */
	uint8_t flags;	  /* enum backing_flag */
};

struct backing_cost {
	uint64_t cpu_us, calls;
	bool by_pagemap; /* no PAGEMAP_SCAN here: huge pages are not seen */
};

/**
 * backing_scan() - look at a run of blocks
 * @ms:	       where they lie
 * @index:     of the first, as in memslot.h
 * @nr:	       how many
 * @nodes:     find their host nodes as well
 * @ret_block: @nr of them, each complete
 *
 * Return: 0; -ESRCH if the process or the mapping is gone; another -errno.
 */
int backing_scan(const struct qemuproc *p, const struct memslots *ms,
		 uint32_t index, uint32_t nr, bool nodes,
		 struct backing_block *ret_block,
		 struct backing_cost *ret_cost);

/**
 * backing_run() - a run of pages of one kind, laid over blocks. Pure.
 * @start, @end: host-virtual; those outside of the blocks are none of theirs
 * @hva:	 of @block[0]
 * @flags:	 what all the pages are; BACKING_HUGE covers only whole blocks
 */
void backing_run(uint64_t start, uint64_t end, bool present, uint8_t flags,
		 uint64_t hva, struct backing_block *block, uint32_t nr);

#endif
