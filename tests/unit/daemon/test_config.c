// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../testdir.h"
#include "config.h"
#include "configtext.h"
#include "options.h"

static struct testdir dir;

static int setup(void **state)
{
	(void)state;
	return testdir_make(&dir);
}

static int teardown(void **state)
{
	(void)state;
	testdir_remove(&dir);
	return 0;
}

/* Load and validate. */
static int load(struct config *cfg, const char *text, char *what)
{
	int r;

	assert_int_equal(testdir_write(&dir, "conf", text), 0);
	assert_int_equal(config_init(cfg), 0);
	r = config_load(cfg, testdir_path(&dir, "conf"), what);
	return r < 0 ? r : config_validate(cfg, what);
}

static void check_defaults(void **state)
{
	char what[CONF_WHAT_MAX] = "";
	struct config cfg;

	(void)state;
	assert_int_equal(load(&cfg, "", what), 0);
	assert_string_equal(cfg.run_dir, "/run/vmdefrag");
	assert_string_equal(cfg.state_dir, "/var/lib/vmdefrag");
	assert_string_equal(cfg.user, "vmdefrag");
	assert_int_equal(cfg.policy.mode, VM_MODE_OBSERVE);
	assert_int_equal(cfg.nr_vms, 0);
	config_free(&cfg);
}

static void check_values(void **state)
{
	char what[CONF_WHAT_MAX] = "";
	struct config cfg;
	int r;

	(void)state;
	r = load(&cfg,
		 "# comment\n[daemon]\nRunDir = /tmp/x\nLoop=poll\n"
		 "ReportInterval=500ms\n[policy]\nMode=density\nLease=20s\n"
		 "[vm web 1]\nChannel=/run/a\nPid=17\n"
		 "Uuid=01234567-89ab-cdef-0123-456789abcdef\n"
		 "[vm db]\nChannel=/run/b\nQmp=/run/c\nMode=off\n",
		 what);
	if (r < 0)
		fail_msg("%s", what);
	assert_string_equal(cfg.run_dir, "/tmp/x");
	assert_int_equal(cfg.loop, LOOP_POLL);
	assert_int_equal(cfg.report_interval_us, 500 * MSEC_US);
	assert_int_equal(cfg.policy.lease_us, 20 * SEC_US);
	assert_int_equal(cfg.nr_vms, 2);
	assert_string_equal(cfg.vm[0].name, "web 1");
	assert_int_equal(cfg.vm[0].pid, 17);
	assert_int_equal(cfg.vm[0].mode, VM_MODE_DENSITY);
	assert_string_equal(cfg.vm[1].qmp, "/run/c");
	assert_int_equal(cfg.vm[1].mode, VM_MODE_OFF);
	config_free(&cfg);
}

/* Each error says where it is, and what is wrong. */
static void check_errors(void **state)
{
	const struct {
		const char *text, *where, *why;
	} cases[] = {
		{"[daemon]\nRunDri=/x\n", "conf:2: ", "unknown key 'RunDri'"},
		{"[demon]\nUser=x\n", "conf:2: ", "unknown section [demon]"},
		{"[daemon]\nReportInterval=5q\n", "conf:2: ", "is not a time"},
		{"[daemon]\nReportInterval=1us\n", "conf:2: ", "not within"},
		{"[daemon]\n\nLoop=epoll\n", "conf:3: ", "auto, uring, poll"},
		{"[daemon]\nRunDir=run\n", "conf:2: ", "not an absolute path"},
		{"[daemon]\nStateDir=x\n", "conf:2: ", "not an absolute path"},
		{"[policy]\nMode=fast\n", "conf:2: ", "observe"},
		{"[policy]\nReserveMaxPercent=x\n", "conf:2: ", "whole number"},
		{"[policy]\nReserveMinPercent=30\nReserveMaxPercent=20\n", "",
		 "ReserveMinPercent=30 is above"},
		{"[policy]\nLease=1s\n[daemon]\nReportInterval=10s\n", "",
		 "shorter than 2 ReportIntervals"},
		{"[vm a]\nChannel=/x\n[vm b]\nChannel=/y\n[vm a]\n",
		 "conf:5: ", "VM 'a' is defined twice"},
		{"[vm a]\nChannel=/x\n[vm b]\nChannel=/x\n", "",
		 "VMs 'a' and 'b' have the same Channel"},
		{"[vm a]\nMode=observe\n", "conf:1: ", "Channel is missing"},
		{"[vm a]\n", "conf:1: ", "Channel is missing"},
		{"[vm]\nChannel=/x\n", "conf:2: ", "[vm NAME]"},
		{"[vm a]\nChannel=x/y\n", "conf:2: ", "not an absolute path"},
		{"[vm a]\nChannel=/x\nQmp=q\n", "conf:3: ", "absolute path"},
		{"[vm a]\nChannel=/x\nUuid=17\n", "conf:3: ", "no UUID"},
		{"[vm a]\nChannel=/x\nPid=-1\n", "conf:3: ", "whole number"},
		{"[vm a,b]\nChannel=/x\n", "conf:1: ", "may not hold"},
		{"[vm 0123456789012345678901234567890123456789012345]\n",
		 "conf:1: ", "longer than 45"},
		{"Channel=/x\n", "conf:1: ", "before any [section]"},
		{"[daemon]\nrubbish\n", "conf:2: ", "neither [section]"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char what[CONF_WHAT_MAX] = "";
		struct config cfg;

		if (load(&cfg, cases[i].text, what) >= 0)
			fail_msg("accepted: %s", cases[i].text);
		if (!strstr(what, cases[i].where) ||
		    !strstr(what, cases[i].why))
			fail_msg("'%s' gives '%s', not '%s'", cases[i].text,
				 what, cases[i].why);
		config_free(&cfg);
	}
}

static void check_long_paths(void **state)
{
	char text[400], what[CONF_WHAT_MAX] = "", path[200];
	struct config cfg;

	(void)state;
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[108] = '\0';
	snprintf(text, sizeof(text), "[vm a]\nChannel=%s\n", path);
	assert_int_equal(load(&cfg, text, what), -EINVAL);
	assert_non_null(strstr(what, "longer than 107 characters"));
	config_free(&cfg);
	path[95] = '\0';
	snprintf(text, sizeof(text), "[daemon]\nRunDir=%s\n", path);
	assert_int_equal(load(&cfg, text, what), -EINVAL);
	assert_non_null(strstr(what, "no unix socket could be made in it"));
	config_free(&cfg);
	path[94] = '\0';
	snprintf(text, sizeof(text), "[daemon]\nRunDir=%s\n", path);
	assert_int_equal(load(&cfg, text, what), 0);
	config_free(&cfg);
}

static void check_missing_file(void **state)
{
	char what[CONF_WHAT_MAX] = "";
	struct config cfg;

	(void)state;
	assert_int_equal(config_init(&cfg), 0);
	assert_int_equal(config_load(&cfg, "/nonexistent/conf", what), -ENOENT);
	assert_non_null(strstr(what, "/nonexistent/conf"));
	config_free(&cfg);
}

static void dump(const struct config *cfg, char **ret, size_t *ret_len)
{
	FILE *f = open_memstream(ret, ret_len);

	config_dump(cfg, f);
	fclose(f);
}

static void assert_same(const struct config *a, const struct config *b)
{
	assert_int_equal(a->nr_vms, b->nr_vms);
	for (size_t i = 0; i < a->nr_vms; i++)
		assert_memory_equal(&a->vm[i], &b->vm[i], sizeof(a->vm[i]));
	assert_memory_equal(&a->policy, &b->policy, sizeof(a->policy));
	assert_string_equal(a->run_dir, b->run_dir);
	assert_string_equal(a->state_dir, b->state_dir);
	assert_string_equal(a->user, b->user);
	assert_string_equal(a->group, b->group);
	assert_int_equal(a->loop, b->loop);
	assert_int_equal(a->verbose, b->verbose);
	assert_int_equal(a->report_interval_us, b->report_interval_us);
}

/* --dump-config, and what a reload hands to the other processes. */
static void check_dump_reads_back(void **state)
{
	char what[CONF_WHAT_MAX] = "", *text, *again;
	struct config cfg, back, passed;
	size_t len, len_again;
	int fd;

	(void)state;
	assert_int_equal(
		load(&cfg,
		     "[daemon]\nGroup=kvm\nReportInterval=1500ms\nVerbose=on\n"
		     "[policy]\nMode=balanced\nBackend=compact\nCooldown=0\n"
		     "[vm a b]\nChannel=/run/a b;c\nPid=3\nMode=performance\n"
		     "[vm c]\nChannel=/run/c\n",
		     what),
		0);
	dump(&cfg, &text, &len);
	if (load(&back, text, what) < 0)
		fail_msg("%s\n%s", what, text);
	assert_same(&cfg, &back);
	dump(&back, &again, &len_again);
	assert_string_equal(text, again);

	fd = config_write_fd(&cfg);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(config_read_fd(fd, &passed, what), 0);
	assert_same(&cfg, &passed);
	close(fd);
	free(text);
	free(again);
	config_free(&cfg);
	config_free(&back);
	config_free(&passed);
}

static void check_many_vms(void **state)
{
	char what[CONF_WHAT_MAX] = "", vm[64];
	struct config cfg, passed;
	int fd;

	(void)state;
	assert_int_equal(config_init(&cfg), 0);
	for (int i = 0; i < CONFIG_VMS_MAX; i++) {
		snprintf(vm, sizeof(vm), "name=vm%d,channel=/run/%d", i, i);
		assert_int_equal(config_add_vm(&cfg, vm, what), 0);
	}
	assert_int_equal(config_add_vm(&cfg, "name=x,channel=/x", what),
			 -EINVAL);
	assert_string_equal(what, "more than 1024 VMs");
	assert_int_equal(config_validate(&cfg, what), 0);
	fd = config_write_fd(&cfg);
	assert_int_equal(config_read_fd(fd, &passed, what), 0);
	assert_same(&cfg, &passed);
	close(fd);
	config_free(&cfg);
	config_free(&passed);
}

static int run_options(char **argv, struct config *cfg, char *what)
{
	struct options o;
	int argc = 0, r;

	while (argv[argc])
		argc++;
	memset(cfg, 0, sizeof(*cfg));
	r = options_parse(argc, argv, &o, what);
	if (r < 0)
		return r;
	r = options_config(&o, cfg, what);
	options_free(&o);
	return r;
}

static void check_command_line(void **state)
{
	char what[CONF_WHAT_MAX] = "", file[512];
	char *argv[] = {"vmdefragd",
			"--config",
			file,
			"--mode=density",
			"--lease",
			"40s",
			"--run-dir",
			"/tmp/r",
			"--report-interval=2s",
			"--loop",
			"poll",
			"--verbose",
			"--vm",
			"name=b,channel=/run/b,qmp=/run/q,pid=5,mode=off",
			NULL};
	struct config cfg;

	(void)state;
	assert_int_equal(testdir_write(&dir, "conf",
				       "[daemon]\nRunDir=/file\n"
				       "StateDir=/state\n[policy]\n"
				       "Mode=balanced\n[vm a]\nChannel=/a\n"),
			 0);
	snprintf(file, sizeof(file), "%s", testdir_path(&dir, "conf"));
	if (run_options(argv, &cfg, what) < 0)
		fail_msg("%s", what);
	/* the command line over the file over defaults */
	assert_string_equal(cfg.run_dir, "/tmp/r");
	assert_string_equal(cfg.state_dir, "/state");
	assert_int_equal(cfg.policy.lease_us, 40 * SEC_US);
	assert_int_equal(cfg.loop, LOOP_POLL);
	assert_true(cfg.verbose);
	assert_int_equal(cfg.nr_vms, 2);
	assert_int_equal(cfg.vm[0].mode, VM_MODE_DENSITY);
	assert_string_equal(cfg.vm[1].name, "b");
	assert_string_equal(cfg.vm[1].qmp, "/run/q");
	assert_int_equal(cfg.vm[1].pid, 5);
	assert_int_equal(cfg.vm[1].mode, VM_MODE_OFF);
	config_free(&cfg);
}

static void check_command_line_errors(void **state)
{
	const struct {
		char *arg[3];
		const char *why;
	} cases[] = {
		{{"--moed=x"}, "'--moed=x'; see --help"},
		{{"--mode"}, "a value is missing behind '--mode'"},
		{{"--mode", "fast"}, "--mode: [policy] Mode: 'fast' is none"},
		{{"--lease", "3 days"}, "--lease: [policy] Lease: '3 days'"},
		{{"stray"}, "'stray' is not an option"},
		{{"--config", "/nonexistent"}, "/nonexistent: No such file"},
		{{"--run-dir", "run"}, "RunDir 'run' is not an absolute path"},
		{{"--vm", "channel=/x"}, "--vm: must start with name=NAME"},
		{{"--vm", "name=a"}, "Channel is missing"},
		{{"--vm", "name=a,chanel=/x"}, "unknown key 'chanel'"},
		{{"--vm", "name=a,channel"}, "'channel' is not key=value"},
		{{"--vm", "name=,channel=/x"}, "the name is empty"},
		{{"--vm", "name=a,channel=/x,mode=no"}, "'no' is none of: off"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char *argv[] = {"vmdefragd", cases[i].arg[0], cases[i].arg[1],
				NULL};
		char what[CONF_WHAT_MAX] = "";
		struct config cfg;

		if (run_options(argv, &cfg, what) >= 0)
			fail_msg("accepted: %s", argv[1]);
		if (!strstr(what, cases[i].why))
			fail_msg("%s gives '%s', not '%s'", argv[1], what,
				 cases[i].why);
		config_free(&cfg);
	}
}

static void check_where_things_stand(void **state)
{
	const char *text = "[a]\nx=1\n\n  [b c]\n y : 2\n#x=3\n[a]\nx = 4\n";
	struct configtext_pos pos = {text, 0};
	char name[4];

	(void)state;
	assert_int_equal(configtext_line_of(text, "a", "x"), 8);
	assert_int_equal(configtext_line_of(text, "b c", "y"), 5);
	assert_int_equal(configtext_line_of(text, "b c", "x"), 4);
	assert_int_equal(configtext_line_of(text, "c", "x"), 0);
	assert_true(configtext_next_section(&pos, name, sizeof(name)));
	assert_string_equal(name, "a");
	assert_true(configtext_next_section(&pos, name, sizeof(name)));
	assert_string_equal(name, "b c");
	assert_int_equal(pos.line, 4);
	assert_true(configtext_next_section(&pos, name, sizeof(name)));
	assert_false(configtext_next_section(&pos, name, sizeof(name)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_defaults),
		cmocka_unit_test(check_values),
		cmocka_unit_test(check_errors),
		cmocka_unit_test(check_long_paths),
		cmocka_unit_test(check_missing_file),
		cmocka_unit_test(check_dump_reads_back),
		cmocka_unit_test(check_many_vms),
		cmocka_unit_test(check_command_line),
		cmocka_unit_test(check_command_line_errors),
		cmocka_unit_test(check_where_things_stand),
	};

	return cmocka_run_group_tests_name("config", tests, setup, teardown);
}
