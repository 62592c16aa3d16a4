// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "../testdir.h"
#include "log.h"
#include "pools.h"

#define BOOT "01234567-89ab-cdef-0123-456789abcdef"
#define DIR0 "node0/hugepages/hugepages-2048kB/"
#define DIR1 "node1/hugepages/hugepages-2048kB/"

static struct testdir dir;

static void set_pool(const char *where, const char *nr, const char *surplus)
{
	char name[128];

	snprintf(name, sizeof(name), "%snr_hugepages", where);
	assert_int_equal(testdir_write(&dir, name, nr), 0);
	snprintf(name, sizeof(name), "%sfree_hugepages", where);
	assert_int_equal(testdir_write(&dir, name, "0\n"), 0);
	snprintf(name, sizeof(name), "%ssurplus_hugepages", where);
	assert_int_equal(testdir_write(&dir, name, surplus), 0);
}

static int setup(void **state)
{
	(void)state;
	if (testdir_make(&dir))
		return -1;
	set_pool(DIR0, "4\n", "0\n");
	set_pool(DIR1, "10\n", "0\n");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	testdir_remove(&dir);
	return 0;
}

static void open_pools(struct pools *p)
{
	assert_int_equal(pools_open(p, dir.fd, dir.fd, BOOT, SEC_US), 0);
}

/* As the knob writer does, in one go. */
static int set(struct pools *p, uint32_t node, uint64_t nr)
{
	struct worker w;
	uint64_t cpu_us;
	int r, result;

	r = pools_set_begin(p, node, 2048, nr, &w);
	if (r <= 0)
		return r;
	while (!worker_reap(&w, &result, &cpu_us))
		(void)poll(NULL, 0, 1);
	assert_int_equal(result, 0);
	assert_int_equal(pools_set_end(p, node, 2048), 0);
	return 1;
}

static time_t mtime_ns(const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(dir.fd, name, &st, 0), 0);
	return st.st_mtim.tv_nsec + st.st_mtim.tv_sec * 1000000000;
}

static bool journal_exists(void)
{
	return faccessat(dir.fd, POOLJOURNAL_NAME, F_OK, 0) == 0;
}

static void check_set_and_put_back(void **state)
{
	struct pools p;

	(void)state;
	open_pools(&p);
	assert_false(journal_exists());
	assert_int_equal(set(&p, 0, 16), 1);
	assert_int_equal(set(&p, 1, 20), 1);
	assert_int_equal(set(&p, 0, 32), 1);
	assert_string_equal(testdir_read(&dir, DIR0 "nr_hugepages"), "32");
	assert_true(journal_exists());
	assert_int_equal(pools_restore(&p, SEC_US), 0);
	assert_string_equal(testdir_read(&dir, DIR0 "nr_hugepages"), "4");
	assert_string_equal(testdir_read(&dir, DIR1 "nr_hugepages"), "10");
	assert_false(journal_exists());
}

static void check_a_value_that_is_there_is_not_written(void **state)
{
	struct pools p;
	time_t before;

	(void)state;
	open_pools(&p);
	before = mtime_ns(DIR0 "nr_hugepages");
	assert_int_equal(set(&p, 0, 4), 0);
	assert_int_equal(pools_restore(&p, SEC_US), 0);
	assert_int_equal(mtime_ns(DIR0 "nr_hugepages"), before);
	assert_false(journal_exists());
}

static void check_back_by_hand_leaves_no_journal(void **state)
{
	struct pools p;

	(void)state;
	open_pools(&p);
	assert_int_equal(set(&p, 0, 16), 1);
	assert_int_equal(set(&p, 0, 4), 1);
	assert_false(journal_exists());
}

static void check_put_back_after_a_crash(void **state)
{
	struct pools p, next;

	(void)state;
	open_pools(&p);
	assert_int_equal(set(&p, 0, 16), 1);
	/* p is gone, as by SIGKILL */
	open_pools(&next);
	assert_string_equal(testdir_read(&dir, DIR0 "nr_hugepages"), "4");
	assert_false(journal_exists());
}

/* Killed while the kernel was half-way. */
static void check_put_back_after_a_crash_in_a_write(void **state)
{
	struct pools p, next;
	struct worker w;

	(void)state;
	open_pools(&p);
	assert_int_equal(pools_set_begin(&p, 0, 2048, 16, &w), 1);
	usleep(50000);
	set_pool(DIR0, "9\n", "0\n");
	open_pools(&next);
	assert_string_equal(testdir_read(&dir, DIR0 "nr_hugepages"), "4");
	/* and one that no such write can have left */
	open_pools(&p);
	assert_int_equal(pools_set_begin(&p, 0, 2048, 16, &w), 1);
	usleep(50000);
	set_pool(DIR0, "17\n", "0\n");
	open_pools(&next);
	assert_string_equal(testdir_read(&dir, DIR0 "nr_hugepages"), "17");
	assert_false(journal_exists());
}

static void check_somebody_elses_value_stays(void **state)
{
	struct pools p;

	(void)state;
	open_pools(&p);
	assert_int_equal(set(&p, 0, 16), 1);
	assert_int_equal(set(&p, 1, 16), 1);
	set_pool(DIR0, "7\n", "0\n");
	assert_int_equal(set(&p, 0, 20), -ESTALE);
	/* not even when it happens to be our value again */
	set_pool(DIR0, "16\n", "0\n");
	assert_int_equal(set(&p, 0, 20), -ESTALE);
	set_pool(DIR0, "7\n", "0\n");
	assert_int_equal(pools_restore(&p, SEC_US), 0);
	assert_string_equal(testdir_read(&dir, DIR0 "nr_hugepages"), "7");
	assert_string_equal(testdir_read(&dir, DIR1 "nr_hugepages"), "10");
	/* a new start */
	assert_int_equal(set(&p, 0, 20), 1);
	assert_int_equal(pools_restore(&p, SEC_US), 0);
	assert_string_equal(testdir_read(&dir, DIR0 "nr_hugepages"), "7");
}

static void check_surplus_does_not_count(void **state)
{
	struct pools p;

	(void)state;
	open_pools(&p);
	assert_int_equal(set(&p, 0, 16), 1);
	/* 6 of them got in use beyond the pool, by overcommit */
	set_pool(DIR0, "22\n", "6\n");
	assert_int_equal(set(&p, 0, 16), 0);
	assert_int_equal(pools_restore(&p, SEC_US), -EAGAIN);
	/* a real kernel would now have 4 + 6 */
	set_pool(DIR0, "4\n", "0\n");
}

static void check_other_boot(void **state)
{
	struct pools p;

	(void)state;
	open_pools(&p);
	assert_int_equal(set(&p, 0, 16), 1);
	assert_int_equal(pools_open(&p, dir.fd, dir.fd, "another", SEC_US), 0);
	assert_string_equal(testdir_read(&dir, DIR0 "nr_hugepages"), "16");
	assert_false(journal_exists());
}

static void check_damaged_journals(void **state)
{
	static const char *const bad[] = {
		"",
		"rubbish\n",
		"vmdefrag-pools 1\n",
		"vmdefrag-pools 2\nboot " BOOT "\nend\n",
		"vmdefrag-pools 1\nboot " BOOT "\n",
		"vmdefrag-pools 1\nboot " BOOT "\nend\nmore\n",
		"vmdefrag-pools 1\nboot " BOOT
		"\npool 0 2048 original 1\nend\n",
		"vmdefrag-pools 1\nboot " BOOT "\n"
		"pool 0 2048 original 1 before 1 set 4 done\n",
		"vmdefrag-pools 1\nboot " BOOT "\n"
		"pool 0 2048 original 1 before 1 set 4 maybe\nend\n",
		"vmdefrag-pools 1\nboot " BOOT "\n"
		"pool 0 2048 original 1 before 1 set 4 done x\nend\n",
		"vmdefrag-pools 1\nboot " BOOT "\n"
		"pool 0 2048 original 1 before 1 set 4 done\n"
		"pool 0 2048 original 1 before 1 set 4 done\nend\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct pooljournal j = {.boot_id = BOOT};
		struct pools p;

		if (pooljournal_parse(&j, bad[i]) != -EBADMSG)
			fail_msg("accepted: %s", bad[i]);
		assert_int_equal(j.nr, 0);
		testdir_write(&dir, POOLJOURNAL_NAME, bad[i]);
		open_pools(&p);
		assert_string_equal(testdir_read(&dir, DIR0 "nr_hugepages"),
				    "4");
	}
}

static void check_node_that_went(void **state)
{
	struct pools p;

	(void)state;
	open_pools(&p);
	assert_int_equal(set(&p, 1, 16), 1);
	assert_int_equal(renameat(dir.fd, "node1", dir.fd, "away"), 0);
	assert_int_equal(set(&p, 1, 17), -ENOENT);
	assert_int_equal(pools_restore(&p, SEC_US), 0);
	assert_int_equal(renameat(dir.fd, "away", dir.fd, "node1"), 0);
}

/* No journal, no change. */
static void check_no_place_for_the_journal(void **state)
{
	struct testdir full;
	struct pools p;

	(void)state;
	assert_int_equal(testdir_make(&full), 0);
	assert_int_equal(mkdirat(full.fd, POOLJOURNAL_NAME ".new", 0755), 0);
	assert_int_equal(pools_open(&p, dir.fd, full.fd, BOOT, SEC_US), 0);
	assert_int_equal(set(&p, 0, 16), -EISDIR);
	assert_string_equal(testdir_read(&dir, DIR0 "nr_hugepages"), "4");
	testdir_remove(&full);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(check_set_and_put_back),
		TEST(check_a_value_that_is_there_is_not_written),
		TEST(check_back_by_hand_leaves_no_journal),
		TEST(check_put_back_after_a_crash),
		TEST(check_put_back_after_a_crash_in_a_write),
		TEST(check_somebody_elses_value_stays),
		TEST(check_surplus_does_not_count),
		TEST(check_other_boot),
		TEST(check_damaged_journals),
		TEST(check_node_that_went),
		TEST(check_no_place_for_the_journal),
	};

	log_setup("test", LOG_LEVEL_ERR);
	return cmocka_run_group_tests_name("pools", tests, NULL, NULL);
}
