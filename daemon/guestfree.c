// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "guestfree.h"
#include "util.h"

void guest_free_sum(const struct msg_hello *h, const struct msg_report *r,
		    int node, struct guest_free *ret_free)
{
	unsigned int nr = MIN(h->nr_orders, PROTO_ORDERS_MAX);
	unsigned int pmd = h->pmd_order;

	memset(ret_free, 0, sizeof(*ret_free));
	for (size_t i = 0; i < MIN(r->nr_zones, PROTO_ZONES_MAX); i++) {
		const struct zone_report *z = &r->zone[i];

		if (node != GUEST_ALL_NODES && z->node != node)
			continue;
		ret_free->pages += z->free_pages;
		for (unsigned int o = 0; o < nr; o++)
			ret_free->blocks_by_order[o] += z->free_blocks[o];
	}
	for (unsigned int o = pmd; o < nr; o++)
		ret_free->pmd_blocks += ret_free->blocks_by_order[o]
					<< (o - pmd);
	ret_free->pages_in_blocks = ret_free->pmd_blocks << pmd;
}

uint64_t guest_free_blocks(const struct guest_free *f, unsigned int order)
{
	uint64_t blocks = 0;

	for (unsigned int o = order; o < PROTO_ORDERS_MAX; o++)
		blocks += f->blocks_by_order[o] << (o - order);
	return blocks;
}
