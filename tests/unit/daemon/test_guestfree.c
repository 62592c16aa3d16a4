// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "guestfree.h"

static void test_sums(void **state)
{
	static const struct msg_hello h = {.nr_orders = 11, .pmd_order = 9};
	static struct msg_report r = {.nr_zones = 3};
	struct guest_free f;

	(void)state;
	r.zone[0] = (struct zone_report){.node = 0, .free_pages = 3000};
	r.zone[0].free_blocks[0] = 440;
	r.zone[0].free_blocks[9] = 1;
	r.zone[0].free_blocks[10] = 2;
	r.zone[1] = (struct zone_report){.node = 1, .free_pages = 512};
	r.zone[1].free_blocks[9] = 1;
	r.zone[2] = (struct zone_report){.node = 1, .kind = 2};
	/* beyond the guest's orders: not there, whatever it says */
	r.zone[2].free_blocks[15] = 7;

	guest_free_sum(&h, &r, 0, &f);
	assert_int_equal(f.pages, 3000);
	assert_int_equal(f.pmd_blocks, 5);
	assert_int_equal(f.pages_in_blocks, 2560);
	assert_int_equal(f.blocks_by_order[0], 440);
	guest_free_sum(&h, &r, GUEST_ALL_NODES, &f);
	assert_int_equal(f.pages, 3512);
	assert_int_equal(f.pmd_blocks, 6);
	guest_free_sum(&h, &r, 9, &f);
	assert_int_equal(f.pages, 0);
	assert_int_equal(f.pmd_blocks, 0);
}

static void test_hostile_counts(void **state)
{
	static const struct msg_hello h = {.nr_orders = 16, .pmd_order = 1};
	static struct msg_report r = {.nr_zones = PROTO_ZONES_MAX};
	struct guest_free f;

	(void)state;
	for (size_t i = 0; i < PROTO_ZONES_MAX; i++) {
		r.zone[i].free_pages = UINT64_MAX;
		for (size_t o = 0; o < PROTO_ORDERS_MAX; o++)
			r.zone[i].free_blocks[o] = UINT32_MAX;
	}
	guest_free_sum(&h, &r, GUEST_ALL_NODES, &f);
	assert_true(f.pmd_blocks > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_hostile_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
