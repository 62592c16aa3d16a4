// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The classifier of kpageflags words, and the parsers of iomem and zoneinfo
 * that tell it where memory is. The first two bytes of the input choose the
 * geometry; the rest are words of four bytes, whose bits are spread over the
 * flags that count.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "memlayout.h"
#include "pbmap.h"
#include "procfs.h"
#include "util.h"

#define ORDER_MAX  9u
#define BLOCKS_MAX 512u

static void check(int condition)
{
	if (!condition)
		abort();
}

/* Bits above 30 that some kernel sets. */
static uint64_t word_of(const uint8_t *p)
{
	uint32_t low;
	uint64_t word;

	memcpy(&low, p, sizeof(low));
	word = low & 0x0fffffff;
	if (low >> 28 & 1)
		word |= UINT64_C(1) << KPF_RESERVED;
	if (low >> 29 & 1)
		word |= UINT64_C(1) << KPF_PRIVATE;
	if (low >> 30 & 1)
		word |= UINT64_C(1) << 63;
	return word;
}

/* Each page counts once, and each free page is in one free block. */
static void check_window(const struct pbmap_geometry *g, const uint64_t *words,
			 size_t nr)
{
	unsigned int window_order = pbmap_window_order(g);
	size_t nr_blocks = (size_t)1 << (window_order - g->pageblock_order);
	static struct pageblock b[BLOCKS_MAX];
	struct pageblock_sum sum = {0};
	uint64_t all = 0, in_blocks = 0;

	pbmap_window(g, words, nr, b);
	for (size_t i = 0; i < nr_blocks; i++) {
		uint64_t pages = 0;

		for (unsigned int c = 0; c < PAGE_CLASS_COUNT; c++)
			pages += b[i].pages[c];
		check(pages == UINT64_C(1) << g->pageblock_order);
		check(b[i].thp_pages <= b[i].pages[PAGE_MOVABLE]);
		check(b[i].sticky_pages <= b[i].pages[PAGE_MOVABLE]);
		pageblock_add(&sum, &b[i]);
	}
	for (unsigned int c = 0; c < PAGE_CLASS_COUNT; c++)
		all += sum.pages[c];
	check(all == UINT64_C(1) << window_order);
	for (unsigned int o = 0; o < PROTO_ORDERS_MAX; o++) {
		in_blocks += sum.free_blocks[o] << o;
		check(o < g->nr_orders || !sum.free_blocks[o]);
	}
	check(in_blocks == sum.pages[PAGE_FREE]);
	check(sum.blocks_free <= sum.blocks_clean);
	check(sum.blocks_clean + sum.blocks_unmovable <= sum.blocks);
}

static void check_words(const uint8_t *data, size_t size)
{
	struct pbmap_geometry g;
	static uint64_t words[1 << ORDER_MAX];
	size_t nr = 0;

	if (size < 2)
		return;
	g.pageblock_order = data[0] % (ORDER_MAX + 1);
	g.nr_orders = 1 + data[1] % (ORDER_MAX + 1);
	for (size_t at = 2; at + 4 <= size && nr < ARRAY_SIZE(words); at += 4)
		words[nr++] = word_of(data + at);
	check_window(&g, words, nr);
}

static void check_layout(const char *text, size_t size)
{
	static struct memlayout l;
	struct zone_span span;

	memset(&l, 0, sizeof(l));
	l.page_size = 4096;
	lines_each(text, size, memlayout_iomem_line, &l);
	lines_each(text, size, memlayout_zoneinfo_line, &l);
	check(l.nr_ram <= MEMLAYOUT_RAM_MAX && l.nr_spans <= PROTO_ZONES_MAX);
	for (unsigned int i = 0; i < l.nr_ram; i++)
		check(l.ram[i].start_pfn < l.ram[i].end_pfn &&
		      l.ram[i].end_pfn <= memlayout_end_pfn(&l));
	check(memlayout_zone_of(&l, 4096, &span) <= l.nr_spans);
	(void)memlayout_ram_pages(&l, 0, UINT64_MAX, true);
	(void)memlayout_at_edge(&l, 0, ZONE_KIND_DMA32, 0, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_words(data, size);
	check_layout((const char *)data, size);
	return 0;
}
