// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <cmocka.h>
#include <string.h>

#include "hostcgroup.h"
#include "../testdir.h"

static int proc_fd, cgroup_fd;

static struct testdir dir;

static void put(const char *path, const char *text)
{
	assert_int_equal(testdir_write(&dir, path, text), 0);
}

static int open_below(const char *name)
{
	return openat(dir.fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int setup(void **state)
{
	(void)state;
	assert_int_equal(testdir_make(&dir), 0);
	put("proc/version", "");
	put("cg/cgroup.controllers", "");
	proc_fd = open_below("proc");
	cgroup_fd = open_below("cg");
	return proc_fd < 0 || cgroup_fd < 0;
}

static int teardown(void **state)
{
	(void)state;
	close(proc_fd);
	close(cgroup_fd);
	testdir_remove(&dir);
	return 0;
}

#define NUMA_STAT                                                              \
	"anon N0=4194304 N1=2097152\nfile N0=1024 N1=0\n"                      \
	"shmem N0=0 N1=8192\nanon_thp N0=2097152 N1=0\n"                       \
	"shmem_thp N0=0 N1=0\nunknown_new N0=5 N1=6\n"

static void test_parse_path(void **state)
{
	char path[64], tiny[4];

	(void)state;
	assert_int_equal(hostcgroup_parse_path("0::/machine.slice/a\n", path,
					       sizeof(path)),
			 0);
	assert_string_equal(path, "machine.slice/a");
	/* hybrid: other hierarchies first */
	assert_int_equal(hostcgroup_parse_path("4:memory:/x\n0::/b\n", path,
					       sizeof(path)),
			 0);
	assert_string_equal(path, "b");
	assert_int_equal(
		hostcgroup_parse_path("4:memory:/x\n", path, sizeof(path)),
		-ENODATA);
	assert_int_equal(
		hostcgroup_parse_path("0::/long\n", tiny, sizeof(tiny)),
		-ENAMETOOLONG);
	assert_int_equal(hostcgroup_parse_path("", path, sizeof(path)),
			 -ENODATA);
}

static void test_parse_numa_stat(void **state)
{
	static struct hostcgroup_numa n;
	char text[] = NUMA_STAT;
	char none[] = "", bad[] = "anon N0=x\n", far[] = "anon N999=4096\n";

	(void)state;
	assert_int_equal(hostcgroup_parse_numa_stat(text, &n), 0);
	assert_int_equal(n.nr_nodes, 2);
	assert_int_equal(n.node[0].anon_kib, 4096);
	assert_int_equal(n.node[0].anon_thp_kib, 2048);
	assert_int_equal(n.node[1].anon_kib, 2048);
	assert_int_equal(n.node[1].shmem_kib, 8);
	assert_int_equal(hostcgroup_parse_numa_stat(none, &n), -EBADMSG);
	assert_int_equal(hostcgroup_parse_numa_stat(bad, &n), -EBADMSG);
	assert_int_equal(hostcgroup_parse_numa_stat(far, &n), -EBADMSG);
}

static void test_own_group(void **state)
{
	static struct hostcgroup_numa n;

	(void)state;
	put("proc/77/cgroup", "0::/machine.slice/vm1\n");
	put("cg/machine.slice/vm1/cgroup.procs", "77\n");
	put("cg/machine.slice/vm1/memory.numa_stat", NUMA_STAT);
	assert_int_equal(hostcgroup_sample(proc_fd, cgroup_fd, 77, &n), 0);
	assert_int_equal(n.node[0].anon_kib, 4096);
}

/* What others use in the same group must not be taken for the VM's. */
static void test_shared_group(void **state)
{
	static struct hostcgroup_numa n;

	(void)state;
	put("proc/78/cgroup", "0::/user.slice\n");
	put("cg/user.slice/cgroup.procs", "78\n79\n");
	put("cg/user.slice/memory.numa_stat", NUMA_STAT);
	assert_int_equal(hostcgroup_sample(proc_fd, cgroup_fd, 78, &n),
			 -ENODATA);
	put("cg/user.slice/cgroup.procs", "80\n");
	assert_int_equal(hostcgroup_sample(proc_fd, cgroup_fd, 78, &n),
			 -ENODATA);
	put("proc/81/cgroup", "0::/\n");
	assert_int_equal(hostcgroup_sample(proc_fd, cgroup_fd, 81, &n),
			 -ENODATA);
	assert_int_equal(hostcgroup_sample(proc_fd, cgroup_fd, 82, &n), -ESRCH);
}

/* libvirt: the process shows in a threaded group below the one that counts. */
static void test_threaded_group(void **state)
{
	static struct hostcgroup_numa n;

	(void)state;
	put("proc/90/cgroup", "0::/m/q.scope/libvirt/emulator\n");
	put("cg/m/q.scope/libvirt/emulator/cgroup.procs", "");
	put("cg/m/q.scope/libvirt/cgroup.procs", "90\n");
	put("cg/m/q.scope/libvirt/memory.numa_stat", NUMA_STAT);
	assert_int_equal(hostcgroup_sample(proc_fd, cgroup_fd, 90, &n), 0);
	assert_int_equal(n.node[1].anon_kib, 2048);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse_path),
		cmocka_unit_test(test_parse_numa_stat),
		cmocka_unit_test(test_own_group),
		cmocka_unit_test(test_shared_group),
		cmocka_unit_test(test_threaded_group),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
