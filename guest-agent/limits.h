/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * May an action start, and must it stop? Pure: no clock, no I/O.
 */
#ifndef AGENT_LIMITS_H
#define AGENT_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto.h"

/* All that the answer depends on, when an action is asked for. */
struct admission {
	bool observe, quiet, busy;
	bool node_known;
	bool backend_missing, backend_denied;
	uint64_t free_pages, high_pages; /* of the node */
	uint64_t min_free_pages;	 /* of the guest's admin, guest-wide */
	uint64_t guest_free_pages;
	unsigned int order;
	uint64_t need_pages; /* above the high watermark, for what is asked */
	bool psi_valid;
	uint16_t psi_some_centi, psi_abort_centi;
	uint64_t cpu_left_us; /* of the long-term budget */
};

struct verdict {
	bool stop;
	enum stop_why why; /* if stop */
	const char *text;  /* static */
};

/**
 * limits_admit() - the first reason not to start, if any
 */
struct verdict limits_admit(const struct admission *a);

/* Free memory that compaction must not touch lies below the high watermark;
 * above it, room for its targets: a few blocks of the wanted order. */
#define LIMITS_MARGIN_BLOCKS UINT64_C(4)

/**
 * limits_need_pages() - free memory above the high watermark to begin with
 * @blocks:	wanted, or ACTION_BLOCKS_ALL
 * @node_pages: managed ones of the node
 *
 * Twice what will be moved, as the host's policy has it; but no more than
 * 1/32 of the node, since what is emptied takes the next moves.
 */
uint64_t limits_need_pages(uint32_t blocks, unsigned int order,
			   uint64_t node_pages);

struct limits {
	bool all; /* no target but all that can be had */
	uint64_t target_blocks;
	uint64_t max_pages, max_cpu_us, max_time_us;
	uint16_t psi_abort_centi;
};

struct progress {
	uint64_t blocks;      /* free */
	uint64_t held_blocks; /* by the backend, soon to be free */
	uint64_t migrated_pages, cpu_us, elapsed_us;
	bool psi_valid;
	uint16_t psi_some_centi;
	/* since the start, guest-wide */
	uint64_t scanned_direct_pages, swapped_out_pages;
	uint64_t allocstalls, reclaimed_pages;
};

/**
 * limits_check() - the first limit that is reached, if any
 */
struct verdict limits_check(const struct limits *l, const struct progress *p);

/**
 * limits_pause_us() - how long a running action may go unwatched
 * @gained_blocks: since the start
 *
 * Short near the target, so that it is not overshot by much.
 */
uint64_t limits_pause_us(const struct limits *l, const struct progress *p,
			 uint64_t gained_blocks);

#endif
