// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The QMP client against what a real QEMU said (tests/data/qmp), in pieces of
 * any size, and against what none should say.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "qmp.h"
#include "util.h"

#define GREETING                                                               \
	"{\"QMP\": {\"version\": {\"package\": \"\"}, \"capabilities\": "      \
	"[]}}\r\n"
#define READY GREETING "{\"return\": {}, \"id\": 1}\r\n"

static struct qmp q;

/* What came, one letter an event; see letters. */
static char seen[256];
static size_t nr_seen;
static uint64_t answer_id;
static char answer_error[64];
static bool answer_ok;

static void on_event(void *ctx, struct qmp *qq, enum qmp_event event)
{
	static const char letters[QMP_EVENT_COUNT] = {
		[QMP_EVENT_READY] = 'y',     [QMP_EVENT_RUN] = 'r',
		[QMP_EVENT_MIGRATION] = 'm', [QMP_EVENT_PORT] = 'p',
		[QMP_EVENT_RESET] = 'R',     [QMP_EVENT_SHUTDOWN] = 'S',
		[QMP_EVENT_BALLOON] = 'b',   [QMP_EVENT_DEVICE] = 'd',
	};
	char c = letters[event];

	assert_ptr_equal(ctx, seen);
	/* capitals and small ones: on and off */
	if (event == QMP_EVENT_RUN)
		c = qq->run == QMP_RUNNING ? '>' : '|';
	if (event == QMP_EVENT_MIGRATION)
		c = qq->migrating ? 'M' : 'm';
	if (event == QMP_EVENT_PORT)
		c = qq->port == QMP_PORT_OPEN ? 'P' : 'p';
	assert_true(nr_seen < sizeof(seen) - 1);
	seen[nr_seen++] = c;
	seen[nr_seen] = '\0';
}

static void on_answer(void *ctx, struct qmp *qq, uint64_t id, json_t *ret,
		      const char *error)
{
	(void)ctx;
	(void)qq;
	answer_id = id;
	answer_ok = ret != NULL;
	snprintf(answer_error, sizeof(answer_error), "%s", error ? error : "");
}

static const struct qmp_ops ops = {on_event, on_answer};

static void begin(const char *channel, const char *port)
{
	nr_seen = 0;
	seen[0] = '\0';
	answer_id = 0;
	/* a poisoned buffer shows a read of what was never fed */
	memset(&q, 0xa5, sizeof(q));
	assert_int_equal(qmp_init(&q, channel, port, &ops, seen), 0);
}

static int say(const char *text)
{
	return qmp_feed(&q, text, strlen(text));
}

static void ready(const char *channel, const char *port)
{
	size_t len;

	begin(channel, port);
	assert_int_equal(say(READY), 0);
	(void)qmp_output(&q, &len);
	qmp_sent(&q, len);
}

static size_t recorded(const char *name, char *buf, size_t size)
{
	char path[256];
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "tests/data/qmp/%s", name);
	f = fopen(path, "re");
	assert_non_null(f);
	n = fread(buf, 1, size, f);
	fclose(f);
	assert_in_range(n, 1, size - 1);
	return n;
}

static void test_recorded(void **state)
{
	static const struct {
		const char *file, *channel, *port, *want;
		uint64_t stray;
	} cases[] = {
		/* prelaunch, cont, stop, cont, two resets, a migration that
		 * stops the guest at its end, cont, one cancelled, quit */
		{"session.qmp", "", "", "y|>|>RRM|m>MmS|", 22},
		{"guest.qmp", "/run/vm1.sock", "agent0", "y>pPpS|", 0},
		/* told nothing, we'd ask: the answer is not in the recording */
		{"guest.qmp", "/run/vm1.sock", "", "y>pS|", 0},
		{"guest.qmp", "/run/vm1.soc", "other", "y>S|", 0},
	};
	static char buf[65536];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t n = recorded(cases[i].file, buf, sizeof(buf));

		for (size_t piece = 1; piece < n * 2; piece = piece * 3 + 1) {
			begin(cases[i].channel, cases[i].port);
			for (size_t at = 0; at < n; at += piece)
				assert_int_equal(qmp_feed(&q, buf + at,
							  MIN(piece, n - at)),
						 0);
			assert_string_equal(seen, cases[i].want);
			assert_int_equal(q.stage, QMP_READY);
			assert_int_equal(q.run, QMP_STOPPED);
			assert_false(q.migrating);
			assert_int_equal(q.stray_answers, cases[i].stray);
		}
	}
}

static void test_negotiation(void **state)
{
	const char *out;
	size_t len;

	(void)state;
	begin("/run/vm1.sock", "");
	(void)qmp_output(&q, &len);
	assert_int_equal(len, 0);
	assert_int_equal(qmp_refresh(&q), -ENOTCONN);
	assert_int_equal(say(GREETING), 0);
	out = qmp_output(&q, &len);
	assert_int_equal(q.stage, QMP_NEGOTIATING);
	assert_memory_equal(
		out, "{\"execute\":\"qmp_capabilities\",\"id\":1}\n", len);
	/* sent in two pieces */
	qmp_sent(&q, 10);
	out = qmp_output(&q, &len);
	assert_memory_equal(out, ":\"qmp_capabilities\",\"id\":1}\n", len);
	qmp_sent(&q, len);
	assert_int_equal(say("{\"return\": {}, \"id\": 1}\r\n"), 0);
	assert_int_equal(q.stage, QMP_READY);
	out = qmp_output(&q, &len);
	assert_memory_equal(out,
			    "{\"execute\":\"query-status\",\"id\":2}\n"
			    "{\"execute\":\"query-migrate\",\"id\":3}\n"
			    "{\"execute\":\"query-chardev\",\"id\":4}\n",
			    len);
	assert_int_equal(q.run, QMP_RUN_UNKNOWN);
	assert_int_equal(q.port, QMP_PORT_UNKNOWN);
	/* what is under way is not asked twice */
	qmp_sent(&q, SIZE_MAX);
	assert_int_equal(qmp_refresh(&q), 0);
	(void)qmp_output(&q, &len);
	assert_int_equal(len, 0);
}

static void test_init(void **state)
{
	char longer[QMP_PATH_MAX + 1];

	(void)state;
	memset(longer, 'a', sizeof(longer));
	longer[QMP_PATH_MAX] = '\0';
	assert_int_equal(qmp_init(&q, longer, "", NULL, NULL), -EINVAL);
	assert_int_equal(qmp_init(&q, "", longer, NULL, NULL), -EINVAL);
	/* without callbacks it keeps the state all the same */
	assert_int_equal(qmp_init(&q, longer + 1, "", NULL, NULL), 0);
	assert_int_equal(say(READY "{\"event\": \"STOP\"}\r\n"), 0);
	assert_int_equal(q.run, QMP_STOPPED);
}

static void test_commands(void **state)
{
	uint64_t id = 0, first = 0;
	json_t *args;
	size_t len;
	const char *out;

	(void)state;
	begin("", "");
	assert_int_equal(qmp_command(&q, "query-balloon", NULL, &id),
			 -ENOTCONN);
	ready("", "");
	args = json_pack("{s:s}", "target", "vm");
	assert_int_equal(qmp_command(&q, "query-stats", args, &first), 0);
	json_decref(args);
	out = qmp_output(&q, &len);
	assert_memory_equal(out,
			    "{\"execute\":\"query-stats\",\"arguments\":"
			    "{\"target\":\"vm\"},\"id\":4}\n",
			    len);
	assert_int_equal(first, 4);
	/* only so many at a time: 2 of ours are under way */
	for (int i = 0; i < 5; i++)
		assert_int_equal(qmp_command(&q, "query-name", NULL, &id), 0);
	assert_int_equal(qmp_command(&q, "query-name", NULL, &id), -EBUSY);
	/* answered out of order */
	assert_int_equal(say("{\"return\": {}, \"id\": 9}\r\n"), 0);
	assert_int_equal(answer_id, 9);
	assert_true(answer_ok);
	assert_int_equal(say("{\"id\": 4, \"error\": {\"class\": "
			     "\"GenericError\", \"desc\": \"no\"}}\r\n"),
			 0);
	assert_int_equal(answer_id, 4);
	assert_false(answer_ok);
	assert_string_equal(answer_error, "GenericError");
	/* a second answer to the same, or to nobody */
	answer_id = 0;
	assert_int_equal(say("{\"return\": {}, \"id\": 4}\r\n"
			     "{\"return\": {}, \"id\": \"4\"}\r\n"
			     "{\"return\": {}, \"id\": 0}\r\n"
			     "{\"return\": {}, \"id\": -1}\r\n"
			     "{\"return\": {}}\r\n"),
			 0);
	assert_int_equal(answer_id, 0);
	assert_int_equal(q.stray_answers, 5);
}

static void test_only_queries(void **state)
{
	static const char *const names[] = {
		"human-monitor-command", "quit",    "stop",  "qom-set",
		"qmp_capabilities",	 "migrate", "query", "",
	};
	size_t len;

	(void)state;
	ready("", "");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(qmp_command(&q, names[i], NULL, NULL), -EPERM);
	(void)qmp_output(&q, &len);
	assert_int_equal(len, 0);
}

/* Arguments that do not fit the buffer leave it as it was. */
static void test_output_full(void **state)
{
	static char big[QMP_OUT_MAX];
	size_t before, after;
	json_t *args;

	(void)state;
	ready("", "");
	memset(big, 'a', sizeof(big) - 1);
	args = json_pack("{s:s}", "x", big);
	assert_int_equal(qmp_command(&q, "query-name", NULL, NULL), 0);
	(void)qmp_output(&q, &before);
	assert_int_equal(qmp_command(&q, "query-stats", args, NULL), -EBUSY);
	(void)qmp_output(&q, &after);
	assert_int_equal(before, after);
	json_decref(args);
}

static void test_port(void **state)
{
	static const char open[] = "{\"event\": \"VSERPORT_CHANGE\", \"data\": "
				   "{\"open\": true, \"id\": \"x1\"}}\r\n";
	const char *out;
	size_t len;

	(void)state;
	/* the id is known */
	ready("", "x1");
	assert_int_equal(say(open), 0);
	assert_int_equal(q.port, QMP_PORT_OPEN);
	/* it is not, so the channel's path is looked for */
	ready("/run/a", "");
	assert_int_equal(say("{\"return\": [], \"id\": 4}\r\n"), 0);
	assert_int_equal(say(open), 0);
	assert_int_equal(q.port, QMP_PORT_UNKNOWN);
	out = qmp_output(&q, &len);
	assert_memory_equal(out, "{\"execute\":\"query-chardev\",\"id\":5}\n",
			    len);
	assert_int_equal(
		say("{\"return\": [{\"frontend-open\": false, \"filename\": "
		    "\"unix:/run/ab,server=on\", \"label\": \"b\"}, "
		    "{\"frontend-open\": true, \"filename\": "
		    "\"unix:/run/a,server=on\", \"label\": \"a\"}], "
		    "\"id\": 5}\r\n"),
		0);
	assert_int_equal(q.port, QMP_PORT_OPEN);
	/* whoever started QEMU used our name for the id */
	ready("", "");
	assert_int_equal(say("{\"event\": \"VSERPORT_CHANGE\", \"data\": "
			     "{\"open\": false, \"id\": "
			     "\"org.vmdefrag.agent.0\"}}\r\n"),
			 0);
	assert_int_equal(q.port, QMP_PORT_CLOSED);
}

static void test_events(void **state)
{
	(void)state;
	ready("", "");
	assert_int_equal(
		say("{\"event\": \"BALLOON_CHANGE\", \"data\": {\"actual\": "
		    "1073741824}}\r\n"
		    "{\"event\": \"DEVICE_DELETED\", \"data\": {\"path\": "
		    "\"/machine/x\"}}\r\n"
		    "{\"event\": \"SUSPEND\"}\r\n{\"event\": \"WAKEUP\"}\r\n"
		    "\r\n"
		    "{\"event\": \"MIGRATION\", \"data\": {\"status\": "
		    "\"postcopy-active\"}}\r\n"
		    "{\"event\": \"MIGRATION\", \"data\": {\"status\": "
		    "\"a-new-state\"}}\r\n"
		    "{\"event\": \"MIGRATION\", \"data\": {\"status\": "
		    "\"failed\"}}\r\n"
		    "{\"event\": \"NEWS\", \"data\": {\"big\": "
		    "18446744073709551615}}\r\n"),
		0);
	assert_string_equal(seen, "ybd|>Mm");
	assert_int_equal(q.balloon_bytes, 1073741824);
	assert_int_equal(q.unknown_events, 1);
	assert_int_equal(q.events, 8);
}

/* Each of these ends the connection, with a word about it. */
static const struct {
	const char *name, *text;
} faults[] = {
	{"no greeting", "{\"return\": {}}\r\n"},
	{"greeting of the wrong type", "{\"QMP\": 1}\r\n"},
	{"garbage", READY "hello\r\n"},
	{"two in a line", READY "{} {}\r\n"},
	{"cut", READY "{\"event\": \"STOP\"\r\n"},
	{"array", READY "[]\r\n"},
	{"empty object", READY "{}\r\n"},
	{"bad UTF-8", READY "{\"event\": \"\xff\xfe\"}\r\n"},
	{"overlong UTF-8", READY "{\"event\": \"\xc0\x80\"}\r\n"},
	{"event of the wrong type", READY "{\"event\": 5}\r\n"},
	{"data of the wrong type",
	 READY "{\"event\": \"STOP\", \"data\": 1}\n"},
	{"no data", READY "{\"event\": \"MIGRATION\"}\r\n"},
	{"no status", READY "{\"event\": \"MIGRATION\", \"data\": {}}\r\n"},
	{"no port id", READY
	 "{\"event\": \"VSERPORT_CHANGE\", \"data\": {\"open\": true}}\n"},
	{"no port state",
	 READY "{\"event\": \"VSERPORT_CHANGE\", \"data\": {\"id\": \"a\"}}\n"},
	{"negative balloon", READY
	 "{\"event\": \"BALLOON_CHANGE\", \"data\": {\"actual\": -1}}\r\n"},
	{"balloon beyond measure",
	 READY "{\"event\": \"BALLOON_CHANGE\", \"data\": {\"actual\": "
	       "18446744073709551615}}\r\n"},
	{"error without class", READY "{\"error\": {}, \"id\": 2}\r\n"},
	{"error of the wrong type", READY "{\"error\": 1, \"id\": 2}\r\n"},
	{"capabilities refused",
	 GREETING "{\"error\": {\"class\": \"X\"}, \"id\": 1}\r\n"},
	{"status without running", READY "{\"return\": {}, \"id\": 2}\r\n"},
	{"status of the wrong type", READY "{\"return\": 1, \"id\": 2}\r\n"},
	{"migrate of the wrong type", READY "{\"return\": [], \"id\": 3}\r\n"},
	{"migrate's status is none",
	 READY "{\"return\": {\"status\": 1}, \"id\": 3}\r\n"},
	{"chardev of the wrong type", READY "{\"return\": {}, \"id\": 4}\r\n"},
	{"chardev without members", READY "{\"return\": [1], \"id\": 4}\r\n"},
	{"17 deep", READY "{\"event\":[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]}\r\n"},
};

static void test_faults(void **state)
{
	size_t len;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		begin("/run/a", "");
		if (say(faults[i].text) != -EPROTO)
			fail_msg("%s was accepted", faults[i].name);
		assert_int_equal(q.stage, QMP_BROKEN);
		assert_non_null(q.what);
		(void)qmp_output(&q, &len);
		assert_int_equal(len, 0);
		/* once and for all */
		assert_int_equal(say(READY), -EPROTO);
		assert_int_equal(qmp_refresh(&q), -ENOTCONN);
	}
}

static void test_nul_bytes(void **state)
{
	(void)state;
	ready("", "");
	assert_int_equal(qmp_feed(&q, "{\"event\": \"A\0B\"}\r\n", 18),
			 -EPROTO);
	ready("", "");
	assert_int_equal(say("{\"event\": \"A\\u0000B\"}\r\n"), -EPROTO);
}

static void test_line_length(void **state)
{
	static char line[QMP_LINE_MAX + 2];
	int len;

	(void)state;
	/* the longest that fits */
	ready("", "");
	memset(line, ' ', sizeof(line));
	len = sprintf(line, "{\"event\": \"STOP\"}");
	line[len] = ' ';
	assert_int_equal(qmp_feed(&q, line, QMP_LINE_MAX), 0);
	assert_int_equal(say("\n"), 0);
	assert_int_equal(q.run, QMP_STOPPED);
	/* one more, at once and in pieces */
	assert_int_equal(qmp_feed(&q, line, QMP_LINE_MAX + 1), -EPROTO);
	ready("", "");
	assert_int_equal(qmp_feed(&q, line, QMP_LINE_MAX), 0);
	assert_int_equal(say(" "), -EPROTO);
	assert_string_equal(q.what, "a line is too long");
}

static void test_braces_in_strings(void **state)
{
	(void)state;
	ready("", "");
	assert_int_equal(say("{\"event\": \"{{{{{{{{{{{{{{{{{{\\\"[[[\"}\r\n"),
			 0);
	assert_int_equal(q.unknown_events, 1);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_recorded),
	cmocka_unit_test(test_negotiation),
	cmocka_unit_test(test_init),
	cmocka_unit_test(test_commands),
	cmocka_unit_test(test_only_queries),
	cmocka_unit_test(test_output_full),
	cmocka_unit_test(test_port),
	cmocka_unit_test(test_events),
	cmocka_unit_test(test_faults),
	cmocka_unit_test(test_nul_bytes),
	cmocka_unit_test(test_line_length),
	cmocka_unit_test(test_braces_in_strings),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
