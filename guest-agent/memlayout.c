// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "memlayout.h"
#include "procfile.h"
#include "proto_codec.h"
#include "util.h"

#define RAM_NAME "System RAM"

static void add_ram(struct memlayout *l, const struct pfn_range *r)
{
	struct pfn_range *last = l->nr_ram ? &l->ram[l->nr_ram - 1] : NULL;

	if (last && last->end_pfn == r->start_pfn &&
	    last->of_device == r->of_device) {
		last->end_pfn = r->end_pfn;
		return;
	}
	if (l->nr_ram == MEMLAYOUT_RAM_MAX) {
		l->ram_cut = true;
		return;
	}
	l->ram[l->nr_ram++] = *r;
}

/* "  00100000-7ffdffff : System RAM", indented where it is part of another */
void memlayout_iomem_line(void *layout, const char *line, size_t len)
{
	struct memlayout *l = layout;
	uint64_t start, last;
	struct pfn_range r;
	char text[128];
	int name_at = 0;

	(void)snprintf(text, sizeof(text), "%.*s",
		       (int)MIN(len, sizeof(text) - 1), line);
	if (sscanf(text, " %" SCNx64 "-%" SCNx64 " : %n", &start, &last,
		   &name_at) != 2 ||
	    !name_at || strncmp(text + name_at, RAM_NAME, strlen(RAM_NAME)))
		return;
	if (last <= start)
		return; /* hidden, all zero */
	/* only whole pages are memory; the last byte is named, not the next */
	r.start_pfn = start / l->page_size + (start % l->page_size != 0);
	r.end_pfn = last / l->page_size + ((last + 1) % l->page_size == 0);
	r.of_device = text[name_at + (int)strlen(RAM_NAME)] != '\0';
	if (r.start_pfn < r.end_pfn)
		add_ram(l, &r);
}

static void end_span(struct memlayout *l)
{
	if (l->cur_known && l->cur_pages && l->nr_spans < PROTO_ZONES_MAX) {
		l->cur.end_pfn = sum_sat_u64(l->cur.start_pfn, l->cur_pages);
		l->span[l->nr_spans++] = l->cur;
	}
	l->cur_known = false;
}

/* "Node 0, zone    DMA32", then "spanned", and last "start_pfn:" */
void memlayout_zoneinfo_line(void *layout, const char *line, size_t len)
{
	struct memlayout *l = layout;
	char text[128], name[16];
	unsigned int node;
	uint64_t value;

	(void)snprintf(text, sizeof(text), "%.*s",
		       (int)MIN(len, sizeof(text) - 1), line);
	if (sscanf(text, "Node %u, zone %15s", &node, name) == 2) {
		int kind = name_lookup(zone_kind_name, ZONE_KIND_COUNT, name);

		l->cur = (struct zone_span){.node = (uint8_t)node,
					    .kind = (uint8_t)MAX(kind, 0)};
		l->cur_pages = 0;
		l->cur_known = kind >= 0 && node < UINT8_MAX;
	} else if (sscanf(text, " spanned %" SCNu64, &value) == 1) {
		l->cur_pages = value;
	} else if (sscanf(text, " start_pfn: %" SCNu64, &value) == 1) {
		l->cur.start_pfn = value;
		end_span(l);
	}
}

int memlayout_read(int proc_fd, uint32_t page_size,
		   struct memlayout *ret_layout)
{
	auto_close int iomem_fd = procfile_open(proc_fd, "iomem");
	auto_close int zoneinfo_fd = procfile_open(proc_fd, "zoneinfo");
	struct memlayout *l = ret_layout;
	int r;

	memset(l, 0, sizeof(*l));
	l->page_size = page_size;
	if (iomem_fd < 0)
		return iomem_fd;
	if (zoneinfo_fd < 0)
		return zoneinfo_fd;
	r = procfile_lines(iomem_fd, memlayout_iomem_line, l);
	if (!r)
		r = procfile_lines(zoneinfo_fd, memlayout_zoneinfo_line, l);
	if (r < 0)
		return r;
	if (l->ram_cut)
		return -E2BIG;
	return l->nr_ram ? 0 : -EACCES;
}

uint64_t memlayout_end_pfn(const struct memlayout *l)
{
	uint64_t end_pfn = 0;

	for (unsigned int i = 0; i < l->nr_ram; i++)
		end_pfn = MAX(end_pfn, l->ram[i].end_pfn);
	return end_pfn;
}

uint64_t memlayout_ram_pages(const struct memlayout *l, uint64_t start_pfn,
			     uint64_t end_pfn, bool own_only)
{
	uint64_t pages = 0;

	for (unsigned int i = 0; i < l->nr_ram; i++) {
		const struct pfn_range *r = &l->ram[i];
		uint64_t from = MAX(start_pfn, r->start_pfn);
		uint64_t to = MIN(end_pfn, r->end_pfn);

		if (from < to && !(own_only && r->of_device))
			pages += to - from;
	}
	return pages;
}

unsigned int memlayout_zone_of(const struct memlayout *l, uint64_t pfn,
			       struct zone_span *ret_span)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < l->nr_spans; i++) {
		if (pfn < l->span[i].start_pfn || pfn >= l->span[i].end_pfn)
			continue;
		if (!n++)
			*ret_span = l->span[i];
	}
	return n;
}

bool memlayout_at_edge(const struct memlayout *l, unsigned int node,
		       enum zone_kind zone, uint64_t start_pfn,
		       uint64_t end_pfn)
{
	for (unsigned int i = 0; i < l->nr_spans; i++) {
		const struct zone_span *s = &l->span[i];

		if (s->node == node && s->kind == zone)
			return start_pfn <= s->start_pfn ||
			       end_pfn >= s->end_pfn;
	}
	return true; /* not known: as if it did */
}
