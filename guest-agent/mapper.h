/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: the guest's side of the map of 2 MiB blocks
 *
 * The host asks for a pass over all memory; it is read in slices of
 * kpageflags, at most so many words a second, and sent in parts, each of one
 * node and without gaps. Nothing is kept between passes, so a guest of any
 * size costs one part of memory. What it shows are folios, not mappings.
 */
#ifndef AGENT_MAPPER_H
#define AGENT_MAPPER_H

#include "pbscan.h"

/* More than the host may ask for: 12 to 18 % of a CPU natively. */
#define MAPPER_WORDS_PER_SEC_MAX 2000000u

struct mapper_ops {
	void *ctx;
	/* a part is ready; may fail, which ends the pass */
	int (*send)(void *ctx, const struct msg_map *part);
};

struct mapper {
	bool running;
	const struct mapper_ops *ops;
	uint32_t words_per_sec;
	uint64_t next_us; /* when the next slice is due */
	int error;	  /* of sending, in the current pass */
	struct pbscan scan;
	struct memlayout layout;
	struct msg_map part;
	uint64_t words; /* ever */
};

/**
 * mapper_start() - begin a pass; one that runs is given up
 *
 * Return: 0, or -errno.
 */
int mapper_start(struct mapper *m, const struct mapper_ops *ops, int proc_fd,
		 const struct msg_hello *caps, const struct msg_map_ask *ask,
		 uint64_t now_us);

/**
 * mapper_stop() - also of one that never ran
 */
void mapper_stop(struct mapper *m);

/**
 * mapper_tick() - a slice, if one is due
 */
void mapper_tick(struct mapper *m, uint64_t now_us);

/* UINT64_MAX while nothing runs. */
uint64_t mapper_deadline_us(const struct mapper *m);

/**
 * mapper_possible() - are blocks 2 MiB here, one a pageblock?
 */
bool mapper_possible(const struct msg_hello *caps);

/**
 * mapper_block() - what a pageblock of order 9 is. Pure.
 */
enum guest_block mapper_block(const struct pageblock *b);

#endif
