// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <time.h>

#include "map.h"
#include "memblocks.h"
#include "memlayout.h"
#include "pbscan.h"
#include "proto_codec.h"
#include "util.h"

struct zone_sum {
	uint8_t node, kind;
	struct pageblock_sum sum;
};

struct map {
	int sys_fd;
	struct memlayout layout;
	uint64_t pageblock_pages;
	uint64_t block_pages; /* of a memory block; 0: there are none */
	unsigned int nr;
	struct zone_sum zone[PROTO_ZONES_MAX];
	/* the memory block that was asked last, where zones overlap */
	uint64_t number;
	struct zone_span of_number;
};

static uint64_t own_cpu_us(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * SEC_US + (uint64_t)ts.tv_nsec / 1000;
}

/* Where spans overlap, the memory block knows; if not, the first span it is. */
static void ask_block(struct map *m, uint64_t pfn, struct zone_span *span)
{
	uint64_t number = m->block_pages ? pfn / m->block_pages : UINT64_MAX;
	struct memblock b;
	unsigned int node;

	if (number == m->number) {
		*span = m->of_number;
		return;
	}
	if (number < UINT32_MAX &&
	    memblock_read(m->sys_fd, (uint32_t)number, &b) == 0 &&
	    memblock_only_zone(&b) >= 0 &&
	    memblock_on_nodes(m->sys_fd, (uint32_t)number, &node) == 1) {
		span->kind = (uint8_t)b.first_zone;
		span->node = (uint8_t)node;
	}
	m->number = number;
	m->of_number = *span;
}

static struct zone_sum *sum_of(struct map *m, uint64_t pfn)
{
	struct zone_span span;
	unsigned int n = memlayout_zone_of(&m->layout, pfn, &span);
	struct zone_sum *z;

	/* a zone may begin amid its first pageblock: DMA does, at page 1 */
	if (!n)
		n = memlayout_zone_of(&m->layout, pfn + m->pageblock_pages - 1,
				      &span);
	/* not in any zone: a memory block that is offline */
	if (!n)
		return NULL;
	if (n > 1)
		ask_block(m, pfn, &span);
	for (unsigned int i = 0; i < m->nr; i++) {
		z = &m->zone[i];
		if (z->node == span.node && z->kind == span.kind)
			return z;
	}
	if (m->nr == PROTO_ZONES_MAX)
		return NULL;
	z = &m->zone[m->nr++];
	z->node = span.node;
	z->kind = span.kind;
	return z;
}

static void count(void *ctx, uint64_t pfn, const struct pageblock *b)
{
	struct zone_sum *z = sum_of(ctx, pfn);

	if (z)
		pageblock_add(&z->sum, b);
}

static json_t *number(uint64_t v)
{
	return json_integer((json_int_t)v);
}

static json_t *numbers(const uint64_t *v, unsigned int n)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < n; i++)
		json_array_append_new(list, number(v[i]));
	return list;
}

static json_t *buddyinfo_of(const struct zones *z, const struct zone_sum *s,
			    unsigned int nr_orders)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < z->nr; i++) {
		if (z->zone[i].node != s->node || z->zone[i].kind != s->kind)
			continue;
		for (unsigned int o = 0; o < nr_orders; o++)
			json_array_append_new(
				list, number(z->zone[i].free_blocks[o]));
	}
	return list;
}

static json_t *zone_json(const struct zone_sum *z, const struct zones *buddy,
			 unsigned int nr_orders)
{
	const struct pageblock_sum *s = &z->sum;
	json_t *pages = json_object();

	for (unsigned int c = 0; c < PAGE_CLASS_COUNT; c++)
		json_object_set_new(pages, page_class_name(c),
				    number(s->pages[c]));
	return json_pack(
		"{s:i, s:s, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:o, s:o, s:o}",
		"node", z->node, "zone", zone_kind_name(z->kind), "pageblocks",
		(json_int_t)s->blocks, "free_pageblocks",
		(json_int_t)s->blocks_free, "clean_pageblocks",
		(json_int_t)s->blocks_clean, "unmovable_pageblocks",
		(json_int_t)s->blocks_unmovable, "pages", pages, "thp_pages",
		(json_int_t)s->thp_pages, "sticky_pages",
		(json_int_t)s->sticky_pages, "free_blocks",
		numbers(s->free_blocks, nr_orders), "movable_folios",
		numbers(s->folios, nr_orders), "buddyinfo",
		buddyinfo_of(buddy, z, nr_orders));
}

static int print(const struct map *m, const struct msg_hello *caps,
		 const struct zones *buddy, uint64_t words, uint64_t cpu_us,
		 FILE *f)
{
	json_t *list = json_array(), *root;
	int r;

	for (unsigned int i = 0; i < m->nr; i++)
		json_array_append_new(
			list, zone_json(&m->zone[i], buddy, caps->nr_orders));
	root = json_pack("{s:I, s:i, s:I, s:I, s:o}", "page_size_bytes",
			 (json_int_t)caps->page_size, "pageblock_order",
			 caps->pageblock_order, "kpageflags_words",
			 (json_int_t)words, "cpu_us", (json_int_t)cpu_us,
			 "zones", list);
	if (!root)
		return -ENOMEM;
	r = json_dumpf(root, f, JSON_INDENT(2));
	json_decref(root);
	return r < 0 || fputc('\n', f) == EOF || fflush(f) == EOF ? -EIO : 0;
}

int map_print(int proc_fd, int sys_fd, const struct msg_hello *caps,
	      const struct sampler *sampler, FILE *f)
{
	auto_free struct map *m = calloc(1, sizeof(*m));
	uint64_t begun_us = own_cpu_us(), bytes, words;
	struct zones buddy;
	struct pbscan s;
	int r;

	if (!m)
		return -ENOMEM;
	m->sys_fd = sys_fd;
	m->pageblock_pages = UINT64_C(1) << caps->pageblock_order;
	m->number = UINT64_MAX - 1;
	if (memblocks_bytes(sys_fd, &bytes) == 0)
		m->block_pages = bytes / caps->page_size;
	r = memlayout_read(proc_fd, caps->page_size, &m->layout);
	if (!r)
		r = pbscan_open(&s, proc_fd, caps, &m->layout, 0);
	if (r < 0)
		return r;
	do
		r = pbscan_step(&s, PBSCAN_SLICE_WORDS, count, m);
	while (!r);
	words = s.words;
	pbscan_close(&s);
	if (r < 0)
		return r;
	r = sampler_buddyinfo(sampler, &buddy);
	if (r < 0)
		return r;
	return print(m, caps, &buddy, words, own_cpu_us() - begun_us, f);
}
