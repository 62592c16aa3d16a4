// SPDX-License-Identifier: GPL-2.0-or-later
/* What may start, when it must stop, and what it may cost in the long run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "backend.h"
#include "budget.h"
#include "limits.h"
#include "util.h"

/* Everything in order; a case spoils one thing. */
static const struct admission fine = {
	.node_known = true,
	.free_pages = 100000,
	.high_pages = 10000,
	.min_free_pages = 16384,
	.guest_free_pages = 100000,
	.order = 9,
	.psi_valid = true,
	.psi_abort_centi = 2000,
	.cpu_left_us = SEC_US,
};

static void admission(void **state)
{
	struct admission a[] = {fine, fine, fine, fine, fine, fine, fine,
				fine, fine, fine, fine, fine, fine};
	const struct {
		bool stop;
		enum stop_why why;
	} want[ARRAY_SIZE(a)] = {
		{false, 0},
		{true, WHY_OBSERVE},
		{true, WHY_QUIET},
		{true, WHY_BUSY},
		{true, WHY_MISSING},
		{true, WHY_MISSING},
		{true, WHY_DENIED},
		{true, WHY_LOW_MEMORY},
		{true, WHY_LOW_MEMORY},
		{false, 0},
		{true, WHY_PRESSURE},
		{false, 0},
		{true, WHY_CPU},
	};

	(void)state;
	a[1].observe = true;
	a[2].quiet = true;
	a[3].busy = true;
	a[4].node_known = false;
	a[5].backend_missing = true;
	a[6].backend_denied = true;
	a[7].guest_free_pages = 16383;
	a[8].free_pages = 10000 + 4 * 512;
	a[9].free_pages = 10000 + 4 * 512 + 1;
	a[10].psi_some_centi = 2001;
	a[11].psi_some_centi = 2001;
	a[11].psi_valid = false;
	a[12].cpu_left_us = 19999;
	for (size_t i = 0; i < ARRAY_SIZE(a); i++) {
		struct verdict v = limits_admit(&a[i]);

		print_message("# admission %zu\n", i);
		assert_int_equal(v.stop, want[i].stop);
		if (v.stop)
			assert_int_equal(v.why, want[i].why);
	}
}

/* Twice the moves, up to 1/32 of the node. */
static void room_for_moves(void **state)
{
	struct admission a = fine;
	const uint64_t node = 500000;

	(void)state;
	assert_int_equal(limits_need_pages(1, 9, node), 560);
	assert_int_equal(limits_need_pages(16, 9, node), 16 * 560);
	assert_int_equal(limits_need_pages(6400, 4, node), 15625);
	assert_int_equal(limits_need_pages(ACTION_BLOCKS_ALL, 9, node), 15625);
	assert_int_equal(limits_need_pages(ACTION_BLOCKS_ALL, 15, 0), 0);
	a.need_pages = limits_need_pages(16, 9, node);
	a.free_pages = a.high_pages + a.need_pages;
	assert_int_equal(limits_admit(&a).why, WHY_LOW_MEMORY);
	a.free_pages++;
	assert_false(limits_admit(&a).stop);
}

static void stopping(void **state)
{
	const struct limits l = {
		.target_blocks = 100,
		.max_pages = 1000,
		.max_cpu_us = 500,
		.max_time_us = 2000,
		.psi_abort_centi = 2000,
	};
	const struct {
		struct progress p;
		bool stop;
		enum stop_why why;
	} cases[] = {
		{{.blocks = 99,
		  .migrated_pages = 999,
		  .cpu_us = 499,
		  .elapsed_us = 1999},
		 false,
		 0},
		{{.blocks = 100}, true, WHY_TARGET},
		{{.blocks = 100, .cpu_us = 500}, true, WHY_TARGET},
		{{.migrated_pages = 1000}, true, WHY_PAGES},
		{{.cpu_us = 500}, true, WHY_CPU},
		{{.elapsed_us = 2000}, true, WHY_TIME},
		{{.psi_valid = true, .psi_some_centi = 2001},
		 true,
		 WHY_PRESSURE},
		{{.psi_valid = true, .psi_some_centi = 2000}, false, 0},
		{{.psi_valid = false, .psi_some_centi = 9999}, false, 0},
		{{.swapped_out_pages = 1025}, true, WHY_RECLAIM},
		{{.scanned_direct_pages = 4097}, true, WHY_RECLAIM},
		{{.scanned_direct_pages = 4096}, false, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct verdict v = limits_check(&l, &cases[i].p);

		print_message("# progress %zu\n", i);
		assert_int_equal(v.stop, cases[i].stop);
		if (v.stop)
			assert_int_equal(v.why, cases[i].why);
	}
}

static void all_has_no_target(void **state)
{
	const struct limits l = {.all = true,
				 .target_blocks = 1,
				 .max_pages = UINT64_MAX,
				 .max_cpu_us = UINT64_MAX,
				 .max_time_us = UINT64_MAX,
				 .psi_abort_centi = 1};
	const struct progress p = {.blocks = 5, .elapsed_us = 5};

	(void)state;
	assert_false(limits_check(&l, &p).stop);
}

static void looks_get_closer(void **state)
{
	const struct limits l = {.target_blocks = 100,
				 .max_cpu_us = UINT64_MAX,
				 .max_time_us = UINT64_MAX};
	const struct progress far = {.blocks = 10, .elapsed_us = 100000};
	const struct progress near = {.blocks = 98, .elapsed_us = 100000};
	struct limits tight = l;

	(void)state;
	assert_int_equal(limits_pause_us(&l, &far, 10), 25 * MSEC_US);
	assert_int_equal(limits_pause_us(&l, &near, 98), 2 * MSEC_US);
	tight.max_time_us = 105000;
	assert_int_equal(limits_pause_us(&tight, &far, 10), 5 * MSEC_US);
}

static void budget(void **state)
{
	struct budget b;

	(void)state;
	budget_init(&b, 100000, 2 * SEC_US, SEC_US);
	assert_int_equal(budget_left_us(&b, SEC_US), 2 * SEC_US);
	/* more than there was: a debt that must be earned */
	budget_spend(&b, 3 * SEC_US);
	assert_int_equal(budget_left_us(&b, SEC_US), 0);
	assert_int_equal(budget_left_us(&b, 11 * SEC_US), 0);
	assert_int_equal(budget_left_us(&b, 12 * SEC_US), SEC_US / 10);
	/* never more than the burst */
	assert_int_equal(budget_left_us(&b, 1000 * SEC_US), 2 * SEC_US);
	/* gains of many short times add up */
	budget_spend(&b, 2 * SEC_US);
	for (uint64_t t = 0; t <= SEC_US; t += 3)
		(void)budget_left_us(&b, 1000 * SEC_US + t);
	assert_in_range(budget_left_us(&b, 1001 * SEC_US), 66000, 100000);
	budget_set_rate(&b, 10000, 1001 * SEC_US);
	assert_in_range(budget_left_us(&b, 1011 * SEC_US), 166000, 200000);
}

static void what_this_build_has(void **state)
{
	(void)state;
	assert_null(backend_get(BACKEND_KMOD));
	assert_null(backend_get(BACKEND_COUNT));
	assert_non_null(backend_get(BACKEND_COMPACT));
	assert_non_null(backend_get(BACKEND_FAULT));
	assert_non_null(backend_get(BACKEND_PROACTIVE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(admission),
		cmocka_unit_test(room_for_moves),
		cmocka_unit_test(stopping),
		cmocka_unit_test(all_has_no_target),
		cmocka_unit_test(looks_get_closer),
		cmocka_unit_test(budget),
		cmocka_unit_test(what_this_build_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
