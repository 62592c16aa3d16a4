// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "knob_info.h"
#include "proto_codec.h"
#include "util.h"

/* fewest pages a per-CPU list may get: mm/page_alloc.c refuses 1..7 */
#define PCP_FRACTION_MIN 8

const struct knob_info knob_info[KNOB_COUNT] = {
	[KNOB_COMPACTION_PROACTIVENESS] =
		{
			.path = "sys/vm/compaction_proactiveness",
			.min = 0,
			.max = 100,
			/* a write wakes kcompactd and cancels its 32 s back-off
			 */
			.write_pause_us = 1 * SEC_US,
		},
	[KNOB_WATERMARK_SCALE_FACTOR] =
		{
			.path = "sys/vm/watermark_scale_factor",
			.min = 1,
			/* MemAvailable falls by twice the gap: more than 5 % of
			 * the memory as headroom costs more than it gives */
			.max = 500,
			/* each write zeroes all boosts and retunes per-CPU
			   lists */
			.write_pause_us = 10 * SEC_US,
		},
	[KNOB_WATERMARK_BOOST_FACTOR] =
		{
			.path = "sys/vm/watermark_boost_factor",
			.min = 0,
			.max = 15000, /* the kernel's default: 150 % of high */
			.write_pause_us = 1 * SEC_US,
		},
	[KNOB_THP_DEFRAG] =
		{
			.path = "kernel/mm/transparent_hugepage/defrag",
			.in_sys = true,
			.min = 0,
			.max = THP_DEFRAG_COUNT - 1,
			.write_pause_us = 1 * SEC_US,
		},
	[KNOB_PCP_HIGH_FRACTION] =
		{
			.path = "sys/vm/percpu_pagelist_high_fraction",
			.min = 0,
			.max = 1000000,
			/* a compaction sets and resets it; it stops all CPUs'
			 * lists from being resized for some microseconds only
			 */
			.write_pause_us = 0,
		},
};

bool knob_value_ok(enum knob knob, int64_t value)
{
	if (knob == KNOB_PCP_HIGH_FRACTION && value > 0 &&
	    value < PCP_FRACTION_MIN)
		return false;
	return value >= knob_info[knob].min && value <= knob_info[knob].max;
}

int bracketed_word(const char *text, char *buf, size_t size)
{
	const char *start = strchr(text, '[');
	const char *end = start ? strchr(start, ']') : NULL;
	size_t len;

	if (!end)
		return -EPROTO;
	len = (size_t)(end - start) - 1;
	if (len >= size)
		return -E2BIG;
	memcpy(buf, start + 1, len);
	buf[len] = '\0';
	return 0;
}

int knob_parse(enum knob knob, const char *text, int64_t *ret_value)
{
	char word[KNOB_TEXT_MAX];
	uint64_t number;
	int r;

	if (knob == KNOB_THP_DEFRAG) {
		if (bracketed_word(text, word, sizeof(word)) < 0)
			return -EPROTO;
		r = name_lookup(thp_defrag_name, THP_DEFRAG_COUNT, word);
		if (r < 0)
			return -EPROTO;
		*ret_value = r;
		return 0;
	}

	if (snprintf(word, sizeof(word), "%.*s", (int)strcspn(text, "\n"),
		     text) >= (int)sizeof(word))
		return -EPROTO;
	if (parse_u64(word, INT64_MAX, &number) < 0)
		return -EPROTO;
	*ret_value = (int64_t)number;
	return 0;
}

int knob_format(enum knob knob, int64_t value, char *buf, size_t size)
{
	if (knob == KNOB_THP_DEFRAG) {
		if (value < 0 || value >= THP_DEFRAG_COUNT)
			return -ERANGE;
		(void)snprintf(buf, size, "%s",
			       thp_defrag_name((unsigned int)value));
		return 0;
	}
	if (value < 0)
		return -ERANGE;
	(void)snprintf(buf, size, "%" PRId64, value);
	return 0;
}
