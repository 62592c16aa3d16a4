/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where there is memory, whose it is, and in which zone: /proc/iomem and
 * /proc/zoneinfo.
 */
#ifndef AGENT_MEMLAYOUT_H
#define AGENT_MEMLAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto.h"

/* [start, end) in page frame numbers */
struct pfn_range {
	uint64_t start_pfn, end_pfn;
	/*
	 * A driver added it and may take it away again: virtio-mem ("System
	 * RAM (virtio_mem)" in iomem), or kmem. These must not be taken
	 * offline by others: virtio-mem gives its blocks back to the host,
	 * and expects to find them as it left them.
	 */
	bool of_device;
};

struct zone_span {
	uint8_t node;
	uint8_t kind; /* enum zone_kind */
	uint64_t start_pfn, end_pfn;
};

/* A guest has a handful: below 1 MiB, below the PCI hole, above 4 GiB, one a
 * node and one a hot-added piece; virtio-mem adds one a memory block, which
 * are merged. */
#define MEMLAYOUT_RAM_MAX 128u

struct memlayout {
	uint32_t page_size;
	unsigned int nr_ram, nr_spans;
	bool ram_cut; /* there were more */
	struct pfn_range ram[MEMLAYOUT_RAM_MAX];
	struct zone_span span[PROTO_ZONES_MAX];
	struct zone_span cur; /* that zoneinfo is in the middle of */
	uint64_t cur_pages;
	bool cur_known;
};

/* Parsers, for procfile_lines(). Start from zero but for page_size. */
void memlayout_iomem_line(void *layout, const char *line, size_t len);
void memlayout_zoneinfo_line(void *layout, const char *line, size_t len);

/**
 * memlayout_read() - both files
 *
 * Return: 0; -EACCES if iomem hides its addresses (CAP_SYS_ADMIN is missing);
 * -E2BIG if there are more ranges than are kept; another -errno.
 */
int memlayout_read(int proc_fd, uint32_t page_size,
		   struct memlayout *ret_layout);

/**
 * memlayout_end_pfn() - behind the last page of memory
 */
uint64_t memlayout_end_pfn(const struct memlayout *l);

/**
 * memlayout_ram_pages() - memory in [start, end)
 * @own_only: leave out what is a device's
 */
uint64_t memlayout_ram_pages(const struct memlayout *l, uint64_t start_pfn,
			     uint64_t end_pfn, bool own_only);

/**
 * memlayout_zone_of() - the zones whose span holds a page
 * @ret_span: the first of them
 *
 * Spans may overlap: the caller then asks the memory block.
 *
 * Return: how many.
 */
unsigned int memlayout_zone_of(const struct memlayout *l, uint64_t pfn,
			       struct zone_span *ret_span);

/**
 * memlayout_at_edge() - does [start, end) lie at an end of its zone's span?
 *
 * Such a piece shortens the span when it goes offline.
 */
bool memlayout_at_edge(const struct memlayout *l, unsigned int node,
		       enum zone_kind zone, uint64_t start_pfn,
		       uint64_t end_pfn);

#endif
