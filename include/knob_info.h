/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel knobs of enum knob: where they are, what may be written, and
 * their text form. Pure.
 */
#ifndef VMDEFRAG_KNOB_INFO_H
#define VMDEFRAG_KNOB_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto.h"

struct knob_info {
	const char *path; /* below /proc, or /sys if in_sys */
	bool in_sys;
	int64_t min, max;	 /* of what is ever written by us */
	uint64_t write_pause_us; /* at least this between two writes */
};

extern const struct knob_info knob_info[KNOB_COUNT];

#define KNOB_TEXT_MAX 64u

/**
 * knob_value_ok() - may @value be written to @knob?
 */
bool knob_value_ok(enum knob knob, int64_t value);

/**
 * knob_parse() - what reading the knob's file gave, as a number
 *
 * For the THP defrag mode the word in brackets counts.
 *
 * Return: 0, or -EPROTO if the text is not understood.
 */
int knob_parse(enum knob knob, const char *text, int64_t *ret_value);

/**
 * knob_format() - what to write to the knob's file
 * @size: KNOB_TEXT_MAX suffices
 *
 * Return: 0, or -ERANGE for a value that has no text.
 */
int knob_format(enum knob knob, int64_t value, char *buf, size_t size);

/**
 * bracketed_word() - the chosen one of "always [madvise] never"
 *
 * Return: 0; -EPROTO if there is none; -E2BIG if it does not fit.
 */
int bracketed_word(const char *text, char *buf, size_t size);

#endif
