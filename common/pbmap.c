// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "pbmap.h"
#include "util.h"

#define BIT(flag) (UINT64_C(1) << (flag))
#define MOVABLE_BITS                                                           \
	(BIT(KPF_LRU) | BIT(KPF_ANON) | BIT(KPF_MMAP) | BIT(KPF_THP))
#define STICKY_BITS                                                            \
	(BIT(KPF_DIRTY) | BIT(KPF_WRITEBACK) | BIT(KPF_LOCKED) |               \
	 BIT(KPF_PRIVATE))
#define COMPOUND_BITS (BIT(KPF_COMPOUND_HEAD) | BIT(KPF_COMPOUND_TAIL))

static const char *const class_names[] = {
	[PAGE_FREE] = "free",	    [PAGE_MOVABLE] = "movable",
	[PAGE_HUGETLB] = "hugetlb", [PAGE_UNMOVABLE] = "unmovable",
	[PAGE_UNKNOWN] = "unknown", [PAGE_RESERVED] = "reserved",
	[PAGE_OFFLINE] = "offline", [PAGE_POISONED] = "poisoned",
	[PAGE_HOLE] = "hole",
};
static_assert(ARRAY_SIZE(class_names) == PAGE_CLASS_COUNT,
	      "class_names[] matches enum page_class");

const char *page_class_name(unsigned int class)
{
	return class < PAGE_CLASS_COUNT ? class_names[class] : "?";
}

/* The first bit that is set decides: most special first. */
enum page_class page_class(uint64_t word)
{
	static const struct {
		uint64_t bits;
		enum page_class class;
	} table[] = {
		{BIT(KPF_NOPAGE), PAGE_HOLE},
		{BIT(KPF_HWPOISON), PAGE_POISONED},
		{BIT(KPF_BUDDY), PAGE_FREE},
		{BIT(KPF_OFFLINE), PAGE_OFFLINE},
		/* the zero page is reserved on most kernels; never movable */
		{BIT(KPF_RESERVED) | BIT(KPF_ZERO_PAGE), PAGE_RESERVED},
		{BIT(KPF_SLAB) | BIT(KPF_PGTABLE), PAGE_UNMOVABLE},
		{BIT(KPF_HUGE), PAGE_HUGETLB},
		{MOVABLE_BITS, PAGE_MOVABLE},
		/* what is compound, and none of the above, is a kernel's */
		{COMPOUND_BITS, PAGE_UNMOVABLE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (word & table[i].bits)
			return table[i].class;
	}
	return PAGE_UNKNOWN;
}

unsigned int pbmap_window_order(const struct pbmap_geometry *g)
{
	return MAX(g->pageblock_order, g->nr_orders - 1);
}

/* The largest block that begins at @at and ends by @end. */
static unsigned int order_at(size_t at, size_t end, unsigned int max_order)
{
	unsigned int order = 0;

	while (order < max_order && !(at & (((size_t)2 << order) - 1)) &&
	       at + ((size_t)2 << order) <= end)
		order++;
	return order;
}

static size_t run_end(const uint64_t *words, size_t nr, size_t at)
{
	while (at < nr && page_class(words[at]) == PAGE_FREE)
		at++;
	return at;
}

/* Return: where the run of free pages that begins at @at ends. */
static size_t add_free(const struct pbmap_geometry *g, const uint64_t *words,
		       size_t nr, size_t at, struct pageblock *blocks)
{
	size_t end = run_end(words, nr, at);

	while (at < end) {
		unsigned int order = order_at(at, end, g->nr_orders - 1);

		blocks[at >> g->pageblock_order].free_blocks[order]++;
		/* it may reach over several pageblocks */
		for (size_t p = at; p < at + ((size_t)1 << order); p++)
			blocks[p >> g->pageblock_order].pages[PAGE_FREE]++;
		at += (size_t)1 << order;
	}
	return end;
}

static unsigned int log2_of(size_t n)
{
	unsigned int order = 0;

	while (n >>= 1)
		order++;
	return MIN(order, PROTO_ORDERS_MAX - 1);
}

/* The head of a folio, or a page alone: how many pages belong to it? */
static size_t folio_pages(const uint64_t *words, size_t nr, size_t at)
{
	size_t n = 1;

	if (!(words[at] & BIT(KPF_COMPOUND_HEAD)))
		return 1;
	while (at + n < nr && words[at + n] & BIT(KPF_COMPOUND_TAIL) &&
	       page_class(words[at + n]) == PAGE_MOVABLE)
		n++;
	return n;
}

static void add_movable(const struct pbmap_geometry *g, const uint64_t *words,
			size_t nr, size_t at, struct pageblock *blocks)
{
	struct pageblock *b = &blocks[at >> g->pageblock_order];
	uint64_t word = words[at];

	b->thp_pages += (word & COMPOUND_BITS) != 0;
	/* anonymous pages are always dirty, and carry no private data */
	if (word & STICKY_BITS &&
	    (!(word & BIT(KPF_ANON)) ||
	     word & (BIT(KPF_WRITEBACK) | BIT(KPF_LOCKED))))
		b->sticky_pages++;
	if (!(word & BIT(KPF_COMPOUND_TAIL)))
		b->folios[log2_of(folio_pages(words, nr, at))]++;
}

void pbmap_window(const struct pbmap_geometry *g, const uint64_t *words,
		  size_t nr_words, struct pageblock *ret_blocks)
{
	unsigned int window_order = pbmap_window_order(g);
	size_t nr_blocks = (size_t)1 << (window_order - g->pageblock_order);
	size_t at = 0;

	memset(ret_blocks, 0, nr_blocks * sizeof(*ret_blocks));
	nr_words = MIN(nr_words, (size_t)1 << window_order);
	while (at < nr_words) {
		enum page_class class = page_class(words[at]);

		if (class == PAGE_FREE) {
			at = add_free(g, words, nr_words, at, ret_blocks);
			continue;
		}
		ret_blocks[at >> g->pageblock_order].pages[class]++;
		if (class == PAGE_MOVABLE)
			add_movable(g, words, nr_words, at, ret_blocks);
		at++;
	}
	for (; at < (size_t)1 << window_order; at++)
		ret_blocks[at >> g->pageblock_order].pages[PAGE_HOLE]++;
}

bool pageblock_is_spoilt(const struct pageblock *b)
{
	return b->pages[PAGE_UNMOVABLE] || b->pages[PAGE_UNKNOWN] ||
	       b->pages[PAGE_RESERVED] || b->pages[PAGE_OFFLINE] ||
	       b->pages[PAGE_POISONED] || b->pages[PAGE_HOLE];
}

void pageblock_add(struct pageblock_sum *sum, const struct pageblock *b)
{
	uint64_t there = 0;

	for (unsigned int c = 0; c < PAGE_CLASS_COUNT; c++) {
		sum->pages[c] += b->pages[c];
		if (c != PAGE_HOLE)
			there += b->pages[c];
	}
	sum->thp_pages += b->thp_pages;
	sum->sticky_pages += b->sticky_pages;
	for (unsigned int o = 0; o < PROTO_ORDERS_MAX; o++) {
		sum->free_blocks[o] += b->free_blocks[o];
		sum->folios[o] += b->folios[o];
	}
	sum->blocks += there != 0;
	if (there && pageblock_is_spoilt(b))
		sum->blocks_unmovable++;
	else if (there && !b->pages[PAGE_HUGETLB])
		sum->blocks_clean++;
	if (there && there == b->pages[PAGE_FREE] && !b->pages[PAGE_HOLE])
		sum->blocks_free++;
}
