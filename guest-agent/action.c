// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "action.h"
#include "choice.h"
#include "frag.h"
#include "log.h"
#include "proto_codec.h"
#include "util.h"

/* the averages move every 2 s */
#define PSI_LOOK_US (100 * MSEC_US)

/* Where a backend stalls itself, the time that others do is taken over at
 * least this: shorter windows are noise. */
#define PSI_WINDOW_US  (1 * SEC_US)

#define PSI_AVERAGE_US (10 * SEC_US)
#define PSI_HALF_US    (7 * SEC_US)

/* of what was asked for: more is worth a word */
#define OVERSHOOT_PCT 130

static uint64_t or_unlimited(uint64_t limit)
{
	return limit ? limit : UINT64_MAX;
}

/* Free blocks of at least the order on the node, and free pages. */
static int look_at_node(const struct sampler *s, unsigned int node,
			unsigned int order, uint64_t *ret_blocks,
			uint64_t *ret_free_pages)
{
	uint32_t blocks[PROTO_ORDERS_MAX];
	struct zones z;
	int r = sampler_buddyinfo(s, &z);

	if (r < 0)
		return r;
	zones_sum_node(&z, node, blocks);
	*ret_blocks = frag_suitable_blocks(blocks, order);
	*ret_free_pages = frag_free_pages(blocks);
	return 0;
}

static bool node_known(const struct sampler *s, unsigned int node)
{
	for (unsigned int i = 0; i < s->nr_nodes; i++) {
		if (s->node[i].id == node)
			return true;
	}
	return false;
}

/*
 * What our last action still has in PSI's average, at most: a stall of s
 * seconds adds s/10 of all, and half of that is gone after 7 s.
 */
static uint16_t own_psi_centi(const struct action *a, uint64_t now_us)
{
	uint64_t centi = MIN(a->own.stall_us * 10000 / PSI_AVERAGE_US, 10000);
	uint64_t halvings = (now_us - a->end_us) / PSI_HALF_US;

	return (uint16_t)(halvings < 16 ? centi >> halvings : 0);
}

static void look_before(const struct action_env *env,
			const struct msg_action *req, enum backend backend,
			const struct zones *z, struct admission *a)
{
	struct psi_report psi;

	for (unsigned int i = 0; i < z->nr; i++) {
		a->guest_free_pages += z->zone[i].free_pages;
		if (z->zone[i].node != req->node)
			continue;
		a->free_pages += z->zone[i].free_pages;
		a->high_pages += z->zone[i].high_pages;
	}
	a->psi_valid = sampler_psi(env->sampler, &psi) == 0;
	a->psi_some_centi = a->psi_valid ? psi.some_avg10_centi : 0;
	a->node_known = node_known(env->sampler, req->node);
	a->backend_missing = !(env->caps->backends & 1u << backend) &&
			     !(env->caps->backends_denied & 1u << backend);
	a->backend_denied = env->caps->backends_denied >> backend & 1;
}

static struct verdict admit(const struct action *a,
			    const struct action_env *env,
			    const struct msg_action *req, enum backend backend,
			    const struct zones *z, uint64_t now_us)
{
	struct admission ad = {
		.observe = env->observe,
		.quiet = env->quiet,
		.busy = a->running,
		.min_free_pages = env->cfg->min_free_mib * 1024 /
				  (env->caps->page_size / 1024),
		.order = req->order,
		.psi_abort_centi = env->psi_abort_centi,
		.cpu_left_us = budget_left_us(env->budget, now_us),
	};
	uint64_t node_pages = 0;

	for (unsigned int i = 0; i < z->nr; i++) {
		if (z->zone[i].node == req->node)
			node_pages += z->zone[i].managed_pages;
	}
	ad.need_pages = limits_need_pages(req->blocks, req->order, node_pages);
	look_before(env, req, backend, z, &ad);
	ad.psi_some_centi -= MIN(ad.psi_some_centi, own_psi_centi(a, now_us));
	return limits_admit(&ad);
}

/*
 * Free memory that a backend may not take. An allocation that mixes page
 * blocks raises the watermarks for a while, by a share of the high one: below
 * that, one of a high order finds a zone too short to compact, and reclaims
 * and swaps instead (measured: 128 of 2048 MiB free, 22 MiB taken, 891 pages
 * swapped out).
 */
static uint64_t floor_of(const struct action_env *env, const struct zones *z,
			 const struct msg_action *req)
{
	const struct knob_state *boost =
		&env->knobs->knob[KNOB_WATERMARK_BOOST_FACTOR];
	uint64_t high_pages = 0, boost_pages = 0;

	for (unsigned int i = 0; i < z->nr; i++) {
		if (z->zone[i].node == req->node)
			high_pages += z->zone[i].high_pages;
	}
	if (boost->readable)
		boost_pages = high_pages * (uint64_t)boost->current / 10000;
	return high_pages + boost_pages + (LIMITS_MARGIN_BLOCKS << req->order);
}

/* "All" has no end at which to hold; and there must be room for it. */
static uint64_t hold_us(const struct action_env *env,
			const struct msg_action *req)
{
	if (req->blocks == ACTION_BLOCKS_ALL || !env->holds ||
	    !holds_room(env->holds))
		return 0;
	return MIN(req->hold_ms * MSEC_US, env->cfg->lease_max_us);
}

/*
 * What the host asked for, or what auto means now; then a->choice says why.
 * @refused: bits of backends that would not do it
 */
static enum backend choose(struct action *a, const struct action_env *env,
			   const struct msg_action *req, const struct zones *z,
			   uint32_t refused, uint64_t now_us)
{
	struct gains none = {0};
	uint32_t blocks[PROTO_ORDERS_MAX];
	struct choice_ask ask = {
		.usable = env->caps->backends & ~refused,
		.order = req->order,
		.pmd_order = env->caps->pmd_order,
		.mthp_orders = env->caps->mthp_orders,
		.page_size = env->caps->page_size,
		.all = req->blocks == ACTION_BLOCKS_ALL,
		.hold = hold_us(env, req) != 0,
		.urgency = req->urgency,
		.blocks = req->blocks,
		.floor_pages = floor_of(env, z, req),
		.score_pct = sampler_score_pct(env->sampler, z, req->node),
		.nr_nodes = env->caps->nr_nodes,
		.cpu_left_us = budget_left_us(env->budget, now_us),
		.cpu_burst_us = env->cfg->cpu_burst_us,
	};

	a->choice[0] = '\0';
	if (req->backend != BACKEND_AUTO)
		return req->backend;
	zones_sum_node(z, req->node, blocks);
	ask.free_pages = frag_free_pages(blocks);
	ask.free_blocks = frag_suitable_blocks(blocks, req->order);
	return choice_make(env->gains ? env->gains : &none, &ask, now_us,
			   a->choice);
}

static void result_begin(struct msg_result *r, const struct msg_action *req,
			 enum backend backend)
{
	memset(r, 0, sizeof(*r));
	r->id = req->id;
	r->backend = (uint8_t)backend;
	r->node = req->node;
	r->order = req->order;
	r->asked = req->blocks;
}

static void result_refused(struct msg_result *r, const struct verdict *v)
{
	r->status = v->why == WHY_ERROR ? RESULT_FAILED : RESULT_REFUSED;
	r->why = (uint8_t)v->why;
	(void)snprintf(r->text, sizeof(r->text), "%s: %s",
		       backend_name(r->backend), v->text);
	log_info("Action %llu refused: %s: %s", (unsigned long long)r->id,
		 stop_why_name(r->why), r->text);
}

static void set_limits(struct action *a, const struct action_env *env,
		       const struct msg_action *req, uint64_t now_us)
{
	struct limits *l = &a->limits;

	l->all = req->blocks == ACTION_BLOCKS_ALL;
	l->target_blocks =
		l->all ? UINT64_MAX : a->result.blocks_before + req->blocks;
	l->max_pages = or_unlimited(req->max_pages);
	l->max_cpu_us = MIN(or_unlimited(req->max_cpu_us),
			    budget_left_us(env->budget, now_us));
	l->max_time_us =
		MIN(or_unlimited(req->max_time_us), env->cfg->max_action_us);
	l->psi_abort_centi = env->psi_abort_centi;
}

static uint32_t to_u32(uint64_t v)
{
	return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

static void job_init(struct action *a, const struct action_env *env,
		     const struct msg_action *req, const struct zones *z,
		     uint64_t now_us)
{
	a->job = (struct job){
		.proc_fd = env->proc_fd,
		.sys_fd = env->sys_fd,
		.knobs = env->knobs,
		.loans = env->loans,
		.caps = env->caps,
		.memory = env->memory,
		.holds = env->holds,
		.action_id = req->id,
		.hold_us = hold_us(env, req),
		.now_us = now_us,
		.node = req->node,
		.order = req->order,
		.urgency = req->urgency,
		.all = a->limits.all,
		.target_blocks = a->limits.target_blocks,
		.start_pages = a->result.free_pages_before,
		.start_blocks = a->result.blocks_before,
		.floor_pages = floor_of(env, z, req),
		.score_pct = sampler_score_pct(env->sampler, z, req->node),
		.blocks = a->result.blocks_before,
		.free_pages = a->result.free_pages_before,
	};
}

/* Return: 0 if it runs; -ECANCELED if *@ret_v says why not; -errno. */
static int begin(struct action *a, const struct action_env *env,
		 const struct msg_action *req, const struct zones *z,
		 uint64_t now_us, struct verdict *ret_v)
{
	uint64_t blocks, free_pages;
	int r = look_at_node(env->sampler, req->node, req->order, &blocks,
			     &free_pages);

	if (!r)
		r = sampler_vmstat(env->sampler, &a->start_vmstat);
	if (r < 0)
		return r;
	a->result.blocks_before = to_u32(blocks);
	a->result.free_pages_before = free_pages;
	set_limits(a, env, req, now_us);
	job_init(a, env, req, z, now_us);
	if (a->ops->admit)
		*ret_v = a->ops->admit(&a->job);
	if (ret_v->stop)
		return -ECANCELED;
	memset(&a->progress, 0, sizeof(a->progress));
	a->verdict = (struct verdict){0};
	a->start_us = now_us;
	a->psi_look_us = now_us;
	a->psi_base_us = 0;
	memset(&a->own, 0, sizeof(a->own));
	/* a first look soon: it tells the rate */
	a->next_look_us = now_us + 2 * MSEC_US;
	return a->ops->start(&a->job, now_us);
}

/*
 * Begin with @backend. Return: true if it runs; else *@ret_v says why not, and
 * a->result is void.
 */
static bool try_backend(struct action *a, const struct action_env *env,
			const struct msg_action *req, enum backend backend,
			const struct zones *z, uint64_t now_us,
			struct verdict *ret_v)
{
	int r;

	*ret_v = admit(a, env, req, backend, z, now_us);
	if (ret_v->stop)
		return false;
	a->ops = backend_get(backend);
	result_begin(&a->result, req, backend);
	r = begin(a, env, req, z, now_us, ret_v);
	if (!r)
		return true;
	if (!ret_v->stop)
		*ret_v = (struct verdict){true, WHY_ERROR, strerror(-r)};
	return false;
}

/*
 * Of auto's choices the first that does not refuse; where all do, the first
 * one's refusal says why it is so.
 */
static bool try_choices(struct action *a, const struct action_env *env,
			const struct msg_action *req, const struct zones *z,
			uint64_t now_us, struct msg_result *ret_result,
			struct verdict *ret_v)
{
	uint32_t refused = 0;

	for (unsigned int i = 0; i < BACKEND_COUNT; i++) {
		enum backend b = choose(a, env, req, z, refused, now_us);
		struct verdict v = {0};

		if (refused >> b & 1)
			break; /* none is left */
		if (try_backend(a, env, req, b, z, now_us, &v))
			return true;
		if (!i) {
			result_begin(ret_result, req, b);
			*ret_v = v;
		}
		refused |= UINT32_C(1) << b;
		if (req->backend != BACKEND_AUTO)
			break;
		log_info("auto: %s would not: %s", backend_name(b), v.text);
	}
	return false;
}

bool action_start(struct action *a, const struct action_env *env,
		  const struct msg_action *req, uint64_t now_us,
		  struct msg_result *ret_result)
{
	struct verdict v = {0};
	struct zones z;
	int r;

	result_begin(ret_result, req, req->backend);
	if (a->running) {
		/* nothing of the running one may be touched */
		v = (struct verdict){true, WHY_BUSY, "another action runs"};
		result_refused(ret_result, &v);
		return false;
	}
	r = sampler_zones(env->sampler, &z);
	if (r < 0)
		v = (struct verdict){true, WHY_ERROR,
				     "memory figures cannot be read"};
	if (r < 0 || !try_choices(a, env, req, &z, now_us, ret_result, &v)) {
		result_refused(ret_result, &v);
		return false;
	}
	a->running = true;
	log_info("Action %llu: %s on node %u for %u blocks of order %u: %s",
		 (unsigned long long)req->id, backend_name(a->result.backend),
		 req->node, req->blocks, req->order, req->reason);
	return true;
}

static uint64_t grown(const struct action *a, const struct vmstat *vs,
		      enum vmstat_ctr ctr)
{
	return vs->ctr[ctr] - MIN(vs->ctr[ctr], a->start_vmstat.ctr[ctr]);
}

/*
 * A backend that takes part in PSI itself, stalled as it is by design: the
 * average would stop it in vain. What others stall meanwhile is the rest.
 */
static uint16_t psi_of_others(struct action *a, const struct psi_report *psi,
			      uint64_t now_us)
{
	uint64_t past_us = now_us - a->psi_base_us;
	uint64_t some_us = psi->some_total_us - a->psi_base_some_us;
	uint64_t own_us = a->own.stall_us - a->psi_base_own_us;
	bool first = !a->psi_base_us;
	uint64_t centi;

	if (!first && past_us < PSI_WINDOW_US)
		return a->progress.psi_some_centi;
	a->psi_base_us = now_us;
	a->psi_base_some_us = psi->some_total_us;
	a->psi_base_own_us = a->own.stall_us;
	if (first)
		return 0;
	centi = (some_us - MIN(some_us, own_us)) * 10000 / past_us;
	return (uint16_t)MIN(centi, 10000);
}

static void look_at_psi(struct action *a, const struct sampler *s,
			uint64_t now_us)
{
	struct psi_report psi;

	if (now_us < a->psi_look_us)
		return;
	a->psi_look_us = now_us + PSI_LOOK_US;
	a->progress.psi_valid = sampler_psi(s, &psi) == 0;
	if (a->progress.psi_valid)
		a->progress.psi_some_centi =
			a->ops->own ? psi_of_others(a, &psi, now_us)
				    : psi.some_avg10_centi;
}

/* A source that fails now leaves its figures as they were. */
static void look(struct action *a, const struct sampler *s, uint64_t now_us)
{
	struct progress *p = &a->progress;
	struct vmstat vs;

	(void)look_at_node(s, a->job.node, a->job.order, &p->blocks,
			   &a->job.free_pages);
	if (sampler_vmstat(s, &vs) == 0) {
		p->migrated_pages = grown(a, &vs, CTR_PGMIGRATE_SUCCESS);
		p->scanned_direct_pages = grown(a, &vs, CTR_PGSCAN_DIRECT);
		p->swapped_out_pages = grown(a, &vs, CTR_PSWPOUT);
		p->allocstalls = grown(a, &vs, CTR_ALLOCSTALL);
		p->reclaimed_pages = grown(a, &vs, CTR_PGSTEAL_DIRECT) +
				     grown(a, &vs, CTR_PGSTEAL_KSWAPD);
	}
	if (a->ops->own)
		a->ops->own(&a->job, &a->own);
	p->held_blocks = a->own.held_blocks;
	look_at_psi(a, s, now_us);
	p->cpu_us = a->ops->cpu_us(&a->job);
	p->elapsed_us = now_us - a->start_us;
	a->job.blocks = p->blocks;
	a->job.now_us = now_us;
}

static void result_counters(const struct action *a, const struct vmstat *vs,
			    struct msg_result *r)
{
	r->migrated = grown(a, vs, CTR_PGMIGRATE_SUCCESS);
	r->migrate_failed = grown(a, vs, CTR_PGMIGRATE_FAIL);
	r->reclaimed = grown(a, vs, CTR_PGSTEAL_DIRECT) +
		       grown(a, vs, CTR_PGSTEAL_KSWAPD);
	r->migrate_scanned = grown(a, vs, CTR_COMPACT_MIGRATE_SCANNED);
	r->free_scanned = grown(a, vs, CTR_COMPACT_FREE_SCANNED);
	/* of others: what stalled the backend itself is in its CPU time */
	r->allocstall = grown(a, vs, CTR_ALLOCSTALL);
	r->allocstall -= MIN(r->allocstall, a->own.allocstall);
	r->pgscan_direct = grown(a, vs, CTR_PGSCAN_DIRECT);
	r->swapped_out = grown(a, vs, CTR_PSWPOUT);
	r->refaults = grown(a, vs, CTR_WORKINGSET_REFAULT);
}

/*
 * A pass of the kernel's own cannot be stopped at a block, and some of its
 * moves bring many at once: what came beyond the target is said.
 */
static void say_overshoot(const struct action *a, struct msg_result *r)
{
	uint64_t gained =
		r->blocks_after - MIN(r->blocks_after, r->blocks_before);
	size_t len = strlen(r->text);

	if (a->limits.all || gained * 100 <= (uint64_t)r->asked * OVERSHOOT_PCT)
		return;
	(void)snprintf(r->text + len, sizeof(r->text) - len, "%s%s",
		       len ? "; " : "", "overshot");
}

/* How it ended: told to stop, failed, or by itself. */
static void result_outcome(const struct action *a, int error,
			   struct msg_result *r)
{
	bool reached =
		!a->limits.all && r->blocks_after >= a->limits.target_blocks;

	if (error < 0 && !a->verdict.stop) {
		r->status = RESULT_FAILED;
		r->why = WHY_ERROR;
		(void)snprintf(r->text, sizeof(r->text), "%s: %s",
			       backend_name(r->backend), strerror(-error));
	} else if (!a->verdict.stop || a->verdict.why == WHY_TARGET ||
		   (reached && a->verdict.why == WHY_EXHAUSTED)) {
		r->status = RESULT_DONE;
		r->why =
			reached || a->verdict.stop ? WHY_TARGET : WHY_EXHAUSTED;
	} else {
		r->status = a->verdict.why == WHY_EXHAUSTED ? RESULT_DONE
							    : RESULT_STOPPED;
		r->why = (uint8_t)a->verdict.why;
		text_copy_printable(r->text, sizeof(r->text), a->verdict.text);
	}
	if (!r->text[0])
		text_copy_printable(r->text, sizeof(r->text), a->choice);
	say_overshoot(a, r);
}

static void end(struct action *a, const struct action_env *env, int error,
		uint64_t now_us, struct msg_result *r)
{
	uint64_t blocks = a->progress.blocks, free_pages = 0;
	struct vmstat vs = a->start_vmstat;

	/* counted before the lists may fill again */
	(void)look_at_node(env->sampler, a->job.node, a->job.order, &blocks,
			   &free_pages);
	(void)sampler_vmstat(env->sampler, &vs);
	if (a->ops->own)
		a->ops->own(&a->job, &a->own);
	if (a->ops->check && !a->verdict.stop)
		a->verdict = a->ops->check(&a->job, &a->progress);
	*r = a->result;
	r->cpu_us = a->ops->cpu_us(&a->job);
	r->elapsed_us = now_us - a->start_us;
	/* what is held on is as good as free; reports tell it apart */
	blocks += a->own.held_blocks;
	r->blocks_after = to_u32(blocks);
	r->free_pages_after = free_pages;
	result_counters(a, &vs, r);
	result_outcome(a, error, r);
	a->ops->finish(&a->job, now_us);
	r->kpageflags_words = a->job.kpageflags_words;
	a->kpageflags_words += a->job.kpageflags_words;
	budget_spend(env->budget, r->cpu_us);
	if (env->gains)
		gains_learn(env->gains, r, env->caps->pmd_order,
			    env->caps->page_size, now_us);
	a->running = false;
	a->end_us = now_us;
	log_info("Action %llu: %s, %s: %u to %u blocks, %llu pages moved, "
		 "%llu ms CPU in %llu ms",
		 (unsigned long long)r->id, result_status_name(r->status),
		 stop_why_name(r->why), r->blocks_before, r->blocks_after,
		 (unsigned long long)r->migrated,
		 (unsigned long long)(r->cpu_us / MSEC_US),
		 (unsigned long long)(r->elapsed_us / MSEC_US));
}

void action_stop(struct action *a, enum stop_why why, const char *text)
{
	if (!a->running || a->verdict.stop)
		return;
	a->verdict = (struct verdict){true, why, text};
	a->ops->cancel(&a->job);
}

bool action_step(struct action *a, const struct action_env *env,
		 uint64_t now_us, struct msg_result *ret_result)
{
	struct verdict v;
	int r;

	if (!a->running)
		return false;
	look(a, env->sampler, now_us);
	v = limits_check(&a->limits, &a->progress);
	if (!v.stop && a->ops->check)
		v = a->ops->check(&a->job, &a->progress);
	if (v.stop)
		action_stop(a, v.why, v.text);
	a->job.look_soon = false;
	r = a->ops->step(&a->job);
	if (r) {
		end(a, env, r, now_us, ret_result);
		return true;
	}
	a->next_look_us =
		now_us + limits_pause_us(&a->limits, &a->progress,
					 a->progress.blocks -
						 MIN(a->progress.blocks,
						     a->result.blocks_before));
	if (a->job.look_soon)
		a->next_look_us = now_us;
	return false;
}

uint64_t action_deadline_us(const struct action *a)
{
	return a->running ? a->next_look_us : UINT64_MAX;
}
