// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "act.h"
#include "guestfree.h"
#include "job.h"
#include "manager.h"
#include "util.h"

static void tell(struct job *j, struct job_event *ev)
{
	if (j->client)
		j->vm->m->job_event(j, ev);
}

static void count_free(const struct job *j, uint64_t *ret_blocks,
		       uint64_t *ret_pages)
{
	const struct vm *v = j->vm;
	struct guest_free f;

	guest_free_sum(&v->hello, &v->report, GUEST_ALL_NODES, &f);
	*ret_blocks = guest_free_blocks(&f, j->order);
	*ret_pages = f.pages;
}

static void job_end(struct job *j, bool ok, const char *text)
{
	struct job_event ev = {.kind = JOB_DONE, .ok = ok, .text = text};

	count_free(j, &ev.free_blocks, &ev.free_pages);
	j->vm->job = NULL;
	tell(j, &ev);
	free(j);
}

void job_abandon(struct job *j)
{
	if (!j)
		return;
	j->client = NULL;
	act_cancel(j->vm);
	j->vm->job = NULL;
	free(j);
}

/* The node with most free memory that was not worked yet, or -1. */
static int node_next(const struct job *j)
{
	const struct msg_report *r = &j->vm->report;
	int best = -1;

	for (int i = 0; i < r->nr_nodes; i++) {
		if (j->nodes_done & UINT64_C(1) << i)
			continue;
		if (best < 0 ||
		    r->node[i].free_pages > r->node[best].free_pages)
			best = i;
	}
	return best;
}

static uint32_t still_wanted(const struct job *j)
{
	if (j->want == ACTION_BLOCKS_ALL)
		return ACTION_BLOCKS_ALL;
	return j->want > j->got ? j->want - j->got : 0;
}

/*
 * Ask the next node that the policy does not refuse. Return: 1 if one was
 * asked; 0 if none is left, with @ret_why naming the last refusal; -errno.
 */
static int ask_next(struct job *j, uint64_t now_us, const char **ret_why)
{
	struct vm *v = j->vm;
	struct policy_snapshot s = vm_snapshot(v, now_us);
	int i;

	*ret_why = NULL;
	while ((i = node_next(j)) >= 0) {
		struct job_event ev = {.kind = JOB_STARTED};
		struct msg_action a;
		struct decision d;
		bool go;
		int r;

		j->nodes_done |= UINT64_C(1) << i;
		go = policy_request(&v->pcfg, &s, v->report.node[i].node,
				    j->order, still_wanted(j), now_us, &a, &d);
		history_decision(&v->history, &d, go);
		if (!go) {
			j->refusal = d.reason;
			*ret_why = decision_reason_text(d.reason);
			continue;
		}
		a.backend = j->backend;
		a.hold_ms = j->hold_ms;
		if (j->deadline_us > now_us)
			a.max_time_us = j->deadline_us - now_us;
		r = act_action(v, &a, now_us);
		if (r < 0)
			return r;
		j->action_id = a.id;
		j->action_node = (uint8_t)i;
		ev.action = &a;
		tell(j, &ev);
		return 1;
	}
	return 0;
}

int job_start(struct vm *v, void *client, const struct job_ask *ask,
	      uint64_t now_us, struct job **ret_job, const char **ret_why)
{
	struct job *j;
	int r;

	if (!v->peer.up || !v->have_report) {
		*ret_why = v->peer.up ? "its agent has not reported yet"
				      : "no session with an agent in this VM";
		return -ENOTCONN;
	}
	if (!vm_is_active(v)) {
		*ret_why = "its mode changes nothing; set Mode= to balanced, "
			   "performance or density";
		return -EPERM;
	}
	if (v->job) {
		*ret_why = "an action is under way";
		return -EBUSY;
	}
	j = calloc(1, sizeof(*j));
	if (!j) {
		*ret_why = "out of memory";
		return -ENOMEM;
	}
	j->vm = v;
	j->client = client;
	j->want = ask->blocks;
	j->backend = ask->backend;
	j->order = ask->order ? ask->order : v->hello.pmd_order;
	j->hold_ms = ask->hold_ms;
	j->deadline_us = sum_sat_u64(now_us, ask->time_us);
	v->job = j;
	*ret_job = j;
	if (v->action.id) {
		/* one of our own: a person need not wait for it; its result
		 * starts the job */
		act_cancel(v);
		return 0;
	}
	r = ask_next(j, now_us, ret_why);
	if (r > 0)
		return 0;
	/* memory that became free just now is in no report yet */
	if (!r && j->refusal == REASON_LOW_MEMORY) {
		j->recheck = true;
		j->nodes_done = 0;
		return 0;
	}
	*ret_job = NULL;
	v->job = NULL;
	free(j);
	if (r < 0)
		*ret_why = strerror(-r);
	return r < 0 ? r : -ECANCELED;
}

/* Ask the next node, or end the job; @none is said where none was asked. */
static void go_on(struct job *j, const char *none, uint64_t now_us)
{
	bool begun = j->action_id != 0;
	const char *why;
	int r = ask_next(j, now_us, &why);

	if (r > 0)
		return;
	if (r < 0)
		job_end(j, false, strerror(-r));
	else if (begun && j->want == ACTION_BLOCKS_ALL)
		job_end(j, !j->stopped,
			j->stopped ? j->stopped : "all nodes done");
	else
		job_end(j, false, why ? why : none);
}

void job_result(struct job *j, const struct msg_result *r, uint64_t now_us)
{
	struct job_event ev = {.kind = JOB_RESULT, .result = r};

	if (!j->action_id) {
		go_on(j, "nothing was asked for", now_us);
		return;
	}
	if (r->id != j->action_id)
		return;
	tell(j, &ev);
	if (r->blocks_after > r->blocks_before)
		j->got += r->blocks_after - r->blocks_before;
	if (r->status == RESULT_REFUSED || r->status == RESULT_FAILED) {
		job_end(j, false, r->text[0] ? r->text : stop_why_name(r->why));
		return;
	}
	if (r->why == WHY_CANCELLED || r->why == WHY_PRESSURE ||
	    now_us >= j->deadline_us) {
		job_end(j, false, stop_why_name(r->why));
		return;
	}
	if (!still_wanted(j)) {
		job_end(j, true, "target reached");
		return;
	}
	if (r->status == RESULT_STOPPED)
		j->stopped = stop_why_name(r->why);
	go_on(j, "no more to be had", now_us);
}

void job_report(struct job *j, uint64_t now_us)
{
	struct job_event ev = {.kind = JOB_PROGRESS};

	if (j->recheck) {
		j->recheck = false;
		go_on(j, "nothing was asked for", now_us);
		return;
	}
	count_free(j, &ev.free_blocks, &ev.free_pages);
	tell(j, &ev);
}

void job_session_down(struct job *j, const char *why)
{
	job_end(j, false, why);
}

void job_tick(struct job *j, uint64_t now_us)
{
	/* the agent keeps the action's own limit; this is for a silent one */
	if (now_us < sum_sat_u64(j->deadline_us, 10 * SEC_US))
		return;
	act_cancel(j->vm);
	job_end(j, false, "the agent did not answer in time");
}
