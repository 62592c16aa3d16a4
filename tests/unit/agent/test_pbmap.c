// SPDX-License-Identifier: GPL-2.0-or-later
/* Pageblocks by kpageflags words: what each kernel's flags come to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "memlayout.h"
#include "pbmap.h"
#include "procfs.h"
#include "util.h"

#define B(flag) (UINT64_C(1) << KPF_##flag)
#define FREE	B(BUDDY)
#define HEAD	B(COMPOUND_HEAD)
#define TAIL	B(COMPOUND_TAIL)
#define ANON	(B(LRU) | B(ANON) | B(MMAP) | B(UPTODATE) | B(SWAPBACKED))

/* Pageblocks of 8 pages, free blocks of up to 16: windows of two. */
static const struct pbmap_geometry small = {.pageblock_order = 3,
					    .nr_orders = 5};
#define WINDOW 16

static void classes(void **state)
{
	const struct {
		const char *name;
		uint64_t word;
		enum page_class want;
	} cases[] = {
		{"no flag at all", 0, PAGE_UNKNOWN},
		{"hole of old kernels", B(NOPAGE), PAGE_HOLE},
		{"poisoned, though free", B(HWPOISON) | FREE, PAGE_POISONED},
		{"free", FREE, PAGE_FREE},
		{"balloon", B(OFFLINE), PAGE_OFFLINE},
		{"balloon that is compound", B(OFFLINE) | HEAD, PAGE_OFFLINE},
		{"reserved", B(RESERVED), PAGE_RESERVED},
		{"zero page", B(ZERO_PAGE) | B(RESERVED), PAGE_RESERVED},
		{"huge zero page", B(ZERO_PAGE) | B(THP) | HEAD | B(MMAP),
		 PAGE_RESERVED},
		{"slab", B(SLAB), PAGE_UNMOVABLE},
		{"slab's tail", B(SLAB) | TAIL, PAGE_UNMOVABLE},
		{"page table", B(PGTABLE) | B(MMAP), PAGE_UNMOVABLE},
		{"hugetlb", B(HUGE) | HEAD, PAGE_HUGETLB},
		{"hugetlb in use", B(HUGE) | TAIL | B(ANON) | B(MMAP),
		 PAGE_HUGETLB},
		{"anonymous", ANON, PAGE_MOVABLE},
		{"anonymous off the LRU", B(ANON), PAGE_MOVABLE},
		{"anonymous, with the KSM bug", ANON | B(KSM), PAGE_MOVABLE},
		{"page cache", B(LRU) | B(REFERENCED), PAGE_MOVABLE},
		{"THP, head", ANON | B(THP) | HEAD, PAGE_MOVABLE},
		{"THP, 6.1's tail", B(THP) | TAIL, PAGE_MOVABLE},
		{"kernel's compound page", HEAD, PAGE_UNMOVABLE},
		{"its tail", TAIL, PAGE_UNMOVABLE},
		{"some flag without a meaning", UINT64_C(1) << 60,
		 PAGE_UNKNOWN},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("# %s\n", cases[i].name);
		assert_int_equal(page_class(cases[i].word), cases[i].want);
	}
}

static void fill(uint64_t *words, unsigned int from, unsigned int n,
		 uint64_t word)
{
	for (unsigned int i = from; i < from + n; i++)
		words[i] = word;
}

static void expect_free(const struct pageblock *b, const uint32_t want[5])
{
	for (unsigned int o = 0; o < 5; o++)
		assert_int_equal(b->free_blocks[o], want[o]);
}

/* Runs are cut as the buddy allocator would have merged them. */
static void free_runs(void **state)
{
	const struct {
		unsigned int from, n;
		uint32_t first[5], second[5];
	} cases[] = {
		{0, 16, {0, 0, 0, 0, 1}, {0}},
		{0, 8, {0, 0, 0, 1}, {0}},
		{8, 8, {0}, {0, 0, 0, 1}},
		{0, 15, {0, 0, 0, 1}, {1, 1, 1, 0}},
		{1, 15, {1, 1, 1, 0}, {0, 0, 0, 1}},
		{3, 3, {1, 1}, {0}},
		{6, 4, {0, 1}, {0, 1}}, /* across the border, not one of 4 */
		{15, 1, {0}, {1}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t words[WINDOW];
		struct pageblock b[2];

		fill(words, 0, WINDOW, ANON);
		fill(words, cases[i].from, cases[i].n, FREE);
		pbmap_window(&small, words, WINDOW, b);
		print_message("# run %zu\n", i);
		expect_free(&b[0], cases[i].first);
		expect_free(&b[1], cases[i].second);
		assert_int_equal(b[0].pages[PAGE_FREE] + b[1].pages[PAGE_FREE],
				 cases[i].n);
		assert_int_equal(b[0].pages[PAGE_MOVABLE] +
					 b[1].pages[PAGE_MOVABLE],
				 WINDOW - cases[i].n);
	}
}

/* The same memory as 6.1 and later kernels show it. */
static void folios(void **state)
{
	const uint64_t tails[] = {B(THP) | TAIL, ANON | B(THP) | TAIL};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(tails); i++) {
		uint64_t words[WINDOW] = {0};
		struct pageblock b[2];

		words[0] = ANON | B(THP) | HEAD; /* order 3, all of a block */
		fill(words, 1, 7, tails[i]);
		words[8] = ANON | B(THP) | HEAD; /* two of order 1 */
		words[9] = tails[i];
		words[10] = ANON | B(THP) | HEAD;
		words[11] = tails[i];
		words[12] = ANON; /* and one alone, not a head */
		words[13] = HEAD; /* a kernel's, whose tail is no folio's */
		words[14] = TAIL;
		pbmap_window(&small, words, WINDOW, b);
		assert_int_equal(b[0].folios[3], 1);
		assert_int_equal(b[0].thp_pages, 8);
		assert_int_equal(b[0].pages[PAGE_MOVABLE], 8);
		assert_false(pageblock_is_spoilt(&b[0]));
		assert_int_equal(b[1].folios[1], 2);
		assert_int_equal(b[1].folios[0], 1);
		assert_int_equal(b[1].thp_pages, 4);
		assert_int_equal(b[1].pages[PAGE_UNMOVABLE], 2);
		assert_int_equal(b[1].pages[PAGE_UNKNOWN], 1);
		assert_true(pageblock_is_spoilt(&b[1]));
	}
}

/* A folio that began before the window, and one that goes on behind it. */
static void folios_at_borders(void **state)
{
	uint64_t words[WINDOW];
	struct pageblock b[2];

	(void)state;
	fill(words, 0, 4, B(THP) | TAIL);
	fill(words, 4, 4, ANON);
	words[8] = ANON | B(THP) | HEAD;
	fill(words, 9, 7, B(THP) | TAIL);
	pbmap_window(&small, words, 12, b); /* the rest is missing */
	assert_int_equal(b[0].pages[PAGE_MOVABLE], 8);
	assert_int_equal(b[0].thp_pages, 4);
	assert_int_equal(b[0].folios[0], 4); /* the foreign tails are none's */
	assert_int_equal(b[1].pages[PAGE_MOVABLE], 4);
	assert_int_equal(b[1].folios[2], 1); /* cut where the words end */
	assert_int_equal(b[1].pages[PAGE_HOLE], 4);
	assert_true(pageblock_is_spoilt(&b[1]));
}

static void hugetlb_and_holes(void **state)
{
	struct pageblock_sum sum = {0};
	uint64_t words[WINDOW];
	struct pageblock b[2];

	(void)state;
	words[0] = B(HUGE) | HEAD;
	fill(words, 1, 7, B(HUGE) | TAIL);
	fill(words, 8, 8, B(NOPAGE));
	pbmap_window(&small, words, WINDOW, b);
	pageblock_add(&sum, &b[0]);
	pageblock_add(&sum, &b[1]);
	assert_int_equal(b[0].pages[PAGE_HUGETLB], 8);
	assert_false(pageblock_is_spoilt(&b[0]));
	assert_int_equal(b[1].pages[PAGE_HOLE], 8);
	assert_int_equal(sum.blocks, 1);
	assert_int_equal(sum.blocks_clean, 0);
	assert_int_equal(sum.blocks_unmovable, 0);
	assert_int_equal(sum.blocks_free, 0);
}

static void sums(void **state)
{
	struct pageblock_sum sum = {0};
	uint64_t words[WINDOW];
	struct pageblock b[2];

	(void)state;
	fill(words, 0, 8, FREE);
	fill(words, 8, 6, B(LRU) | B(DIRTY));
	fill(words, 14, 2, ANON | B(DIRTY));
	pbmap_window(&small, words, WINDOW, b);
	pageblock_add(&sum, &b[0]);
	pageblock_add(&sum, &b[1]);
	assert_int_equal(sum.blocks, 2);
	assert_int_equal(sum.blocks_free, 1);
	assert_int_equal(sum.blocks_clean, 2);
	assert_int_equal(sum.sticky_pages, 6);
	assert_int_equal(sum.free_blocks[3], 1);
	assert_int_equal(sum.folios[0], 8);
}

/* Pageblocks larger than any free block: 64 KiB pages have such. */
static void large_pageblocks(void **state)
{
	const struct pbmap_geometry g = {.pageblock_order = 4, .nr_orders = 3};
	uint64_t words[WINDOW];
	struct pageblock b;

	(void)state;
	assert_int_equal(pbmap_window_order(&g), 4);
	fill(words, 0, WINDOW, FREE);
	pbmap_window(&g, words, WINDOW, &b);
	assert_int_equal(b.free_blocks[2], 4);
	assert_int_equal(b.pages[PAGE_FREE], 16);
}

static const char iomem[] = "00000000-00000fff : Reserved\n"
			    "00001000-0009fbff : System RAM\n"
			    "0009fc00-0009ffff : Reserved\n"
			    "00100000-7ffdffff : System RAM\n"
			    "  01000000-01ffffff : Kernel code\n"
			    "100000000-13fffffff : System RAM\n"
			    "140000000-1bfffffff : virtio0\n"
			    "  140000000-147ffffff : System RAM (virtio_mem)\n"
			    "  148000000-14fffffff : System RAM (virtio_mem)\n";

static const char zoneinfo[] =
	"Node 0, zone      DMA\n  pages free     3840\n        spanned  4095\n"
	"        present  3998\n  start_pfn:           1\n"
	"Node 0, zone    DMA32\n        spanned  1044480\n"
	"  start_pfn:           4096\n"
	"Node 0, zone   Normal\n        spanned  262144\n"
	"  start_pfn:           1048576\n"
	"Node 0, zone  Movable\n        spanned  65536\n"
	"  start_pfn:           1310720\n"
	"Node 0, zone   Device\n        spanned  0\n  start_pfn: 0\n";

static void layout(void **state)
{
	struct memlayout l = {.page_size = 4096};
	struct zone_span s;

	(void)state;
	lines_each(iomem, strlen(iomem), memlayout_iomem_line, &l);
	lines_each(zoneinfo, strlen(zoneinfo), memlayout_zoneinfo_line, &l);
	assert_int_equal(l.nr_ram, 4);
	assert_int_equal(l.ram[0].start_pfn, 1);
	assert_int_equal(l.ram[0].end_pfn, 0x9f); /* whole pages only */
	assert_int_equal(l.ram[1].end_pfn, 0x7ffe0);
	assert_true(l.ram[3].of_device);
	assert_int_equal(l.ram[3].end_pfn, 0x150000); /* merged */
	assert_int_equal(memlayout_end_pfn(&l), 0x150000);
	/* memory blocks of 128 MiB: the guest's own, the device's, the hole */
	assert_int_equal(memlayout_ram_pages(&l, 0x100000, 0x108000, true),
			 0x8000);
	assert_int_equal(memlayout_ram_pages(&l, 0x140000, 0x148000, true), 0);
	assert_int_equal(memlayout_ram_pages(&l, 0x140000, 0x148000, false),
			 0x8000);
	assert_int_equal(memlayout_ram_pages(&l, 0x78000, 0x80000, true),
			 0x7fe0);
	assert_int_equal(l.nr_spans, 4);
	assert_int_equal(memlayout_zone_of(&l, 0x100000, &s), 1);
	assert_int_equal(s.kind, ZONE_KIND_NORMAL);
	assert_int_equal(memlayout_zone_of(&l, 0x150001, &s), 0);
	assert_true(
		memlayout_at_edge(&l, 0, ZONE_KIND_NORMAL, 0x100000, 0x108000));
	assert_true(
		memlayout_at_edge(&l, 0, ZONE_KIND_NORMAL, 0x138000, 0x140000));
	assert_false(
		memlayout_at_edge(&l, 0, ZONE_KIND_NORMAL, 0x108000, 0x110000));
	assert_true(
		memlayout_at_edge(&l, 1, ZONE_KIND_NORMAL, 0x108000, 0x110000));
}

/* Without CAP_SYS_ADMIN all addresses are zero. */
static void hidden_iomem(void **state)
{
	static const char text[] = "00000000-00000000 : System RAM\n"
				   "00000000-00000000 : System RAM\n";
	struct memlayout l = {.page_size = 4096};

	(void)state;
	lines_each(text, strlen(text), memlayout_iomem_line, &l);
	assert_int_equal(l.nr_ram, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes),
		cmocka_unit_test(free_runs),
		cmocka_unit_test(folios),
		cmocka_unit_test(folios_at_borders),
		cmocka_unit_test(hugetlb_and_holes),
		cmocka_unit_test(sums),
		cmocka_unit_test(large_pageblocks),
		cmocka_unit_test(layout),
		cmocka_unit_test(hidden_iomem),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
