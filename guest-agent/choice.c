// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * DOC: how one is chosen
 *
 * First, which can do it at all, and do no more than it: a backend that makes
 * whole PMD blocks serves a small order too, but splits them at once; `fault`
 * must hold the blocks that are free already, and gains less than it costs
 * where nearly all is wanted; `memblock` gives 128 MiB at a time; `proactive`
 * is nobody's who waits, and cannot be told a node.
 *
 * Then the cheapest, each backend's work (pages moved and scanned) and CPU
 * time in relation to the best: work counts twice, since what is moved is
 * also dirtied, flushed from TLBs and faulted in by the host; where somebody
 * waits urgently the CPU time does. Each so many choices one that has not
 * been seen for longest is taken instead, if nobody waits and budget is
 * plenty: a figure that is never renewed may be wrong for ever.
 */
#include <stdio.h>
#include <string.h>

#include "choice.h"
#include "proto_codec.h"
#include "util.h"

#define EXPLORE_EVERY 16

/* `fault` pays below this share of what a full pass could give (measured:
 * 45 %); of `memblock` no more than 1.3 times what is wanted may come. */
#define FAULT_MAX_PCT	   45
#define OVERSHOOT_MAX_PCT  130
#define MEMBLOCK_GRAIN_MIB 128

/* proactive compaction starts nowhere at or below this score */
#define PROACTIVE_SCORE_MIN 15

static uint64_t mib_of(const struct choice_ask *a, uint64_t blocks)
{
	return ((blocks * (a->page_size / 1024)) << a->order) / 1024;
}

static bool fault_fits(const struct choice_ask *a)
{
	/* backend_fault.c takes no smaller ones */
	unsigned int folio = MAX(a->order, 4u);
	uint64_t most = a->free_pages >> a->order;
	uint64_t room = a->free_pages - MIN(a->free_pages, a->floor_pages);

	if (a->all || a->order > a->pmd_order)
		return false;
	if (folio != a->pmd_order && !(a->mthp_orders >> folio & 1))
		return false;
	return a->blocks + a->free_blocks <= room >> a->order &&
	       a->blocks * 100 <=
		       (most - MIN(most, a->free_blocks)) * FAULT_MAX_PCT;
}

/* Only one can hold on to what it made. */
static bool hold_by_fault(const struct choice_ask *a)
{
	return a->hold && a->usable >> BACKEND_FAULT & 1 && fault_fits(a);
}

static bool fits(const struct choice_ask *a, enum backend b)
{
	uint64_t mib = a->all ? 0 : mib_of(a, a->blocks);
	uint64_t grains = (mib + MEMBLOCK_GRAIN_MIB - 1) / MEMBLOCK_GRAIN_MIB;

	switch (b) {
	case BACKEND_COMPACT:
		return true;
	case BACKEND_FAULT:
		return fault_fits(a);
	case BACKEND_HUGETLB:
		return a->order == a->pmd_order && !a->all;
	case BACKEND_MEMBLOCK:
		return a->order >= a->pmd_order && !a->all &&
		       grains * MEMBLOCK_GRAIN_MIB * 100 <=
			       mib * OVERSHOOT_MAX_PCT;
	case BACKEND_PROACTIVE:
		return a->order == a->pmd_order && a->nr_nodes == 1 &&
		       a->urgency == URGENCY_BACKGROUND &&
		       a->score_pct > PROACTIVE_SCORE_MIN;
	case BACKEND_KMOD:
		return a->order >= a->pmd_order && !a->all;
	default:
		return false;
	}
}

/* 1000 is the best there is. */
static uint64_t relative(uint64_t v, uint64_t best)
{
	return v * 1000 / MAX(best, 1);
}

static uint64_t cost(const struct choice_ask *a, const struct gain *g,
		     const struct gain *best)
{
	uint64_t work = relative(g->work_pages, best->work_pages);
	uint64_t cpu = relative(g->cpu_us, best->cpu_us);

	return a->urgency == URGENCY_URGENT ? work + 2 * cpu : 2 * work + cpu;
}

static bool may_explore(const struct choice_ask *a, uint32_t choices)
{
	return choices % EXPLORE_EVERY == EXPLORE_EVERY - 1 &&
	       a->urgency == URGENCY_BACKGROUND &&
	       a->cpu_left_us > a->cpu_burst_us / 2;
}

static void say_cheapest(char *text, enum backend b, unsigned int nr,
			 const struct gain *g)
{
	if (nr == 1)
		(void)snprintf(text, PROTO_TEXT_MAX + 1,
			       "auto: %s, alone can do this", backend_name(b));
	else
		(void)snprintf(
			text, PROTO_TEXT_MAX + 1,
			"auto: %s, cheapest of %u: %llu pages %llu us/MiB",
			backend_name(b), nr, (unsigned long long)g->work_pages,
			(unsigned long long)g->cpu_us);
}

enum backend choice_make(struct gains *g, const struct choice_ask *ask,
			 uint64_t now_us, char *ret_text)
{
	enum gain_class class = gain_class_of(ask->order, ask->pmd_order);
	struct gain gain[BACKEND_COUNT] = {0};
	struct gain best = {UINT64_MAX, UINT64_MAX};
	enum backend cheapest = BACKEND_AUTO, oldest = BACKEND_AUTO;
	uint32_t can = 0;
	unsigned int nr = 0;

	for (unsigned int b = BACKEND_AUTO + 1; b < BACKEND_COUNT; b++) {
		if (!(ask->usable >> b & 1) || !fits(ask, b))
			continue;
		/* where it cannot, blocks are made all the same, and left free
		 */
		if (b != BACKEND_FAULT && hold_by_fault(ask))
			continue;
		can |= 1u << b;
		nr++;
		gain[b] = gains_get(g, b, class, now_us);
		best.work_pages = MIN(best.work_pages, gain[b].work_pages);
		best.cpu_us = MIN(best.cpu_us, gain[b].cpu_us);
	}
	if (!nr) {
		(void)snprintf(ret_text, PROTO_TEXT_MAX + 1,
			       "auto: none can do this");
		/* it does anything anywhere: let it say why not here */
		return BACKEND_COMPACT;
	}
	for (unsigned int b = BACKEND_AUTO + 1; b < BACKEND_COUNT; b++) {
		if (!(can >> b & 1))
			continue;
		if (cheapest == BACKEND_AUTO ||
		    cost(ask, &gain[b], &best) <
			    cost(ask, &gain[cheapest], &best))
			cheapest = b;
		if (oldest == BACKEND_AUTO ||
		    g->seen[b][class].when_us < g->seen[oldest][class].when_us)
			oldest = b;
	}
	if (may_explore(ask, g->choices++) && oldest != cheapest) {
		(void)snprintf(ret_text, PROTO_TEXT_MAX + 1,
			       "auto: %s, to see what it costs by now",
			       backend_name(oldest));
		return oldest;
	}
	say_cheapest(ret_text, cheapest, nr, &gain[cheapest]);
	return cheapest;
}
