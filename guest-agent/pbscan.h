/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Walks /proc/kpageflags in slices, within a budget of words. What it finds
 * it hands out pageblock by pageblock; nothing is kept.
 */
#ifndef AGENT_PBSCAN_H
#define AGENT_PBSCAN_H

#include "memlayout.h"
#include "pbmap.h"
#include "proto.h"

/* One read natively costs 60 to 90 ns a word, so a slice costs 3 ms. */
#define PBSCAN_SLICE_WORDS 32768u

typedef void (*pbscan_fn)(void *ctx, uint64_t pfn, const struct pageblock *b);

struct pbscan {
	int fd;
	struct pbmap_geometry geometry;
	const struct memlayout *layout;
	uint64_t next_pfn, end_pfn;
	uint64_t words, max_words; /* read, and the budget */
	uint64_t *window;
	struct pageblock *blocks;
};

/**
 * pbscan_open() - for all of the guest's memory
 * @layout:    must live as long
 * @max_words: the budget; 0: none
 *
 * Return: 0; -ENOENT without CONFIG_PROC_PAGE_MONITOR; -EACCES; another
 * -errno.
 */
int pbscan_open(struct pbscan *s, int proc_fd, const struct msg_hello *caps,
		const struct memlayout *layout, uint64_t max_words);

/**
 * pbscan_close() - also of one that is all zero but for its fd of -1
 */
void pbscan_close(struct pbscan *s);

/**
 * pbscan_step() - go on for about @max_words words
 * @fn: gets each pageblock that holds memory; where all of one lies behind
 *	the end, or in a hole, it is left out
 *
 * Return: 1 when all is done; 0 if there is more; -EDQUOT once the budget is
 * used up; another -errno.
 */
int pbscan_step(struct pbscan *s, uint64_t max_words, pbscan_fn fn, void *ctx);

#endif
