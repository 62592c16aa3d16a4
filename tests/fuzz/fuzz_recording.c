// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Lines of a recording: whatever they hold, a value or words; and what they
 * bring is run through the policy, as replay does.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "recording.h"

static struct policy_state st;
static struct msg_hello hello;
static struct msg_report report;
static uint64_t last_us;

static void use(const struct policy_cfg *cfg, const struct recording_line *l)
{
	static struct policy_plan plan;
	struct policy_snapshot s = {.hello = &hello, .report = &report};

	if (l->t_us >= last_us)
		last_us = l->t_us;
	if (l->kind == RECORDING_FRAME && l->msg.type == MSG_HELLO)
		hello = l->msg.hello;
	else if (l->kind == RECORDING_FRAME && l->msg.type == MSG_REPORT)
		report = l->msg.report;
	else if (l->kind == RECORDING_FRAME)
		policy_result(cfg, &st, &l->msg.result, last_us);
	if (!hello.page_size)
		return;
	policy_decide(cfg, &st, &s, last_us, &plan);
	json_decref(recording_decide(last_us, &s, &plan));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct recording_line l;
	struct policy_cfg cfg;
	const char *what = NULL;
	const char *at = (const char *)data, *end = at + size;

	policy_cfg_defaults(&cfg);
	cfg.mode = VM_MODE_BALANCED;
	memset(&st, 0, sizeof(st));
	memset(&hello, 0, sizeof(hello));
	memset(&report, 0, sizeof(report));
	last_us = 0;
	while (at < end) {
		const char *eol = memchr(at, '\n', (size_t)(end - at));
		size_t len = (size_t)((eol ? eol : end) - at);
		int r = recording_parse(at, len, &l, &what);

		if (r < 0 && (!what || l.json))
			abort();
		if (!r)
			use(&cfg, &l);
		json_decref(l.json);
		at += len + 1;
	}
	return 0;
}
