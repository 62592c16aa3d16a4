// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * DOC: headroom steering, theory of operation
 *
 * A page fault that wants 2 MiB gets it at once if a free block of that order
 * lies ready; else it falls back or compacts on the faulting task's time. So
 * each guest node gets a reserve of free blocks, made in the background, just
 * large enough for what the guest asks for, and nothing more: page moves are
 * not free.
 *
 *	reserve	= max(min % of the node, demand * time to refill), at most
 *		  max % of the node. Demand is measured (policy_demand.c);
 *		  the time to refill is a cooldown and one action, since that
 *		  is how long a block may be missed at worst.
 *	mode	performance: twice the minimum, refilled sooner; density: no
 *		minimum, measured demand only; observe decides as balanced.
 *
 * A node is acted on when its free blocks fell below the low mark in two
 * successive reports (or nearly ran out), up to the full reserve: hysteresis
 * against noise. And only where that is compaction's business:
 *
 *	- memory is fragmented, not short: enough free memory lies outside
 *	  whole blocks, and the node's free memory exceeds its high watermarks
 *	  by twice the expected page moves (moved pages need somewhere to go,
 *	  and must not push the node into reclaim);
 *	- the guest's tasks do not wait for memory already (PSI, or direct
 *	  reclaim where there is no PSI);
 *	- the last action was long enough ago, which is sooner the faster the
 *	  reserve goes; and if actions bring less than
 *	  a quarter of what they ask, each waits twice as long as the one
 *	  before: compaction that does not pay is the harm we are here to end.
 *
 * What an action may cost, what it brought and what a person asks for is in
 * policy_action.c, knobs are in policy_knobs.c. What a guest says may be a lie;
 * policy_view.c makes it harmless.
 *
 * Pure: no clock, no I/O, no log, no allocation. What is kept between ticks is
 * policy_state, one a VM, for the core to hold and to zero.
 */
#include <string.h>

#include "policy.h"
#include "policy_priv.h"

/*
 * A report older than this describes another guest: agents report each second
 * or two, so five to ten were missed.
 */
#define REPORT_AGE_MAX_US (10 * SEC_US)

/* No compaction in a node with less free memory: nothing to win, much to lose
 * (the OOM killer is near; kcompactd itself gives up there). */
#define FREE_MIN_BYTES (UINT64_C(64) << 20)

/*
 * The best full compaction measured left 1.5 to 10 % of free memory outside
 * of 2 MiB blocks. Below that no backend finds anything.
 */
#define UNUSABLE_MIN_PERMILLE 100

/* One report below the low mark is noise (a process that ends next second
 * gives its blocks back); two are a trend. */
#define BELOW_REPORTS 2

/*
 * Between two actions at the least: reports come each second, and counters
 * lag. A burst of 13 blocks a second met a reserve of 100 that was refilled
 * each 10 s, and 26 of its 192 faults compacted for themselves.
 */
#define COOLDOWN_MIN_US SEC_US

struct mode_rule {
	uint32_t min_mult;	   /* of reserve_min_pct */
	uint32_t low_num, low_den; /* low mark, of the reserve */
};

static const struct mode_rule mode_rules[] = {
	[VM_MODE_OFF] = {0, 0, 1},	[VM_MODE_OBSERVE] = {1, 3, 4},
	[VM_MODE_BALANCED] = {1, 3, 4}, [VM_MODE_PERFORMANCE] = {2, 7, 8},
	[VM_MODE_DENSITY] = {0, 3, 4},
};
static_assert(ARRAY_SIZE(mode_rules) == VM_MODE_COUNT, "one rule a mode");

void policy_cfg_defaults(struct policy_cfg *cfg)
{
	*cfg = (struct policy_cfg){
		/* a host as shipped looks, and touches nothing */
		.mode = VM_MODE_OBSERVE,
		.backend = BACKEND_AUTO,
		/*
		 * 32 to 48 MiB kept free were enough for a 2 GiB guest under
		 * type pressure; more only cost moves.
		 */
		.reserve_min_pct = 2,
		/* beyond a tenth the reserve costs more cache than it saves */
		.reserve_max_pct = 10,
		/* the best steering measured took 1/10 to 1/4 of what
		 * kcompactd takes unsteered; 5 % of one CPU bounds the rest */
		.cpu_budget_pct = 5,
		/* one task in ten waiting for memory: stop adding to it */
		.psi_abort_pct = 10,
		/* 136 blocks took 1.3 s under emulation, 10 to 30 times
		 * native: room for the reserve of any guest seen */
		.action_max_us = 10 * SEC_US,
		/* one thread, half of it waiting for locks and writeback */
		.action_max_cpu_us = 5 * SEC_US,
		/* 1 GiB of 4 KiB pages: copies for about half a second */
		.action_max_pages = UINT64_C(1) << 18,
		/* counters and per-CPU lists need a few reports to settle */
		.cooldown_us = 10 * SEC_US,
		/* four tries an hour where nothing can be had */
		.backoff_max_us = 900 * SEC_US,
		/* several missed directives; a lost host is noticed within
		 * the time that a person waits */
		.lease_us = 30 * SEC_US,
		/* enum collapse_mode: on; only where the guest uses it */
		.collapse = 1,
		.hint = true,
		/* 0.5 to 30 ms of helper and 40 ms of guest a pass */
		.map_interval_us = 10 * SEC_US,
		/* a block that is held serves nobody's fault at once */
		.reserve_hold_us = 0,
	};
}

void decision_evidence(struct decision *d, const char *name, uint64_t value)
{
	if (d->nr_evidence >= DECISION_EVIDENCE_MAX)
		return;
	d->evidence[d->nr_evidence].name = name;
	d->evidence[d->nr_evidence].value = (int64_t)MIN(value, INT64_MAX);
	d->nr_evidence++;
}

void decision_reject(struct decision *d, const char *what, const char *why)
{
	if (d->nr_rejected >= DECISION_REJECTED_MAX)
		return;
	d->rejected[d->nr_rejected].what = what;
	d->rejected[d->nr_rejected].why = why;
	d->nr_rejected++;
}

void reason_copy(char *dst, unsigned int reason)
{
	strncpy(dst, decision_reason_name(reason), PROTO_TEXT_MAX);
	dst[PROTO_TEXT_MAX] = '\0';
}

static const struct mode_rule *mode_rule(const struct policy_cfg *cfg)
{
	return &mode_rules[cfg->mode < VM_MODE_COUNT ? cfg->mode : VM_MODE_OFF];
}

/* What holds for the whole guest, whatever its memory looks like. */
bool guest_hold(const struct policy_cfg *cfg, const struct policy_snapshot *s,
		enum decision_reason *ret_reason)
{
	enum decision_reason reason;

	if (cfg->mode == VM_MODE_OFF || cfg->mode >= VM_MODE_COUNT)
		reason = REASON_OFF;
	else if (s->user_paused)
		reason = REASON_USER_PAUSED;
	else if (s->vm_stopped)
		reason = REASON_VM_STOPPED;
	else if (s->vm_migrating)
		reason = REASON_MIGRATING;
	else if (!s->hello || !s->report ||
		 s->report_age_us > REPORT_AGE_MAX_US)
		reason = REASON_NO_REPORT;
	else
		return false;
	*ret_reason = reason;
	return true;
}

/*
 * Nothing may run. Paused and off: the guest gets its knobs back. Otherwise
 * they stay as they are: putting proactiveness back wakes kcompactd, which is
 * the last thing a migration needs. A late report is no reason to cancel what
 * runs: it may be late because of that.
 */
static void plan_hold(struct policy_state *st, enum decision_reason reason,
		      uint64_t now_us, struct policy_plan *plan)
{
	struct decision *d = &plan->decision[0];
	uint32_t held = st->last_knob_mask;

	plan->directive.quiet = reason != REASON_NO_REPORT;
	if (reason == REASON_OFF || reason == REASON_USER_PAUSED) {
		st->last_knob_mask = 0;
		st->wsf_since_us = 0;
		st->proactive_since_us = 0;
	}
	knobs_keep(st, &plan->directive);
	d->time_us = now_us;
	d->kind = DECISION_HOLD;
	d->reason = reason;
	decision_evidence(d, "knobs_put_back_mask", held & ~st->last_knob_mask);
	plan->nr_decisions = 1;
	plan->changed[0] = !st->hold_recorded || st->hold_reason != reason;
	st->hold_recorded = true;
	st->hold_reason = reason;
	/* so that what comes after the hold is a change in the history */
	for (unsigned int i = 0; i < PROTO_NODES_MAX; i++)
		st->node[i].recorded = false;
}

/* A new kernel: what was learned about the old one is void. */
static void state_follow(struct policy_state *st,
			 const struct policy_snapshot *s)
{
	if (st->have_boot &&
	    memcmp(st->boot_id, s->hello->boot_id, sizeof(st->boot_id)) != 0)
		memset(st, 0, sizeof(*st));
	memcpy(st->boot_id, s->hello->boot_id, sizeof(st->boot_id));
	st->have_boot = true;
	st->hold_recorded = false;
}

static bool view_has_node(const struct guest_view *v, uint8_t node)
{
	for (unsigned int i = 0; i < v->nr_nodes; i++) {
		if (v->node[i].node == node)
			return true;
	}
	return false;
}

/*
 * The state of @node, or a new one in a free place, or in that of a node that
 * the guest no longer has. There is one: no view has more than all places.
 */
static struct policy_node_state *node_state(struct policy_state *st,
					    const struct guest_view *v,
					    uint8_t node)
{
	struct policy_node_state *place = NULL;

	for (unsigned int i = 0; i < PROTO_NODES_MAX; i++) {
		struct policy_node_state *ns = &st->node[i];

		if (ns->used && ns->node == node)
			return ns;
		if (!ns->used)
			place = ns;
		else if (!place && !view_has_node(v, ns->node))
			place = ns;
	}
	memset(place, 0, sizeof(*place));
	place->used = true;
	place->node = node;
	return place;
}

/* Demand over the time that a block may be missed, in blocks of v's order. */
static uint64_t demand_blocks(const struct policy_cfg *cfg,
			      const struct guest_view *v,
			      const struct node_view *nv)
{
	/* an hour at most: longer configured times mean "no hurry" */
	uint64_t refill_us =
		MIN(sum_sat_u64(cfg->cooldown_us, cfg->action_max_us),
		    3600 * SEC_US);
	uint64_t milli = mul_sat(nv->st->demand_milli, refill_us / MSEC_US);
	uint64_t blocks = milli / 1000000;

	/* THPs larger than a pageblock take several blocks each */
	if (v->pmd_order > v->order)
		blocks = mul_sat(blocks, UINT64_C(1)
						 << (v->pmd_order - v->order));
	return blocks;
}

/*
 * As long as demand takes for a quarter of the reserve, which is how much is
 * missing at the low mark; no demand, no hurry.
 */
static uint64_t cooldown_us(const struct policy_cfg *cfg,
			    const struct guest_view *v,
			    const struct node_view *nv)
{
	uint64_t milli = nv->st->demand_milli, us;

	if (v->pmd_order > v->order)
		milli = mul_sat(milli, UINT64_C(1)
					       << (v->pmd_order - v->order));
	if (!milli)
		return cfg->cooldown_us;
	us = mul_sat(nv->reserve_blocks, 1000 * SEC_US / 4) / milli;
	return MIN(MAX(us, COOLDOWN_MIN_US), cfg->cooldown_us);
}

static void reserve_size(const struct policy_cfg *cfg,
			 const struct guest_view *v, struct node_view *nv)
{
	const struct mode_rule *rule = mode_rule(cfg);
	uint64_t max_pct = MIN(cfg->reserve_max_pct, 100);
	uint64_t min_pct = mul_sat(cfg->reserve_min_pct, rule->min_mult);
	uint64_t blocks;

	if (!v->order_in_use || !nv->known)
		return; /* zero: nobody would take them */
	min_pct = MIN(min_pct, max_pct);
	blocks = nv->size_pages * min_pct / 100 >> v->order;
	blocks = MAX(blocks, demand_blocks(cfg, v, nv));
	blocks = MIN(blocks, nv->size_pages * max_pct / 100 >> v->order);
	nv->reserve_blocks = blocks;
	/* rounded up: a reserve of one block is triggered by none */
	nv->low_blocks =
		(blocks * rule->low_num + rule->low_den - 1) / rule->low_den;
}

/* Blocks that free memory above the watermarks allows to be moved for. */
static uint64_t blocks_affordable(const struct node_view *nv, uint64_t moves)
{
	if (nv->free_pages <= nv->high_pages)
		return 0;
	return (nv->free_pages - nv->high_pages) / 2 / moves;
}

/* Down to a quarter of the reserve: the next burst will find none. */
static bool nearly_out(const struct node_view *nv)
{
	return nv->free_blocks < (nv->reserve_blocks + 3) / 4;
}

/* Hysteresis: is this node being filled up? */
static void refill_follow(struct node_view *nv, bool new_report)
{
	struct policy_node_state *ns = nv->st;

	if (nv->free_blocks >= nv->reserve_blocks)
		ns->refilling = false;
	if (nv->free_blocks >= nv->low_blocks) {
		ns->below_reports = 0;
		return;
	}
	if (new_report && ns->below_reports < BELOW_REPORTS)
		ns->below_reports++;
	/* nearly out: no time to look twice */
	if (ns->below_reports >= BELOW_REPORTS || nearly_out(nv))
		ns->refilling = true;
}

bool low_memory(const struct guest_view *v, const struct node_view *nv)
{
	return nv->free_pages < FREE_MIN_BYTES / v->page_size;
}

/* Is it fragmentation? If so, @ret_ask says how many blocks to ask for. */
static bool fragmented(const struct policy_cfg *cfg, const struct guest_view *v,
		       const struct node_view *nv, struct decision *d,
		       uint64_t *ret_ask)
{
	uint64_t moves = moves_per_block(nv, v->order);
	uint64_t missing = nv->reserve_blocks - nv->free_blocks;
	uint64_t worth = (missing + WORTH_DEN - 1) / WORTH_DEN;
	uint64_t ask = MIN(missing, nv->scattered_pages >> v->order);

	if (nv->unusable_permille < UNUSABLE_MIN_PERMILLE) {
		decision_reject(d, "action",
				"free memory is already in whole blocks");
		return false;
	}
	if (ask < worth) {
		decision_reject(d, "action",
				"too little free memory outside of blocks");
		return false;
	}
	ask = MIN(ask, blocks_affordable(nv, moves));
	if (ask < worth) {
		decision_reject(d, "action",
				"free memory too close to the watermarks for "
				"the moves it takes");
		return false;
	}
	ask = MIN(ask, MAX(cfg->action_max_pages / moves, 1));
	if (ask < missing)
		decision_reject(d, "whole reserve at once",
				"more than free memory or the page budget "
				"allows");
	*ret_ask = MIN(ask, UINT32_MAX - 1);
	return true;
}

void node_evidence(const struct guest_view *v, const struct node_view *nv,
		   struct decision *d)
{
	decision_evidence(d, "free_blocks", nv->free_blocks);
	decision_evidence(d, "reserve_blocks", nv->reserve_blocks);
	decision_evidence(d, "low_mark_blocks", nv->low_blocks);
	decision_evidence(d, "demand_milliblocks_per_s", nv->st->demand_milli);
	decision_evidence(d, "free_pages", nv->free_pages);
	decision_evidence(d, "scattered_pages", nv->scattered_pages);
	decision_evidence(d, "high_watermark_pages", nv->high_pages);
	decision_evidence(d, "unusable_permille", nv->unusable_permille);
	decision_evidence(d, "moves_per_block_pages",
			  moves_per_block(nv, v->order));
	decision_evidence(d, "backoff_us", nv->st->backoff_us);
}

/*
 * The verdict on one node; d->reason is REASON_HEADROOM if it may be acted
 * on, with d->blocks. Reasons that describe the memory come before those that
 * only say "not now", so that explain tells the cause.
 */
static void node_judge(const struct policy_cfg *cfg, const struct guest_view *v,
		       const struct node_view *nv, bool busy, uint64_t now_us,
		       struct decision *d)
{
	struct policy_node_state *ns = nv->st;
	uint64_t ask = 0;

	d->kind = DECISION_HOLD;
	if (!nv->known) {
		d->reason = REASON_NO_REPORT;
	} else if (v->host_base) {
		d->reason = REASON_HOST_BASE;
	} else if (!ns->refilling) {
		d->reason = REASON_ENOUGH;
		if (!v->order_in_use)
			decision_reject(d, "reserve",
					"this guest uses no huge pages of "
					"that order");
	} else if (!v->backend_ok) {
		d->reason = REASON_NO_BACKEND;
	} else if (v->pressure) {
		d->reason = REASON_PRESSURE;
	} else if (low_memory(v, nv)) {
		d->reason = REASON_LOW_MEMORY;
	} else if (busy) {
		d->reason = REASON_BUSY;
	} else if (!fragmented(cfg, v, nv, d, &ask)) {
		d->reason = REASON_SHORTAGE;
	} else if (now_us < ns->backoff_until_us) {
		d->reason = REASON_BACKOFF;
	} else if (now_us < ns->cooldown_until_us) {
		d->reason = REASON_COOLDOWN;
	} else {
		d->reason = REASON_HEADROOM;
		d->blocks = ask;
	}
}

/*
 * An action was planned, its cooldown is over, nothing runs and no result
 * came: it brought nothing. Keeps a guest that never answers, and one that is
 * only observed, from being asked for ever at full rate.
 */
static void pending_expire(const struct policy_cfg *cfg,
			   struct policy_node_state *ns, bool busy,
			   uint64_t now_us)
{
	if (!ns->pending || busy || now_us < ns->cooldown_until_us)
		return;
	ns->pending = false;
	backoff_raise(cfg, ns, now_us);
}

/* Which of two nodes is further below its reserve? */
static bool needier(const struct node_view *a, const struct node_view *b)
{
	/* free/reserve as fractions, cross-multiplied; at most 2^40 each */
	uint64_t fa = a->free_blocks, ra = a->reserve_blocks;
	uint64_t fb = b->free_blocks, rb = b->reserve_blocks;

	return mul_sat(fa, rb) < mul_sat(fb, ra);
}

static void action_plan(const struct policy_cfg *cfg,
			const struct guest_view *v, uint64_t now_us,
			struct policy_plan *plan)
{
	const struct node_view *best = NULL;
	unsigned int at = 0;

	for (unsigned int i = 0; i < v->nr_nodes; i++) {
		if (plan->decision[i].reason != REASON_HEADROOM)
			continue;
		if (!best || needier(&v->node[i], best)) {
			best = &v->node[i];
			at = i;
		}
	}
	for (unsigned int i = 0; i < v->nr_nodes; i++) {
		struct decision *d = &plan->decision[i];

		if (d->reason != REASON_HEADROOM || i == at)
			continue;
		d->reason = REASON_BUSY;
		d->blocks = 0;
		decision_reject(d, "action", "another node needs it more");
	}
	if (!best)
		return;
	plan->decision[at].kind = DECISION_ACTION;
	action_fill(cfg, best->node, v->order, plan->decision[at].blocks,
		    moves_per_block(best, v->order), &plan->action[0]);
	plan->action[0].hold_ms =
		MIN(cfg->reserve_hold_us / MSEC_US, ACTION_HOLD_MAX_MS);
	if (nearly_out(best))
		plan->action[0].urgency = URGENCY_NORMAL;
	reason_copy(plan->action[0].reason, REASON_HEADROOM);
	plan->nr_actions = 1;
	best->st->pending = true;
	best->st->cooldown_until_us =
		sum_sat_u64(now_us, best->st->cooldown_us);
}

/*
 * Worth a line in the history? Each action; and each new verdict, except the
 * ones that only follow from an action and pass by themselves.
 */
static bool node_changed(struct policy_node_state *ns, const struct decision *d)
{
	bool differs = !ns->recorded || ns->last_kind != d->kind ||
		       ns->last_reason != d->reason;

	if (ns->recorded &&
	    (d->reason == REASON_BUSY || d->reason == REASON_COOLDOWN))
		return false;
	ns->recorded = true;
	ns->last_kind = d->kind;
	ns->last_reason = d->reason;
	return differs || d->kind == DECISION_ACTION;
}

static void nodes_decide(const struct policy_cfg *cfg, struct policy_state *st,
			 const struct policy_snapshot *s, struct guest_view *v,
			 uint64_t now_us, struct policy_plan *plan)
{
	bool busy = s->action_running || s->report->action_id;
	bool new_report = s->report->guest_us != st->seen_guest_us;

	for (unsigned int i = 0; i < v->nr_nodes; i++) {
		struct node_view *nv = &v->node[i];
		struct decision *d = &plan->decision[i];

		d->time_us = now_us;
		d->node = nv->node;
		d->order = v->order;
		reserve_size(cfg, v, nv);
		nv->st->cooldown_us = cooldown_us(cfg, v, nv);
		refill_follow(nv, new_report);
		pending_expire(cfg, nv->st, busy, now_us);
		node_judge(cfg, v, nv, busy, now_us, d);
		node_evidence(v, nv, d);
	}
	action_plan(cfg, v, now_us, plan);
	for (unsigned int i = 0; i < v->nr_nodes; i++)
		plan->changed[i] =
			node_changed(v->node[i].st, &plan->decision[i]);
	plan->nr_decisions = v->nr_nodes;
}

static bool knobs_differ(const struct policy_state *st,
			 const struct msg_directive *dir)
{
	if (dir->knob_mask != st->last_knob_mask)
		return true;
	for (unsigned int k = 0; k < KNOB_COUNT; k++) {
		if (dir->knob_mask >> k & 1 && dir->knob[k] != st->last_knob[k])
			return true;
	}
	return false;
}

static void directive_decide(const struct policy_cfg *cfg,
			     struct policy_state *st,
			     const struct policy_snapshot *s,
			     const struct guest_view *v, uint64_t now_us,
			     struct policy_plan *plan)
{
	struct msg_directive *dir = &plan->directive;
	struct decision *d = &plan->decision[plan->nr_decisions];

	d->time_us = now_us;
	d->kind = DECISION_DIRECTIVE;
	d->order = v->order;
	knobs_decide(cfg, st, s->hello, v, now_us, dir, d);
	if (dir->knob_mask)
		d->reason = REASON_WATERMARKS;
	else
		d->reason = v->pressure ? REASON_PRESSURE : REASON_ENOUGH;
	if (s->report->psi_valid)
		decision_evidence(d, "psi_some_avg10_centi",
				  s->report->psi.some_avg10_centi);
	else
		decision_evidence(d, "allocstall_milli_per_s", st->stall_milli);
	/* noted for whoever reads it; smaller orders are not steered */
	decision_evidence(d, "mthp_always_order", v->mthp_always_order);
	plan->changed[plan->nr_decisions] = knobs_differ(st, dir);
	plan->nr_decisions++;
	st->last_knob_mask = dir->knob_mask;
	memcpy(st->last_knob, dir->knob, sizeof(st->last_knob));
}

static void directive_fill(const struct policy_cfg *cfg,
			   struct msg_directive *dir)
{
	dir->lease_ms = MIN(cfg->lease_us / MSEC_US, UINT32_MAX);
	dir->cpu_budget_ppm = MIN(cfg->cpu_budget_pct, 100) * 10000;
	dir->psi_abort_centi = (uint16_t)(MIN(cfg->psi_abort_pct, 100) * 100);
}

void policy_decide(const struct policy_cfg *cfg, struct policy_state *st,
		   const struct policy_snapshot *s, uint64_t now_us,
		   struct policy_plan *ret_plan)
{
	enum decision_reason reason;
	struct guest_view v;

	memset(ret_plan, 0, sizeof(*ret_plan));
	directive_fill(cfg, &ret_plan->directive);
	if (guest_hold(cfg, s, &reason)) {
		plan_hold(st, reason, now_us, ret_plan);
		reason_copy(ret_plan->directive.reason, reason);
		return;
	}
	state_follow(st, s);
	guest_view_build(cfg, s, &v);
	for (unsigned int i = 0; i < v.nr_nodes; i++) {
		v.node[i].st = node_state(st, &v, v.node[i].node);
		v.node[i].st->order = v.order;
	}
	demand_update(st, s->report, &v);
	if (!s->report->psi_valid)
		v.pressure = demand_pressure_guess(st);
	knobs_observe(st, s->report);
	nodes_decide(cfg, st, s, &v, now_us, ret_plan);
	directive_decide(cfg, st, s, &v, now_us, ret_plan);
	st->seen_guest_us = s->report->guest_us;
	reason_copy(ret_plan->directive.reason,
		    ret_plan->decision[ret_plan->nr_decisions - 1].reason);
}
