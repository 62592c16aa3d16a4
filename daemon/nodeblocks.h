/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: what the host's pageblocks hold, on demand
 *
 * The helper reads /proc/kpageflags a slice at a time, one request after the
 * other, so that openings and samples of VMs come in between. All nodes are
 * done in turn, within one budget of words; where that ends first, the figures
 * are of a part, and say of how much. The last result is kept with its age.
 */
#ifndef VMDEFRAG_NODEBLOCKS_H
#define VMDEFRAG_NODEBLOCKS_H

#include "hostview.h"
#include "pbmap.h"

struct manager;

/* A slice: natively 16 to 24 ms of the helper. */
#define NODEBLOCKS_SLICE_WORDS (UINT64_C(1) << 18)

struct nodeblocks_node {
	bool valid;
	bool whole;	/* else the budget ended first */
	int error;	/* -errno of the last try; 0 */
	uint64_t at_us; /* when it was finished */
	uint64_t words, pfn;
	struct pageblock_sum sum; /* without free_blocks and folios */
};

struct nodeblocks {
	struct nodeblocks_node node[HOSTVIEW_NODES_MAX]; /* as hostview's */
	bool running;
	uint32_t at; /* position of the node in hand */
	uint64_t words_left;
	struct nodeblocks_node cur; /* of it, so far */
	/* all nodes were done */
	void (*done)(struct manager *m);
};

/**
 * nodeblocks_start() - look at all nodes; nothing new where that runs
 * @max_words: of kpageflags, in all
 */
void nodeblocks_start(struct manager *m, uint64_t max_words);

#endif
