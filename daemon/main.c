// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vmdefragd: arguments, configuration, then the supervisor. The only exit() of
 * the daemon.
 */
#include <errno.h>
#include <stdio.h>

#include "core.h"
#include "log.h"
#include "options.h"
#include "proctitle.h"
#include "supervisor.h"
#include "util.h"

static int run(const struct options *o, struct config *cfg)
{
	struct supervisor_args args = {
		.options = o,
		.cfg = cfg,
		.main =
			{
				[ROLE_CORE] = core_main,
				[ROLE_BROKER] = broker_main,
				[ROLE_HELPER] = helper_main,
				[ROLE_KNOBS] = knobs_main,
			},
	};

	return supervisor_run(&args);
}

static int act(const struct options *o)
{
	char what[CONF_WHAT_MAX];
	struct config cfg;
	int status = STATUS_OK;

	if (options_config(o, &cfg, what) < 0) {
		log_err("%s", what);
		status = STATUS_CONFIG;
	} else if (o->action == OPTIONS_CHECK_CONFIG) {
		printf("Configuration is valid: %zu VMs, mode %s\n", cfg.nr_vms,
		       vm_mode_name(cfg.policy.mode));
	} else if (o->action == OPTIONS_DUMP_CONFIG) {
		config_dump(&cfg, stdout);
	} else {
		status = run(o, &cfg);
	}
	config_free(&cfg);
	return status;
}

static int flush_stdout(int status)
{
	if (!fflush(stdout))
		return status;
	(void)log_err_errno(-errno, "Cannot write to standard output");
	return STATUS_FAILED;
}

int main(int argc, char **argv)
{
	char what[CONF_WHAT_MAX];
	struct options o;
	int status;

	log_setup("vmdefragd", LOG_LEVEL_INFO);
	if (options_parse(argc, argv, &o, what) < 0) {
		log_err("%s", what);
		return STATUS_USAGE;
	}
	proctitle_init(argc, argv);
	switch (o.action) {
	case OPTIONS_HELP:
		options_help(stdout);
		status = STATUS_OK;
		break;
	case OPTIONS_VERSION:
		printf("vmdefragd %s\n", options_version());
		status = STATUS_OK;
		break;
	default:
		status = act(&o);
	}
	options_free(&o);
	return flush_stdout(status);
}
