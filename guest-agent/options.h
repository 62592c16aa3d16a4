/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The command line.
 */
#ifndef AGENT_OPTIONS_H
#define AGENT_OPTIONS_H

#include "agent.h"

enum command {
	COMMAND_RUN,
	COMMAND_ONCE,
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

struct options {
	enum command command;
	bool verbose;
	struct agent_options agent;
};

/**
 * options_parse() - defaults, then the configuration file, then the options
 * @what: CONF_WHAT_MAX bytes; what is wrong, and what would be right
 *
 * Return: 0, or -EINVAL.
 */
int options_parse(int argc, char **argv, struct options *ret_options,
		  char *what);

void options_help(FILE *f);

#endif
