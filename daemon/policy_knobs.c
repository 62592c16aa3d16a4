// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * DOC: what a guest's kernel is told
 *
 * Two knobs are steered, and only in a guest that offers them:
 *
 * watermark_scale_factor. The kernel keeps, for each zone,
 *
 *	gap = max(base / 4, managed * wsf / 10000)
 *	low = base + gap, high = low + gap
 *
 * wakes kswapd below low and lets it reclaim up to high. Between base and
 * high lie two gaps, and the reserve shall fit in there: gap = reserve / 2.
 * One factor serves all nodes, so the neediest decides. A factor whose gap is
 * no larger than base / 4 does nothing and is never set; nor is one below the
 * guest's own, which somebody chose. Each write zeroes the zones' boosts and
 * retunes the per-CPU lists, so the factor moves seldom and in steps: to
 * about the double, so that kswapd is never asked for gigabytes at once, and
 * only by a quarter or more, so that a wandering demand rewrites nothing. The
 * memory must be there to take: free, or clean cache; a reserve paid for with
 *swap would be harm.
 *
 * compaction_proactiveness. The kernel's own background compaction looks at
 * order 9 and a score of the whole node, and does not stop at a target: with
 * a reserve of 2 % in an otherwise scattered node it would work for as long
 * as it runs. It is held at 0 where our own backend keeps as many blocks ready
 * as it would, and put back when that has failed three times in a row: the
 * kernel may then have better luck.
 * Writing 0 starts nothing; putting the old value back wakes kcompactd once.
 *
 * Deliberately left alone, though a directive could carry them:
 * watermark_boost_factor is the kernel's own defence against mixing blocks,
 * and nothing measured says that a guest is better off without it. THP defrag
 * changes what applications see (stalls against fallbacks); that is their
 * admin's choice. percpu_pagelist_high_fraction costs allocation speed while
 * it is high; the agent raises it around an action and puts it back.
 *
 * A knob that somebody else changed is theirs until the guest reboots.
 */
#include "policy_priv.h"

#define KNOB_BIT(k) (UINT32_C(1) << (k))
#define STEERED                                                                \
	(KNOB_BIT(KNOB_WATERMARK_SCALE_FACTOR) |                               \
	 KNOB_BIT(KNOB_COMPACTION_PROACTIVENESS))

/* the kernel's default; what a guest has that we met with it held by us */
#define WSF_DEFAULT 10

/*
 * Caps. 150 is the highest that was measured to help a 2 GiB guest (1.5 % a
 * gap: MemAvailable falls by twice that); large guests afford more, and a
 * performance guest as much as the largest reserve (10 %, two gaps of 5 %)
 * needs. Beyond 500 a tenth of memory would lie idle.
 */
#define WSF_MAX_SMALL	150
#define WSF_MAX_LARGE	200
#define WSF_MAX_EVER	500
#define WSF_LARGE_BYTES (UINT64_C(8) << 30)

/*
 * Between two writes: PSI's avg10 needs its 10 s to show what the last step
 * did, and a rise is not made under pressure.
 */
#define WSF_DWELL_US (15 * SEC_US)

/* mm/compaction.c; what a guest has that we met with it held by us */
#define PROACTIVENESS_DEFAULT 20

/* Putting proactiveness back starts a pass of kcompactd: not each minute */
#define PROACTIVE_DWELL_US (120 * SEC_US)

/* Third failure in a row: back-off is then 8 cooldowns */
#define GAVE_UP_COOLDOWNS 4

uint64_t wsf_gap_pages(uint64_t managed_pages, uint64_t base_pages,
		       uint32_t wsf)
{
	uint64_t scaled = pages_clamp(managed_pages) * wsf / 10000;

	return MAX(base_pages / 4, scaled);
}

uint64_t wsf_for_gap(uint64_t managed_pages, uint64_t gap_pages)
{
	uint64_t m = pages_clamp(managed_pages);
	uint64_t wsf;

	if (!m)
		return 1;
	/* rounded up: floor(m * ceil(g * 10000 / m) / 10000) >= g */
	wsf = (pages_clamp(gap_pages) * 10000 + m - 1) / m;
	return MAX(wsf, 1);
}

uint64_t wsf_nil_max(uint64_t managed_pages, uint64_t base_pages)
{
	uint64_t m = pages_clamp(managed_pages);

	if (!m)
		return 0;
	/* largest wsf with floor(m * wsf / 10000) <= base / 4 */
	return ((pages_clamp(base_pages) / 4 + 1) * 10000 - 1) / m;
}

static bool knob_usable(const struct policy_state *st,
			const struct msg_hello *h, enum knob k)
{
	return (h->knobs & ~st->foreign_mask) >> k & 1;
}

static bool knob_held(const struct policy_state *st, enum knob k)
{
	return st->last_knob_mask >> k & 1;
}

void knobs_observe(struct policy_state *st, const struct msg_report *r)
{
	bool fresh = !st->seen_guest_us;

	st->foreign_mask |= r->knob_foreign & STEERED;
	for (unsigned int k = 0; k < KNOB_COUNT; k++) {
		uint32_t bit = KNOB_BIT(k);

		if (!(r->knob_valid & STEERED & bit))
			continue;
		if (!(r->knob_managed & bit)) {
			if (st->last_knob_mask & bit)
				continue; /* not carried out yet */
			st->own_knob_mask |= bit;
			st->own_knob[k] = r->knob[k];
		} else if (fresh) {
			/* held since before we started: go on from there */
			st->last_knob_mask |= bit;
			st->last_knob[k] = r->knob[k];
		}
	}
}

void knobs_keep(const struct policy_state *st, struct msg_directive *dir)
{
	dir->knob_mask = st->last_knob_mask;
	for (unsigned int k = 0; k < KNOB_COUNT; k++) {
		if (knob_held(st, k))
			dir->knob[k] = st->last_knob[k];
	}
}

static uint32_t wsf_cap(const struct policy_cfg *cfg,
			const struct guest_view *v)
{
	if (v->size_pages < WSF_LARGE_BYTES / v->page_size)
		return WSF_MAX_SMALL;
	return cfg->mode == VM_MODE_PERFORMANCE ? WSF_MAX_EVER : WSF_MAX_LARGE;
}

/* The factor that the reserves call for, before any cap or ramp. */
static uint64_t wsf_wanted(const struct guest_view *v)
{
	uint64_t wanted = 0;

	for (unsigned int i = 0; i < v->nr_nodes; i++) {
		const struct node_view *nv = &v->node[i];
		uint64_t gap = (nv->reserve_blocks << v->order) / 2;
		/* half of the cache, since not all of it is clean or idle */
		uint64_t room = nv->free_pages + nv->file_pages / 2;

		gap = MIN(gap, room / 2);
		if (nv->known && gap)
			wanted = MAX(wanted,
				     wsf_for_gap(nv->managed_pages, gap));
	}
	return wanted;
}

static uint64_t wsf_own(const struct policy_state *st)
{
	int64_t own = WSF_DEFAULT;

	if (st->own_knob_mask & KNOB_BIT(KNOB_WATERMARK_SCALE_FACTOR))
		own = st->own_knob[KNOB_WATERMARK_SCALE_FACTOR];
	return CLAMP(own, 1, 3000); /* the kernel's range */
}

/*
 * What to hold now, or 0 for the guest's own value. @floor is what has no
 * effect beyond the guest's own setting; steps are relative to that.
 */
static uint64_t wsf_step(const struct policy_state *st, uint64_t target,
			 uint64_t floor, bool may_rise, uint64_t now_us)
{
	bool held = knob_held(st, KNOB_WATERMARK_SCALE_FACTOR);
	uint64_t cur = 0, from, next;

	if (held)
		cur = CLAMP(st->last_knob[KNOB_WATERMARK_SCALE_FACTOR], 1,
			    WSF_MAX_EVER);
	from = MAX(cur, floor);
	if (target <= floor)
		target = floor;
	if (target >= from + MAX(from / 4, 1)) {
		/* no remainder that would be too small for a next step */
		next = target <= from * 2 + from / 2 ? target : from * 2;
		if (!may_rise)
			return cur;
	} else if (held && (target <= from - from / 4 || target == floor)) {
		next = MAX(target, from / 2);
	} else {
		next = cur;
	}
	if (next == cur)
		return cur > floor ? cur : 0;
	if (st->wsf_since_us &&
	    elapsed_us(now_us, st->wsf_since_us) < WSF_DWELL_US)
		return cur;
	return next > floor ? next : 0;
}

static uint64_t wsf_decide(const struct policy_cfg *cfg,
			   const struct policy_state *st,
			   const struct guest_view *v, uint64_t now_us,
			   struct decision *d)
{
	uint64_t own = wsf_own(st), wanted = wsf_wanted(v);
	uint64_t nil = wsf_nil_max(v->base_managed_pages, v->base_pages);
	uint64_t target = MIN(wanted, wsf_cap(cfg, v));
	uint64_t floor = MAX(own, nil), next;

	if (floor >= WSF_MAX_EVER) {
		decision_reject(d, "watermark_scale_factor",
				"the guest's own watermarks are higher");
		next = 0;
	} else {
		next = wsf_step(st, target, floor, !v->pressure, now_us);
	}
	decision_evidence(d, "wsf", next);
	decision_evidence(d, "wsf_wanted", wanted);
	decision_evidence(d, "wsf_own", own);
	decision_evidence(d, "wsf_without_effect_max", nil);
	return next;
}

/*
 * Blocks that the kernel's proactive compaction keeps ready on a node: a zone
 * is left alone once no more than 100 - P % of its free memory is outside
 * blocks (mm/compaction.c, fragmentation_score_wmark()).
 */
static uint64_t kernel_keeps_blocks(const struct policy_state *st,
				    const struct guest_view *v,
				    const struct node_view *nv)
{
	const enum knob k = KNOB_COMPACTION_PROACTIVENESS;
	int64_t own = PROACTIVENESS_DEFAULT;

	if (st->own_knob_mask & KNOB_BIT(k))
		own = CLAMP(st->own_knob[k], 0, 100);
	return pages_clamp(nv->free_pages) * (uint64_t)own / 100 >> v->order;
}

/*
 * Does our own backend do what proactive compaction would? Not where it would
 * keep fewer blocks ready: measured, a guest with more than half of its memory
 * free and scattered had 112 ready by itself and 23 with ours in its place,
 * and a burst of huge pages stalled for it.
 */
static bool ours_serves(const struct policy_cfg *cfg,
			const struct policy_state *st,
			const struct guest_view *v)
{
	uint64_t gave_up_us = MAX(cfg->cooldown_us, SEC_US);
	bool wanted = false;

	if (!v->backend_ok || cfg->backend == BACKEND_PROACTIVE)
		return false;
	gave_up_us = MIN(gave_up_us, UINT64_MAX / GAVE_UP_COOLDOWNS) *
		     GAVE_UP_COOLDOWNS;
	for (unsigned int i = 0; i < v->nr_nodes; i++) {
		if (v->node[i].st->backoff_us > gave_up_us)
			return false;
		if (v->node[i].reserve_blocks <
		    kernel_keeps_blocks(st, v, &v->node[i]))
			return false;
		if (v->node[i].reserve_blocks)
			wanted = true;
	}
	return wanted;
}

static bool proactive_hold(const struct policy_cfg *cfg,
			   const struct policy_state *st,
			   const struct guest_view *v, uint64_t now_us)
{
	const enum knob k = KNOB_COMPACTION_PROACTIVENESS;
	bool held = knob_held(st, k);
	bool want = ours_serves(cfg, st, v);

	/* already off: writing the same value is what we never do */
	if (!held && st->own_knob_mask & KNOB_BIT(k) && st->own_knob[k] == 0)
		return false;
	if (want != held && st->proactive_since_us &&
	    elapsed_us(now_us, st->proactive_since_us) < PROACTIVE_DWELL_US)
		return held;
	return want;
}

static void foreign_note(const struct policy_state *st, struct decision *d)
{
	if (st->foreign_mask & KNOB_BIT(KNOB_WATERMARK_SCALE_FACTOR))
		decision_reject(d, "watermark_scale_factor",
				"changed by somebody else");
	if (st->foreign_mask & KNOB_BIT(KNOB_COMPACTION_PROACTIVENESS))
		decision_reject(d, "compaction_proactiveness",
				"changed by somebody else");
}

void knobs_decide(const struct policy_cfg *cfg, struct policy_state *st,
		  const struct msg_hello *h, const struct guest_view *v,
		  uint64_t now_us, struct msg_directive *dir,
		  struct decision *d)
{
	const uint32_t wsf_bit = KNOB_BIT(KNOB_WATERMARK_SCALE_FACTOR);
	const uint32_t pro_bit = KNOB_BIT(KNOB_COMPACTION_PROACTIVENESS);
	bool serves = ours_serves(cfg, st, v), moved;
	uint64_t wsf = 0;

	dir->knob_mask = 0;
	if (knob_usable(st, h, KNOB_WATERMARK_SCALE_FACTOR))
		wsf = wsf_decide(cfg, st, v, now_us, d);
	if (wsf) {
		dir->knob_mask |= wsf_bit;
		dir->knob[KNOB_WATERMARK_SCALE_FACTOR] = wsf;
	}
	if (knob_usable(st, h, KNOB_COMPACTION_PROACTIVENESS) &&
	    proactive_hold(cfg, st, v, now_us)) {
		dir->knob_mask |= pro_bit;
		dir->knob[KNOB_COMPACTION_PROACTIVENESS] = 0;
	}
	if (!serves && !(dir->knob_mask & pro_bit))
		decision_reject(d, "compaction_proactiveness",
				"only the kernel's own compaction serves");
	foreign_note(st, d);
	decision_evidence(d, "proactiveness_held",
			  (dir->knob_mask & pro_bit) != 0);
	moved = ((dir->knob_mask ^ st->last_knob_mask) & wsf_bit) ||
		(wsf &&
		 st->last_knob[KNOB_WATERMARK_SCALE_FACTOR] != (int64_t)wsf);
	if (moved)
		st->wsf_since_us = now_us;
	if ((dir->knob_mask ^ st->last_knob_mask) & pro_bit)
		st->proactive_since_us = now_us;
}
