// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "alignment.h"
#include "util.h"

#define BLOCK_PAGES 512u
#define PAGE_KIB    4u
#define BLOCK_KIB   2048u

static struct alignment_node *node_of(struct alignment *a, uint8_t node)
{
	for (unsigned int i = 0; i < a->nr_nodes; i++) {
		if (a->node[i].node == node)
			return &a->node[i];
	}
	/* a guest that names more nodes than there can be: the last takes
	 * the rest */
	if (a->nr_nodes == PROTO_NODES_MAX)
		return &a->node[PROTO_NODES_MAX - 1];
	a->node[a->nr_nodes].node = node;
	return &a->node[a->nr_nodes++];
}

static void count_guest_only(struct alignment_node *n,
			     const struct backing_block *h)
{
	n->guest_only++;
	if (h->flags & BACKING_SWAPPED)
		n->swapped++;
	else if (h->flags & BACKING_SHARED)
		n->shared++;
	else if (!h->present)
		n->absent++;
	else
		n->collapsible++;
}

static void count_block(struct alignment_node *n, const struct backing_block *h,
			uint8_t guest)
{
	bool huge = h->flags & BACKING_HUGE;

	n->host_kib += (uint64_t)h->present * PAGE_KIB;
	n->host_huge += huge;
	if (guest_block_is_huge(guest)) {
		if (huge)
			n->huge_huge++;
		else
			count_guest_only(n, h);
	} else if (guest == GUEST_BLOCK_FREE) {
		n->free_blocks++;
		n->free_backed_kib += (uint64_t)h->present * PAGE_KIB;
		n->free_unbacked_kib +=
			BLOCK_KIB - (uint64_t)h->present * PAGE_KIB;
	} else if (guest >= GUEST_BLOCK_BASE &&
		   guest <= GUEST_BLOCK_BASE_FULL) {
		n->host_only += huge;
		n->neither += !huge;
	} else {
		n->other++;
	}
}

void alignment_count(const struct backing_block *host, const uint8_t *guest,
		     const uint8_t *node, uint32_t nr, struct alignment *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->all.node = ALIGNMENT_NODE_ALL;
	ret->guest_known = guest != NULL;
	for (uint32_t i = 0; i < nr; i++) {
		uint8_t g = guest ? guest[i] : GUEST_BLOCK_NONE;

		count_block(&ret->all, &host[i], g);
		if (g != GUEST_BLOCK_NONE)
			count_block(node_of(ret, node[i]), &host[i], g);
	}
}

static unsigned int permille(uint64_t part, uint64_t whole)
{
	return whole ? (unsigned int)(MIN(part, whole) * 1000 / whole) : 1000;
}

unsigned int alignment_score_permille(const struct alignment_node *n)
{
	return permille(n->huge_huge, alignment_guest_huge(n));
}

unsigned int alignment_used_permille(const struct alignment_node *n,
				     uint64_t used_kib)
{
	return permille(n->huge_huge * BLOCK_KIB, used_kib);
}
