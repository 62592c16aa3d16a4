// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cmocka.h>

#include "../testdir.h"
#include "log.h"
#include "rolerun.h"

static struct testdir dir;
static struct config cfg;
static struct rolerun rr;

static int add_vm(const char *name, const char *file)
{
	char vm[256], what[CONF_WHAT_MAX];

	snprintf(vm, sizeof(vm), "name=%s,channel=%s/%s", name, dir.path, file);
	return config_add_vm(&cfg, vm, what);
}

static int setup(void **state)
{
	char what[CONF_WHAT_MAX];

	(void)state;
	if (testdir_make(&dir) || config_init(&cfg) || add_vm("a", "a") ||
	    add_vm("none", "none") || config_validate(&cfg, what))
		return -1;
	rolerun_start(&rr, helper_main, &cfg);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	(void)rolerun_stop(&rr);
	config_free(&cfg);
	testdir_remove(&dir);
	return 0;
}

static int listen_at(const char *file, int backlog)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/%s", dir.path, file);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, backlog), 0);
	return fd;
}

static int ask_open(const char *file, struct ipc_msg *m, int *fd)
{
	*m = (struct ipc_msg){.op = IPC_OPEN_SOCKET};
	snprintf(m->open.path, sizeof(m->open.path), "%s/%s", dir.path, file);
	return rolerun_ask(&rr, m, fd);
}

static void check_open(void **state)
{
	auto_close int listener = listen_at("a", 1);
	auto_close int peer = -1;
	struct ipc_msg m;
	char c = 0;
	int fd;

	(void)state;
	assert_int_equal(ask_open("a", &m, &fd), 0);
	assert_int_equal(m.opened.peer_pid, getpid());
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	peer = accept(listener, NULL, NULL);
	assert_int_equal(write(peer, "x", 1), 1);
	assert_int_equal(read(fd, &c, 1), 1);
	assert_int_equal(c, 'x');
	close(fd);
}

static void check_nobody_there(void **state)
{
	auto_close int listener = -1;
	struct ipc_msg m;
	int fd;

	(void)state;
	assert_int_equal(ask_open("none", &m, &fd), -ENOENT);
	assert_int_equal(fd, -1);
	listener = listen_at("a", 1);
	close(listener);
	listener = -1;
	assert_int_equal(ask_open("a", &m, &fd), -ECONNREFUSED);
}

/* A core that a guest has taken over gets no other socket of the host. */
static void check_other_sockets_are_refused(void **state)
{
	auto_close int listener = listen_at("libvirt-sock", 1);
	struct config more = cfg;
	struct ipc_msg m;
	int fd;

	(void)state;
	assert_int_equal(ask_open("libvirt-sock", &m, &fd), -EPERM);
	assert_int_equal(fd, -1);
	m = (struct ipc_msg){.op = IPC_OPEN_SOCKET};
	assert_int_equal(rolerun_ask(&rr, &m, &fd), -EPERM);
	/* unless the operator says so */
	assert_int_equal(add_vm("b", "libvirt-sock"), 0);
	more = cfg;
	more.vm[more.nr_vms - 1].mode = more.policy.mode;
	more.vm[more.nr_vms - 1].collapse = more.policy.collapse;
	rolerun_reload(&rr, &more);
	assert_int_equal(ask_open("libvirt-sock", &m, &fd), 0);
	close(fd);
}

static void check_full_backlog(void **state)
{
	auto_close int listener = listen_at("a", 0);
	uint64_t start = now_us();
	struct ipc_msg m;
	int first, fd;

	(void)state;
	assert_int_equal(ask_open("a", &m, &first), 0);
	assert_int_equal(ask_open("a", &m, &fd), -ETIMEDOUT);
	assert_in_range(now_us() - start, 900 * MSEC_US, 3 * SEC_US);
	close(first);
}

static void check_sample(void **state)
{
	struct ipc_msg m = {.op = IPC_SAMPLE_PROC, .proc.pid = getpid()};
	uint64_t start;
	int fd;

	(void)state;
	assert_int_equal(rolerun_ask(&rr, &m, &fd), 0);
	assert_true(m.proc_sample.rss_kib > 100);
	assert_true(m.proc_sample.locked_kib_valid);
	start = m.proc_sample.start_time;
	m = (struct ipc_msg){.op = IPC_SAMPLE_PROC,
			     .proc = {getpid(), start + 1}};
	assert_int_equal(rolerun_ask(&rr, &m, &fd), -ESRCH);
}

static void check_bad_request_costs_the_link(void **state)
{
	struct ipc_msg m = {.op = IPC_POOL_RESTORE};
	int fd;

	(void)state;
	assert_int_equal(ipc_send(rr.core_fd, &m, -1), 0);
	assert_int_equal(rolerun_recv(&rr, 5000, &m, &fd), 0);
	/* but not the process */
	rolerun_link(&rr);
	assert_int_equal(ask_open("none", &m, &fd), -ENOENT);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(check_open),
		TEST(check_nobody_there),
		TEST(check_other_sockets_are_refused),
		TEST(check_full_backlog),
		TEST(check_sample),
		TEST(check_bad_request_costs_the_link),
	};

	/* what is refused on purpose is said in the log */
	log_setup("test", LOG_LEVEL_ERR);
	return cmocka_run_group_tests_name("helper", tests, NULL, NULL);
}
