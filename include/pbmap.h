/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: what lies in a pageblock, by its words of /proc/kpageflags. Pure.
 *
 * The kernel exports flags, not the state that an evacuation needs to know,
 * and not the same ones everywhere. Traps that shaped this file, each seen on
 * 6.1, 6.12 or 7.3:
 *
 * - Every page of a free block has BUDDY, its head is not marked: a run is
 *   cut greedily into aligned blocks, which gives what buddyinfo says, since
 *   free buddies never stay apart. Runs cross pageblocks, as blocks of the
 *   highest order do: so a whole window of that order is looked at together.
 * - Pages on per-CPU lists look like a kernel's private pages: no flag at all.
 *   Both are "unknown".
 * - A hole has NOPAGE on older kernels, no flag at all on newer: the caller
 *   says where there is memory.
 * - LRU is on a folio's head only on 6.1; THP is on all its pages, and is on
 *   large page cache, too. So THP without ZERO means movable. KSM is on all
 *   anonymous pages on some kernels, and is not looked at.
 * - A folio's order is its HEAD and the TAILs that follow it.
 * - A tail's class comes from its own flags, so that a window may begin in
 *   the midst of a compound page.
 * - Pins cannot be seen: movable means that nothing visible speaks against it.
 */
#ifndef VMDEFRAG_PBMAP_H
#define VMDEFRAG_PBMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto.h"

/* linux/kernel-page-flags.h, and two that are not exported for good */
enum kpf {
	KPF_LOCKED = 0,
	KPF_ERROR = 1,
	KPF_REFERENCED = 2,
	KPF_UPTODATE = 3,
	KPF_DIRTY = 4,
	KPF_LRU = 5,
	KPF_ACTIVE = 6,
	KPF_SLAB = 7,
	KPF_WRITEBACK = 8,
	KPF_RECLAIM = 9,
	KPF_BUDDY = 10,
	KPF_MMAP = 11,
	KPF_ANON = 12,
	KPF_SWAPCACHE = 13,
	KPF_SWAPBACKED = 14,
	KPF_COMPOUND_HEAD = 15,
	KPF_COMPOUND_TAIL = 16,
	KPF_HUGE = 17,
	KPF_UNEVICTABLE = 18,
	KPF_HWPOISON = 19,
	KPF_NOPAGE = 20,
	KPF_KSM = 21,
	KPF_THP = 22,
	KPF_OFFLINE = 23,
	KPF_ZERO_PAGE = 24,
	KPF_IDLE = 25,
	KPF_PGTABLE = 26,
	KPF_RESERVED = 32,
	KPF_PRIVATE = 35,
};

enum page_class {
	PAGE_FREE,	/* in the buddy allocator */
	PAGE_MOVABLE,	/* on an LRU, anonymous or mapped */
	PAGE_HUGETLB,	/* of a hugetlb pool, in use or not */
	PAGE_UNMOVABLE, /* slab, page tables, kernel's compound pages */
	PAGE_UNKNOWN,	/* a kernel's private page, or on a per-CPU list */
	PAGE_RESERVED,	/* the kernel's since boot */
	PAGE_OFFLINE,	/* taken by a balloon or virtio-mem */
	PAGE_POISONED,	/* broken memory */
	PAGE_HOLE,	/* no memory */
	PAGE_CLASS_COUNT
};

/**
 * page_class() - of one page, by its own word alone
 */
enum page_class page_class(uint64_t word);

/**
 * page_class_name() - for people and JSON
 */
const char *page_class_name(unsigned int class);

struct pbmap_geometry {
	unsigned int pageblock_order;
	unsigned int nr_orders; /* of buddyinfo: highest order + 1 */
};

/* One pageblock. 32 bits, since a window of order 15 has 32768 pages. */
struct pageblock {
	uint32_t pages[PAGE_CLASS_COUNT];
	uint32_t thp_pages; /* movable ones, held by folios of order > 0 */
	/* dirty, locked, under writeback or with private data, of those
	 * movable: they may resist for a while */
	uint32_t sticky_pages;
	/* free blocks that begin here, by their order */
	uint32_t free_blocks[PROTO_ORDERS_MAX];
	/* movable folios that begin here, by their order; cut at the window's
	 * end */
	uint32_t folios[PROTO_ORDERS_MAX];
};

/**
 * pbmap_window_order() - how much must be looked at together
 *
 * The greater one of the highest buddy order and the pageblock order.
 */
unsigned int pbmap_window_order(const struct pbmap_geometry *g);

/**
 * pbmap_window() - classify one window
 * @words:	 of kpageflags; bytes of other pages than of this window are
 *		 none of its business
 * @nr_words:	 1 << pbmap_window_order(), or fewer at the end of memory: the
 *		 rest is a hole
 * @ret_blocks:	 1 << (window order - pageblock order) of them
 *
 * The window's first page is aligned to its size.
 */
void pbmap_window(const struct pbmap_geometry *g, const uint64_t *words,
		  size_t nr_words, struct pageblock *ret_blocks);

/**
 * pageblock_add() - sum += b
 */
struct pageblock_sum {
	uint64_t blocks; /* that hold any memory */
	uint64_t pages[PAGE_CLASS_COUNT];
	uint64_t thp_pages, sticky_pages;
	uint64_t free_blocks[PROTO_ORDERS_MAX], folios[PROTO_ORDERS_MAX];
	/* pageblocks by what they hold */
	uint64_t blocks_free;	   /* nothing but free pages */
	uint64_t blocks_clean;	   /* free and movable pages only */
	uint64_t blocks_unmovable; /* with anything that cannot be moved */
};

void pageblock_add(struct pageblock_sum *sum, const struct pageblock *b);

/**
 * pageblock_is_spoilt() - is there a page that keeps it from being emptied?
 *
 * Hugetlb pages can be moved by offlining and contiguous allocations, not by
 * compaction; they don't spoil it. Unknown pages may leave by themselves (a
 * per-CPU list), and do count.
 */
bool pageblock_is_spoilt(const struct pageblock *b);

#endif
