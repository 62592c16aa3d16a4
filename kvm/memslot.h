/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: guest-physical and host-virtual addresses
 *
 * A guest's memory is a few ranges, each of which lies in QEMU's address space
 * in one piece. A 2 MiB page can cover both sides only where the two addresses
 * agree modulo 2 MiB (and for files the offset in the file, too, since the page
 * cache has its huge pages there); likewise for 1 GiB. Pure.
 *
 * Blocks are 2 MiB of guest-physical memory, numbered by gpa / 2 MiB. Those
 * that lie in a slot as a whole also have an index, dense over all slots: what
 * is kept per block is an array by that index, as large as the guest's memory
 * and no larger, whatever a guest says about where its memory lies.
 */
#ifndef VMDEFRAG_MEMSLOT_H
#define VMDEFRAG_MEMSLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Two kinds of addresses, so that mixing them does not compile. */
struct gpa_range {
	uint64_t start, len;
};

struct hva_range {
	uint64_t start, len;
};

#define MEMSLOT_BLOCK_SHIFT 21
#define MEMSLOT_BLOCK_BYTES (UINT64_C(1) << MEMSLOT_BLOCK_SHIFT)
#define MEMSLOT_GIB	    (UINT64_C(1) << 30)

/* Two for a node across the hole, and one each for DIMMs. */
#define MEMSLOTS_MAX 32u
/* 16 TiB: an index fits 24 bits, and a map of all is below 64 MiB. */
#define MEMSLOT_BLOCKS_MAX (UINT32_C(1) << 23)
/* What 52 bits of physical address can name. */
#define MEMSLOT_GPA_MAX (UINT64_C(1) << 52)

enum memslot_kind {
	MEMSLOT_ANON,	 /* private anonymous: THP by madvise */
	MEMSLOT_SHMEM,	 /* memfd, /dev/shm: THP by shmem_enabled */
	MEMSLOT_HUGETLB, /* as huge as its pages, for good */
	MEMSLOT_FILE,	 /* of another file system */
	MEMSLOT_KIND_COUNT
};

const char *memslot_kind_name(unsigned int kind);

struct memslot {
	uint64_t gpa, hva, len;
	uint64_t host_nodes; /* bound to these; 0: to none */
	uint64_t offset;     /* in the file, of what is mapped at hva */
	uint32_t page_kib;   /* of hugetlb; else 0 */
	uint8_t kind;	     /* enum memslot_kind */
	/* guessed among mappings that look alike: shown, not acted on */
	uint8_t doubtful;
	uint8_t virtio_mem; /* its device owns it: parts come and go */
	uint8_t pad;
};

struct memslots {
	uint32_t nr; /* by gpa, without overlap */
	struct memslot slot[MEMSLOTS_MAX];
};

/**
 * memslots_check() - ordered, disjoint, page-aligned, in range?
 *
 * For slots that came from another process. Everything below may rely on it.
 * Return: 0, or -EPROTO.
 */
int memslots_check(const struct memslots *ms);

/**
 * memslots_add() - put a slot where it belongs
 *
 * Return: 0; -ENOSPC; -EEXIST if it overlaps another; -EINVAL for one that is
 * empty, not aligned to 4 KiB or out of range.
 */
int memslots_add(struct memslots *ms, const struct memslot *slot);

/**
 * memslot_find() - the slot that holds a guest-physical address
 *
 * Return: its position, or -ENOENT.
 */
int memslot_find(const struct memslots *ms, uint64_t gpa);

/**
 * memslot_to_hva() - where a range lies in QEMU
 *
 * Return: 0; -ENOENT if no slot holds all of it.
 */
int memslot_to_hva(const struct memslots *ms, struct gpa_range gpa,
		   struct hva_range *ret_hva);

/**
 * memslot_to_gpa() - what of the guest lies there
 *
 * Return: 0; -ENOENT if no slot holds all of it.
 */
int memslot_to_gpa(const struct memslots *ms, struct hva_range hva,
		   struct gpa_range *ret_gpa);

/**
 * memslot_congruent() - can pages of @page_bytes map it on both sides?
 * @page_bytes: a power of two
 */
bool memslot_congruent(const struct memslot *s, uint64_t page_bytes);

/**
 * memslot_file_congruent() - can the page cache have such pages there?
 *
 * Always true for anonymous memory.
 */
bool memslot_file_congruent(const struct memslot *s, uint64_t page_bytes);

/**
 * memslot_blocks() - whole blocks in one slot
 * @ret_first: number of the first, gpa / 2 MiB
 */
uint32_t memslot_blocks(const struct memslot *s, uint64_t *ret_first);

/**
 * memslots_blocks() - whole blocks in all; an index is below this
 */
uint32_t memslots_blocks(const struct memslots *ms);

/**
 * memslots_index() - of a block
 *
 * Return: the index, or -ENOENT.
 */
int32_t memslots_index(const struct memslots *ms, uint64_t block);

/**
 * memslots_block() - with this index
 * @ret_slot: position of its slot; may be NULL
 *
 * Return: its number; UINT64_MAX for an index that is none.
 */
uint64_t memslots_block(const struct memslots *ms, uint32_t index,
			uint32_t *ret_slot);

/**
 * memslots_same() - do the same ranges lie at the same places?
 */
bool memslots_same(const struct memslots *a, const struct memslots *b);

#endif
