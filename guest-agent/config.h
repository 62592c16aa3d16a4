/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the guest's admin allows. The host is trusted only within this.
 */
#ifndef AGENT_CONFIG_H
#define AGENT_CONFIG_H

#include "conf.h"
#include <stdbool.h>

#include "transport.h"

#define CONFIG_SECTION	"agent"
#define CONFIG_PATH_MAX 128

struct config {
	char transport_text[CONFIG_PATH_MAX];
	char run_dir[CONFIG_PATH_MAX];
	uint32_t allow_knobs;	 /* bits of enum knob */
	uint32_t allow_backends; /* bits of enum backend */
	uint32_t cpu_budget_pct;
	uint64_t cpu_burst_us;
	uint64_t max_action_us;
	uint32_t psi_abort_pct;
	uint64_t min_free_mib;
	uint64_t lease_max_us;
	uint32_t report_min_ms;
	bool allow_isolated_cpus;
	/* by config_validate() */
	struct transport transport;
};

extern const struct conf_table config_table;

/**
 * config_defaults() - what holds where no file says otherwise
 */
void config_defaults(struct config *c);

/**
 * config_validate() - what the table cannot check
 * @what: CONF_WHAT_MAX bytes, for the reason
 *
 * Return: 0, or -EINVAL.
 */
int config_validate(struct config *c, char *what);

#endif
