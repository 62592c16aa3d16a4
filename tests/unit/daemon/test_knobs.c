// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../testdir.h"
#include "log.h"
#include "pooljournal.h"
#include "rolerun.h"

#define POOL	      "nodes/node0/hugepages/hugepages-2048kB/"
#define BUDDY(order9) "Node 0, zone   Normal 0 0 0 0 0 0 0 0 0 " order9 " 0 \n"

static struct testdir dir;
static struct config cfg;
static struct rolerun rr;
static int fifo_fd;

static int setup_tree(void)
{
	char block[4096] = {};

	if (testdir_make(&dir) || config_init(&cfg) ||
	    testdir_write(&dir, POOL "nr_hugepages", "4\n") ||
	    testdir_write(&dir, POOL "free_hugepages", "4\n") ||
	    testdir_write(&dir, POOL "surplus_hugepages", "0\n") ||
	    testdir_write(&dir, "proc/sys/kernel/random/boot_id",
			  "01234567-89ab-cdef-0123-456789abcdef\n") ||
	    testdir_write(&dir, "proc/buddyinfo", BUDDY("10")) ||
	    mkdirat(dir.fd, "run", 0755))
		return -1;
	/* full: whoever writes waits, as for a kernel that compacts */
	if (mkfifoat(dir.fd, "nodes/node0/compact", 0600))
		return -1;
	fifo_fd = openat(dir.fd, "nodes/node0/compact",
			 O_RDWR | O_NONBLOCK | O_CLOEXEC);
	while (write(fifo_fd, block, sizeof(block)) > 0)
		;
	snprintf(cfg.node_dir, sizeof(cfg.node_dir), "%s/nodes", dir.path);
	snprintf(cfg.proc_dir, sizeof(cfg.proc_dir), "%s/proc", dir.path);
	snprintf(cfg.run_dir, sizeof(cfg.run_dir), "%s/run", dir.path);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	if (setup_tree())
		return -1;
	rolerun_start(&rr, knobs_main, &cfg);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (rr.sup_fd >= 0)
		(void)rolerun_stop(&rr);
	close(fifo_fd);
	config_free(&cfg);
	testdir_remove(&dir);
	return 0;
}

static struct ipc_msg pool(uint32_t op, uint64_t nr)
{
	return (struct ipc_msg){.op = op, .pool = {.page_kib = 2048, .nr = nr}};
}

static const char *size(void)
{
	return testdir_read(&dir, POOL "nr_hugepages");
}

/* Within a second. */
static bool size_becomes(const char *want)
{
	for (int i = 0; i < 1000; i++) {
		if (!strcmp(size(), want))
			return true;
		(void)poll(NULL, 0, 1);
	}
	return false;
}

static void set_to_16(void)
{
	struct ipc_msg m = pool(IPC_POOL_SET, 16);
	int fd;

	assert_int_equal(rolerun_ask(&rr, &m, &fd), 0);
	assert_int_equal(m.pool.nr, 16);
	assert_string_equal(size(), "16");
}

static void check_read_set_restore(void **state)
{
	struct ipc_msg m = pool(IPC_POOL_READ, 0);
	int fd;

	(void)state;
	assert_int_equal(rolerun_ask(&rr, &m, &fd), 0);
	assert_int_equal(m.pool.nr, 4);
	assert_int_equal(m.pool.free, 4);
	set_to_16();
	m = (struct ipc_msg){.op = IPC_POOL_RESTORE};
	assert_int_equal(rolerun_ask(&rr, &m, &fd), 0);
	assert_string_equal(size(), "4");
	m = pool(IPC_POOL_READ, 0);
	m.pool.node = 3;
	assert_int_equal(rolerun_ask(&rr, &m, &fd), -ENOENT);
}

static void check_restored_at_stop(void **state)
{
	(void)state;
	set_to_16();
	assert_int_equal(rolerun_stop(&rr), 0);
	assert_string_equal(size(), "4");
}

static void check_restored_when_the_supervisor_dies(void **state)
{
	(void)state;
	set_to_16();
	close(rr.sup_fd);
	rr.sup_fd = -1;
	assert_int_equal(rolerun_wait(&rr), 0);
	assert_string_equal(size(), "4");
}

static void check_restored_on_sigterm(void **state)
{
	(void)state;
	set_to_16();
	kill(rr.pid, SIGTERM);
	assert_int_equal(rolerun_wait(&rr), 0);
	assert_string_equal(size(), "4");
}

static void check_restored_when_the_core_ends(void **state)
{
	(void)state;
	set_to_16();
	close(rr.core_fd);
	rr.core_fd = -1;
	assert_true(size_becomes("4"));
	rolerun_link(&rr);
	set_to_16();
	/* a new core, before the end of the old one's link was seen */
	rolerun_link(&rr);
	assert_true(size_becomes("4"));
}

static void check_restored_after_sigkill(void **state)
{
	(void)state;
	set_to_16();
	kill(rr.pid, SIGKILL);
	assert_int_equal(rolerun_wait(&rr), -SIGKILL);
	assert_string_equal(size(), "16");
	rolerun_start(&rr, knobs_main, &cfg);
	assert_true(size_becomes("4"));
}

static void check_foreign_value(void **state)
{
	struct ipc_msg m = pool(IPC_POOL_SET, 20);
	int fd;

	(void)state;
	set_to_16();
	testdir_write(&dir, POOL "nr_hugepages", "9\n");
	assert_int_equal(rolerun_ask(&rr, &m, &fd), -ESTALE);
	assert_int_equal(m.pool.nr, 9);
	assert_int_equal(rolerun_stop(&rr), 0);
	assert_string_equal(size(), "9");
}

static struct ipc_msg compact(uint64_t blocks, uint64_t max_time_us)
{
	return (struct ipc_msg){.op = IPC_NODE_COMPACT,
				.compact = {.order = 9,
					    .blocks = blocks,
					    .max_time_us = max_time_us}};
}

static void check_compact_stops_at_its_target(void **state)
{
	struct ipc_msg m = compact(5, 60 * SEC_US);
	uint64_t start = now_us();
	int fd;

	(void)state;
	assert_int_equal(ipc_send(rr.core_fd, &m, -1), 0);
	assert_int_equal(rolerun_recv(&rr, 100, &m, &fd), -EAGAIN);
	testdir_write(&dir, "proc/buddyinfo", BUDDY("14"));
	assert_int_equal(rolerun_recv(&rr, 100, &m, &fd), -EAGAIN);
	testdir_write(&dir, "proc/buddyinfo", BUDDY("15"));
	assert_int_equal(rolerun_recv(&rr, 5000, &m, &fd), 1);
	assert_int_equal(m.result, 0);
	assert_int_equal(m.compact.blocks_before, 10);
	assert_int_equal(m.compact.blocks_after, 15);
	assert_true(now_us() - start < 5 * SEC_US);
}

static void check_compact_stops_at_its_time(void **state)
{
	struct ipc_msg m = compact(5, 100 * MSEC_US);
	uint64_t start = now_us();
	int fd;

	(void)state;
	assert_int_equal(rolerun_ask(&rr, &m, &fd), 0);
	assert_int_equal(m.compact.blocks_after, 10);
	assert_in_range(now_us() - start, 100 * MSEC_US, 3 * SEC_US);
}

static void check_one_compaction_and_cancel(void **state)
{
	struct ipc_msg m = compact(5, 60 * SEC_US);
	struct ipc_msg second = compact(1, 60 * SEC_US);
	struct ipc_msg cancel = {.op = IPC_NODE_CANCEL};
	int fd;

	(void)state;
	assert_int_equal(rolerun_ask(&rr, &cancel, &fd), -ESRCH);
	assert_int_equal(ipc_send(rr.core_fd, &m, -1), 0);
	assert_int_equal(rolerun_ask(&rr, &second, &fd), -EBUSY);
	/* pools are served meanwhile */
	set_to_16();
	cancel = (struct ipc_msg){.op = IPC_NODE_CANCEL};
	assert_int_equal(rolerun_ask(&rr, &cancel, &fd), 0);
	assert_int_equal(rolerun_recv(&rr, 5000, &m, &fd), 1);
	assert_int_equal(m.op, IPC_NODE_COMPACT);
	assert_int_equal(m.result, -ECANCELED);
}

static void check_stop_ends_a_compaction(void **state)
{
	struct ipc_msg m = compact(5, 60 * SEC_US);
	uint64_t start = now_us();

	(void)state;
	set_to_16();
	assert_int_equal(ipc_send(rr.core_fd, &m, -1), 0);
	(void)poll(NULL, 0, 50);
	assert_int_equal(rolerun_stop(&rr), 0);
	assert_true(now_us() - start < 3 * SEC_US);
	assert_string_equal(size(), "4");
}

/* A predecessor that still lives: nothing is touched under its hands. */
static void check_one_knob_writer_at_a_time(void **state)
{
	struct rolerun second;

	(void)state;
	set_to_16();
	rolerun_start(&second, knobs_main, &cfg);
	(void)poll(NULL, 0, 200);
	assert_string_equal(size(), "16");
	assert_int_equal(rolerun_stop(&rr), 0);
	assert_string_equal(size(), "4");
	rr = second;
	set_to_16();
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(check_read_set_restore),
		TEST(check_restored_at_stop),
		TEST(check_restored_when_the_supervisor_dies),
		TEST(check_restored_on_sigterm),
		TEST(check_restored_when_the_core_ends),
		TEST(check_restored_after_sigkill),
		TEST(check_foreign_value),
		TEST(check_compact_stops_at_its_target),
		TEST(check_compact_stops_at_its_time),
		TEST(check_one_compaction_and_cancel),
		TEST(check_stop_ends_a_compaction),
		TEST(check_one_knob_writer_at_a_time),
	};

	log_setup("test", LOG_LEVEL_ERR);
	return cmocka_run_group_tests_name("knobs", tests, NULL, NULL);
}
