// SPDX-License-Identifier: GPL-2.0-or-later
/* Recordings: what is written reads back, and what is no recording is told. */
#include <errno.h>

#include "policy_guest.h"
#include "recording.h"
#include "util.h"

static void parse_back(json_t *line, struct recording_line *ret_line)
{
	auto_free char *text = json_dumps(line, JSON_COMPACT);
	const char *what = NULL;

	assert_non_null(text);
	assert_int_equal(recording_parse(text, strlen(text), ret_line, &what),
			 0);
	json_decref(line);
}

static void test_header(void **state)
{
	struct recording_line l;

	(void)state;
	parse_back(recording_header("web1", VM_MODE_DENSITY, "[policy]\n"), &l);
	assert_int_equal(l.kind, RECORDING_HEADER);
	assert_int_equal(l.mode, VM_MODE_DENSITY);
	json_decref(l.json);
}

static void test_frames(void **state)
{
	static struct recording_line l;
	static struct msg m;

	(void)state;
	guest_make(&g);
	memset(&m, 0, sizeof(m));
	m.type = MSG_REPORT;
	m.report = g.report;
	parse_back(recording_frame(77, &m), &l);
	assert_int_equal(l.kind, RECORDING_FRAME);
	assert_int_equal(l.t_us, 77);
	assert_memory_equal(&l.msg.report, &m.report, sizeof(m.report));
	json_decref(l.json);

	memset(&m, 0, sizeof(m));
	m.type = MSG_RESULT;
	m.result.id = 9;
	m.result.asked = ACTION_BLOCKS_ALL;
	parse_back(recording_frame(78, &m), &l);
	assert_int_equal(l.msg.result.id, 9);
	assert_int_equal(l.msg.result.asked, ACTION_BLOCKS_ALL);
	json_decref(l.json);
	/* what the wire cannot carry is no line */
	m.result.status = RESULT_STATUS_COUNT;
	assert_null(recording_frame(79, &m));
}

static void test_decides(void **state)
{
	struct recording_line l;

	(void)state;
	guest_make(&g);
	decide(&g);
	g.snap.user_paused = true;
	g.snap.action_running = true;
	parse_back(recording_decide(80, &g.snap, &g.plan), &l);
	assert_int_equal(l.kind, RECORDING_DECIDE);
	assert_true(l.paused && l.running && !l.stopped && !l.migrating);
	assert_int_not_equal(
		json_array_size(json_object_get(l.json, "decisions")), 0);
	json_decref(l.json);
}

static void test_bad_lines(void **state)
{
	static const struct {
		const char *text;
		int want;
		const char *word;
	} cases[] = {
		{"", -EPROTO, "JSON"},
		{"[]", -EPROTO, "JSON"},
		{"{\"t_us\":1,\"t_us\":2}", -EPROTO, "JSON"},
		{"{\"recording\":2}", -EOPNOTSUPP, "version"},
		{"{\"recording\":1,\"mode\":\"fast\"}", -EPROTO, "mode"},
		{"{\"recording\":1,\"mode\":\"off\"}", -EPROTO, "config"},
		{"{\"t_us\":-1,\"frame\":\"\"}", -EPROTO, "t_us"},
		{"{\"frame\":\"\"}", -EPROTO, "t_us"},
		{"{\"t_us\":1,\"frame\":\"0\"}", -EPROTO, "hexadecimal"},
		{"{\"t_us\":1,\"frame\":\"zz\"}", -EPROTO, "hexadecimal"},
		{"{\"t_us\":1,\"frame\":\"0011\"}", -EPROTO, "whole frame"},
		{"{\"t_us\":1,\"decide\":{}}", 0, NULL},
		{"{\"later\":true}", 0, NULL},
	};
	struct recording_line l;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *what = "";

		assert_int_equal(recording_parse(cases[i].text,
						 strlen(cases[i].text), &l,
						 &what),
				 cases[i].want);
		if (cases[i].word)
			assert_non_null(strstr(what, cases[i].word));
		else
			assert_non_null(l.json);
		json_decref(l.json);
	}
}

/* A frame that only a host sends is not what a recording holds. */
static void test_wrong_direction(void **state)
{
	static struct msg m = {.type = MSG_CANCEL};
	struct recording_line l;
	auto_free char *text = NULL;
	json_t *line = recording_frame(1, &m);
	const char *what;

	(void)state;
	assert_non_null(line);
	text = json_dumps(line, 0);
	json_decref(line);
	assert_int_equal(recording_parse(text, strlen(text), &l, &what),
			 -EPROTO);
	assert_non_null(strstr(what, "does not say"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_header),
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_decides),
		cmocka_unit_test(test_bad_lines),
		cmocka_unit_test(test_wrong_direction),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
