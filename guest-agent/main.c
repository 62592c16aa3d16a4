// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>

#include "agent.h"
#include "log.h"
#include "map.h"
#include "once.h"
#include "cmdline.h"
#include "util.h"

static int exit_code(int r)
{
	if (r == -EBUSY)
		return EXIT_CODE_BUSY;
	return r < 0 ? EXIT_CODE_FAILED : EXIT_CODE_OK;
}

static int once(struct agent *a)
{
	int r = agent_sample(a, now_us());

	if (!r)
		r = once_print(&a->caps, &a->report.report, stdout);
	if (r < 0)
		return log_err_errno(r, "Failed to print a sample");
	return 0;
}

static int map(struct agent *a)
{
	int r = map_print(a->proc_fd, a->sys_fd, &a->caps, &a->sampler, stdout);

	return r < 0 ? log_err_errno(r, "Failed to map the memory") : 0;
}

static int serve(const struct cmdline *o)
{
	static struct agent agent; /* too big for a stack */
	int r = agent_open(&agent, &o->agent);

	if (r < 0)
		return exit_code(r);
	if (o->command == COMMAND_MAP)
		r = map(&agent);
	else
		r = o->agent.once ? once(&agent) : agent_run(&agent);
	agent_close(&agent);
	return exit_code(r);
}

int main(int argc, char **argv)
{
	char what[CONF_WHAT_MAX];
	struct cmdline o;

	log_setup("vmdefrag-agent", LOG_LEVEL_INFO);
	if (cmdline_parse(argc, argv, &o, what) < 0) {
		log_err("%s", what);
		return EXIT_CODE_USAGE;
	}
	if (o.verbose)
		log_setup("vmdefrag-agent", LOG_LEVEL_DEBUG);

	switch (o.command) {
	case COMMAND_HELP:
		cmdline_help(stdout);
		return EXIT_CODE_OK;
	case COMMAND_VERSION:
		puts("vmdefrag-agent " VMDEFRAG_VERSION);
		return EXIT_CODE_OK;
	case COMMAND_DUMP_CONFIG:
		conf_dump(&config_table, &o.agent.cfg, CONFIG_SECTION, stdout);
		return EXIT_CODE_OK;
	case COMMAND_CHECK_CONFIG:
		puts("Configuration is right.");
		return EXIT_CODE_OK;
	case COMMAND_RUN:
	case COMMAND_ONCE:
	case COMMAND_MAP:
		return serve(&o);
	}
	return EXIT_CODE_USAGE;
}
