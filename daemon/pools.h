/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * hugetlb pools of the host: changed with the old size journalled, and put
 * back. What a size is: pooljournal.h.
 */
#ifndef VMDEFRAG_POOLS_H
#define VMDEFRAG_POOLS_H

#include "pooljournal.h"
#include "worker.h"

struct pools {
	int node_fd; /* /sys/devices/system/node; borrowed */
	struct pooljournal journal;
};

/**
 * pools_open() - read what an earlier process left behind, and put it back
 * @run_fd: run directory, for the journal
 *
 * Return: 0, also if something could not be put back (said in the log); or
 * -errno, where the journal cannot be used at all.
 */
int pools_open(struct pools *p, int node_fd, int run_fd, const char *boot_id,
	       uint64_t max_us);

/**
 * pools_set_begin() - journal, and start to write
 * @nr: size asked for, without surplus
 *
 * Return: 1 with @ret_w at work, pools_set_end() to follow; 0 if the pool has
 * that size; -ESTALE if somebody else has changed it since we did; another
 * -errno.
 */
int pools_set_begin(struct pools *p, uint32_t node, uint64_t page_kib,
		    uint64_t nr, struct worker *ret_w);

/**
 * pools_set_end() - take note of what came out, after the worker's end
 *
 * Return: 0, or -errno if it could not be journalled.
 */
int pools_set_end(struct pools *p, uint32_t node, uint64_t page_kib);

/**
 * pools_restore() - put back all that is still as we left it
 * @max_us: for all of them
 *
 * Return: 0; -EAGAIN: something stays journalled.
 */
int pools_restore(struct pools *p, uint64_t max_us);

#endif
