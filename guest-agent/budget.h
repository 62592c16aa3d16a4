/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Long-term CPU budget of actions: a token bucket of CPU microseconds. Pure.
 */
#ifndef AGENT_BUDGET_H
#define AGENT_BUDGET_H

#include <stdint.h>

struct budget {
	uint32_t rate_ppm;  /* of one CPU */
	uint64_t burst_us;  /* most that can be saved up */
	int64_t tokens_us;  /* below 0: in debt */
	uint64_t filled_us; /* when tokens_us was true */
};

/**
 * budget_init() - starts full, so that a first request is served at once
 */
void budget_init(struct budget *b, uint32_t rate_ppm, uint64_t burst_us,
		 uint64_t now_us);

/**
 * budget_set_rate() - from now on
 */
void budget_set_rate(struct budget *b, uint32_t rate_ppm, uint64_t now_us);

/**
 * budget_left_us() - what may be spent at @now_us
 */
uint64_t budget_left_us(struct budget *b, uint64_t now_us);

/**
 * budget_spend() - what an action did spend, which may be more than was left
 */
void budget_spend(struct budget *b, uint64_t cpu_us);

#endif
