// SPDX-License-Identifier: GPL-2.0-or-later
/* Scores, against figures worked out by hand from the kernel's formulas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "frag.h"
#include "util.h"

struct score_case {
	const char *name;
	uint32_t blocks[PROTO_ORDERS_MAX];
	unsigned int order;
	uint64_t free_pages, suitable;
	unsigned int ext_pct, unusable_permille;
	int index_permille;
};

static const struct score_case cases[] = {
	{"nothing free", {0}, 9, 0, 0, 0, 1000, 0},
	/* 4 + 2 * 2 = 8 pages, none of order 2: 1000 - (1000 + 8000/4) / 6 */
	{"too small", {4, 2}, 2, 8, 0, 100, 1000, 500},
	{"of use for order 0", {4, 2}, 0, 8, 8, 0, 0, -1000},
	/* 1 + 512 pages: 1 * 100 / 513 and 1 * 1000 / 513 truncate */
	{"one whole block", {1, [9] = 1}, 9, 513, 1, 0, 1, -1000},
	/* an order 10 block is two of order 9: (1036 - 1024) * 1000 / 1036 */
	{"splits count", {12, [10] = 1}, 9, 1036, 2, 1, 11, -1000},
	/* short of memory, not fragmented: 1000 - (1000 + 1000/512) / 1 */
	{"short of memory", {1}, 9, 1, 0, 100, 1000, -1},
	/* 2048 pages in singles: 1000 - (1000 + 4000) / 2048 */
	{"all fragments", {2048}, 9, 2048, 0, 100, 1000, 998},
	{"beyond the last order",
	 {0, [10] = 3},
	 15,
	 3072,
	 0,
	 100,
	 1000,
	 1000 - (1000 + 3072 * 1000 / 32768) / 3},
};

static void scores_follow_the_kernel(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct score_case *c = &cases[i];

		print_message("# %s\n", c->name);
		assert_int_equal(frag_free_pages(c->blocks), c->free_pages);
		assert_int_equal(frag_suitable_blocks(c->blocks, c->order),
				 c->suitable);
		assert_int_equal(frag_ext_pct(c->blocks, c->order), c->ext_pct);
		assert_int_equal(frag_unusable_permille(c->blocks, c->order),
				 c->unusable_permille);
		assert_int_equal(frag_index_permille(c->blocks, c->order),
				 c->index_permille);
	}
}

static void zone_weight_truncates_per_zone(void **state)
{
	(void)state;
	/* 3998 * 18 / 262057 is below 1, 258048 * 50 / 262057 is 49.2 */
	assert_int_equal(frag_zone_weighted_pct(3998, 18, 262056), 0);
	assert_int_equal(frag_zone_weighted_pct(258048, 50, 262056), 49);
	/* the + 1 keeps a full node below its 100 % */
	assert_int_equal(frag_zone_weighted_pct(100, 100, 100), 99);
	assert_int_equal(frag_zone_weighted_pct(0, 100, 0), 0);
}

static void sums_saturate(void **state)
{
	uint32_t sum[PROTO_ORDERS_MAX] = {UINT32_MAX - 1, 1};
	uint32_t more[PROTO_ORDERS_MAX] = {2, 2};

	(void)state;
	frag_add(sum, more);
	assert_int_equal(sum[0], UINT32_MAX);
	assert_int_equal(sum[1], 3);
}

static void largest_counts_do_not_overflow(void **state)
{
	uint32_t most[PROTO_ORDERS_MAX];

	(void)state;
	for (unsigned int o = 0; o < PROTO_ORDERS_MAX; o++)
		most[o] = UINT32_MAX;
	for (unsigned int o = 0; o < PROTO_ORDERS_MAX; o++) {
		assert_true(frag_ext_pct(most, o) <= 100);
		assert_true(frag_unusable_permille(most, o) <= 1000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scores_follow_the_kernel),
		cmocka_unit_test(zone_weight_truncates_per_zone),
		cmocka_unit_test(sums_saturate),
		cmocka_unit_test(largest_counts_do_not_overflow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
