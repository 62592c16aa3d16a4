/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What BACKEND_AUTO stands for: by what is asked, and by what each backend
 * was seen to cost. Pure.
 */
#ifndef AGENT_CHOICE_H
#define AGENT_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gain.h"
#include "proto.h"

struct choice_ask {
	uint32_t usable; /* bits of backends */
	unsigned int order, pmd_order;
	uint32_t mthp_orders, page_size;
	bool all;
	bool hold; /* what is made is to be held on */
	enum urgency urgency;
	uint64_t blocks; /* wanted */
	/* of the node, now */
	uint64_t free_pages, free_blocks, floor_pages;
	unsigned int score_pct, nr_nodes;
	/* of the long-term CPU budget */
	uint64_t cpu_left_us, cpu_burst_us;
};

/**
 * choice_make() - the backend to use
 * @g:        counts the choices, to explore now and then
 * @ret_text: PROTO_TEXT_MAX + 1 bytes: which and why
 *
 * Return: where none can do it, the one whose refusal says most.
 */
enum backend choice_make(struct gains *g, const struct choice_ask *ask,
			 uint64_t now_us, char *ret_text);

#endif
