// SPDX-License-Identifier: GPL-2.0-or-later
#include "frag.h"

uint64_t frag_free_pages(const uint32_t blocks[PROTO_ORDERS_MAX])
{
	return frag_suitable_blocks(blocks, 0);
}

uint64_t frag_suitable_blocks(const uint32_t blocks[PROTO_ORDERS_MAX],
			      unsigned int order)
{
	uint64_t suitable = 0;

	for (unsigned int o = order; o < PROTO_ORDERS_MAX; o++)
		suitable += (uint64_t)blocks[o] << (o - order);
	return suitable;
}

/* Share of the free pages that lie in blocks below @order, in 1/@scale. */
static unsigned int unusable(const uint32_t blocks[PROTO_ORDERS_MAX],
			     unsigned int order, unsigned int scale)
{
	uint64_t free_pages = frag_free_pages(blocks);
	uint64_t usable = frag_suitable_blocks(blocks, order) << order;

	return (unsigned int)((free_pages - usable) * scale / free_pages);
}

unsigned int frag_ext_pct(const uint32_t blocks[PROTO_ORDERS_MAX],
			  unsigned int order)
{
	return frag_free_pages(blocks) ? unusable(blocks, order, 100) : 0;
}

unsigned int frag_unusable_permille(const uint32_t blocks[PROTO_ORDERS_MAX],
				    unsigned int order)
{
	return frag_free_pages(blocks) ? unusable(blocks, order, 1000) : 1000;
}

int frag_index_permille(const uint32_t blocks[PROTO_ORDERS_MAX],
			unsigned int order)
{
	uint64_t requested = UINT64_C(1) << order;
	uint64_t nr_blocks = 0;

	for (unsigned int o = 0; o < PROTO_ORDERS_MAX; o++)
		nr_blocks += blocks[o];
	if (!nr_blocks)
		return 0;
	if (frag_suitable_blocks(blocks, order))
		return -1000;
	return 1000 -
	       (int)((1000 + frag_free_pages(blocks) * 1000 / requested) /
		     nr_blocks);
}

unsigned int frag_zone_weighted_pct(uint64_t zone_present_pages,
				    unsigned int zone_ext_pct,
				    uint64_t node_present_pages)
{
	return (unsigned int)(zone_present_pages * zone_ext_pct /
			      (node_present_pages + 1));
}

void frag_add(uint32_t sum[PROTO_ORDERS_MAX],
	      const uint32_t blocks[PROTO_ORDERS_MAX])
{
	for (unsigned int o = 0; o < PROTO_ORDERS_MAX; o++) {
		uint64_t s = (uint64_t)sum[o] + blocks[o];

		sum[o] = s > UINT32_MAX ? UINT32_MAX : (uint32_t)s;
	}
}
