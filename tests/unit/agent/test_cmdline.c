// SPDX-License-Identifier: GPL-2.0-or-later
/* The command line, the configuration, and the messages about their faults. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "cmdline.h"
#include "proto.h"
#include "util.h"

#define ARGS_MAX 6

static int parse(const char *const args[ARGS_MAX], struct cmdline *o,
		 char *what)
{
	char *argv[ARGS_MAX + 2] = {(char *)"agent"};
	int argc = 1;

	for (size_t i = 0; i < ARGS_MAX && args[i]; i++)
		argv[argc++] = (char *)args[i];
	return cmdline_parse(argc, argv, o, what);
}

static void good_lines(void **state)
{
	const struct {
		const char *args[ARGS_MAX];
		enum command command;
		enum transport_kind kind;
		const char *name;
	} cases[] = {
		{{0}, COMMAND_RUN, TRANSPORT_VIRTIO_SERIAL, PROTO_PORT_NAME},
		{{"--transport", "virtio-serial:a.b"},
		 COMMAND_RUN,
		 TRANSPORT_VIRTIO_SERIAL,
		 "a.b"},
		{{"--transport=virtio-serial", "--once"},
		 COMMAND_ONCE,
		 TRANSPORT_VIRTIO_SERIAL,
		 PROTO_PORT_NAME},
		{{"--transport", "unix:/run/s"},
		 COMMAND_RUN,
		 TRANSPORT_UNIX,
		 "/run/s"},
		{{"--dump-config"},
		 COMMAND_DUMP_CONFIG,
		 TRANSPORT_VIRTIO_SERIAL,
		 PROTO_PORT_NAME},
		{{"--config", "/nonexistent", "--help"},
		 COMMAND_HELP,
		 TRANSPORT_VIRTIO_SERIAL,
		 PROTO_PORT_NAME},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char what[CONF_WHAT_MAX] = "";
		struct cmdline o;

		print_message("# line %zu\n", i);
		assert_int_equal(parse(cases[i].args, &o, what), 0);
		assert_int_equal(o.command, cases[i].command);
		assert_int_equal(o.agent.cfg.transport.kind, cases[i].kind);
		assert_string_equal(o.agent.cfg.transport.name, cases[i].name);
	}
}

static void bad_lines(void **state)
{
	const struct {
		const char *args[ARGS_MAX];
		const char *says;
	} cases[] = {
		{{"--unheard"}, "--unheard"},
		{{"extra"}, "extra"},
		{{"--transport"}, "--transport"},
		{{"--transport", "tcp:1"}, "unix:PATH"},
		{{"--transport", "unix:"}, "unix:PATH"},
		{{"--run-dir", "relative"}, "absolute"},
		{{"--config", "/nonexistent"}, "/nonexistent"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char what[CONF_WHAT_MAX] = "";
		struct cmdline o;

		print_message("# line %zu\n", i);
		assert_int_equal(parse(cases[i].args, &o, what), -EINVAL);
		assert_non_null(strstr(what, cases[i].says));
	}
}

static int parse_file(const char *text, struct cmdline *o, char *what)
{
	char path[] = "/tmp/test_cmdline.XXXXXX";
	const char *args[ARGS_MAX] = {"--config", path};
	int fd = mkstemp(path);
	int r;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	r = parse(args, o, what);
	unlink(path);
	return r;
}

static void files(void **state)
{
	const struct {
		const char *text;
		const char *says; /* NULL: right */
	} cases[] = {
		{"[agent]\nAllowKnobs=thp_defrag\nCpuBudgetPercent=5\n", NULL},
		{"[agent]\nAllowKnob=none\n", ":2: "},
		{"[agents]\nAllowKnobs=none\n", "agents"},
		{"[agent]\n\nCpuBudgetPercent=0\n", ":3: "},
		{"[agent]\nMaxActionSec=5 parsecs\n", "MaxActionSec"},
		{"[agent]\nAllowBackends=compact magic\n", "magic"},
		{"[agent]\nTransport=tcp:1\n", "Transport"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char what[CONF_WHAT_MAX] = "";
		struct cmdline o;
		int r = parse_file(cases[i].text, &o, what);

		print_message("# file %zu\n", i);
		assert_int_equal(r, cases[i].says ? -EINVAL : 0);
		if (cases[i].says)
			assert_non_null(strstr(what, cases[i].says));
		else
			assert_int_equal(o.agent.cfg.allow_knobs,
					 1u << KNOB_THP_DEFRAG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_lines),
		cmocka_unit_test(bad_lines),
		cmocka_unit_test(files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
