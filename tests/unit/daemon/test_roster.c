// SPDX-License-Identifier: GPL-2.0-or-later
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "log.h"
#include "roster.h"
#include "util.h"

/* pids that are nobody's: the kernel's limit is 4194304 */
#define NOBODY 5000000

static struct config cfg;
static struct identity id;
static struct roster r;

static int wait_main(const struct config *c, int sup_fd, int listen_fd)
{
	struct pollfd p = {sup_fd, 0, 0};

	(void)c;
	(void)listen_fd;
	(void)poll(&p, 1, 10000); /* until its end */
	return 0;
}

static int setup(void **state)
{
	char what[CONF_WHAT_MAX];

	(void)state;
	if (config_init(&cfg) || privs_identity("nobody", "", &id, what))
		return -1;
	r = (struct roster){.cfg = &cfg, .id = &id, .listen_fd = -1};
	for (unsigned int i = 0; i < ROLE_COUNT; i++)
		r.main[i] = wait_main;
	roster_init(&r);
	roster_start_due(&r, 1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	r.stopping = true;
	for (unsigned int i = 0; i < ROLE_COUNT; i++)
		roster_kill(&r, i);
	for (int n = 0; n < 1000 && r.child[0].pid; n++) {
		roster_reap(&r, 1);
		(void)poll(NULL, 0, 1);
	}
	while (wait(NULL) > 0)
		;
	for (unsigned int i = 0; i < ROLE_COUNT; i++)
		close_fd_ptr(&r.child[i].fd);
	config_free(&cfg);
	return 0;
}

static void check_all_are_started(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < ROLE_COUNT; i++) {
		assert_true(r.child[i].pid > 0);
		assert_true(r.child[i].fd >= 0);
	}
	assert_true(roster_next_us(&r) == UINT64_MAX);
}

/* Those in D state do not end when killed; four of a role are enough. */
static void check_four_alive_at_most(void **state)
{
	struct roster_child *c = &r.child[ROLE_HELPER];
	pid_t old = c->pid;

	(void)state;
	for (int i = 0; i < ROSTER_ALIVE_MAX - 1; i++)
		c->killed[i] = NOBODY + i;
	roster_replace(&r, ROLE_HELPER, 2);
	assert_int_equal(c->pid, 0);
	roster_start_due(&r, 2);
	assert_int_equal(c->pid, 0);
	assert_true(c->refused);
	/* no busy loop meanwhile */
	assert_true(roster_next_us(&r) == UINT64_MAX);
	/* again: there is nothing to replace */
	roster_replace(&r, ROLE_HELPER, 3);
	for (int n = 0; n < 1000 && c->refused; n++) {
		(void)poll(NULL, 0, 1);
		roster_reap(&r, 4);
	}
	/* one of them has ended */
	roster_start_due(&r, 5);
	assert_true(c->pid > 0 && c->pid != old);
}

static void check_who_does_not_read_is_killed(void **state)
{
	struct ipc_msg m = {.op = IPC_STOP};
	pid_t old = r.child[ROLE_BROKER].pid;
	int n, err = 0;

	(void)state;
	for (n = 0; n < 100000 && !err; n++)
		err = roster_send(&r, ROLE_BROKER, &m, -1);
	assert_true(err < 0);
	for (n = 0; n < 1000 && r.child[ROLE_BROKER].pid; n++) {
		(void)poll(NULL, 0, 1);
		roster_reap(&r, 2);
	}
	roster_start_due(&r, 2);
	assert_true(r.child[ROLE_BROKER].pid > 0);
	assert_int_not_equal(r.child[ROLE_BROKER].pid, old);
}

static void check_nothing_is_started_at_the_end(void **state)
{
	(void)state;
	r.stopping = true;
	roster_kill(&r, ROLE_KNOBS);
	for (int n = 0; n < 1000 && r.child[ROLE_KNOBS].pid; n++) {
		(void)poll(NULL, 0, 1);
		roster_reap(&r, 2);
	}
	roster_start_due(&r, UINT64_MAX);
	assert_int_equal(r.child[ROLE_KNOBS].pid, 0);
	assert_true(roster_next_us(&r) == UINT64_MAX);
}

static void check_backoff(void **state)
{
	uint64_t last = 0;

	(void)state;
	assert_int_equal(roster_backoff_us(0), 0);
	assert_int_equal(roster_backoff_us(1), 100 * MSEC_US);
	assert_int_equal(roster_backoff_us(2), 200 * MSEC_US);
	for (unsigned int i = 0; i < 100; i++) {
		assert_true(roster_backoff_us(i) >= last);
		last = roster_backoff_us(i);
	}
	assert_int_equal(last, 5 * SEC_US);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(check_all_are_started),
		TEST(check_four_alive_at_most),
		TEST(check_who_does_not_read_is_killed),
		TEST(check_nothing_is_started_at_the_end),
		cmocka_unit_test(check_backoff),
	};

	log_setup("test", LOG_LEVEL_ERR);
	return cmocka_run_group_tests_name("roster", tests, NULL, NULL);
}
