// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <string.h>

#include "log.h"
#include "proto_codec.h"
#include "steer.h"
#include "util.h"

#define PPM_OF_PCT 10000

static struct action_env action_env(struct agent *a)
{
	const struct msg_directive *d = &a->directive;
	uint16_t own_centi = (uint16_t)(a->cfg.psi_abort_pct * 100);

	return (struct action_env){
		.cfg = &a->cfg,
		.caps = &a->caps,
		.sampler = &a->sampler,
		.knobs = &a->knobs,
		.loans = &a->loans,
		.budget = &a->budget,
		.memory = &a->memory,
		.gains = &a->gains,
		.holds = &a->holds,
		.proc_fd = a->proc_fd,
		.sys_fd = a->sys_fd,
		.observe = a->observe,
		.quiet = d->quiet,
		.psi_abort_centi = d->psi_abort_centi
					   ? MIN(d->psi_abort_centi, own_centi)
					   : own_centi,
	};
}

static void send_result(struct agent *a, const struct msg_result *result)
{
	struct msg *m = &a->report; /* free between two reports */

	m->type = MSG_RESULT;
	m->result = *result;
	if (session_send(&a->session, m) < 0)
		log_warn("The result of action %llu reaches nobody",
			 (unsigned long long)result->id);
}

static void on_opened(void *ctx, const struct msg_welcome *w, uint64_t now_us)
{
	struct agent *a = ctx;
	uint32_t interval_ms = MAX(w->interval_ms, a->cfg.report_min_ms);

	log_info("Session with the host, reports each %u ms", interval_ms);
	a->interval_us = interval_ms * MSEC_US;
	a->report_us = now_us;
	a->last_action_id = 0;
}

static void on_ended(void *ctx, const char *why, uint64_t now_us)
{
	struct agent *a = ctx;

	(void)now_us;
	log_info("Session with the host ended: %s", why);
	action_stop(&a->action, WHY_SESSION, why);
	mapper_stop(&a->mapper);
}

static void set_cpu_rate(struct agent *a, uint64_t now_us)
{
	uint32_t rate_ppm = a->cfg.cpu_budget_pct * PPM_OF_PCT;

	if (a->directive.cpu_budget_ppm)
		rate_ppm = MIN(rate_ppm, a->directive.cpu_budget_ppm);
	budget_set_rate(&a->budget, rate_ppm, now_us);
}

static void say_left_out(const struct msg_directive *d, uint32_t left_out)
{
	for (unsigned int k = 0; k < KNOB_COUNT; k++) {
		if (left_out >> k & 1)
			log_warn("Host wants %lld for knob '%s', which is out "
				 "of bounds: left out",
				 (long long)d->knob[k], knob_name(k));
	}
}

static void on_directive(void *ctx, const struct msg_directive *d,
			 uint64_t now_us)
{
	struct agent *a = ctx;
	bool news = d->id != a->directive.id;
	uint32_t left_out;

	a->directive = *d;
	a->lease_us = now_us + MIN(d->lease_ms * MSEC_US, a->cfg.lease_max_us);
	left_out = knobs_want(&a->knobs, d->knob_mask, d->knob);
	if (news) {
		log_info("Directive %llu%s: %s", (unsigned long long)d->id,
			 d->quiet ? " (quiet)" : "", d->reason);
		say_left_out(d, left_out);
	}
	knobs_tick(&a->knobs, now_us);
	set_cpu_rate(a, now_us);
	if (d->quiet) {
		action_stop(&a->action, WHY_QUIET, "directive says quiet");
		(void)holds_release(&a->holds, 0);
	}
}

static void on_action(void *ctx, const struct msg_action *req, uint64_t now_us)
{
	struct agent *a = ctx;
	struct action_env env = action_env(a);
	struct msg_result result = {
		.id = req->id,
		.status = RESULT_FAILED,
		.why = WHY_ERROR,
		.text = "action id does not grow",
	};

	if (req->id <= a->last_action_id) {
		send_result(a, &result);
		return;
	}
	a->last_action_id = req->id;
	if (!action_start(&a->action, &env, req, now_us, &result))
		send_result(a, &result);
}

static void on_cancel(void *ctx, const struct msg_cancel *c, uint64_t now_us)
{
	struct agent *a = ctx;

	(void)now_us;
	(void)holds_release(&a->holds, c->id);
	if (!c->id || c->id == a->action.result.id)
		action_stop(&a->action, WHY_CANCELLED, "host says cancel");
}

static int send_part(void *ctx, const struct msg_map *part)
{
	struct agent *a = ctx;
	struct msg *m = &a->report; /* free between two reports */

	m->type = MSG_MAP;
	m->map = *part;
	return session_send(&a->session, m);
}

static void on_map_ask(void *ctx, const struct msg_map_ask *q, uint64_t now_us)
{
	struct agent *a = ctx;
	int r;

	a->mapper_ops = (struct mapper_ops){.ctx = a, .send = send_part};
	r = mapper_start(&a->mapper, &a->mapper_ops, a->proc_fd, &a->caps, q,
			 now_us);
	if (r < 0) {
		/* an empty map: the host need not wait */
		struct msg_map none = {.id = q->id, .last = 1};

		log_warn_errno(r, "Cannot map the memory");
		(void)send_part(a, &none);
	}
}

static void on_backing(void *ctx, const struct msg_backing *b, uint64_t now_us)
{
	struct agent *a = ctx;
	/* the layout was read for the pass that came before */
	uint64_t end_pfn = memlayout_end_pfn(&a->mapper.layout);

	(void)now_us;
	if (hint_take(&a->hint, b, (end_pfn + 511) / 512) < 0)
		log_warn("Out of memory, doing without the host's hint");
}

const struct session_ops steer_ops = {
	.opened = on_opened,
	.ended = on_ended,
	.directive = on_directive,
	.action = on_action,
	.cancel = on_cancel,
	.map_ask = on_map_ask,
	.backing = on_backing,
};

static void lease_ran_out(struct agent *a, uint64_t now_us)
{
	log_notice("Host silent for its whole lease: everything is put back");
	a->lease_us = 0;
	memset(&a->directive, 0, sizeof(a->directive));
	set_cpu_rate(a, now_us);
	action_stop(&a->action, WHY_SESSION, "lease ran out");
	(void)holds_release(&a->holds, 0);
	/* what fails is tried again by knobs_tick() */
	(void)knobs_restore_all(&a->knobs, now_us);
}

void steer_tick(struct agent *a, uint64_t now_us)
{
	struct action_env env = action_env(a);
	struct msg_result result;

	if (a->lease_us && now_us >= a->lease_us)
		lease_ran_out(a, now_us);
	if (action_step(&a->action, &env, now_us, &result))
		send_result(a, &result);
	mapper_tick(&a->mapper, now_us);
	budget_spend(&a->budget, holds_tick(&a->holds));
}

uint64_t steer_deadline_us(const struct agent *a)
{
	uint64_t deadline_us = action_deadline_us(&a->action);

	deadline_us = MIN(deadline_us, mapper_deadline_us(&a->mapper));
	return a->lease_us ? MIN(deadline_us, a->lease_us) : deadline_us;
}
