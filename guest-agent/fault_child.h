/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The child of the fault backend: takes blocks until there are enough, then
 * ends, which frees them all. It shares a page with the agent to say how far
 * it is.
 */
#ifndef AGENT_FAULT_CHILD_H
#define AGENT_FAULT_CHILD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* From Linux 6.1's mman.h; older headers lack it. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum fault_end {
	FAULT_RUNS,
	FAULT_TARGET, /* enough */
	FAULT_YIELD,  /* too much work brought no block */
	FAULT_FLOOR,  /* free memory came near the high watermark */
	FAULT_HOLDS,  /* enough, and kept: it lives on */
	FAULT_NEEDED, /* kept, until somebody else needed some */
	FAULT_ERROR,  /* error says which */
};

/* Written by the child alone. */
struct fault_share {
	_Atomic uint64_t held_blocks, failed_blocks; /* folios */
	_Atomic uint64_t stalls;   /* direct reclaims during our faults */
	_Atomic uint64_t stall_us; /* time in faults that found no block */
	_Atomic uint32_t end;	   /* enum fault_end */
	_Atomic int error;	   /* positive errno */
};

struct fault_plan {
	int proc_fd, sys_fd;
	unsigned int node, pmd_order;
	unsigned int order;	 /* of the folios taken */
	unsigned int want_order; /* of the blocks counted, no greater */
	bool collapse, background;
	uint64_t target_blocks; /* held and free, of want_order */
	uint64_t floor_pages, node_pages;
	uint64_t hold_us;     /* 0: end at the target */
	uint64_t hold_blocks; /* to be kept, of want_order */
	pid_t parent;
};

/**
 * fault_child() - the child's whole life
 */
_Noreturn void fault_child(const struct fault_plan *plan,
			   struct fault_share *share);

#endif
