/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: pools and memory blocks that are ours for a while
 *
 * The hugetlb backend makes a node's pool of huge pages larger for a moment,
 * the memblock backend takes memory blocks offline. Both do so by children,
 * step by step; here is the record of it, in the knobs' journal, and the way
 * back that needs no job: at the next start after a SIGKILL, and at the end.
 *
 * The journal is written first, as with knobs, and here too each instant of a
 * SIGKILL is harmless. What the next start finds:
 *
 *	pool as it was		nothing to do
 *	between that and ours	ours: the old size is written
 *	anything else		somebody else's: left alone
 *	block online		nothing to do
 *	block offline		ours: brought online, into its zone
 *
 * A child of the dead agent may still be in the middle of its write(2). It
 * can't begin another one, and the kernel lets our write wait for it (the
 * pool's resize_lock, device_hotplug_lock). So a pool is written even where
 * it reads as it was: 6.12 and later show new pages only at the end of a
 * write.
 */
#ifndef AGENT_LOAN_H
#define AGENT_LOAN_H

#include <stdbool.h>
#include <stdint.h>

#include "journal.h"
#include "log.h"

/* Where a crash can be put, for tests. */
enum loan_instant {
	LOAN_BEFORE_JOURNAL,
	LOAN_AFTER_JOURNAL,
	LOAN_BEFORE_PUT_BACK,
	LOAN_AFTER_PUT_BACK,
	LOAN_AFTER_FORGET,
	LOAN_INSTANT_COUNT
};

struct loans {
	int sys_fd;
	bool observe; /* never write */
	const struct journal *journal;
	struct journal_data *data; /* what the journal says; knobs are in it */
	uint64_t retry_us;
	struct log_limit trouble;
	void (*at_instant)(enum loan_instant instant, void *ctx);
	void *at_ctx;
};

/**
 * loans_init() - share a journal
 * @data: its content, which the knobs keep
 */
void loans_init(struct loans *l, int sys_fd, const struct journal *journal,
		struct journal_data *data, bool observe);

/**
 * loans_recover() - put back what an agent before us left behind
 *
 * After knobs_recover(), which reads the journal. Logs. Return: 0, or the
 * first -errno; what failed stays in the journal.
 */
int loans_recover(struct loans *l, uint64_t now_us);

/**
 * loans_restore_all() - put back everything now; may take its time
 *
 * Return: as loans_recover().
 */
int loans_restore_all(struct loans *l, uint64_t now_us);

/**
 * loans_tick() - try again, at times, what could not be put back
 *
 * Only while no action runs.
 */
void loans_tick(struct loans *l, uint64_t now_us);

/**
 * loans_any() - is there something to put back?
 */
bool loans_any(const struct loans *l);

/**
 * loans_take_pool() - journal that a pool may grow from @original to @ours
 *
 * Again for the same pool: @original is what it was at first.
 *
 * Return: 0; -EAGAIN if such a pool waits for being put back already and its
 * size at first was another; another -errno. Only after 0 may it be written.
 */
int loans_take_pool(struct loans *l, unsigned int node, uint32_t kib,
		    uint64_t original_pages, uint64_t ours_pages);

/**
 * loans_end_pool() - it is as it was, or somebody else's
 */
void loans_end_pool(struct loans *l, unsigned int node, uint32_t kib);

/**
 * loans_take_block() - journal that a memory block goes offline
 *
 * Return: 0, or -errno. Only after 0 may it be.
 */
int loans_take_block(struct loans *l, uint32_t number, enum zone_kind zone);

/**
 * loans_end_block() - it is online again
 */
void loans_end_block(struct loans *l, uint32_t number);

#endif
