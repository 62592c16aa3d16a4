/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: do the huge pages of guest and host lie on each other?
 *
 * For each 2 MiB block of a guest two things are known: what its kernel keeps
 * there (enum guest_block) and how the host maps it (struct backing_block).
 * Only where both are huge does a TLB entry cover 2 MiB:
 *
 *			host huge	host in base pages, or nothing
 *	guest huge	huge-on-huge	guest-only
 *	guest in base	host-only	neither
 *	guest free	headroom that is backed, or is not
 *
 * The score is huge-on-huge / guest-huge. A guest that breaks up its folios
 * would raise that, so it goes with huge-on-huge / guest used. Pure.
 */
#ifndef VMDEFRAG_ALIGNMENT_H
#define VMDEFRAG_ALIGNMENT_H

#include "backing.h"
#include "proto.h"

#define ALIGNMENT_NODE_ALL 0xff

struct alignment_node {
	uint8_t node; /* of the guest; ALIGNMENT_NODE_ALL in the sum */
	/* blocks of 2 MiB */
	uint64_t huge_huge, guest_only, host_only, neither;
	uint64_t free_blocks;
	uint64_t other; /* offline, or not known */
	/* guest-only, where a collapse might help and where not */
	uint64_t collapsible; /* in base pages, whole, neither swapped nor
				 shared */
	uint64_t swapped, shared, absent;
	/* of whole free blocks, by the host's pages under them */
	uint64_t free_backed_kib, free_unbacked_kib;
	uint64_t host_kib;  /* present under all blocks */
	uint64_t host_huge; /* blocks, whatever the guest has there */
};

struct alignment {
	bool guest_known; /* else only the host's side is */
	uint8_t nr_nodes;
	struct alignment_node node[PROTO_NODES_MAX];
	struct alignment_node all;
};

/**
 * alignment_count() - all blocks
 * @guest: enum guest_block of each, or NULL: no agent
 * @node:  guest node of each, with @guest
 */
void alignment_count(const struct backing_block *host, const uint8_t *guest,
		     const uint8_t *node, uint32_t nr, struct alignment *ret);

/* Blocks that the guest holds by huge folios. */
static inline uint64_t alignment_guest_huge(const struct alignment_node *n)
{
	return n->huge_huge + n->guest_only;
}

/**
 * alignment_score_permille() - huge-on-huge of guest-huge; 1000 of nothing
 */
unsigned int alignment_score_permille(const struct alignment_node *n);

/**
 * alignment_used_permille() - huge-on-huge of what the guest uses
 * @used_kib: MemTotal - MemFree - Cached - Slab
 */
unsigned int alignment_used_permille(const struct alignment_node *n,
				     uint64_t used_kib);

static inline bool guest_block_is_huge(uint8_t b)
{
	return b == GUEST_BLOCK_FOLIO || b == GUEST_BLOCK_HUGETLB;
}

#endif
