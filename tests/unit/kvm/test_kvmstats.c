// SPDX-License-Identifier: GPL-2.0-or-later
/* KVM's page counts, as QEMU and debugfs tell them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../testdir.h"
#include "kvmstats.h"
#include "util.h"

static void check_answers(void **state)
{
	static const struct {
		const char *text;
		int want;
	} cases[] = {
		{"[{\"provider\":\"kvm\",\"stats\":["
		 "{\"name\":\"pages_4k\",\"value\":5},"
		 "{\"name\":\"pages_1g\",\"value\":1},"
		 "{\"name\":\"other\",\"value\":[1,2]},"
		 "{\"name\":\"pages_2m\",\"value\":77}]}]",
		 0},
		/* emulation */
		{"[]", -ENODATA},
		{"[{\"provider\":\"kvm\",\"stats\":[]}]", -ENODATA},
		{"[{\"provider\":\"kvm\"}]", -ENODATA},
		{"{}", -EPROTO},
		{"[{\"stats\":[{\"name\":\"pages_4k\",\"value\":5}]}]",
		 -EPROTO},
		{"[{\"stats\":[{\"name\":\"pages_4k\",\"value\":-5}]}]",
		 -ENODATA},
		{"[{\"stats\":[{\"name\":\"pages_4k\",\"value\":\"5\"}]}]",
		 -ENODATA},
		{"[3,[],{\"stats\":[7,{\"value\":1}]}]", -ENODATA},
	};
	struct kvm_pages p = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_t *o = json_loads(cases[i].text, 0, NULL);

		assert_non_null(o);
		if (kvmstats_parse(o, &p) != cases[i].want)
			fail_msg("%s", cases[i].text);
		json_decref(o);
	}
	assert_int_equal(p.pages_4k, 5);
	assert_int_equal(p.pages_2m, 77);
	assert_int_equal(p.pages_1g, 1);
}

static void check_args(void **state)
{
	json_t *o = kvmstats_args();

	(void)state;
	assert_non_null(o);
	assert_string_equal(json_string_value(json_object_get(o, "target")),
			    "vm");
	json_decref(o);
}

static void put(struct testdir *d, const char *vm, const char *a, const char *b,
		const char *c)
{
	static const char *const names[] = {"pages_4k", "pages_2m", "pages_1g"};
	const char *const texts[] = {a, b, c};
	char path[64];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", vm, names[i]);
		assert_int_equal(testdir_write(d, path, texts[i]), 0);
	}
}

static void check_debugfs(void **state)
{
	struct kvm_pages p = {0};
	struct testdir d;

	(void)state;
	assert_int_equal(testdir_make(&d), 0);
	put(&d, "123-11", "4\n", "5\n", "6\n");
	put(&d, "1234-9", "400\n", "500\n", "600\n");
	assert_int_equal(kvmstats_debugfs(d.fd, 123, &p), 0);
	assert_int_equal(p.pages_4k, 4);
	assert_int_equal(p.pages_1g, 6);
	/* a second VM of the same process; asked again: all is read anew */
	put(&d, "123-15", "10\n", "20\n", "30\n");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(kvmstats_debugfs(d.fd, 123, &p), 0);
		assert_int_equal(p.pages_2m, 25);
	}
	assert_int_equal(kvmstats_debugfs(d.fd, 12, &p), -ENODATA);
	put(&d, "7-1", "4\n", "many\n", "6\n");
	assert_int_equal(kvmstats_debugfs(d.fd, 7, &p), -EBADMSG);
	testdir_remove(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_answers),
		cmocka_unit_test(check_args),
		cmocka_unit_test(check_debugfs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
