/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What each backend was seen to cost on this guest, for each MiB that it made
 * available in blocks of the wanted order. Pure.
 */
#ifndef AGENT_GAIN_H
#define AGENT_GAIN_H

#include <stdint.h>

#include "proto.h"

/* Orders that cost alike: below, at, and above 2^3 pages, where the kernel
 * begins to call an order costly, and the PMD's. */
enum gain_class {
	GAIN_SMALL, /* 1..3 */
	GAIN_MIDDLE,
	GAIN_PMD, /* and above */
	GAIN_CLASS_COUNT
};

/* A backend's cost per MiB gained. */
struct gain {
	uint64_t work_pages; /* moved, reclaimed and scanned */
	uint64_t cpu_us;
};

struct gain_seen {
	struct gain gain;
	uint64_t when_us; /* 0: never measured here */
};

struct gains {
	struct gain_seen seen[BACKEND_COUNT][GAIN_CLASS_COUNT];
	uint32_t choices; /* that auto made: each so many explore */
};

enum gain_class gain_class_of(unsigned int order, unsigned int pmd_order);

/**
 * gains_get() - the present estimate
 *
 * What was measured on this guest, fading into what was measured in the
 * laboratory as it gets old.
 */
struct gain gains_get(const struct gains *g, enum backend backend,
		      enum gain_class class, uint64_t now_us);

/**
 * gains_learn() - from how an action ended
 * @page_size: bytes
 *
 * Refusals, failures and what was stopped before it could show anything are
 * not counted.
 */
void gains_learn(struct gains *g, const struct msg_result *r,
		 unsigned int pmd_order, uint32_t page_size, uint64_t now_us);

#endif
