/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The switch of each folio size, transparent_hugepage/hugepages-NkB/enabled:
 * a knob like the others, journalled and put back, but of no concern to the
 * host, so that it is numbered behind those that the wire knows.
 */
#ifndef AGENT_MTHP_H
#define AGENT_MTHP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto.h"

#define KNOB_MTHP(order) (KNOB_COUNT + (order))
#define KNOB_ALL	 (KNOB_COUNT + PROTO_ORDERS_MAX)

#define MTHP_PATH_MAX	 80u

static inline bool knob_is_mthp(unsigned int knob)
{
	return knob >= KNOB_COUNT;
}

/**
 * knob_any_name() - knob_name(), or "mthp-ORDER"
 *
 * Return: NULL beyond KNOB_ALL.
 */
const char *knob_any_name(unsigned int knob);

/**
 * mthp_path() - of the switch, below /sys
 * @size: MTHP_PATH_MAX suffices
 */
void mthp_path(unsigned int order, char *buf, size_t size);

/**
 * mthp_parse() - "always inherit [madvise] never" to enum mthp_policy
 *
 * Return: 0, or -EPROTO.
 */
int mthp_parse(const char *text, int64_t *ret_value);

/**
 * mthp_format() - what to write for a policy
 *
 * Return: 0, or -ERANGE.
 */
int mthp_format(int64_t value, char *buf, size_t size);

/**
 * mthp_write() - set the switch of a size
 *
 * The kernel also recomputes min_free_kbytes at each such write, and raises
 * it where the guest's admin has set less than it recommends for THP. A value
 * that it changed is put back at once.
 *
 * Return: 0, or -errno.
 */
int mthp_write(int proc_fd, int sys_fd, unsigned int order, int64_t value);

/**
 * mthp_serves_advised() - does a MADV_HUGEPAGE region get folios of @order?
 *
 * Return: true if so as the switches stand.
 */
bool mthp_serves_advised(int sys_fd, unsigned int order,
			 unsigned int pmd_order);

#endif
