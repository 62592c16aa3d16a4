// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "../testdir.h"
#include "hostproc.h"

#define STAT(comm)                                                             \
	"4711 (" comm ") S 1 4711 4711 0 -1 4194560 600 0 0 0 250 150 0 0 "    \
	"20 0 5 0 987654 4096 100 18446744073709551615 1 1 0 0 0 0\n"
#define ROLLUP                                                                 \
	"5555-7fff ---p 00000000 00:00 0    [rollup]\n"                        \
	"Rss:             1000000 kB\nPss:              900000 kB\n"           \
	"Pss_Anon: 1 kB\nAnonymous: 2 kB\n"                                    \
	"AnonHugePages:    700000 kB\nShmemPmdMapped:    2048 kB\n"            \
	"FilePmdMapped:         4 kB\nShared_Hugetlb:     100 kB\n"            \
	"Private_Hugetlb:      23 kB\nSwap:                77 kB\n"            \
	"SwapPss:               5 kB\nLocked:               9 kB\n"
#define STATUS                                                                 \
	"Name:\tqemu VmLck: 3\nVmPeak:\t 5 kB\nVmLck:\t      64 kB\n"          \
	"VmPin:\t      32 kB\nVmRSS:\t  5000 kB\nHugetlbPages:\t 4096 kB\n"    \
	"VmSwap:\t     12 kB\n"

static void check_stat(void **state)
{
	uint64_t start, cpu;

	(void)state;
	assert_int_equal(hostproc_parse_stat(STAT("qemu"), 100, &start, &cpu),
			 0);
	assert_int_equal(start, 987654);
	assert_int_equal(cpu, 4 * SEC_US);
	/* a name that looks like the rest of the line */
	assert_int_equal(
		hostproc_parse_stat(STAT("a) S 1 (b"), 100, &start, &cpu), 0);
	assert_int_equal(start, 987654);
	assert_int_equal(hostproc_parse_stat("", 100, &start, &cpu), -EBADMSG);
	assert_int_equal(hostproc_parse_stat("1 (x) S 1 2", 100, &start, &cpu),
			 -EBADMSG);
	assert_int_equal(hostproc_parse_stat(STAT("x"), 0, &start, &cpu),
			 -EBADMSG);
}

static void check_rollup(void **state)
{
	struct hostproc_sample s = {};

	(void)state;
	assert_int_equal(hostproc_parse_rollup(ROLLUP, &s), 0);
	assert_true(s.huge_valid);
	assert_int_equal(s.rss_kib, 1000000);
	assert_int_equal(s.anon_huge_kib, 700000);
	assert_int_equal(s.shmem_huge_kib, 2052);
	assert_int_equal(s.hugetlb_kib, 123);
	assert_int_equal(s.swap_kib, 77);
	assert_int_equal(hostproc_parse_rollup("Pss: 3 kB\n", &s), -EBADMSG);
}

static void check_status(void **state)
{
	struct hostproc_sample s = {.huge_valid = true, .rss_kib = 1};

	(void)state;
	assert_int_equal(hostproc_parse_status(STATUS, &s), 0);
	assert_true(s.locked_valid);
	assert_int_equal(s.locked_kib, 64);
	assert_int_equal(s.pinned_kib, 32);
	assert_int_equal(s.rss_kib, 1); /* smaps_rollup's is better */
	s = (struct hostproc_sample){};
	assert_int_equal(hostproc_parse_status(STATUS, &s), 0);
	assert_int_equal(s.rss_kib, 5000);
	assert_int_equal(s.hugetlb_kib, 4096);
	assert_int_equal(s.swap_kib, 12);
	assert_int_equal(hostproc_parse_status("Name:\tkthreadd\n", &s), 0);
	assert_false(s.locked_valid);
	assert_int_equal(hostproc_parse_status("rubbish", &s), -EBADMSG);
}

static void check_likeness_of_proc(void **state)
{
	struct hostproc_sample s;
	struct testdir d;

	(void)state;
	assert_int_equal(testdir_make(&d), 0);
	testdir_write(&d, "4711/stat", STAT("qemu"));
	testdir_write(&d, "4711/status", STATUS);
	/* without smaps_rollup */
	assert_int_equal(hostproc_sample(d.fd, 4711, 0, &s), 0);
	assert_false(s.huge_valid);
	assert_int_equal(s.rss_kib, 5000);
	testdir_write(&d, "4711/smaps_rollup", ROLLUP);
	assert_int_equal(hostproc_sample(d.fd, 4711, 987654, &s), 0);
	assert_true(s.huge_valid);
	assert_int_equal(s.rss_kib, 1000000);
	/* the pid is another process's now */
	assert_int_equal(hostproc_sample(d.fd, 4711, 987653, &s), -ESRCH);
	assert_int_equal(hostproc_sample(d.fd, 4712, 0, &s), -ESRCH);
	assert_int_equal(hostproc_sample(d.fd, 0, 0, &s), -ESRCH);
	assert_int_equal(hostproc_sample(d.fd, -1, 0, &s), -ESRCH);
	testdir_write(&d, "4711/stat", "4711 (qemu) Z");
	assert_int_equal(hostproc_sample(d.fd, 4711, 0, &s), -EBADMSG);
	testdir_remove(&d);
}

static void check_real_proc(void **state)
{
	auto_close int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY);
	struct hostproc_sample s, again;
	pid_t child;

	(void)state;
	assert_int_equal(hostproc_sample(proc_fd, getpid(), 0, &s), 0);
	assert_true(s.rss_kib > 100);
	assert_true(s.start_time > 0);
	assert_true(s.locked_valid);
	assert_int_equal(
		hostproc_sample(proc_fd, getpid(), s.start_time, &again), 0);
	assert_int_equal(
		hostproc_sample(proc_fd, getpid(), s.start_time + 1, &again),
		-ESRCH);
	/* a zombie: its memory is gone */
	child = fork();
	if (!child)
		_exit(0);
	usleep(100000);
	(void)hostproc_sample(proc_fd, child, 0, &again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_stat),
		cmocka_unit_test(check_rollup),
		cmocka_unit_test(check_status),
		cmocka_unit_test(check_likeness_of_proc),
		cmocka_unit_test(check_real_proc),
	};

	return cmocka_run_group_tests_name("hostproc", tests, NULL, NULL);
}
