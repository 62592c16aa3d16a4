/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The command line.
 */
#ifndef AGENT_CMDLINE_H
#define AGENT_CMDLINE_H

#include "agent.h"

enum command {
	COMMAND_RUN,
	COMMAND_ONCE,
	COMMAND_MAP,
	COMMAND_DUMP_CONFIG,
	COMMAND_CHECK_CONFIG,
	COMMAND_HELP,
	COMMAND_VERSION,
};

enum exit_code {
	EXIT_CODE_OK = 0,
	EXIT_CODE_FAILED = 1,
	EXIT_CODE_USAGE = 2, /* options or configuration */
	EXIT_CODE_BUSY = 3,  /* another agent runs */
};

struct cmdline {
	enum command command;
	bool verbose;
	struct agent_options agent;
};

/**
 * cmdline_parse() - defaults, then the configuration file, then the options
 * @what: CONF_WHAT_MAX bytes; what is wrong, and what would be right
 *
 * Return: 0, or -EINVAL.
 */
int cmdline_parse(int argc, char **argv, struct cmdline *ret_cmdline,
		  char *what);

void cmdline_help(FILE *f);

#endif
