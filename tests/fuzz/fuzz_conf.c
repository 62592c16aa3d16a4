// SPDX-License-Identifier: GPL-2.0-or-later
/* Configuration files: whatever they hold, a value in range or a message. */
#include <stdlib.h>
#include <string.h>

#include "conf.h"
#include "fuzz.h"
#include "proto_codec.h"

struct cfg {
	bool flag;
	uint32_t num, backend, knobs;
	uint64_t big, interval_us;
	char name[16];
};

static const struct conf_key keys[] = {
	{"main", "Flag", CONF_BOOL, offsetof(struct cfg, flag), 0, 0, NULL},
	{"main", "Num", CONF_U32, offsetof(struct cfg, num), 5, 10, NULL},
	{"main", "Big", CONF_U64, offsetof(struct cfg, big), 0, UINT64_MAX,
	 NULL},
	{"main", "IntervalSec", CONF_TIME_US, offsetof(struct cfg, interval_us),
	 1000000, 60000000, NULL},
	{"main", "Name", CONF_STRING, offsetof(struct cfg, name), 1, 16, NULL},
	{"main", "Backend", CONF_ENUM, offsetof(struct cfg, backend), 0,
	 BACKEND_COUNT, backend_name},
	{"main", "Knobs", CONF_BITS, offsetof(struct cfg, knobs), 0, KNOB_COUNT,
	 knob_name},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct conf_table table = {
		.key = keys, .nr_keys = sizeof(keys) / sizeof(keys[0])};
	struct cfg cfg = {.num = 5, .interval_us = 1000000, .name = "x"};
	char what[CONF_WHAT_MAX] = "";
	char *text = malloc(size + 1);
	int r;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	r = conf_parse(&table, "fuzz", text, &cfg, what);
	if (r < 0 && !what[0])
		abort();
	if (cfg.num < 5 || cfg.num > 10 || cfg.backend >= BACKEND_COUNT ||
	    cfg.interval_us < 1000000 || cfg.interval_us > 60000000 ||
	    cfg.knobs >> KNOB_COUNT || !memchr(cfg.name, 0, sizeof(cfg.name)))
		abort();
	free(text);
	return 0;
}
