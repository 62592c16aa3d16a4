// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <cmocka.h>
#include <string.h>

#include "conf.h"
#include "proto_codec.h"
#include "util.h"

struct cfg {
	bool flag;
	uint32_t num;
	uint64_t big, interval_us;
	char name[16];
	uint32_t backend, knobs;
};

static const struct conf_key keys[] = {
	{"main", "Flag", CONF_BOOL, offsetof(struct cfg, flag), 0, 0, NULL},
	{"main", "Num", CONF_U32, offsetof(struct cfg, num), 5, 10, NULL},
	{"main", "Big", CONF_U64, offsetof(struct cfg, big), 0, UINT64_MAX,
	 NULL},
	{"main", "IntervalSec", CONF_TIME_US, offsetof(struct cfg, interval_us),
	 SEC_US, 60 * SEC_US, NULL},
	{"main", "Name", CONF_STRING, offsetof(struct cfg, name), 1, 16, NULL},
	{"main", "Backend", CONF_ENUM, offsetof(struct cfg, backend), 0,
	 BACKEND_COUNT, backend_name},
	{"main", "Knobs", CONF_BITS, offsetof(struct cfg, knobs), 0, KNOB_COUNT,
	 knob_name},
};
static const struct conf_table table = {
	.key = keys,
	.nr_keys = ARRAY_SIZE(keys),
};

static struct cfg cfg;
static char what[CONF_WHAT_MAX];

static int parse(const char *text)
{
	memset(&cfg, 0, sizeof(cfg));
	what[0] = '\0';
	return conf_parse(&table, "test.conf", text, &cfg, what);
}

static void test_values(void **state)
{
	(void)state;
	assert_int_equal(parse("# a comment\n"
			       "[main]\n"
			       "Flag=yes\n"
			       "Num = 7\n"
			       "\tIntervalSec=1500ms\n"
			       "Name=web 1\n"
			       "Backend=hugetlb\n"
			       "Knobs=thp_defrag, watermark_scale_factor\n"),
			 0);
	assert_true(cfg.flag);
	assert_int_equal(cfg.num, 7);
	assert_int_equal(cfg.interval_us, 1500000);
	assert_string_equal(cfg.name, "web 1");
	assert_int_equal(cfg.backend, BACKEND_HUGETLB);
	assert_int_equal(cfg.knobs, 1u << KNOB_THP_DEFRAG |
					    1u << KNOB_WATERMARK_SCALE_FACTOR);
	assert_int_equal(parse(""), 0);
	assert_int_equal(parse("[main]\nKnobs=all\n"), 0);
	assert_int_equal(cfg.knobs, (1u << KNOB_COUNT) - 1);
	assert_int_equal(parse("[main]\nKnobs=none"), 0);
	assert_int_equal(cfg.knobs, 0);
}

/* Each message must say where, what, and what would be right. */
static void test_messages(void **state)
{
	static const struct {
		const char *text, *must_have[3];
	} cases[] = {
		{"[main]\nNum=4\n", {"test.conf:2", "[main] Num", "5..10"}},
		{"[main]\nNum=0x7\n", {":2", "Num", "whole number"}},
		{"[main]\nNum=\n", {":2", "Num", "whole number"}},
		{"[main]\n\nFlag=maybe\n", {":3", "Flag", "yes nor no"}},
		{"[main]\nIntervalSec=5 parsecs\n",
		 {":2", "IntervalSec", "500ms"}},
		{"[main]\nIntervalSec=2h\n", {":2", "IntervalSec", "60s"}},
		{"[main]\nName=12345678901234567\n",
		 {":2", "Name", "15 characters"}},
		{"[main]\nName=\x01\n", {":2", "Name", "printable"}},
		{"[main]\nName=\n", {":2", "Name", "empty"}},
		{"[main]\nBackend=turbo\n", {":2", "'turbo'", "compact"}},
		{"[main]\nKnobs=thp_defrag swappiness\n",
		 {":2", "'swappiness'", "thp_defrag"}},
		{"[main]\nNmu=7\n", {":2", "unknown key 'Nmu'", "[main]"}},
		{"[mian]\nNum=7\n", {":2", "unknown section", "[mian]"}},
		{"Num=7\n", {":1", "Num", "before any"}},
		{"[main]\nnonsense\n", {":2", "Key=value", ""}},
		{"[main\nNum=7\n", {":1", "without ']'", ""}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(parse(cases[i].text), -EINVAL);
		for (size_t k = 0; k < 3; k++) {
			if (!strstr(what, cases[i].must_have[k]))
				fail_msg("case %zu: '%s' lacks '%s'", i, what,
					 cases[i].must_have[k]);
		}
	}
}

static void test_long_lines(void **state)
{
	char text[1024] = "[main]\nName=";

	(void)state;
	memset(text + strlen(text), 'x', 500);
	assert_int_equal(parse(text), -EINVAL);
	assert_non_null(strstr(what, ":2"));
	strcpy(text, "[");
	memset(text + 1, 'm', 60);
	strcpy(text + 61, "]\nNum=7\n");
	assert_int_equal(parse(text), -EINVAL);
	assert_non_null(strstr(what, "48 characters"));
}

/* What is dumped reads back as the same. */
static void test_dump_roundtrip(void **state)
{
	char *text = NULL;
	size_t len;
	struct cfg want = {
		.flag = true,
		.num = 9,
		.big = UINT64_MAX,
		.interval_us = 2500 * MSEC_US,
		.name = "a b",
		.backend = BACKEND_KMOD,
		.knobs = 5,
	};
	FILE *f = open_memstream(&text, &len);

	(void)state;
	conf_dump(&table, &want, "main", f);
	fclose(f);
	assert_int_equal(parse(text), 0);
	assert_int_equal(cfg.flag, want.flag);
	assert_int_equal(cfg.num, want.num);
	assert_int_equal(cfg.big, want.big);
	assert_int_equal(cfg.interval_us, want.interval_us);
	assert_string_equal(cfg.name, want.name);
	assert_int_equal(cfg.backend, want.backend);
	assert_int_equal(cfg.knobs, want.knobs);
	free(text);
}

static void test_missing_file(void **state)
{
	(void)state;
	assert_int_equal(conf_load(&table, "/nonexistent/x.conf", &cfg, what),
			 -ENOENT);
}

static void test_numbers(void **state)
{
	uint64_t v;

	(void)state;
	assert_int_equal(parse_u64("18446744073709551615", UINT64_MAX, &v), 0);
	assert_int_equal(parse_u64("18446744073709551616", UINT64_MAX, &v),
			 -ERANGE);
	assert_int_equal(parse_u64("-1", UINT64_MAX, &v), -EINVAL);
	assert_int_equal(parse_u64(" 1", UINT64_MAX, &v), -EINVAL);
	assert_int_equal(parse_time_us("20000000000000h", &v), -ERANGE);
	assert_int_equal(parse_time_us("5", &v), 0);
	assert_int_equal(v, 5 * SEC_US);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_long_lines),
		cmocka_unit_test(test_dump_roundtrip),
		cmocka_unit_test(test_missing_file),
		cmocka_unit_test(test_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
