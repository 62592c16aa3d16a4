// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../testdir.h"
#include "worker.h"

static struct testdir dir;
static int fifo_fd;

/* A FIFO that is full: whoever writes to it waits, as for the kernel. */
static int setup(void **state)
{
	char block[4096] = {};

	(void)state;
	if (testdir_make(&dir) || mkfifoat(dir.fd, "stuck", 0600))
		return -1;
	fifo_fd = openat(dir.fd, "stuck", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	while (write(fifo_fd, block, sizeof(block)) > 0)
		;
	return fifo_fd < 0;
}

static int teardown(void **state)
{
	(void)state;
	close(fifo_fd);
	testdir_remove(&dir);
	return 0;
}

static void check_write(void **state)
{
	(void)state;
	assert_int_equal(testdir_write(&dir, "f", ""), 0);
	assert_int_equal(worker_run(dir.fd, "f", "17\n", SEC_US), 0);
	assert_string_equal(testdir_read(&dir, "f"), "17");
	assert_int_equal(worker_run(dir.fd, "none", "1", SEC_US), -ENOENT);
}

static void check_error_of_the_write(void **state)
{
	(void)state;
	assert_int_equal(worker_run(AT_FDCWD, "/dev/full", "1", SEC_US),
			 -ENOSPC);
}

static void check_time_is_kept(void **state)
{
	uint64_t start = now_us();

	(void)state;
	assert_int_equal(worker_run(dir.fd, "stuck", "1", 50 * MSEC_US),
			 -ETIMEDOUT);
	assert_in_range(now_us() - start, 50 * MSEC_US, 2 * SEC_US);
}

static void check_kill_and_reap(void **state)
{
	struct worker w;
	uint64_t cpu_us;
	int result = 1;

	(void)state;
	assert_int_equal(worker_start(dir.fd, "stuck", "1", &w), 0);
	assert_false(worker_reap(&w, &result, &cpu_us));
	assert_true(worker_end(&w, SEC_US, &result, &cpu_us));
	assert_int_equal(result, -ECANCELED);
	assert_int_equal(w.pid, 0);
	assert_false(worker_reap(&w, &result, &cpu_us));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_write),
		cmocka_unit_test(check_error_of_the_write),
		cmocka_unit_test(check_time_is_kept),
		cmocka_unit_test(check_kill_and_reap),
	};

	return cmocka_run_group_tests_name("worker", tests, setup, teardown);
}
