// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * DOC: actions: what they may cost, what they brought, who else may ask
 *
 * An action is asked for with a target and three budgets (pages, CPU, time).
 * Its result teaches two things: how many page moves a block costs on that
 * node, which sizes the next ask, and whether it was worth it at all. A person
 * may ask for one too: then nobody judges whether it pays, but what keeps the
 * guest safe is checked all the same.
 */
#include <string.h>

#include "policy_priv.h"

/*
 * Moves for one more free block by the kernel's own compaction, measured on a
 * guest at random occupancy: 260 to 298 of a block's 512 pages.
 */
#define MOVES_NUM 280
#define MOVES_DEN 512

/*
 * Bounds of what is learned. Below a sixteenth of a block luck was measured,
 * and asks would grow without reason; above four blocks the back-off ends the
 * matter anyway.
 */
#define MOVES_MIN_SHIFT 4
#define MOVES_MAX_SHIFT 2

/*
 * Whoever asked waits for it: four times the time and CPU of a background
 * action, and for a large node what a full pass takes. Measured, emulated:
 * 1.3 s of CPU a GiB of a node that is half scattered free memory; hardware
 * takes a tenth of that at most.
 */
#define REQUEST_BUDGET	    4
#define REQUEST_GIB_CPU_US  (1 * SEC_US)
#define REQUEST_GIB_TIME_US (2 * SEC_US)
#define BYTES_OF_GIB	    (UINT64_C(1) << 30)

/* Floor of the back-off's first step, for a cooldown configured as 0. */
#define BACKOFF_MIN_US SEC_US

static uint64_t moves_default(uint8_t order)
{
	return (UINT64_C(1) << order) * MOVES_NUM / MOVES_DEN + 1;
}

static uint64_t moves_bound(uint64_t moves, uint8_t order)
{
	uint64_t block = UINT64_C(1) << MIN(order, PROTO_ORDERS_MAX);
	uint64_t min = MAX(block >> MOVES_MIN_SHIFT, 1);

	return CLAMP(moves, min, block << MOVES_MAX_SHIFT);
}

/* A planner knows best, then experience, then the measurement. */
uint64_t moves_per_block(const struct node_view *nv, uint8_t order)
{
	if (nv->curve_moves)
		return moves_bound(nv->curve_moves, order);
	if (nv->st && nv->st->moves_per_block)
		return moves_bound(nv->st->moves_per_block, order);
	return moves_default(order);
}

static uint64_t backoff_next(const struct policy_cfg *cfg, uint64_t old_us)
{
	uint64_t base = MAX(cfg->cooldown_us, BACKOFF_MIN_US);

	return MIN(mul_sat(MAX(old_us, base), 2), cfg->backoff_max_us);
}

void backoff_raise(const struct policy_cfg *cfg, struct policy_node_state *ns,
		   uint64_t now_us)
{
	ns->backoff_us = backoff_next(cfg, ns->backoff_us);
	ns->backoff_until_us = sum_sat_u64(now_us, ns->backoff_us);
}

void action_fill(const struct policy_cfg *cfg, uint8_t node, uint8_t order,
		 uint64_t blocks, uint64_t moves, struct msg_action *ret_a)
{
	memset(ret_a, 0, sizeof(*ret_a));
	ret_a->node = node;
	ret_a->backend =
		cfg->backend < BACKEND_COUNT ? cfg->backend : BACKEND_AUTO;
	ret_a->order = order;
	ret_a->blocks = blocks;
	ret_a->urgency = URGENCY_BACKGROUND;
	/* twice what is expected: the rest is for bad luck, and it is what
	 * blocks_affordable() made sure of; four blocks' worth at least */
	ret_a->max_pages =
		MAX(mul_sat(2 * moves, blocks), UINT64_C(4) << order);
	ret_a->max_pages = MIN(ret_a->max_pages, MAX(cfg->action_max_pages, 1));
	ret_a->max_cpu_us = cfg->action_max_cpu_us;
	ret_a->max_time_us = cfg->action_max_us;
}

static bool request_refuse(struct decision *d, enum decision_reason reason,
			   const char *what, const char *why)
{
	d->kind = DECISION_HOLD;
	d->reason = reason;
	if (what)
		decision_reject(d, what, why);
	return false;
}

/* The checks that need a view of the guest; NULL node: not in the report. */
static bool request_allowed(const struct policy_snapshot *s,
			    const struct guest_view *v,
			    const struct node_view *nv, uint8_t order,
			    uint32_t blocks, struct decision *d)
{
	uint64_t room;

	if (!nv || !nv->known)
		return request_refuse(d, REASON_NO_REPORT, "node",
				      "the guest reports no such node");
	if (!order || order >= MIN(s->hello->nr_orders, PROTO_ORDERS_MAX))
		return request_refuse(
			d, REASON_NO_BACKEND, "order",
			"the guest's allocator has no such order");
	if (!v->backend_ok)
		return request_refuse(d, REASON_NO_BACKEND, NULL, NULL);
	if (s->action_running || s->report->action_id)
		return request_refuse(d, REASON_BUSY, NULL, NULL);
	/* moved pages need room above the watermarks: that of one batch, the
	 * worst case of two blocks; the pages that it frees serve the next */
	room = UINT64_C(4) << order;
	if (low_memory(v, nv) || nv->free_pages < nv->high_pages + room)
		return request_refuse(d, REASON_LOW_MEMORY, NULL, NULL);
	if (!blocks)
		return request_refuse(d, REASON_ENOUGH, "action",
				      "no blocks were asked for");
	return true;
}

bool policy_request(const struct policy_cfg *cfg,
		    const struct policy_snapshot *s, uint8_t node,
		    uint8_t order, uint32_t blocks, uint64_t now_us,
		    struct msg_action *ret_action, struct decision *ret_d)
{
	struct policy_node_state none = {0};
	const struct node_view *nv = NULL;
	enum decision_reason reason;
	struct guest_view v;
	uint64_t most, gib;

	memset(ret_d, 0, sizeof(*ret_d));
	ret_d->time_us = now_us;
	ret_d->node = node;
	ret_d->order = order;
	if (guest_hold(cfg, s, &reason))
		return request_refuse(ret_d, reason, NULL, NULL);
	guest_view_build(cfg, s, &v);
	if (!order)
		order = v.order;
	ret_d->order = order;
	for (unsigned int i = 0; i < v.nr_nodes; i++) {
		v.node[i].st = &none;
		if (v.node[i].node == node)
			nv = &v.node[i];
	}
	if (nv)
		node_evidence(&v, nv, ret_d);
	if (!request_allowed(s, &v, nv, order, blocks, ret_d))
		return false;

	/* for the budget: what could be had at most, and each block full */
	most = nv->size_pages >> order;
	if (blocks != ACTION_BLOCKS_ALL)
		most = blocks = MIN(blocks, most);
	action_fill(cfg, node, order, blocks, moves_default(order), ret_action);
	ret_action->urgency = URGENCY_NORMAL;
	ret_action->max_pages =
		MAX(cfg->action_max_pages, mul_sat(most, UINT64_C(1) << order));
	gib = nv->size_pages / (BYTES_OF_GIB / v.page_size);
	ret_action->max_cpu_us =
		MAX(mul_sat(cfg->action_max_cpu_us, REQUEST_BUDGET),
		    mul_sat(gib, REQUEST_GIB_CPU_US));
	ret_action->max_time_us =
		MAX(mul_sat(cfg->action_max_us, REQUEST_BUDGET),
		    mul_sat(gib, REQUEST_GIB_TIME_US));
	reason_copy(ret_action->reason, REASON_REQUEST);
	ret_d->kind = DECISION_ACTION;
	ret_d->reason = REASON_REQUEST;
	ret_d->blocks = blocks;
	return true;
}

/* Did it end for a reason that says nothing about the memory? */
static bool result_says_nothing(const struct msg_result *r)
{
	return r->why == WHY_CANCELLED || r->why == WHY_QUIET ||
	       r->why == WHY_SESSION || r->why == WHY_BUSY;
}

static void moves_learn(struct policy_node_state *ns,
			const struct msg_result *r, uint64_t gained)
{
	uint64_t moved = pages_clamp(r->migrated) + pages_clamp(r->reclaimed);
	uint64_t old = ns->moves_per_block ? ns->moves_per_block
					   : moves_default(r->order);
	uint64_t sample;

	if (!moved)
		return; /* refused, or merged without a move */
	sample = moves_bound(moved / MAX(gained, 1), r->order);
	ns->moves_per_block = (3 * moves_bound(old, r->order) + sample) / 4;
}

void policy_result(const struct policy_cfg *cfg, struct policy_state *st,
		   const struct msg_result *r, uint64_t now_us)
{
	struct policy_node_state *ns = NULL;
	uint64_t gained, asked = r->asked;
	bool harm = r->why == WHY_PRESSURE || r->why == WHY_RECLAIM;

	for (unsigned int i = 0; i < PROTO_NODES_MAX; i++) {
		if (st->node[i].used && st->node[i].node == r->node)
			ns = &st->node[i];
	}
	if (!ns)
		return; /* of a node that no report named */
	gained = r->blocks_after > r->blocks_before
			 ? r->blocks_after - r->blocks_before
			 : 0;
	ns->cooldown_until_us = sum_sat_u64(now_us, ns->cooldown_us);
	if (r->order != ns->order)
		return; /* a person's, of an order that is not steered */
	ns->pending = false;
	moves_learn(ns, r, gained);
	if (result_says_nothing(r))
		return;
	/* "all": any gain is a good one, since there is no target to miss */
	if (asked == ACTION_BLOCKS_ALL)
		asked = 1;
	if (harm || gained * WORTH_DEN < asked) {
		backoff_raise(cfg, ns, now_us);
		return;
	}
	ns->backoff_us = 0;
	ns->backoff_until_us = 0;
}
