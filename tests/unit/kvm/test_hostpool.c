// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../testdir.h"
#include "hostpool.h"

#define POOL "node1/hugepages/hugepages-2048kB/"

static void check_read(void **state)
{
	struct hostpool p = {};
	struct testdir d;

	(void)state;
	assert_int_equal(testdir_make(&d), 0);
	assert_int_equal(hostpool_read(d.fd, 1, 2048, &p), -ENOENT);
	testdir_write(&d, POOL "nr_hugepages", "12\n");
	testdir_write(&d, POOL "free_hugepages", "5\n");
	testdir_write(&d, POOL "surplus_hugepages", "3\n");
	assert_int_equal(hostpool_read(d.fd, 1, 2048, &p), 0);
	assert_int_equal(p.nr, 12);
	assert_int_equal(p.free, 5);
	assert_int_equal(p.surplus, 3);
	assert_int_equal(hostpool_persistent(&p), 9);
	assert_int_equal(hostpool_read(d.fd, 0, 2048, &p), -ENOENT);
	assert_int_equal(hostpool_read(d.fd, 1, 1048576, &p), -ENOENT);
	testdir_write(&d, POOL "free_hugepages", "many\n");
	assert_int_equal(hostpool_read(d.fd, 1, 2048, &p), -EBADMSG);
	testdir_write(&d, POOL "free_hugepages", "");
	assert_int_equal(hostpool_read(d.fd, 1, 2048, &p), -EBADMSG);
	testdir_remove(&d);
}

static void check_persistent_never_wraps(void **state)
{
	struct hostpool p = {.nr = 1, .surplus = 2};

	(void)state;
	assert_int_equal(hostpool_persistent(&p), 0);
}

static void check_buddyinfo(void **state)
{
	static const char text[] =
		"Node 0, zone      DMA      0      0      0      1 \n"
		"Node 0, zone   Normal      7      5      3      2 \n"
		"Node 1, zone   Normal      1      1      1      1 \n";
	const struct {
		unsigned int node, order;
		int r;
		uint64_t blocks;
	} cases[] = {
		{0, 3, 0, 3},	      {0, 2, 0, 3 + 2 * 3}, {0, 0, 0, 53},
		{1, 1, 0, 1 + 2 + 4}, {1, 4, -ERANGE, 0},   {2, 0, -ENOENT, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t n = 0;

		assert_int_equal(hostpool_parse_buddyinfo(text, cases[i].node,
							  cases[i].order, &n),
				 cases[i].r);
		assert_int_equal(n, cases[i].blocks);
	}
}

static void check_bad_buddyinfo(void **state)
{
	static const char *const bad[] = {
		"rubbish\n",
		"Node 0, zone DMA x\n",
		"Node 0, zone DMA -1\n",
		"Node\n",
	};
	uint64_t n;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		if (hostpool_parse_buddyinfo(bad[i], 0, 0, &n) != -EBADMSG)
			fail_msg("accepted: %s", bad[i]);
	}
	assert_int_equal(hostpool_parse_buddyinfo("", 0, 0, &n), -ENOENT);
}

static void check_real_buddyinfo(void **state)
{
	auto_close int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY);
	uint64_t pages, blocks;

	(void)state;
	assert_int_equal(hostpool_free_blocks(proc_fd, 0, 0, &pages), 0);
	assert_true(pages > 0);
	assert_int_equal(hostpool_free_blocks(proc_fd, 0, 9, &blocks), 0);
	assert_true(blocks <= pages);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_read),
		cmocka_unit_test(check_persistent_never_wraps),
		cmocka_unit_test(check_buddyinfo),
		cmocka_unit_test(check_bad_buddyinfo),
		cmocka_unit_test(check_real_buddyinfo),
	};

	return cmocka_run_group_tests_name("hostpool", tests, NULL, NULL);
}
