/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: kernel knobs that are ours for a while
 *
 * Two parties want a knob to have a value: the host, by its directive, for as
 * long as its lease lasts; and an action, for as long as it runs, which goes
 * first. knobs_tick() compares what is wanted with what is there and takes at
 * most one step a knob, which knob_decide() chooses.
 *
 * A knob that we write is managed: the journal holds the value that we found
 * before the kernel sees ours. The order of steps is what makes a SIGKILL at
 * any instant harmless; left is the next start's view:
 *
 *	journal written, knob not yet	value is the original: nothing to do
 *	knob written			value is ours: put the original back
 *	ours changed from A to B:
 *	  journal says B, prev A	value is A: ours too, put back
 *	  knob says B			value is B: put back
 *	original written back		value is the original: nothing to do
 *	journal entry removed		nothing is there to look at
 *
 * A knob is an enum knob or, for actions alone, KNOB_MTHP(order).
 *
 * Any other value is somebody else's: it stays, and the knob is foreign until
 * the agent ends.
 */
#ifndef AGENT_KNOB_H
#define AGENT_KNOB_H

#include <stdbool.h>
#include <stdint.h>

#include "journal.h"
#include "log.h"
#include "proto.h"

struct knob_want {
	bool set;
	int64_t value;
};

struct knob_state {
	int fd;		      /* kept open for reading, or -1 */
	bool missing, denied; /* as in the handshake */
	bool readable;	      /* current is what was there at the last look */
	bool managed, foreign;
	int64_t current;
	int64_t original, ours; /* where managed */
	uint64_t written_us;	/* 0: never */
	struct knob_want host, action;
};

/* Where a crash can be put, for tests. */
enum knob_instant {
	KNOB_BEFORE_JOURNAL,
	KNOB_BEFORE_WRITE,
	KNOB_AFTER_WRITE,
	KNOB_BEFORE_PUT_BACK,
	KNOB_AFTER_PUT_BACK,
	KNOB_AFTER_FORGET,
	KNOB_INSTANT_COUNT
};

struct knobs {
	int proc_fd, sys_fd;
	bool observe; /* never write */
	struct journal journal;
	struct journal_data data; /* what the journal says */
	struct knob_state knob[KNOB_ALL];
	struct log_limit trouble;
	void (*at_instant)(enum knob_instant instant, void *ctx);
	void *at_ctx;
};

enum knob_step {
	KNOB_KEEP,     /* nothing to do */
	KNOB_WRITE,    /* the wanted value */
	KNOB_WAIT,     /* written too short a time ago */
	KNOB_PUT_BACK, /* the original */
	KNOB_LOSE,     /* somebody else changed it */
};

/**
 * knob_decide() - what to do about a knob; pure
 * @s: with a fresh current value
 */
enum knob_step knob_decide(unsigned int knob, const struct knob_state *s,
			   uint64_t now_us);

/**
 * knobs_init() - look at the knobs
 * @missing, @denied: bits, as caps_probe() found them
 * @run_dir_fd:       for the journal, or -1
 * @boot_id:          BOOT_ID_TEXT_SIZE
 */
void knobs_init(struct knobs *k, int proc_fd, int sys_fd, int run_dir_fd,
		const char *boot_id, uint32_t missing, uint32_t denied);

/**
 * knobs_close() - does not put anything back
 */
void knobs_close(struct knobs *k);

/**
 * knobs_recover() - put back what an agent before us left behind
 *
 * Return: 0; -EBADMSG if the journal was broken and has been set aside;
 * another -errno if it could not be read. Logs.
 */
int knobs_recover(struct knobs *k);

/**
 * knobs_want() - what the host wants held from now on
 * @mask:  bits of the knobs to hold; all others are to be put back
 *
 * A value outside the knob's bounds is left out. Takes effect at the next
 * knobs_tick(). Return: bits that were left out.
 */
uint32_t knobs_want(struct knobs *k, uint32_t mask,
		    const int64_t value[KNOB_COUNT]);

/**
 * knobs_hold() - an action wants a value; knobs_unhold() no longer
 */
void knobs_hold(struct knobs *k, unsigned int knob, int64_t value);
void knobs_unhold(struct knobs *k, unsigned int knob);

/**
 * knobs_tick() - look at each knob, and take the step it needs
 */
void knobs_tick(struct knobs *k, uint64_t now_us);

/**
 * knobs_restore_all() - put back everything now; wants are forgotten
 *
 * Return: 0, or the first -errno; what failed stays in the journal.
 */
int knobs_restore_all(struct knobs *k, uint64_t now_us);

/**
 * knobs_report() - the knob part of a report, as of the last tick
 */
void knobs_report(const struct knobs *k, struct msg_report *r);

#endif
