// SPDX-License-Identifier: GPL-2.0-or-later
#include "limits.h"
#include "util.h"

/* Below this an action could not even be killed in time. */
#define CPU_WORTH_STARTING_US (20 * MSEC_US)

/*
 * Reclaim by allocating tasks, or swapping, while we move pages about means
 * that memory is short, whatever PSI says (or cannot say, with psi=0).
 * 16 MiB and 4 MiB: more than a burst that has nothing to do with us.
 */
#define SCAN_DIRECT_MAX_PAGES 4096
#define SWAP_OUT_MAX_PAGES    1024

/* A read of buddyinfo costs 4 us natively, 60 us emulated: at most 3 %. */
#define PAUSE_MIN_US (2 * MSEC_US)
#define PAUSE_MAX_US (25 * MSEC_US)

static struct verdict stop(enum stop_why why, const char *text)
{
	return (struct verdict){.stop = true, .why = why, .text = text};
}

/* Moves for a block, of its pages: 260 to 298 of 512 were measured. */
#define MOVES_NUM	   280
#define MOVES_DEN	   512
#define NEED_SHARE_OF_NODE 32

uint64_t limits_need_pages(uint32_t blocks, unsigned int order,
			   uint64_t node_pages)
{
	uint64_t most = node_pages / NEED_SHARE_OF_NODE;
	uint64_t moves = ((uint64_t)blocks << order) * MOVES_NUM / MOVES_DEN;

	return MIN(2 * moves, most);
}

static struct verdict admit_memory(const struct admission *a)
{
	uint64_t margin_pages =
		MAX(LIMITS_MARGIN_BLOCKS << a->order, a->need_pages);

	if (a->guest_free_pages < a->min_free_pages)
		return stop(WHY_LOW_MEMORY,
			    "guest has less free than MinFreeMiB");
	if (a->free_pages <= a->high_pages + margin_pages)
		return stop(WHY_LOW_MEMORY,
			    "node has too little above its high watermark");
	if (a->psi_valid && a->psi_some_centi > a->psi_abort_centi)
		return stop(WHY_PRESSURE, "memory pressure");
	return (struct verdict){0};
}

struct verdict limits_admit(const struct admission *a)
{
	const struct {
		bool refuse;
		enum stop_why why;
		const char *text;
	} reasons[] = {
		{!a->node_known, WHY_MISSING, "no such node"},
		{a->backend_missing, WHY_MISSING, "backend is not there"},
		{a->backend_denied, WHY_DENIED, "backend is not allowed"},
		{a->observe, WHY_OBSERVE, "agent runs with --observe"},
		{a->quiet, WHY_QUIET, "directive says quiet"},
		{a->busy, WHY_BUSY, "another action runs"},
		{a->cpu_left_us < CPU_WORTH_STARTING_US, WHY_CPU,
		 "long-term CPU budget is used up"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		if (reasons[i].refuse)
			return stop(reasons[i].why, reasons[i].text);
	}
	return admit_memory(a);
}

struct verdict limits_check(const struct limits *l, const struct progress *p)
{
	if (!l->all && p->blocks >= l->target_blocks)
		return stop(WHY_TARGET, "");
	if (p->psi_valid && p->psi_some_centi > l->psi_abort_centi)
		return stop(WHY_PRESSURE, "memory pressure");
	if (p->swapped_out_pages > SWAP_OUT_MAX_PAGES)
		return stop(WHY_RECLAIM, "guest swaps");
	if (p->scanned_direct_pages > SCAN_DIRECT_MAX_PAGES)
		return stop(WHY_RECLAIM, "guest reclaims directly");
	if (p->elapsed_us >= l->max_time_us)
		return stop(WHY_TIME, "time limit");
	if (p->cpu_us >= l->max_cpu_us)
		return stop(WHY_CPU, "CPU limit");
	if (p->migrated_pages >= l->max_pages)
		return stop(WHY_PAGES, "limit of moved pages");
	return (struct verdict){0};
}

uint64_t limits_pause_us(const struct limits *l, const struct progress *p,
			 uint64_t gained_blocks)
{
	uint64_t pause_us = PAUSE_MAX_US;
	uint64_t missing, have = p->blocks + p->held_blocks;

	/* a quarter of the time that the rest would take at this rate */
	if (!l->all) {
		missing = l->target_blocks - MIN(l->target_blocks, have);
		pause_us = missing * p->elapsed_us / (gained_blocks + 1) / 4;
	}
	/* nor past a limit by more than a bit */
	if (l->max_time_us > p->elapsed_us)
		pause_us = MIN(pause_us, l->max_time_us - p->elapsed_us);
	if (l->max_cpu_us > p->cpu_us)
		pause_us = MIN(pause_us, l->max_cpu_us - p->cpu_us);
	return CLAMP(pause_us, PAUSE_MIN_US, PAUSE_MAX_US);
}
