// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "act.h"
#include "log.h"
#include "manager.h"
#include "util.h"

/* An agent that does not report the end of an action in time is asked no
 * more of until it does or its session ends. */
#define ACTION_GRACE_US (5 * SEC_US)

int act_action(struct vm *v, struct msg_action *a, uint64_t now_us)
{
	struct msg m = {.type = MSG_ACTION};
	int r;

	if (!vm_is_active(v))
		return -EPERM;
	if (v->action.id)
		return -EBUSY;
	a->id = manager_next_id(v->m);
	m.action = *a;
	r = peer_send(&v->peer, &m);
	if (r < 0)
		return r;
	v->action.id = a->id;
	v->action.action = *a;
	v->action.deadline_us = sum_sat_u64(
		now_us, sum_sat_u64(a->max_time_us, ACTION_GRACE_US));
	return 0;
}

void act_cancel(struct vm *v)
{
	struct msg m = {.type = MSG_CANCEL};

	if (!v->action.id)
		return;
	m.cancel.id = v->action.id;
	(void)peer_send(&v->peer, &m); /* a lost session cancels as well */
}

void act_release(struct vm *v)
{
	struct msg m = {.type = MSG_DIRECTIVE};

	if (!v->directive_us)
		return; /* it was told nothing */
	m.directive = v->directive;
	m.directive.id = manager_next_id(v->m);
	m.directive.knob_mask = 0;
	m.directive.quiet = 1;
	strcpy(m.directive.reason, "this host steers no more");
	(void)peer_send(&v->peer, &m); /* lost: the lease ends by itself */
}

/* Compare what counts, not ids and reasons. */
static bool directive_same(const struct msg_directive *a,
			   const struct msg_directive *b)
{
	if (a->knob_mask != b->knob_mask || a->quiet != b->quiet ||
	    a->lease_ms != b->lease_ms ||
	    a->cpu_budget_ppm != b->cpu_budget_ppm ||
	    a->psi_abort_centi != b->psi_abort_centi)
		return false;
	for (size_t k = 0; k < KNOB_COUNT; k++) {
		if (a->knob_mask & 1u << k && a->knob[k] != b->knob[k])
			return false;
	}
	return true;
}

static void send_directive(struct vm *v, const struct msg_directive *wanted,
			   uint64_t now_us)
{
	struct msg m = {.type = MSG_DIRECTIVE};

	m.directive = *wanted;
	if (!vm_is_active(v)) {
		/* nothing is to be held or started; what was, is put back */
		m.directive.knob_mask = 0;
		m.directive.quiet = 1;
		strcpy(m.directive.reason, "mode changes nothing");
	}
	if (v->directive_us && directive_same(&m.directive, &v->directive) &&
	    now_us - v->directive_us < m.directive.lease_ms * MSEC_US / 3)
		return;
	m.directive.id = manager_next_id(v->m);
	if (peer_send(&v->peer, &m) < 0)
		return; /* the session is down: a new one begins afresh */
	v->directive = m.directive;
	v->directive_us = now_us;
}

static void log_decision(const struct vm *v, const struct decision *d)
{
	char text[512];
	size_t n = 0;

	for (size_t i = 0; i < d->nr_evidence && n < sizeof(text); i++) {
		int r = snprintf(text + n, sizeof(text) - n, " %s=%lld",
				 d->evidence[i].name,
				 (long long)d->evidence[i].value);

		n += r > 0 ? (size_t)r : 0;
	}
	log_info("%s: %s, %s%s (node %u):%.*s", v->cfg.name,
		 decision_kind_name(d->kind), decision_reason_name(d->reason),
		 vm_is_active(v) ? "" : ", observed only", d->node,
		 (int)MIN(n, sizeof(text) - 1), text);
}

void act_plan(struct vm *v, const struct policy_plan *plan, uint64_t now_us)
{
	for (size_t i = 0; i < plan->nr_decisions; i++) {
		if (!plan->changed[i])
			continue;
		history_decision(&v->history, &plan->decision[i],
				 vm_is_active(v));
		log_decision(v, &plan->decision[i]);
	}
	/*
	 * Not before the first report: after a restart of ours it tells which
	 * knobs the agent holds, and a directive without them would have it
	 * put them back, only to take them again.
	 */
	if (!v->peer.up || !v->have_report)
		return;
	send_directive(v, &plan->directive, now_us);
	if (!plan->nr_actions || v->action.id || !vm_is_active(v))
		return;
	if (plan->directive.quiet)
		return;
	for (size_t i = 0; i < plan->nr_actions; i++) {
		struct msg_action a = plan->action[i];

		if (!act_action(v, &a, now_us))
			break; /* one at a time; the next tick asks again */
	}
}

/* A batch, at most so long: a fifth of the helper's time in all. */
#define COLLAPSE_TIME_US (100 * MSEC_US)
/* A single call took 7.7 s once; the helper is replaced before that. */
#define COLLAPSE_DEADLINE_US (2 * SEC_US)

int act_collapse(struct vm *v, const struct collapse_plan *plan,
		 uint64_t now_us)
{
	struct ipc_msg m = {.op = IPC_COLLAPSE};
	int r;

	static_assert(COLLAPSE_PLAN_MAX <= IPC_COLLAPSE_MAX, "a plan fits");
	if (!vm_is_active(v))
		return -EPERM;
	if (v->collapsing)
		return -EBUSY;
	vm_map_guest(v, &m.collapse.guest);
	m.collapse.nr = plan->nr;
	m.collapse.max_time_us = COLLAPSE_TIME_US;
	for (uint32_t i = 0; i < plan->nr; i++)
		m.collapse.block[i] = (uint32_t)memslots_block(
			&v->map.slots, plan->index[i], NULL);
	r = link_call(&v->m->link[ROLE_HELPER], &m,
		      now_us + COLLAPSE_DEADLINE_US, vm_map_collapsed, v->m,
		      v->serial);
	if (!r)
		v->collapsing = true;
	return r;
}

uint32_t act_hint(struct vm *v, uint32_t id, uint32_t from)
{
	const struct vmmap *map = &v->map;
	struct msg m = {.type = MSG_BACKING};
	struct msg_backing *b = &m.backing;
	uint32_t at = from;

	if (!vm_is_active(v) || from >= map->nr)
		return map->nr;
	b->id = id;
	b->first_block = memslots_block(&map->slots, from, NULL);
	/* to the end of the slot: blocks without gaps */
	while (at < map->nr && b->nr < PROTO_BACKING_BLOCKS &&
	       memslots_block(&map->slots, at, NULL) ==
		       b->first_block + b->nr) {
		if (map->host[at].flags & BACKING_HUGE)
			b->huge[b->nr / 8] |= (uint8_t)(1u << b->nr % 8);
		b->nr++;
		at++;
	}
	return peer_send(&v->peer, &m) < 0 ? map->nr : at;
}
