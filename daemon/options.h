/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vmdefragd's command line. Kept for as long as the daemon runs: a reload
 * reads the file anew, and what the command line said still counts.
 */
#ifndef VMDEFRAG_OPTIONS_H
#define VMDEFRAG_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "config.h"

/* Exit codes; 64, 75, 77 and 78 as in sysexits.h, known to systemd.exec(5). */
enum {
	STATUS_OK = 0,
	STATUS_FAILED = 1,   /* could not start or go on; the log says why */
	STATUS_USAGE = 64,   /* bad option */
	STATUS_RUNNING = 75, /* another daemon has this run directory */
	STATUS_NOPERM = 77,  /* user, group or directory not usable */
	STATUS_CONFIG = 78,  /* bad configuration */
};

enum options_action {
	OPTIONS_RUN,
	OPTIONS_CHECK_CONFIG,
	OPTIONS_DUMP_CONFIG,
	OPTIONS_HELP,
	OPTIONS_VERSION,
};

struct options_value {
	const char *option;  /* "--mode" */
	const char *section; /* NULL: --vm */
	const char *key;
	const char *value;
};

struct options {
	enum options_action action;
	const char *config_path;
	bool config_given; /* then it must exist */
	size_t nr_values;
	struct options_value *value; /* borrows argv */
};

/**
 * options_parse() - argv; values are looked at by options_config()
 * @what: CONF_WHAT_MAX bytes
 *
 * Return: 0, to be freed by options_free(); -EINVAL with @what; -ENOMEM.
 */
int options_parse(int argc, char **argv, struct options *ret, char *what);

void options_free(struct options *o);

/**
 * options_config() - the configuration: defaults, file, command line
 * @ret_cfg: validated; to be freed by config_free() in every case
 *
 * Return: 0, or -errno with @what.
 */
int options_config(const struct options *o, struct config *ret_cfg, char *what);

void options_help(FILE *f);

const char *options_version(void);

#endif
