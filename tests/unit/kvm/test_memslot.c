// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "backing.h"
#include "collapse.h"
#include "memslot.h"
#include "util.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define HVA UINT64_C(0x7f0000000000)

static struct memslots two(void)
{
	struct memslots ms = {0};
	struct memslot low = {.gpa = 0, .hva = HVA, .len = 3 * GIB};
	struct memslot high = {
		.gpa = 4 * GIB, .hva = HVA + 3 * GIB, .len = 1 * GIB};

	assert_int_equal(memslots_add(&ms, &high), 0);
	assert_int_equal(memslots_add(&ms, &low), 0);
	assert_int_equal(memslots_check(&ms), 0);
	return ms;
}

static void both_ways(void **state)
{
	struct memslots ms = two();
	const struct {
		uint64_t gpa, len, want_hva;
		int want;
	} cases[] = {
		{0, 4096, HVA, 0},
		{3 * GIB - 4096, 4096, HVA + 3 * GIB - 4096, 0},
		{3 * GIB, 4096, 0, -ENOENT},	    /* in the hole */
		{3 * GIB - 4096, 8192, 0, -ENOENT}, /* over its edge */
		{4 * GIB, GIB, HVA + 3 * GIB, 0},
		{4 * GIB + 4096, GIB, 0, -ENOENT},
		{UINT64_MAX - 4095, 4096, 0, -ENOENT},
		{0, UINT64_MAX, 0, -ENOENT},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct gpa_range gpa = {cases[i].gpa, cases[i].len}, back;
		struct hva_range hva;

		if (memslot_to_hva(&ms, gpa, &hva) != cases[i].want)
			fail_msg("case %zu", i);
		if (cases[i].want)
			continue;
		assert_true(hva.start == cases[i].want_hva);
		assert_int_equal(memslot_to_gpa(&ms, hva, &back), 0);
		assert_true(back.start == gpa.start && back.len == gpa.len);
	}
}

static void refuses(void **state)
{
	const struct {
		const char *what;
		struct memslot s;
		int want;
	} cases[] = {
		{"empty", {.gpa = 8 * GIB, .hva = HVA}, -EINVAL},
		{"odd", {.gpa = 8 * GIB + 1, .hva = HVA, .len = 4096}, -EINVAL},
		{"beyond",
		 {.gpa = 1ull << 52, .hva = HVA, .len = 4096},
		 -EINVAL},
		{"wraps",
		 {.gpa = 8 * GIB, .hva = HVA, .len = -4096ull},
		 -EINVAL},
		{"kind",
		 {.gpa = 8 * GIB, .hva = HVA, .len = 4096, .kind = 9},
		 -EINVAL},
		{"overlaps",
		 {.gpa = 2 * GIB, .hva = HVA, .len = 2 * GIB},
		 -EEXIST},
		{"reaches into",
		 {.gpa = 3 * GIB, .hva = HVA, .len = 2 * GIB},
		 -EEXIST},
		{"too large",
		 {.gpa = 8 * GIB, .hva = HVA, .len = 16384 * GIB},
		 -ENOSPC},
		{"fits", {.gpa = 3 * GIB, .hva = HVA, .len = GIB}, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct memslots ms = two();

		if (memslots_add(&ms, &cases[i].s) != cases[i].want)
			fail_msg("%s", cases[i].what);
		assert_int_equal(memslots_check(&ms), 0);
	}
}

static void indices(void **state)
{
	struct memslots ms = two();
	struct memslot odd = {
		.gpa = 8 * GIB + 4096, .hva = HVA + 64 * GIB, .len = 6 * MIB};
	uint32_t slot;

	(void)state;
	/* only whole blocks count: two of three */
	assert_int_equal(memslots_add(&ms, &odd), 0);
	assert_int_equal(memslots_blocks(&ms), 2048 + 2);
	for (uint32_t i = 0; i < memslots_blocks(&ms); i++) {
		uint64_t block = memslots_block(&ms, i, &slot);

		assert_int_equal(memslots_index(&ms, block), i);
	}
	assert_int_equal(memslots_index(&ms, 1536), -ENOENT);
	assert_int_equal(memslots_index(&ms, 2048), 1536);
	assert_int_equal(memslots_index(&ms, UINT64_MAX), -ENOENT);
	assert_true(memslots_block(&ms, 2050, NULL) == UINT64_MAX);
}

static void congruence(void **state)
{
	struct memslot s = {.gpa = 4 * GIB, .hva = HVA + 2 * MIB, .len = GIB};

	(void)state;
	assert_true(memslot_congruent(&s, 2 * MIB));
	assert_false(memslot_congruent(&s, GIB));
	s.hva += 4096;
	assert_false(memslot_congruent(&s, 2 * MIB));
	assert_true(memslot_file_congruent(&s, 2 * MIB)); /* anonymous */
	s.kind = MEMSLOT_SHMEM;
	assert_false(memslot_file_congruent(&s, 2 * MIB));
	s.offset = 4096;
	assert_true(memslot_file_congruent(&s, 2 * MIB));
}

static void runs(void **state)
{
	struct backing_block b[3] = {0};

	(void)state;
	/* the last half of block 0, all of 1, one page of 2, and beyond */
	backing_run(HVA + MIB, HVA + 4 * MIB + 4096, true, BACKING_HUGE, HVA, b,
		    3);
	assert_int_equal(b[0].present, 256);
	assert_int_equal(b[0].flags, 0); /* huge is whole or not at all */
	assert_int_equal(b[1].present, 512);
	assert_int_equal(b[1].flags, BACKING_HUGE);
	assert_int_equal(b[2].present, 1);
	backing_run(HVA - GIB, HVA + GIB, false, BACKING_SWAPPED, HVA, b, 3);
	assert_int_equal(b[2].present, 1);
	assert_int_equal(b[2].flags, BACKING_SWAPPED);
	backing_run(HVA + 6 * MIB, HVA + 8 * MIB, true, 0, HVA, b, 3);
	assert_int_equal(b[2].present, 1);
}

static void before_collapse(void **state)
{
	const uint64_t there = UINT64_C(1) << 63 | UINT64_C(1) << 56;
	uint64_t w[512];

	(void)state;
	for (size_t i = 0; i < 512; i++)
		w[i] = there;
	assert_int_equal(collapse_look(w, 512), 0);
	w[7] = 0;
	assert_int_equal(collapse_look(w, 511), 0);
	assert_int_equal(collapse_look(w, 512), -ENODATA);
	w[7] = UINT64_C(1) << 63; /* others have it, too */
	assert_int_equal(collapse_look(w, 1), -EMLINK);
	w[7] = UINT64_C(1) << 62;
	assert_int_equal(collapse_look(w, 1), -EUCLEAN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_ways), cmocka_unit_test(refuses),
		cmocka_unit_test(indices),   cmocka_unit_test(congruence),
		cmocka_unit_test(runs),	     cmocka_unit_test(before_collapse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
