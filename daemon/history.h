/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What was decided, asked for and got for one VM, newest last; bounded. */
#ifndef VMDEFRAG_HISTORY_H
#define VMDEFRAG_HISTORY_H

#include <time.h>

#include "policy.h"

/* 64 entries are below 24 KiB a VM, and cover an hour of a busy guest: only
 * changes are recorded. */
#define HISTORY_MAX	 64
#define HISTORY_TEXT_MAX 96

enum history_kind {
	HISTORY_DECISION,
	HISTORY_RESULT,
	HISTORY_EVENT, /* session, mode, pause: text */
};

struct history_entry {
	uint64_t seq; /* from 1, without gaps */
	struct timespec wall;
	uint8_t kind;	  /* enum history_kind */
	bool carried_out; /* decision: false in mode observe */
	union {
		struct decision decision;
		struct msg_result result;
		char text[HISTORY_TEXT_MAX];
	};
};

struct history {
	struct history_entry *entry; /* HISTORY_MAX, NULL before the first */
	uint64_t next_seq;
};

void history_free(struct history *h);
void history_decision(struct history *h, const struct decision *d,
		      bool carried_out);
void history_result(struct history *h, const struct msg_result *r);
void history_event(struct history *h, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/**
 * history_get() - entry @seq, or NULL if it is too old or not there yet
 */
const struct history_entry *history_get(const struct history *h, uint64_t seq);

/* The oldest that is kept; next_seq where there is none. */
uint64_t history_oldest(const struct history *h);

#endif
