/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Parsers for the kernel's text files. Pure: they take text, never a path.
 *
 * The big files are taken line by line, so that a zoneinfo of a guest with
 * hundreds of CPUs needs no big buffer. Lines that are not understood are
 * skipped: every kernel has some that others lack. What must have been there
 * the caller asks the result: vmstat.valid, zones.nr, node_mem.total_pages.
 *
 * A line is given without its '\n' and need not end in a NUL.
 */
#ifndef VMDEFRAG_PROCFS_H
#define VMDEFRAG_PROCFS_H

#include <stddef.h>
#include <stdint.h>

#include "proto.h"

typedef void (*line_fn)(void *ctx, const char *line, size_t len);

/**
 * lines_each() - call @fn for each line of a text
 *
 * The last line counts with and without its '\n'.
 */
void lines_each(const char *text, size_t len, line_fn fn, void *ctx);

/* /proc/vmstat. Start from all zero. */
struct vmstat {
	uint64_t valid; /* bit c: ctr[c] was seen */
	uint64_t ctr[CTR_COUNT];
};

void vmstat_line(void *vmstat, const char *line, size_t len);

/*
 * Which keys of /proc/vmstat make up which counter; sorted by key. Keys of
 * one counter are summed.
 */
struct vmstat_ctr_info {
	const char *key;
	enum vmstat_ctr ctr;
};

extern const struct vmstat_ctr_info vmstat_ctr_info[];
extern const size_t vmstat_nr_ctr_info;

/*
 * Zones from /proc/zoneinfo and /proc/buddyinfo, in the order of their first
 * appearance. Start from all zero; zoneinfo first, since only its zones are
 * known to be wanted. A zone without present pages is left out.
 */
struct zones {
	unsigned int nr;
	unsigned int nr_orders; /* columns of buddyinfo */
	struct zone_report zone[PROTO_ZONES_MAX];
	/* of the zone that zoneinfo is in the middle of */
	struct zone_report cur;
	uint64_t cur_boost_pages;
	uint8_t cur_known;
};

/**
 * zoneinfo_line() - present, managed and free pages, and the watermarks
 *
 * The watermarks that the file shows contain the momentary boost, which is
 * taken off here.
 */
void zoneinfo_line(void *zones, const char *line, size_t len);

/**
 * buddyinfo_line() - free blocks of one zone; a new zone is added
 */
void buddyinfo_line(void *zones, const char *line, size_t len);

/**
 * zones_sum_node() - free blocks of all zones of @node
 */
void zones_sum_node(const struct zones *z, unsigned int node,
		    uint32_t sum[PROTO_ORDERS_MAX]);

/* /sys/devices/system/node/nodeN/meminfo. Start from all zero. */
struct node_mem {
	uint64_t total_kib, free_kib;
	uint64_t anon_kib, file_kib, anon_huge_kib;
	uint64_t slab_kib, unevictable_kib;
};

void node_mem_line(void *node_mem, const char *line, size_t len);

/**
 * psi_parse() - /proc/pressure/memory
 *
 * Return: 0, or -EPROTO; kernels before 6.1 may lack the "full" line, which
 * then reads as 0.
 */
int psi_parse(const char *text, struct psi_report *ret_psi);

/**
 * id_list_parse() - "0-2,5", as the kernel writes lists of nodes and CPUs
 * @ids:    takes the first @max of them, in the order given
 * @max:    0 to count only
 *
 * An empty line is an empty list.
 *
 * Return: how many there are, also beyond @max; -EPROTO.
 */
int id_list_parse(const char *text, uint8_t *ids, unsigned int max);

/**
 * pageblock_order_parse() - the head of /proc/pagetypeinfo
 *
 * Return: the order, or -EPROTO.
 */
int pageblock_order_parse(const char *text);

/**
 * order_of_kib() - the order of a block of @kib with pages of @page_size bytes
 *
 * Return: the order, or -ERANGE if it is not a power of two of pages, or
 * needs PROTO_ORDERS_MAX or more.
 */
int order_of_kib(uint64_t kib, uint32_t page_size);

#endif
