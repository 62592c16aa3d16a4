// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The policy under random snapshots, sane and hostile ones mixed: whatever a
 * guest says, what comes out keeps its bounds, and the same input gives the
 * same plan. Seeded, so a failure can be repeated. Run with sanitizers it is
 * also the test that nothing overflows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "policy.h"
#include "util.h"

#define ROUNDS 200000
/* as long as a guest's state is kept before another guest comes */
#define ROUNDS_A_GUEST 50

static uint64_t seed = 20;

static uint64_t rnd(void)
{
	uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static bool chance(unsigned int percent)
{
	return rnd() % 100 < percent;
}

/* Mostly up to @max, now and then at the ends of what fits. */
static uint64_t value(uint64_t max)
{
	static const uint64_t hostile[] = {
		0,	   1,	       UINT64_MAX,	  UINT64_MAX - 1,
		INT64_MAX, UINT32_MAX, UINT64_C(1) << 63, UINT64_C(1) << 40,
	};

	if (chance(5))
		return hostile[rnd() % ARRAY_SIZE(hostile)];
	return rnd() % (max + 1);
}

static void bytes(void *p, size_t len)
{
	uint8_t *b = p;

	for (size_t i = 0; i < len; i++)
		b[i] = rnd();
}

static void cfg_make(struct policy_cfg *cfg)
{
	policy_cfg_defaults(cfg);
	cfg->mode = rnd() % (VM_MODE_COUNT + 1);
	if (chance(30))
		cfg->backend = rnd() % (BACKEND_COUNT + 1);
	if (chance(20)) {
		cfg->reserve_min_pct = value(100);
		cfg->reserve_max_pct = value(100);
		cfg->psi_abort_pct = value(100);
		cfg->action_max_us = value(UINT64_C(1) << 32);
		cfg->action_max_cpu_us = value(UINT64_C(1) << 32);
		cfg->action_max_pages = value(UINT64_C(1) << 32);
		cfg->cooldown_us = value(UINT64_C(1) << 30);
		cfg->backoff_max_us = value(UINT64_C(1) << 32);
		cfg->lease_us = value(UINT64_C(1) << 32);
	}
}

static void hello_make(struct msg_hello *h)
{
	if (chance(5)) {
		bytes(h, sizeof(*h));
		return;
	}
	memset(h, 0, sizeof(*h));
	h->page_size = 4096;
	h->nr_orders = 11;
	h->pmd_order = h->pageblock_order = 9;
	h->knobs = chance(80) ? UINT32_MAX : rnd();
	h->backends = chance(80) ? 1u << BACKEND_COMPACT : rnd();
	h->features = chance(80) ? 0 : rnd();
	h->boot_id[0] = chance(99);
}

static void zone_make(struct zone_report *z, uint64_t pages)
{
	memset(z, 0, sizeof(*z));
	z->node = chance(90) ? rnd() % 4 : rnd();
	z->kind = chance(90) ? ZONE_KIND_NORMAL : rnd();
	z->present_pages = z->managed_pages = value(pages);
	z->free_pages = value(pages / 2);
	z->min_pages = value(pages / 100);
	z->low_pages = value(pages / 50);
	z->high_pages = value(pages / 30);
	for (unsigned int o = 0; o < PROTO_ORDERS_MAX; o++)
		z->free_blocks[o] = value(1000 >> o);
}

static void report_make(struct msg_report *r, uint64_t guest_us)
{
	const uint64_t pages = UINT64_C(1) << (16 + rnd() % 10);

	if (chance(5)) {
		bytes(r, sizeof(*r));
		return;
	}
	memset(r, 0, sizeof(*r));
	r->guest_us = chance(95) ? guest_us : value(UINT64_MAX - 1);
	r->action_id = chance(90) ? 0 : rnd();
	r->psi_valid = chance(80);
	r->psi.some_avg10_centi = chance(90) ? rnd() % 500 : rnd();
	r->ctr_valid = chance(90) ? UINT64_MAX : rnd();
	r->ctr[CTR_THP_FAULT_ALLOC] = guest_us / 1000 + value(1000);
	r->ctr[CTR_THP_FAULT_FALLBACK] = guest_us / 100000;
	r->ctr[CTR_ALLOCSTALL] = value(100);
	r->knob_valid = chance(90) ? UINT32_MAX : rnd();
	r->knob_managed = chance(90) ? 0 : rnd();
	r->knob_foreign = chance(98) ? 0 : rnd();
	for (unsigned int k = 0; k < KNOB_COUNT; k++)
		r->knob[k] = chance(95) ? 10 : (int64_t)rnd();
	r->thp_enabled = chance(90) ? MTHP_ALWAYS : rnd();
	r->nr_mthp = chance(90) ? 0 : rnd();
	r->nr_nodes = chance(90) ? 1 + rnd() % 4 : rnd();
	r->nr_zones = chance(90) ? 1 + rnd() % 8 : rnd();
	for (unsigned int i = 0; i < PROTO_NODES_MAX; i++) {
		struct node_report *n = &r->node[i];

		n->node = chance(90) ? i : rnd();
		n->total_pages = value(pages);
		n->free_pages = value(pages);
		n->anon_pages = value(pages);
		n->file_pages = value(pages);
		if (chance(10))
			bytes(&n->curve, sizeof(n->curve));
	}
	for (unsigned int i = 0; i < PROTO_ZONES_MAX; i++)
		zone_make(&r->zone[i], pages);
}

static uint64_t node_pages(const struct msg_report *r, uint8_t node)
{
	for (unsigned int i = 0; i < MIN(r->nr_nodes, PROTO_NODES_MAX); i++) {
		if (r->node[i].node == node)
			return r->node[i].total_pages;
	}
	fail_msg("an action for a node that was not reported");
	return 0;
}

static void directive_check(const struct msg_directive *d,
			    const struct policy_snapshot *s)
{
	const uint32_t wsf = 1u << KNOB_WATERMARK_SCALE_FACTOR;
	const uint32_t proactive = 1u << KNOB_COMPACTION_PROACTIVENESS;

	assert_int_equal(d->knob_mask & ~(wsf | proactive), 0);
	if (s->report && s->hello && !d->quiet &&
	    s->report_age_us <= 10 * SEC_US)
		assert_int_equal(d->knob_mask & ~s->hello->knobs, 0);
	if (d->knob_mask & wsf)
		assert_in_range(d->knob[KNOB_WATERMARK_SCALE_FACTOR], 1, 500);
	if (d->knob_mask & proactive)
		assert_int_equal(d->knob[KNOB_COMPACTION_PROACTIVENESS], 0);
	assert_true(d->psi_abort_centi <= 10000);
	assert_true(d->quiet <= 1);
	assert_true(text_is_printable(d->reason, PROTO_TEXT_MAX));
}

static void plan_check(const struct policy_snapshot *s,
		       const struct policy_plan *p)
{
	unsigned int actions = 0;

	directive_check(&p->directive, s);
	assert_in_range(p->nr_decisions, 1, PROTO_NODES_MAX + 1);
	assert_true(p->nr_actions <= 1);
	if (p->nr_actions) {
		const struct msg_action *a = &p->action[0];

		assert_non_null(s->report);
		assert_false(p->directive.quiet);
		assert_false(s->user_paused || s->vm_stopped ||
			     s->vm_migrating || s->action_running);
		assert_true(a->blocks >= 1);
		assert_true(a->blocks <= node_pages(s->report, a->node) >>
			    a->order);
		assert_true(a->backend < BACKEND_COUNT);
		assert_true(a->max_pages >= 1);
	}
	for (unsigned int i = 0; i < p->nr_decisions; i++) {
		const struct decision *d = &p->decision[i];

		assert_true(d->kind < DECISION_COUNT);
		assert_true(d->reason < REASON_COUNT);
		assert_true(d->nr_evidence <= DECISION_EVIDENCE_MAX);
		assert_true(d->nr_rejected <= DECISION_REJECTED_MAX);
		for (unsigned int e = 0; e < d->nr_evidence; e++)
			assert_true(d->evidence[e].value >= 0);
		actions += d->kind == DECISION_ACTION;
	}
	assert_int_equal(actions, p->nr_actions);
}

static void result_make(struct msg_result *r)
{
	bytes(r, sizeof(*r));
	r->node = rnd() % 4;
	r->order = chance(90) ? 9 : rnd();
	if (chance(80)) {
		r->why = rnd() % WHY_COUNT;
		r->asked = 40;
		r->blocks_before = 0;
		r->blocks_after = rnd() % 50;
		r->migrated = value(20000);
		r->reclaimed = value(20000);
	}
}

static void snapshot_make(struct policy_snapshot *s, const struct msg_hello *h,
			  const struct msg_report *r)
{
	*s = (struct policy_snapshot){
		.hello = chance(99) ? h : NULL,
		.report = chance(98) ? r : NULL,
		.report_age_us = chance(95) ? 0 : value(20 * SEC_US),
		.user_paused = chance(3),
		.vm_stopped = chance(3),
		.vm_migrating = chance(3),
		.action_running = chance(10),
	};
}

static void request_check(const struct policy_cfg *cfg,
			  const struct policy_snapshot *s, uint64_t now_us)
{
	uint32_t blocks = chance(50) ? ACTION_BLOCKS_ALL : rnd();
	uint8_t node = rnd() % 4;
	struct msg_action a;
	struct decision d;

	if (!policy_request(cfg, s, node, chance(50) ? 0 : rnd(), blocks,
			    now_us, &a, &d)) {
		assert_int_equal(d.kind, DECISION_HOLD);
		return;
	}
	assert_false(s->user_paused || s->vm_stopped || s->vm_migrating);
	assert_true(a.blocks == ACTION_BLOCKS_ALL ||
		    a.blocks <= node_pages(s->report, node) >> a.order);
	assert_true(a.order && a.order < PROTO_ORDERS_MAX);
}

static void test_random(void **state)
{
	static struct policy_state st, twin;
	static struct policy_plan plan, again;
	static struct msg_report report;
	struct msg_hello hello;
	struct msg_result result;
	struct policy_snapshot s;
	struct policy_cfg cfg;
	uint64_t now_us = 0, acted = 0, held = 0;

	(void)state;
	memset(&hello, 0, sizeof(hello));
	for (int i = 0; i < ROUNDS; i++) {
		if (i % ROUNDS_A_GUEST == 0) {
			memset(&st, 0, sizeof(st));
			cfg_make(&cfg);
			hello_make(&hello);
		}
		now_us = chance(99) ? now_us + rnd() % (30 * SEC_US)
				    : value(UINT64_C(1) << 40);
		report_make(&report, now_us % (UINT64_C(1) << 50));
		snapshot_make(&s, &hello, &report);
		twin = st;
		policy_decide(&cfg, &st, &s, now_us, &plan);
		plan_check(&s, &plan);
		acted += plan.nr_actions;
		held += plan.directive.knob_mask != 0;
		/* the same again, from the same state: the same, bit by bit */
		memset(&again, 0xa5, sizeof(again));
		policy_decide(&cfg, &twin, &s, now_us, &again);
		assert_memory_equal(&plan, &again, sizeof(plan));
		assert_memory_equal(&st, &twin, sizeof(st));
		request_check(&cfg, &s, now_us);
		if (chance(20)) {
			result_make(&result);
			policy_result(&cfg, &st, &result, now_us);
		}
	}
	/* the inputs do reach what they shall test */
	assert_true(acted > ROUNDS / 100);
	assert_true(held > ROUNDS / 20);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_random),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
