/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fragmentation scores by the kernel's own formulas (mm/vmstat.c), for any
 * order. Pure; integer divisions truncate where the kernel's do.
 *
 * @blocks is always PROTO_ORDERS_MAX columns of /proc/buddyinfo, zero where
 * the kernel has fewer. Pages on per-CPU lists are not in there.
 */
#ifndef VMDEFRAG_FRAG_H
#define VMDEFRAG_FRAG_H

#include <stdint.h>

#include "proto.h"

/**
 * frag_free_pages() - pages in all free blocks
 */
uint64_t frag_free_pages(const uint32_t blocks[PROTO_ORDERS_MAX]);

/**
 * frag_suitable_blocks() - blocks of @order that the free blocks hold
 *
 * A block of a higher order counts as many times as it can be split.
 */
uint64_t frag_suitable_blocks(const uint32_t blocks[PROTO_ORDERS_MAX],
			      unsigned int order);

/**
 * frag_ext_pct() - extfrag_for_order(): share of free memory that is of no
 * use for @order, 0..100; 0 if nothing is free
 */
unsigned int frag_ext_pct(const uint32_t blocks[PROTO_ORDERS_MAX],
			  unsigned int order);

/**
 * frag_unusable_permille() - debugfs extfrag/unusable_index: the same, 0..1000;
 * 1000 if nothing is free
 */
unsigned int frag_unusable_permille(const uint32_t blocks[PROTO_ORDERS_MAX],
				    unsigned int order);

/**
 * frag_index_permille() - debugfs extfrag/extfrag_index: would an allocation
 * of @order fail for lack of memory (towards 0) or for fragmentation (towards
 * 1000)? -1000 if it would not fail
 */
int frag_index_permille(const uint32_t blocks[PROTO_ORDERS_MAX],
			unsigned int order);

/**
 * frag_zone_weighted_pct() - fragmentation_score_zone_weighted(): a zone's
 * share of its node's score; kcompactd compares the sum over the zones
 */
unsigned int frag_zone_weighted_pct(uint64_t zone_present_pages,
				    unsigned int zone_ext_pct,
				    uint64_t node_present_pages);

/**
 * frag_add() - sum[o] += blocks[o], saturating
 */
void frag_add(uint32_t sum[PROTO_ORDERS_MAX],
	      const uint32_t blocks[PROTO_ORDERS_MAX]);

#endif
