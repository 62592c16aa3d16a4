// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "options.h"
#include "util.h"

#ifndef VMDEFRAG_VERSION
#define VMDEFRAG_VERSION "0.1.0"
#endif

enum {
	OPT_CONFIG = 256,
	OPT_CHECK,
	OPT_DUMP,
	OPT_HELP,
	OPT_VERSION,
	OPT_VERBOSE,
	OPT_VM,
	OPT_VALUE, /* the first of value_options[] */
};

/* Options that are a key of the configuration. */
static const struct {
	const char *name, *section, *key;
} value_options[] = {
	{"run-dir", "daemon", "RunDir"},
	{"state-dir", "daemon", "StateDir"},
	{"user", "daemon", "User"},
	{"group", "daemon", "Group"},
	{"loop", "daemon", "Loop"},
	{"report-interval", "daemon", "ReportInterval"},
	{"mode", "policy", "Mode"},
	{"backend", "policy", "Backend"},
	{"lease", "policy", "Lease"},
};

static const struct option long_options[] = {
	{"config", required_argument, NULL, OPT_CONFIG},
	{"check-config", no_argument, NULL, OPT_CHECK},
	{"dump-config", no_argument, NULL, OPT_DUMP},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{"verbose", no_argument, NULL, OPT_VERBOSE},
	{"vm", required_argument, NULL, OPT_VM},
	{"run-dir", required_argument, NULL, OPT_VALUE + 0},
	{"state-dir", required_argument, NULL, OPT_VALUE + 1},
	{"user", required_argument, NULL, OPT_VALUE + 2},
	{"group", required_argument, NULL, OPT_VALUE + 3},
	{"loop", required_argument, NULL, OPT_VALUE + 4},
	{"report-interval", required_argument, NULL, OPT_VALUE + 5},
	{"mode", required_argument, NULL, OPT_VALUE + 6},
	{"backend", required_argument, NULL, OPT_VALUE + 7},
	{"lease", required_argument, NULL, OPT_VALUE + 8},
	{NULL, 0, NULL, 0},
};
static_assert(ARRAY_SIZE(long_options) == ARRAY_SIZE(value_options) + 8,
	      "long_options has each of value_options");

const char *options_version(void)
{
	return VMDEFRAG_VERSION;
}

void options_help(FILE *f)
{
	fputs("Usage: vmdefragd [OPTION]...\n"
	      "Defragments the memory of KVM guests, with the agent in them.\n"
	      "\n"
	      "  --config FILE           read FILE instead of\n"
	      "                          " CONFIG_FILE_DEFAULT ", which\n"
	      "                          may be absent, and FILE.d/*.conf\n"
	      "  --check-config          check the configuration, and exit\n"
	      "  --dump-config           print the configuration as it would\n"
	      "                          be used, and exit\n"
	      "  --mode MODE             of VMs that have none of their own:\n"
	      "                          off, observe (default), balanced,\n"
	      "                          performance, density\n"
	      "  --vm name=NAME,channel=PATH[,qmp=PATH][,pid=PID][,uuid=UUID]"
	      "[,mode=MODE]\n"
	      "                          serve this VM; may be repeated\n"
	      "  --backend NAME          how guests compact: auto (default),\n"
	      "                          compact, fault, hugetlb, memblock,\n"
	      "                          proactive, kmod\n"
	      "  --report-interval TIME  between reports of agents (1s)\n"
	      "  --lease TIME            silence after which agents put their\n"
	      "                          knobs back\n"
	      "  --loop auto|uring|poll  how the core waits (auto)\n"
	      "  --run-dir DIR           socket, lock, journal "
	      "(/run/vmdefrag)\n"
	      "  --state-dir DIR         what survives a reboot\n"
	      "                          (/var/lib/vmdefrag)\n"
	      "  --user USER             of core and virt broker (vmdefrag)\n"
	      "  --group GROUP           may ask for status (default: the\n"
	      "                          primary group of USER)\n"
	      "  --verbose               log more\n"
	      "  --help, --version       print this, or the version, and exit\n"
	      "\n"
	      "TIME is a number with us, ms, s, min or h; plain seconds\n"
	      "without. Exit status: 0 ended as told, 1 failure, 64 bad\n"
	      "option, 75 another daemon has the run directory, 77 user or\n"
	      "directory not usable, 78 bad configuration.\n",
	      f);
}

static void add_value(struct options *o, const char *option,
		      const char *section, const char *key, const char *value)
{
	struct options_value *v = &o->value[o->nr_values++];

	v->option = option;
	v->section = section;
	v->key = key;
	v->value = value;
}

static void take_option(struct options *o, int c, const char *arg)
{
	switch (c) {
	case OPT_CONFIG:
		o->config_path = arg;
		o->config_given = true;
		break;
	case OPT_CHECK:
		o->action = OPTIONS_CHECK_CONFIG;
		break;
	case OPT_DUMP:
		o->action = OPTIONS_DUMP_CONFIG;
		break;
	case OPT_HELP:
		o->action = OPTIONS_HELP;
		break;
	case OPT_VERSION:
		o->action = OPTIONS_VERSION;
		break;
	case OPT_VERBOSE:
		add_value(o, "--verbose", "daemon", "Verbose", "yes");
		break;
	case OPT_VM:
		add_value(o, "--vm", NULL, NULL, arg);
		break;
	default:
		add_value(o, value_options[c - OPT_VALUE].name,
			  value_options[c - OPT_VALUE].section,
			  value_options[c - OPT_VALUE].key, arg);
	}
}

int options_parse(int argc, char **argv, struct options *ret, char *what)
{
	struct options o = {.config_path = CONFIG_FILE_DEFAULT};
	int c;

	/* no option has more than one value */
	o.value = calloc((size_t)argc + 1, sizeof(*o.value));
	if (!o.value) {
		snprintf(what, CONF_WHAT_MAX, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	opterr = 0;
	optind = 0; /* a fresh start, also in tests */
	while ((c = getopt_long(argc, argv, "+:", long_options, NULL)) != -1) {
		if (c != '?' && c != ':') {
			take_option(&o, c, optarg);
			continue;
		}
		snprintf(what, CONF_WHAT_MAX, "%s '%.100s'; see --help",
			 c == ':' ? "a value is missing behind"
				  : "unknown, ambiguous or malformed option",
			 argv[optind - 1]);
		options_free(&o);
		return -EINVAL;
	}
	if (optind < argc) {
		snprintf(what, CONF_WHAT_MAX,
			 "'%.100s' is not an option; see --help", argv[optind]);
		options_free(&o);
		return -EINVAL;
	}
	*ret = o;
	return 0;
}

void options_free(struct options *o)
{
	free(o->value);
	o->value = NULL;
	o->nr_values = 0;
}

static int apply_value(struct config *cfg, const struct options_value *v,
		       char *what)
{
	char why[CONF_WHAT_MAX];
	int r;

	if (v->section)
		r = config_set(cfg, v->section, v->key, v->value, why);
	else
		r = config_add_vm(cfg, v->value, why);
	if (r < 0)
		snprintf(what, CONF_WHAT_MAX, "%s%s: %.200s",
			 v->option[0] == '-' ? "" : "--", v->option, why);
	return r;
}

int options_config(const struct options *o, struct config *ret_cfg, char *what)
{
	bool found;
	int r;

	r = config_init(ret_cfg);
	if (r < 0) {
		snprintf(what, CONF_WHAT_MAX, "%s", strerror(-r));
		return r;
	}
	r = config_load_all(ret_cfg, o->config_path, &found, what);
	if (r < 0)
		return r;
	if (!found && o->config_given) {
		snprintf(what, CONF_WHAT_MAX, "%.100s: %s", o->config_path,
			 strerror(ENOENT));
		return -ENOENT;
	}
	for (size_t i = 0; i < o->nr_values; i++) {
		r = apply_value(ret_cfg, &o->value[i], what);
		if (r < 0)
			return r;
	}
	return config_validate(ret_cfg, what);
}
