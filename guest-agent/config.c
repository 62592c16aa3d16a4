// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "proto.h"
#include "proto_codec.h"
#include "util.h"

#define KEY(name, kind, field, lo, hi)                                         \
	{                                                                      \
		.section = CONFIG_SECTION, .key = name, .type = kind,          \
		.offset = offsetof(struct config, field), .min = lo,           \
		.max = hi,                                                     \
	}
#define KEY_BITS(name, field, count, names)                                    \
	{                                                                      \
		.section = CONFIG_SECTION, .key = name, .type = CONF_BITS,     \
		.offset = offsetof(struct config, field), .max = count,        \
		.name_of = names,                                              \
	}

static const struct conf_key keys[] = {
	KEY("Transport", CONF_STRING, transport_text, 1, CONFIG_PATH_MAX),
	KEY("RunDir", CONF_STRING, run_dir, 1, CONFIG_PATH_MAX),
	KEY_BITS("AllowKnobs", allow_knobs, KNOB_COUNT, knob_name),
	KEY_BITS("AllowBackends", allow_backends, BACKEND_COUNT, backend_name),
	KEY("AllowIsolatedCpus", CONF_BOOL, allow_isolated_cpus, 0, 1),
	KEY("CpuBudgetPercent", CONF_U32, cpu_budget_pct, 1, 100),
	KEY("CpuBurstSec", CONF_TIME_US, cpu_burst_us, SEC_US / 10,
	    3600 * SEC_US),
	KEY("MaxActionSec", CONF_TIME_US, max_action_us, SEC_US / 10,
	    3600 * SEC_US),
	KEY("PsiAbortPercent", CONF_U32, psi_abort_pct, 1, 100),
	/* below 16 MiB the kernel itself needs what is left */
	KEY("MinFreeMiB", CONF_U64, min_free_mib, 16, UINT64_C(1) << 24),
	KEY("LeaseMaxSec", CONF_TIME_US, lease_max_us, 1 * SEC_US,
	    3600 * SEC_US),
	KEY("ReportMinMs", CONF_U32, report_min_ms, 10, 600000),
};

static const char *string_fault(const char *key, const char *value)
{
	struct transport t;

	if (!strcmp(key, "Transport") && transport_parse(value, &t) < 0)
		return "is not virtio-serial, virtio-serial:PORTNAME or "
		       "unix:PATH";
	if (!strcmp(key, "RunDir") && value[0] != '/')
		return "is not an absolute path";
	return NULL;
}

const struct conf_table config_table = {
	.key = keys,
	.nr_keys = ARRAY_SIZE(keys),
	.string_fault = string_fault,
};

void config_defaults(struct config *c)
{
	*c = (struct config){
		.transport_text = "virtio-serial:" PROTO_PORT_NAME,
		.run_dir = "/run/vmdefrag-agent",
		.allow_knobs = (1u << KNOB_COUNT) - 1,
		/* memory that is offline for a moment is missed by programs
		 * that watch its size */
		.allow_backends =
			((1u << BACKEND_COUNT) - 1) & ~(1u << BACKEND_MEMBLOCK),
		/* a tenth of one CPU in the long run; the burst lets a first
		 * whole compaction of a guest of some 100 GiB through */
		.cpu_budget_pct = 10,
		.cpu_burst_us = 30 * SEC_US,
		.max_action_us = 120 * SEC_US,
		.psi_abort_pct = 20,
		.min_free_mib = 64,
		.lease_max_us = 300 * SEC_US,
		/* a report costs 0.2 ms: at most 0.2 % of a CPU */
		.report_min_ms = 100,
	};
}

int config_validate(struct config *c, char *what)
{
	if (transport_parse(c->transport_text, &c->transport) == 0)
		return 0;
	(void)snprintf(what, CONF_WHAT_MAX, "[%s] Transport: '%.64s' is wrong",
		       CONFIG_SECTION, c->transport_text);
	return -EINVAL;
}
