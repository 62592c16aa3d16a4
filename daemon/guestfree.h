/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef VMDEFRAG_GUESTFREE_H
#define VMDEFRAG_GUESTFREE_H

#include "proto.h"

#define GUEST_ALL_NODES (-1)

/* Free memory of a guest, as its report tells it. Pure. */
struct guest_free {
	uint64_t blocks_by_order[PROTO_ORDERS_MAX];
	uint64_t pages;		  /* all */
	uint64_t pmd_blocks;	  /* whole ones of the PMD order */
	uint64_t pages_in_blocks; /* what lies in those */
};

/**
 * guest_free_sum() - over the zones of one node, or all
 * @node: a node's id, or GUEST_ALL_NODES
 */
void guest_free_sum(const struct msg_hello *h, const struct msg_report *r,
		    int node, struct guest_free *ret_free);

/**
 * guest_free_blocks() - blocks of @order: a bigger one counts for several
 */
uint64_t guest_free_blocks(const struct guest_free *f, unsigned int order);

#endif
