// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "util.h"
#include "vmfeed.h"

static struct ipc_vm vm(const char *name, const char *channel, uint32_t mode)
{
	struct ipc_vm v = {.mode = mode};

	strcpy(v.name, name);
	strcpy(v.channel, channel);
	return v;
}

/* All that is to be said, as "+a -b ." */
static const char *say(struct vmfeed *f, const struct ipc_vm *want, size_t nr)
{
	static char text[256];
	struct ipc_msg m;
	size_t n = 0;

	text[0] = '\0';
	for (int i = 0; i < 32 && vmfeed_next(f, want, nr, &m); i++) {
		assert_int_equal(ipc_check(&m), 0);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s ",
				      m.op == IPC_VM_ADD      ? "+"
				      : m.op == IPC_VM_REMOVE ? "-"
							      : ".",
				      m.vm.name);
		vmfeed_sent(f, &m);
	}
	return text;
}

static void check_differences(void **state)
{
	struct ipc_vm abc[] = {vm("a", "/a", 1), vm("b", "/b", 1),
			       vm("c", "/c", 1)};
	struct ipc_vm changed[] = {vm("c", "/c", 2), vm("d", "/a", 1)};
	struct vmfeed f;

	(void)state;
	assert_int_equal(vmfeed_init(&f), 0);
	assert_string_equal(say(&f, abc, 3), "+a +b +c . ");
	assert_string_equal(say(&f, abc, 3), "");
	/* d takes over a's channel, so a goes first */
	assert_string_equal(say(&f, changed, 2), "-a -b +c +d ");
	assert_string_equal(say(&f, changed, 2), "");
	vmfeed_reset(&f);
	assert_string_equal(say(&f, changed, 2), "+c +d . ");
	assert_string_equal(say(&f, NULL, 0), "-c -d ");
	vmfeed_reset(&f);
	assert_string_equal(say(&f, NULL, 0), ". ");
	vmfeed_free(&f);
}

/* What is wanted changes between two messages. */
static void check_interrupted(void **state)
{
	struct ipc_vm old[] = {vm("a", "/a", 1), vm("b", "/b", 1)};
	struct ipc_vm new[] = {vm("b", "/b", 1)};
	struct vmfeed f;
	struct ipc_msg m;

	(void)state;
	assert_int_equal(vmfeed_init(&f), 0);
	assert_true(vmfeed_next(&f, old, 2, &m));
	vmfeed_sent(&f, &m);
	/* one that was not sent is said again */
	assert_true(vmfeed_next(&f, old, 2, &m));
	assert_string_equal(m.vm.name, "b");
	assert_string_equal(say(&f, new, 1), "-a +b . ");
	vmfeed_free(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_differences),
		cmocka_unit_test(check_interrupted),
	};

	return cmocka_run_group_tests_name("vmfeed", tests, NULL, NULL);
}
