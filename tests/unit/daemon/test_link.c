// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "link.h"
#include "util.h"

static int results[4];
static unsigned int stuck;

static void answer(void *ctx, uint64_t cookie, int result,
		   const struct ipc_msg *m, int fd)
{
	(void)ctx;
	(void)m;
	(void)fd;
	results[cookie] = result;
}

static void on_stuck(struct link *k)
{
	(void)k;
	stuck++;
}

/*
 * A collapse that takes 8 s: it is what the helper is stuck with, whosever
 * deadline passes first. The others are not to blame, and are told so.
 */
static void one_is_to_blame(void **state)
{
	const uint64_t deadline_us[3] = {9 * SEC_US, 2 * SEC_US, 5 * SEC_US};
	static struct link k;
	struct loop *l;
	int pair[2];

	(void)state;
	assert_int_equal(loop_open(LOOP_POLL, &l), 0);
	assert_int_equal(ipc_pair(pair), 0);
	link_init(&k, l, ROLE_HELPER);
	k.stuck = on_stuck;
	link_set(&k, pair[0]);
	for (uint64_t i = 0; i < 3; i++) {
		struct ipc_msg m = {.op = IPC_COLLAPSE};

		results[i] = 1;
		assert_int_equal(
			link_call(&k, &m, deadline_us[i], answer, NULL, i), 0);
	}
	link_tick(&k, 2 * SEC_US - 1);
	assert_int_equal(stuck, 0);
	assert_int_equal(results[0], 1);
	link_tick(&k, 2 * SEC_US);
	assert_int_equal(stuck, 1);
	assert_int_equal(results[0], -ETIMEDOUT);
	assert_int_equal(results[1], -ECONNRESET);
	assert_int_equal(results[2], -ECONNRESET);
	link_tick(&k, 20 * SEC_US);
	assert_int_equal(stuck, 1);
	close(pair[1]);
	loop_close(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_is_to_blame),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
