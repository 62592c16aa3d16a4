// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <cmocka.h>
#include <string.h>

#include "hostview.h"
#include "../testdir.h"

static int proc_fd, node_fd, mm_fd;
static struct hostview view;

static struct testdir dir;

static void put(const char *path, const char *text)
{
	assert_int_equal(testdir_write(&dir, path, text), 0);
}

static int open_below(const char *name)
{
	return openat(dir.fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void put_pool(unsigned int node, const char *size, const char *nr,
		     const char *nr_free)
{
	char path[128];

	snprintf(path, sizeof(path), "node/node%u/hugepages/%s/nr_hugepages",
		 node, size);
	put(path, nr);
	snprintf(path, sizeof(path), "node/node%u/hugepages/%s/free_hugepages",
		 node, size);
	put(path, nr_free);
	snprintf(path, sizeof(path),
		 "node/node%u/hugepages/%s/surplus_hugepages", node, size);
	put(path, "0\n");
}

static int setup(void **state)
{
	(void)state;
	assert_int_equal(testdir_make(&dir), 0);
	put("proc/buddyinfo",
	    "Node 0, zone      DMA      1 0 0 0 0 0 0 0 1 1 3\n"
	    "Node 0, zone   Normal     10 5 0 0 0 0 0 0 0 2 1\n"
	    "Node 2, zone   Normal   1000 0 0 0 0 0 0 0 0 0 0\n");
	put("node/node0/meminfo", "Node 0 MemTotal:       4096000 kB\n"
				  "Node 0 MemFree:          20000 kB\n"
				  "Node 0 AnonPages:          500 kB\n");
	put("node/node2/meminfo", "Node 2 MemTotal:       2048000 kB\n"
				  "Node 2 MemFree:           4000 kB\n");
	put_pool(0, "hugepages-1048576kB", "0\n", "0\n");
	put_pool(0, "hugepages-2048kB", "64\n", "10\n");
	put_pool(2, "hugepages-1048576kB", "1\n", "1\n");
	put_pool(2, "hugepages-2048kB", "8\n", "8\n");
	put("mm/hugepages-2048kB/resv_hugepages", "5\n");
	proc_fd = open_below("proc");
	node_fd = open_below("node");
	mm_fd = open_below("mm");
	return proc_fd < 0 || node_fd < 0 || mm_fd < 0;
}

static int teardown(void **state)
{
	(void)state;
	close(proc_fd);
	close(node_fd);
	close(mm_fd);
	testdir_remove(&dir);
	return 0;
}

static void two_nodes(void)
{
	memset(&view, 0, sizeof(view));
	view.nr_nodes = 2;
	view.node[1].id = 2;
}

static void test_read(void **state)
{
	(void)state;
	two_nodes();
	/* again and again: nothing may add up */
	for (int i = 0; i < 3; i++)
		assert_int_equal(hostview_read(proc_fd, node_fd, mm_fd, &view),
				 0);
	assert_int_equal(view.nr_orders, 11);
	assert_int_equal(view.node[0].total_kib, 4096000);
	assert_int_equal(view.node[0].anon_kib, 500);
	assert_int_equal(view.node[0].free_blocks[0], 11);
	assert_int_equal(view.node[0].free_blocks[10], 4);
	assert_int_equal(hostview_blocks(&view.node[0], 9), 3 + 2 * 4);
	assert_int_equal(view.node[1].free_blocks[0], 1000);
	assert_int_equal(view.node[1].unusable_permille[9], 1000);
	assert_int_equal(view.nr_pools, 2);
	assert_int_equal(view.pool_kib[0], 2048);
	assert_int_equal(view.pool_kib[1], 1048576);
	assert_int_equal(view.node[0].pool[0].free, 10);
	assert_int_equal(view.node[1].pool[1].nr, 1);
	assert_int_equal(view.pool_reserved[0], 5);
	assert_int_equal(view.pool_reserved[1], 0);
	assert_int_equal(hostview_find(&view, 2), 1);
	assert_int_equal(hostview_find(&view, 1), -ENOENT);
}

static void test_node_gone(void **state)
{
	(void)state;
	two_nodes();
	view.node[1].id = 9;
	assert_int_equal(hostview_read(proc_fd, node_fd, mm_fd, &view),
			 -ENOENT);
}

static void test_garbage(void **state)
{
	(void)state;
	two_nodes();
	put("proc/buddyinfo", "nothing that is known\n");
	assert_int_equal(hostview_read(proc_fd, node_fd, mm_fd, &view),
			 -EBADMSG);
}

/* The machine that the test runs on. */
static void test_real(void **state)
{
	static struct hostview v;
	int p = open("/proc", O_RDONLY | O_DIRECTORY);
	int n = open("/sys/devices/system/node", O_RDONLY | O_DIRECTORY);
	uint64_t free_pages = 0;

	(void)state;
	if (n < 0) {
		close(p);
		skip();
	}
	(void)hostview_topology(&v);
	assert_true(v.nr_nodes >= 1);
	assert_int_equal(v.node[0].distance[0], 10);
	assert_int_equal(hostview_read(p, n, -1, &v), 0);
	for (unsigned int o = 0; o < v.nr_orders; o++)
		free_pages += (uint64_t)v.node[0].free_blocks[o] << o;
	assert_true(v.node[0].free_kib <= v.node[0].total_kib);
	assert_true(free_pages > 0);
	close(p);
	close(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_node_gone),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
