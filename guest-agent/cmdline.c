// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cmdline.h"
#include "util.h"

#define CONFIG_PATH_DEFAULT "/etc/vmdefrag/agent.conf"

enum option_id {
	OPT_CONFIG = 256,
	OPT_TRANSPORT,
	OPT_RUN_DIR,
	OPT_PROC,
	OPT_SYS,
	OPT_OBSERVE,
	OPT_ONCE,
	OPT_MAP,
	OPT_DUMP_CONFIG,
	OPT_CHECK_CONFIG,
	OPT_VERBOSE,
	OPT_HELP,
	OPT_VERSION,
};

static const struct option long_options[] = {
	{"config", required_argument, NULL, OPT_CONFIG},
	{"transport", required_argument, NULL, OPT_TRANSPORT},
	{"run-dir", required_argument, NULL, OPT_RUN_DIR},
	{"proc", required_argument, NULL, OPT_PROC},
	{"sys", required_argument, NULL, OPT_SYS},
	{"observe", no_argument, NULL, OPT_OBSERVE},
	{"once", no_argument, NULL, OPT_ONCE},
	{"map", no_argument, NULL, OPT_MAP},
	{"dump-config", no_argument, NULL, OPT_DUMP_CONFIG},
	{"check-config", no_argument, NULL, OPT_CHECK_CONFIG},
	{"verbose", no_argument, NULL, OPT_VERBOSE},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{0},
};

void cmdline_help(FILE *f)
{
	fputs("Usage: vmdefrag-agent [OPTION...]\n"
	      "Defragments the memory of this guest as its host asks, within "
	      "the limits of its\n"
	      "configuration.\n"
	      "\n"
	      "  --config FILE     read FILE instead of " CONFIG_PATH_DEFAULT
	      "\n"
	      "  --transport T     virtio-serial[:PORTNAME] or unix:PATH of a "
	      "listening socket\n"
	      "  --run-dir DIR     journal of changed knobs, and a lock\n"
	      "  --observe         sample and report, but change nothing\n"
	      "  --once            sample, print JSON, end\n"
	      "  --map             say what each zone's pages are, as JSON, "
	      "end; reads all of\n"
	      "                    /proc/kpageflags\n"
	      "  --dump-config     print the configuration in force, end\n"
	      "  --check-config    say whether the configuration is right, "
	      "end\n"
	      "  --proc DIR        read DIR instead of /proc (for tests)\n"
	      "  --sys DIR         read DIR instead of /sys (for tests)\n"
	      "  --verbose         log more\n"
	      "  --help, --version\n"
	      "\n"
	      "Exit status: 0 done, or ended by SIGTERM or SIGINT; 1 failed; "
	      "2 wrong options or\n"
	      "configuration; 3 another agent uses the run directory.\n",
	      f);
}

/* What must be known before the others count. */
struct first_pass {
	const char *config_path;
	bool config_given;
	bool no_config; /* --help and --version work with any file */
};

static int unknown_option(char **argv, char *what)
{
	const char *name = argv[optind - 1];

	(void)snprintf(what, CONF_WHAT_MAX,
		       "'%.64s' is no option, or lacks its argument, or takes "
		       "none; see --help",
		       name);
	return -EINVAL;
}

static int set(struct cmdline *o, const char *key, const char *value,
	       char *what)
{
	return conf_set(&config_table, &o->agent.cfg, CONFIG_SECTION, key,
			value, what);
}

static int take_option(struct cmdline *o, int id, const char *arg, char *what)
{
	switch ((enum option_id)id) {
	case OPT_CONFIG:
		return 0;
	case OPT_TRANSPORT:
		return set(o, "Transport", arg, what);
	case OPT_RUN_DIR:
		return set(o, "RunDir", arg, what);
	case OPT_PROC:
		o->agent.proc_path = arg;
		return 0;
	case OPT_SYS:
		o->agent.sys_path = arg;
		return 0;
	case OPT_OBSERVE:
		o->agent.observe = true;
		return 0;
	case OPT_ONCE:
		o->agent.once = true;
		o->command = COMMAND_ONCE;
		return 0;
	case OPT_MAP:
		o->agent.once = true;
		o->command = COMMAND_MAP;
		return 0;
	case OPT_DUMP_CONFIG:
		o->command = COMMAND_DUMP_CONFIG;
		return 0;
	case OPT_CHECK_CONFIG:
		o->command = COMMAND_CHECK_CONFIG;
		return 0;
	case OPT_VERBOSE:
		o->verbose = true;
		return 0;
	case OPT_HELP:
		o->command = COMMAND_HELP;
		return 0;
	case OPT_VERSION:
		o->command = COMMAND_VERSION;
		return 0;
	}
	return -EINVAL;
}

static int first_pass(int argc, char **argv, struct first_pass *fp, char *what)
{
	int id;

	*fp = (struct first_pass){.config_path = CONFIG_PATH_DEFAULT};
	opterr = 0;
	optind = 0;
	while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (id == '?')
			return unknown_option(argv, what);
		if (id == OPT_CONFIG) {
			fp->config_path = optarg;
			fp->config_given = true;
		}
		if (id == OPT_HELP || id == OPT_VERSION)
			fp->no_config = true;
	}
	if (optind < argc) {
		(void)snprintf(what, CONF_WHAT_MAX,
			       "'%.64s' is unexpected; see --help",
			       argv[optind]);
		return -EINVAL;
	}
	return 0;
}

static int load_config(const struct first_pass *fp, struct config *cfg,
		       char *what)
{
	int r;

	if (fp->no_config)
		return 0;
	r = conf_load(&config_table, fp->config_path, cfg, what);
	if (r == -EINVAL)
		return r;
	/* without a file the defaults hold, unless one was asked for */
	if (r == -ENOENT && !fp->config_given)
		return 0;
	if (r < 0) {
		(void)snprintf(what, CONF_WHAT_MAX, "%.128s: %s",
			       fp->config_path, strerror(-r));
		return -EINVAL;
	}
	return 0;
}

int cmdline_parse(int argc, char **argv, struct cmdline *ret_cmdline,
		  char *what)
{
	struct cmdline o = {
		.agent = {.proc_path = "/proc", .sys_path = "/sys"},
	};
	struct first_pass fp;
	int id, r;

	config_defaults(&o.agent.cfg);
	r = first_pass(argc, argv, &fp, what);
	if (!r)
		r = load_config(&fp, &o.agent.cfg, what);
	optind = 0;
	while (!r &&
	       (id = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		r = take_option(&o, id, optarg, what);
	if (!r)
		r = config_validate(&o.agent.cfg, what);
	if (r < 0)
		return r;
	*ret_cmdline = o;
	return 0;
}
