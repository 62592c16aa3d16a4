// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * DOC: from a guest's report to figures that can be reckoned with
 *
 * Nothing in a report is believed. A guest that lies may get a bad plan for
 * itself, but no figure of it may overflow, divide by zero or make us loop:
 * page counts are cut to PAGES_MAX, counts of records to their arrays, free
 * memory to the node's size. A node listed twice counts as first listed, so
 * does a zone of one kind; zones of nodes that are not listed are ignored.
 *
 * A node's ZONE_DMA is left out where the node has anything else: the
 * kernel's lowmem_reserve keeps its few blocks from user memory, so they are
 * no headroom, and in a small guest they would be a tenth of the reserve.
 */
#include <string.h>

#include "policy_priv.h"

/*
 * A planner's cost curve older than this describes another memory: a busy
 * guest turns over its free lists within a minute.
 */
#define CURVE_AGE_MAX_MS 60000u

/*
 * The order to keep free: that of the PMD, since that is what THP faults ask
 * for; but not beyond the pageblock's (the kernel groups pages by mobility,
 * and compacts, in pageblocks: larger free blocks are luck, not something to
 * be had on demand) nor beyond what the buddy allocator has lists for. On
 * x86-64 all of them say 9.
 */
static uint8_t target_order(const struct msg_hello *h)
{
	uint8_t order = h->pmd_order;
	uint8_t nr_orders = MIN(h->nr_orders, PROTO_ORDERS_MAX);

	if (!order || order > h->pageblock_order)
		order = h->pageblock_order;
	if (order >= nr_orders)
		order = nr_orders ? nr_orders - 1 : 0;
	return order;
}

/* Can a fault get a PMD-sized page? Where not, a reserve serves nobody. */
static bool pmd_in_use(const struct msg_hello *h, const struct msg_report *r)
{
	unsigned int nr = MIN(r->nr_mthp, PROTO_ORDERS_MAX);

	for (unsigned int i = 0; i < nr; i++) {
		if (r->mthp[i].order != h->pmd_order ||
		    r->mthp[i].policy == MTHP_INHERIT)
			continue;
		return r->mthp[i].policy != MTHP_NEVER;
	}
	return r->thp_enabled != MTHP_NEVER;
}

static uint8_t mthp_always_order(const struct msg_hello *h,
				 const struct msg_report *r)
{
	unsigned int nr = MIN(r->nr_mthp, PROTO_ORDERS_MAX);
	uint8_t order = 0;

	for (unsigned int i = 0; i < nr; i++) {
		const struct mthp_report *m = &r->mthp[i];

		if (m->order >= h->pmd_order || m->order <= order)
			continue;
		if (m->policy == MTHP_ALWAYS || (m->policy == MTHP_INHERIT &&
						 r->thp_enabled == MTHP_ALWAYS))
			order = m->order;
	}
	return order;
}

/*
 * A guest with isolated CPUs is a real-time one, to be observed only: what a
 * backend drains (per-CPU lists, LRU batches) waits behind FIFO tasks there.
 */
static bool backend_usable(const struct policy_cfg *cfg,
			   const struct msg_hello *h)
{
	uint32_t known = (UINT32_C(1) << BACKEND_COUNT) - 1;
	uint32_t usable = h->backends & known & ~(UINT32_C(1) << BACKEND_AUTO);

	if (h->features & UINT32_C(1) << FEATURE_ISOLCPUS)
		return false;
	if (cfg->backend == BACKEND_AUTO)
		return usable != 0;
	return cfg->backend < BACKEND_COUNT && usable >> cfg->backend & 1;
}

/* What the curve says one more block costs; 0 where it says nothing. */
static uint64_t curve_cost(const struct cost_curve *c)
{
	unsigned int nr = MIN(c->nr_points, PROTO_CURVE_MAX);
	uint64_t cost = 0;

	if (c->age_ms > CURVE_AGE_MAX_MS)
		return 0;
	/* the dearest point: an estimate that errs, errs towards caution */
	for (unsigned int i = 0; i < nr; i++) {
		uint64_t moves = pages_clamp(c->point[i].moves);

		if (c->point[i].blocks)
			cost = MAX(cost, moves / c->point[i].blocks + 1);
	}
	return cost;
}

static struct node_view *node_find(struct guest_view *v, uint8_t node)
{
	for (unsigned int i = 0; i < v->nr_nodes; i++) {
		if (v->node[i].node == node)
			return &v->node[i];
	}
	return NULL;
}

static void nodes_add(struct guest_view *v, const struct msg_report *r)
{
	unsigned int nr = MIN(r->nr_nodes, PROTO_NODES_MAX);

	for (unsigned int i = 0; i < nr; i++) {
		const struct node_report *n = &r->node[i];
		struct node_view *nv;

		if (node_find(v, n->node))
			continue;
		nv = &v->node[v->nr_nodes++];
		nv->node = n->node;
		nv->size_pages = pages_clamp(n->total_pages);
		nv->anon_pages = MIN(n->anon_pages, nv->size_pages);
		nv->file_pages = MIN(n->file_pages, nv->size_pages);
		nv->curve_moves = curve_cost(&n->curve);
		nv->held_pages = MIN(n->held_pages, nv->size_pages);
		v->size_pages = sum_sat_u64(v->size_pages, nv->size_pages);
	}
}

static void zone_add(struct guest_view *v, struct node_view *nv,
		     const struct msg_hello *h, const struct zone_report *z)
{
	unsigned int nr_orders = MIN(h->nr_orders, PROTO_ORDERS_MAX);

	nv->known = true;
	nv->managed_pages += pages_clamp(z->managed_pages);
	nv->free_pages += pages_clamp(z->free_pages);
	nv->high_pages += pages_clamp(z->high_pages);
	for (unsigned int o = v->order; o < nr_orders; o++)
		nv->free_blocks += (uint64_t)z->free_blocks[o]
				   << (o - v->order);
}

static void zones_add(struct guest_view *v, const struct msg_hello *h,
		      const struct msg_report *r)
{
	unsigned int nr = MIN(r->nr_zones, PROTO_ZONES_MAX);
	uint8_t seen[PROTO_NODES_MAX] = {0}; /* bits: kinds */

	/* from Movable down to DMA, so that DMA sees whether it is alone */
	for (int kind = ZONE_KIND_COUNT - 1; kind >= 0; kind--) {
		for (unsigned int i = 0; i < nr; i++) {
			const struct zone_report *z = &r->zone[i];
			struct node_view *nv = node_find(v, z->node);

			if (z->kind != kind || !nv ||
			    seen[nv - v->node] >> kind & 1)
				continue;
			seen[nv - v->node] |= 1u << kind;
			if (kind != ZONE_KIND_MOVABLE) {
				v->base_pages += pages_clamp(z->min_pages);
				v->base_managed_pages +=
					pages_clamp(z->managed_pages);
			}
			if (kind != ZONE_KIND_DMA || !nv->managed_pages)
				zone_add(v, nv, h, z);
		}
	}
}

static void node_finish(struct node_view *nv, uint8_t order)
{
	uint64_t in_blocks;

	nv->managed_pages = MIN(nv->managed_pages, nv->size_pages);
	nv->free_pages = MIN(nv->free_pages, nv->managed_pages);
	nv->free_blocks = MIN(nv->free_blocks, nv->free_pages >> order);
	in_blocks = nv->free_blocks << order;
	nv->scattered_pages = nv->free_pages - in_blocks;
	nv->unusable_permille =
		nv->free_pages ? nv->scattered_pages * 1000 / nv->free_pages
			       : 1000;
	/* what the agent holds is as ready as what is free */
	nv->free_blocks += nv->held_pages >> order;
	if (!nv->managed_pages)
		nv->known = false;
}

/*
 * Where the host has base pages for good, blocks of the PMD order gain a
 * shorter walk at most: the highest order that the guest itself uses always is
 * worked at, or none at all.
 */
static void host_base_follow(const struct policy_snapshot *s,
			     struct guest_view *v)
{
	if (!s->host_base || v->order < v->pmd_order)
		return;
	v->host_base = !v->mthp_always_order;
	v->order_in_use = v->mthp_always_order != 0;
	if (v->mthp_always_order)
		v->order = v->mthp_always_order;
}

void guest_view_build(const struct policy_cfg *cfg,
		      const struct policy_snapshot *s, struct guest_view *ret_v)
{
	const struct msg_hello *h = s->hello;
	const struct msg_report *r = s->report;

	memset(ret_v, 0, sizeof(*ret_v));
	/* 4 to 64 KiB are what Linux has; anything else is no page size */
	ret_v->page_size = h->page_size;
	if (ret_v->page_size < 4096 || ret_v->page_size > 65536)
		ret_v->page_size = 4096;
	ret_v->order = target_order(h);
	ret_v->pmd_order = MIN(h->pmd_order, PROTO_ORDERS_MAX);
	ret_v->order_in_use = ret_v->order && pmd_in_use(h, r);
	ret_v->mthp_always_order = mthp_always_order(h, r);
	host_base_follow(s, ret_v);
	ret_v->backend_ok = backend_usable(cfg, h);
	/* without PSI the caller knows better: demand_pressure_guess() */
	ret_v->pressure = r->psi_valid && cfg->psi_abort_pct &&
			  r->psi.some_avg10_centi / 100 >= cfg->psi_abort_pct;
	nodes_add(ret_v, r);
	zones_add(ret_v, h, r);
	for (unsigned int i = 0; i < ret_v->nr_nodes; i++)
		node_finish(&ret_v->node[i], ret_v->order);
}
