// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the policy does to a guest and why: a case for each reason, actions,
 * back-off, noise, requests.
 */
#include "policy_guest.h"

/* --- one case a reason --- */

static void mode_off(struct guest *gu)
{
	gu->cfg.mode = VM_MODE_OFF;
}
static void mode_bad(struct guest *gu)
{
	gu->cfg.mode = 77;
}
static void mode_observe(struct guest *gu)
{
	gu->cfg.mode = VM_MODE_OBSERVE;
}
static void no_report(struct guest *gu)
{
	gu->snap.report = NULL;
}
static void no_hello(struct guest *gu)
{
	gu->snap.hello = NULL;
}
static void old_report(struct guest *gu)
{
	gu->snap.report_age_us = 10 * SEC_US + 1;
}
static void stopped(struct guest *gu)
{
	gu->snap.vm_stopped = true;
}
static void only_auto_bit(struct guest *gu)
{
	gu->hello.backends = 1u << BACKEND_AUTO | 1u << 31;
}
static void other_backend(struct guest *gu)
{
	gu->cfg.backend = BACKEND_KMOD;
}
static void bad_backend(struct guest *gu)
{
	gu->cfg.backend = 200;
}
static void real_time(struct guest *gu)
{
	gu->hello.features = 1u << FEATURE_ISOLCPUS;
}
static void psi_below(struct guest *gu)
{
	gu->report.psi.some_avg10_centi =
		(uint16_t)(gu->cfg.psi_abort_pct * 100 - 1);
}
static void free_63_mib(struct guest *gu)
{
	node_set(gu, 0, GIB_PAGES, 64 * MIB_PAGES - 1, 0);
}
static void free_64_mib(struct guest *gu)
{
	node_set(gu, 0, GIB_PAGES, 64 * MIB_PAGES, 0);
}
static void reserve_there(struct guest *gu)
{
	node_set(gu, 0, 4 * GIB_PAGES, GIB_PAGES, 30); /* the low mark */
}
static void reserve_short(struct guest *gu)
{
	node_set(gu, 0, 4 * GIB_PAGES, GIB_PAGES, 9); /* under a quarter */
}
static void once_below(struct guest *gu)
{
	node_set(gu, 0, 4 * GIB_PAGES, GIB_PAGES, 29);
}
static void all_in_blocks(struct guest *gu)
{
	/* 9.6 % of what is free lies outside */
	gu->cfg.reserve_min_pct = 10;
	node_set(gu, 0, 4 * GIB_PAGES, 35 * 512 + 1900, 35);
}
static void near_watermark(struct guest *gu)
{
	gu->report.zone[0].high_pages = GIB_PAGES - 1000;
}
static void absurd_watermark(struct guest *gu)
{
	gu->report.zone[0].high_pages = UINT64_MAX;
}
static void action_running(struct guest *gu)
{
	gu->snap.action_running = true;
}
static void agent_says_running(struct guest *gu)
{
	gu->report.action_id = 7;
}
static void pmd_never(struct guest *gu)
{
	gu->report.nr_mthp = 1;
	gu->report.mthp[0].order = 9;
	gu->report.mthp[0].policy = MTHP_NEVER;
}
static void pmd_always_thp_never(struct guest *gu)
{
	pmd_never(gu);
	thp_never(gu);
	gu->report.mthp[0].policy = MTHP_ALWAYS;
}
static void no_zone(struct guest *gu)
{
	gu->report.nr_zones = 0;
}
static void alien_zone(struct guest *gu)
{
	gu->report.zone[0].node = 9;
}
static void no_orders(struct guest *gu)
{
	gu->hello.nr_orders = 0;
}
static void dma_has_blocks(struct guest *gu)
{
	struct zone_report *z = &gu->report.zone[1];

	*z = gu->report.zone[0];
	z->kind = ZONE_KIND_DMA;
	z->free_blocks[9] = 100;
	gu->report.nr_zones = 2;
}
static void node_twice(struct guest *gu)
{
	gu->report.node[1] = gu->report.node[0];
	gu->report.nr_nodes = 2;
}
static void zone_twice(struct guest *gu)
{
	reserve_short(gu);
	for (unsigned int i = 1; i < PROTO_ZONES_MAX; i++)
		gu->report.zone[i] = gu->report.zone[0];
	gu->report.nr_zones = 255;
}
static void psi_missing(struct guest *gu)
{
	gu->report.psi_valid = 0;
}

static const struct reason_case {
	const char *name;
	void (*change)(struct guest *gu);
	enum decision_reason want;
	unsigned int want_actions;
	bool want_quiet;
} reason_cases[] = {
	{"off", mode_off, REASON_OFF, 0, true},
	{"unknown mode", mode_bad, REASON_OFF, 0, true},
	{"no report", no_report, REASON_NO_REPORT, 0, false},
	{"no hello", no_hello, REASON_NO_REPORT, 0, false},
	{"old report", old_report, REASON_NO_REPORT, 0, false},
	{"paused", paused, REASON_USER_PAUSED, 0, true},
	{"stopped", stopped, REASON_VM_STOPPED, 0, true},
	{"migrating", migrating, REASON_MIGRATING, 0, true},
	{"no backend", no_backend, REASON_NO_BACKEND, 0, false},
	{"no known backend", only_auto_bit, REASON_NO_BACKEND, 0, false},
	{"not that backend", other_backend, REASON_NO_BACKEND, 0, false},
	{"no such backend", bad_backend, REASON_NO_BACKEND, 0, false},
	{"real-time guest", real_time, REASON_NO_BACKEND, 0, false},
	{"psi at the limit", psi_high, REASON_PRESSURE, 0, false},
	{"psi below the limit", psi_below, REASON_HEADROOM, 1, false},
	{"no psi, no stalls", psi_missing, REASON_HEADROOM, 1, false},
	{"63 MiB free", free_63_mib, REASON_LOW_MEMORY, 0, false},
	{"64 MiB free", free_64_mib, REASON_HEADROOM, 1, false},
	{"enough", reserve_there, REASON_ENOUGH, 0, false},
	{"below once", once_below, REASON_ENOUGH, 0, false},
	{"nearly out", reserve_short, REASON_HEADROOM, 1, false},
	{"all in blocks", all_in_blocks, REASON_SHORTAGE, 0, false},
	{"near the watermark", near_watermark, REASON_SHORTAGE, 0, false},
	{"absurd watermark", absurd_watermark, REASON_SHORTAGE, 0, false},
	{"busy", action_running, REASON_BUSY, 0, false},
	{"busy by report", agent_says_running, REASON_BUSY, 0, false},
	{"scattered", mode_observe, REASON_HEADROOM, 1, false},
	{"density, no demand", mode_density, REASON_ENOUGH, 0, false},
	{"thp never", thp_never, REASON_ENOUGH, 0, false},
	{"pmd order never", pmd_never, REASON_ENOUGH, 0, false},
	{"pmd only", pmd_always_thp_never, REASON_HEADROOM, 1, false},
	{"no zone", no_zone, REASON_NO_REPORT, 0, false},
	{"zone of no node", alien_zone, REASON_NO_REPORT, 0, false},
	{"no orders", no_orders, REASON_ENOUGH, 0, false},
	{"blocks of DMA", dma_has_blocks, REASON_HEADROOM, 1, false},
	{"node twice", node_twice, REASON_HEADROOM, 1, false},
	{"zone 64 times", zone_twice, REASON_HEADROOM, 1, false},
};

static void test_reasons(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(reason_cases); i++) {
		const struct reason_case *c = &reason_cases[i];

		guest_make(&g);
		c->change(&g);
		decide(&g);
		if (g.plan.decision[0].reason != c->want)
			fail_msg(
				"%s: %s, not %s", c->name,
				decision_reason_name(g.plan.decision[0].reason),
				decision_reason_name(c->want));
		if (g.plan.nr_actions != c->want_actions ||
		    g.plan.directive.quiet != c->want_quiet)
			fail_msg("%s: %u actions, quiet %u", c->name,
				 g.plan.nr_actions, g.plan.directive.quiet);
		assert_true(g.plan.changed[0]);
	}
}

static void test_action(void **state)
{
	const struct msg_action *a = &g.plan.action[0];
	int64_t val;

	(void)state;
	guest_make(&g);
	decide(&g);
	assert_int_equal(g.plan.nr_actions, 1);
	assert_int_equal(a->node, 0);
	assert_int_equal(a->order, 9);
	assert_int_equal(a->backend, BACKEND_AUTO);
	assert_int_equal(a->urgency, URGENCY_NORMAL); /* no block at all */
	/* 2 % of 4 GiB is 40 blocks of 2 MiB */
	assert_int_equal(a->blocks, 40);
	assert_int_equal(a->max_pages, 2 * 281 * 40);
	assert_int_equal(a->max_time_us, g.cfg.action_max_us);
	assert_string_equal(a->reason, "headroom");
	assert_true(evidence_get(&g.plan.decision[0], "reserve_blocks", &val));
	assert_int_equal(val, 40);
	assert_int_equal(g.plan.decision[0].kind, DECISION_ACTION);
	assert_int_equal(g.plan.directive.lease_ms, 30000);
	assert_int_equal(g.plan.directive.cpu_budget_ppm, 50000);
	assert_int_equal(g.plan.directive.psi_abort_centi, 1000);
}

static void test_partial_ask(void **state)
{
	(void)state;
	guest_make(&g);
	/* free above the watermarks for 20 blocks at 281 moves, twice */
	node_set(&g, 0, 4 * GIB_PAGES, 40000, 0);
	g.report.zone[0].high_pages = 40000 - 2 * 281 * 20;
	decide(&g);
	assert_int_equal(g.plan.action[0].blocks, 20);
	assert_int_equal(g.plan.decision[0].nr_rejected, 1);

	/* a quarter of the reserve is the least worth asking for */
	guest_make(&g);
	node_set(&g, 0, 4 * GIB_PAGES, 40000, 0);
	g.report.zone[0].high_pages = 40000 - 2 * 281 * 9;
	decide(&g);
	assert_int_equal(g.plan.decision[0].reason, REASON_SHORTAGE);

	/* the page budget cuts, but is no shortage */
	guest_make(&g);
	g.cfg.action_max_pages = 281 * 5;
	decide(&g);
	assert_int_equal(g.plan.action[0].blocks, 5);
}

/* Being filled up, and all but done: what is left outside is not to be had. */
static void test_nothing_left_outside(void **state)
{
	(void)state;
	guest_make(&g);
	g.cfg.reserve_min_pct = 10; /* 204 blocks */
	decide(&g);
	answer(&g, 190, WHY_TARGET);
	node_set(&g, 0, 4 * GIB_PAGES, 190 * 512 + 10000, 190);
	tick(&g, 10 * SEC_US); /* 93 permille outside */
	assert_int_equal(g.plan.decision[0].reason, REASON_SHORTAGE);
	node_set(&g, 0, 4 * GIB_PAGES, 190 * 512 + 11000, 190);
	tick(&g, SEC_US); /* 101 */
	assert_int_equal(g.plan.decision[0].reason, REASON_HEADROOM);
	assert_int_equal(g.plan.action[0].blocks, 14);
}

/* DMA32 and Normal of one node are summed, DMA counts only when alone. */
static void test_zones_are_summed(void **state)
{
	struct zone_report *z = g.report.zone;
	int64_t val;

	(void)state;
	guest_make(&g);
	g.report.nr_zones = 3;
	node_set(&g, 0, 4 * GIB_PAGES, GIB_PAGES / 2, 5);
	z[2] = z[1] = z[0];
	z[0].kind = ZONE_KIND_DMA;
	z[1].kind = ZONE_KIND_DMA32;
	z[0].managed_pages = z[1].managed_pages = z[2].managed_pages =
		GIB_PAGES;
	decide(&g);
	assert_true(evidence_get(&g.plan.decision[0], "free_blocks", &val));
	assert_int_equal(val, 10);
	assert_true(evidence_get(&g.plan.decision[0], "free_pages", &val));
	assert_int_equal(val, GIB_PAGES);
	g.report.nr_zones = 1;
	tick(&g, SEC_US);
	assert_true(evidence_get(&g.plan.decision[0], "free_blocks", &val));
	assert_int_equal(val, 5);
}

static void test_modes(void **state)
{
	static const struct {
		enum vm_mode mode;
		int64_t reserve, low;
	} cases[] = {
		{VM_MODE_OBSERVE, 40, 30},
		{VM_MODE_BALANCED, 40, 30},
		{VM_MODE_PERFORMANCE, 81, 71},
		{VM_MODE_DENSITY, 0, 0},
	};
	int64_t val;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		guest_make(&g);
		g.cfg.mode = cases[i].mode;
		decide(&g);
		assert_true(evidence_get(&g.plan.decision[0], "reserve_blocks",
					 &val));
		assert_int_equal(val, cases[i].reserve);
		assert_true(evidence_get(&g.plan.decision[0], "low_mark_blocks",
					 &val));
		assert_int_equal(val, cases[i].low);
	}
}

static void test_hysteresis(void **state)
{
	(void)state;
	guest_make(&g);
	/* below the low mark of 30: once is noise, twice a trend */
	node_set(&g, 0, 4 * GIB_PAGES, GIB_PAGES, 29);
	decide(&g);
	assert_int_equal(g.plan.nr_actions, 0);
	decide(&g); /* the same report again is no second one */
	assert_int_equal(g.plan.nr_actions, 0);
	tick(&g, SEC_US);
	assert_int_equal(g.plan.nr_actions, 1);
	assert_int_equal(g.plan.action[0].blocks, 11);
	assert_int_equal(g.plan.action[0].urgency, URGENCY_BACKGROUND);
	answer(&g, 8, WHY_TIME);
	/* above the low mark, but the reserve is not full */
	node_set(&g, 0, 4 * GIB_PAGES, GIB_PAGES, 37);
	tick(&g, SEC_US);
	assert_int_equal(g.plan.decision[0].reason, REASON_COOLDOWN);
	tick(&g, 10 * SEC_US);
	assert_int_equal(g.plan.action[0].blocks, 3);
	answer(&g, 3, WHY_TARGET);
	node_set(&g, 0, 4 * GIB_PAGES, GIB_PAGES, 40);
	tick(&g, 20 * SEC_US);
	assert_int_equal(g.plan.decision[0].reason, REASON_ENOUGH);
	/* full, then anywhere above the low mark: left alone */
	node_set(&g, 0, 4 * GIB_PAGES, GIB_PAGES, 31);
	for (int i = 0; i < 10; i++) {
		tick(&g, 20 * SEC_US);
		assert_int_equal(g.plan.nr_actions, 0);
	}
}

static void test_backoff(void **state)
{
	static const uint64_t want_s[] = {20, 40, 80, 160, 320, 640, 900, 900};

	(void)state;
	guest_make(&g);
	decide(&g);
	for (size_t i = 0; i < ARRAY_SIZE(want_s); i++) {
		assert_int_equal(g.plan.nr_actions, 1);
		answer(&g, 9, WHY_EXHAUSTED); /* of 40: too little */
		tick(&g, want_s[i] * SEC_US - 1);
		assert_int_equal(g.plan.decision[0].reason, REASON_BACKOFF);
		tick(&g, 1);
	}
	assert_int_equal(g.plan.nr_actions, 1);
	answer(&g, 10, WHY_EXHAUSTED); /* a quarter will do */
	tick(&g, 10 * SEC_US);
	assert_int_equal(g.plan.nr_actions, 1);
	/* harm is no success, whatever it gained */
	answer(&g, 40, WHY_RECLAIM);
	tick(&g, 11 * SEC_US);
	assert_int_equal(g.plan.decision[0].reason, REASON_BACKOFF);
	tick(&g, 9 * SEC_US);
	/* cut short by somebody: says nothing about the memory */
	answer(&g, 0, WHY_CANCELLED);
	tick(&g, 10 * SEC_US);
	assert_int_equal(g.plan.nr_actions, 1);
}

/* Nobody answers, as when only observed: asked ever more seldom. */
static void test_no_answer(void **state)
{
	unsigned int actions = 0;

	(void)state;
	guest_make(&g);
	decide(&g);
	for (int i = 0; i < 3600; i++) {
		actions += g.plan.nr_actions;
		tick(&g, SEC_US);
	}
	assert_in_range(actions, 5, 12);
}

static void test_result_of_others(void **state)
{
	struct msg_result r = {.node = 200, .order = 9, .asked = 1};

	(void)state;
	guest_make(&g);
	decide(&g);
	policy_result(&g.cfg, &g.st, &r, g.now_us); /* no such node */
	r.node = 0;
	r.order = 3; /* not the order that is steered */
	policy_result(&g.cfg, &g.st, &r, g.now_us);
	assert_int_equal(g.st.node[PROTO_NODES_MAX - 1].backoff_us, 0);
	assert_true(g.st.node[PROTO_NODES_MAX - 1].pending);
	/* everything at its most absurd */
	memset(&r, 0xff, sizeof(r));
	r.node = 0;
	r.order = 9;
	policy_result(&g.cfg, &g.st, &r, UINT64_MAX);
	decide(&g);
}

static void test_moves_are_learned(void **state)
{
	int64_t val;

	(void)state;
	guest_make(&g);
	decide(&g);
	assert_true(evidence_get(&g.plan.decision[0], "moves_per_block_pages",
				 &val));
	assert_int_equal(val, 281);
	for (int i = 0; i < 20; i++)
		answer(&g, 40, WHY_TARGET); /* at 300 moves each */
	tick(&g, 10 * SEC_US);
	assert_true(evidence_get(&g.plan.decision[0], "moves_per_block_pages",
				 &val));
	assert_in_range(val, 290, 300);
	/* a planner knows better */
	g.report.node[0].curve.nr_points = 2;
	g.report.node[0].curve.point[0].blocks = 10;
	g.report.node[0].curve.point[0].moves = 410;
	g.report.node[0].curve.point[1].blocks = 0;
	g.report.node[0].curve.point[1].moves = UINT64_MAX;
	tick(&g, 10 * SEC_US);
	assert_true(evidence_get(&g.plan.decision[0], "moves_per_block_pages",
				 &val));
	assert_int_equal(val, 42);
}

static void test_neediest_node_first(void **state)
{
	(void)state;
	guest_make(&g);
	g.report.nr_nodes = g.report.nr_zones = 3;
	node_set(&g, 0, 4 * GIB_PAGES, GIB_PAGES, 9);
	node_set(&g, 1, 4 * GIB_PAGES, GIB_PAGES, 2);
	node_set(&g, 2, 4 * GIB_PAGES, GIB_PAGES, 50);
	decide(&g);
	assert_int_equal(g.plan.nr_decisions, 4);
	assert_int_equal(g.plan.nr_actions, 1);
	assert_int_equal(g.plan.action[0].node, 1);
	assert_int_equal(g.plan.decision[0].reason, REASON_BUSY);
	assert_int_equal(g.plan.decision[2].reason, REASON_ENOUGH);
	/* its turn comes while the first cools down */
	answer(&g, 38, WHY_TARGET);
	tick(&g, SEC_US);
	assert_int_equal(g.plan.nr_actions, 1);
	assert_int_equal(g.plan.action[0].node, 0);
}

/* --- noise --- */

static uint64_t seed;

static uint64_t rnd(void)
{
	/* splitmix64: any seed will do, and the sequence never changes */
	uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/*
 * A static guest whose tasks come and go by ±40 MB. Allocations take the
 * smallest chunks first, as the buddy allocator does.
 */
static unsigned int noise_run(uint64_t scattered, uint64_t blocks)
{
	const uint64_t span = 10240; /* 40 MB in pages */
	unsigned int actions = 0;

	guest_make(&g);
	seed = 1;
	for (int i = 0; i < 2000; i++) {
		uint64_t s = scattered + rnd() % (2 * span) - span, b = blocks;

		node_set(&g, 0, 4 * GIB_PAGES, s + (b << 9), b);
		tick(&g, SEC_US);
		actions += g.plan.nr_actions;
	}
	return actions;
}

static void test_noise(void **state)
{
	(void)state;
	/* reserve of 40 just met, in a fragmented guest and in a tidy one */
	assert_int_equal(noise_run(GIB_PAGES, 40), 0);
	assert_int_equal(noise_run(20000, 40), 0);
	assert_int_equal(noise_run(20000, 400), 0);
}

/* Single blocks come and go as well, down below the low mark now and then. */
static void test_noise_in_blocks(void **state)
{
	unsigned int actions = 0;

	(void)state;
	guest_make(&g);
	seed = 2;
	for (int i = 0; i < 2000; i++) {
		uint64_t b = i % 7 ? 31 + rnd() % 10 : 25;

		node_set(&g, 0, 4 * GIB_PAGES, GIB_PAGES, b);
		tick(&g, SEC_US);
		actions += g.plan.nr_actions;
	}
	assert_int_equal(actions, 0);
}

/* The reserve can't be had: a day of trying is bounded by the back-off. */
static void test_unreachable_reserve(void **state)
{
	unsigned int actions = 0;

	(void)state;
	guest_make(&g);
	for (int i = 0; i < 86400; i++) {
		tick(&g, SEC_US);
		if (!g.plan.nr_actions)
			continue;
		actions++;
		answer(&g, 1, WHY_EXHAUSTED);
	}
	assert_in_range(actions, 50, 110); /* each 900 s, once there */
}

/* --- requests --- */

static bool request(struct guest *gu, uint8_t node, uint8_t order,
		    uint32_t blocks, struct msg_action *a, struct decision *d)
{
	return policy_request(&gu->cfg, &gu->snap, node, order, blocks,
			      gu->now_us, a, d);
}

static const struct {
	const char *name;
	void (*change)(struct guest *gu);
	bool want;
	enum decision_reason reason;
} request_cases[] = {
	{"scattered", mode_observe, true, REASON_REQUEST},
	{"enough already", reserve_there, true, REASON_REQUEST},
	{"under pressure", psi_high, true, REASON_REQUEST},
	{"thp never", thp_never, true, REASON_REQUEST},
	{"off", mode_off, false, REASON_OFF},
	{"paused", paused, false, REASON_USER_PAUSED},
	{"stopped", stopped, false, REASON_VM_STOPPED},
	{"migrating", migrating, false, REASON_MIGRATING},
	{"no report", no_report, false, REASON_NO_REPORT},
	{"old report", old_report, false, REASON_NO_REPORT},
	{"no backend", no_backend, false, REASON_NO_BACKEND},
	{"real-time", real_time, false, REASON_NO_BACKEND},
	{"63 MiB free", free_63_mib, false, REASON_LOW_MEMORY},
	{"at the watermark", near_watermark, false, REASON_LOW_MEMORY},
	{"absurd watermark", absurd_watermark, false, REASON_LOW_MEMORY},
	{"busy", action_running, false, REASON_BUSY},
	{"no zone", no_zone, false, REASON_NO_REPORT},
	{"no orders", no_orders, false, REASON_NO_BACKEND},
};

static void test_requests(void **state)
{
	struct msg_action a;
	struct decision d;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(request_cases); i++) {
		guest_make(&g);
		request_cases[i].change(&g);
		if (request(&g, 0, 0, ACTION_BLOCKS_ALL, &a, &d) !=
			    request_cases[i].want ||
		    d.reason != request_cases[i].reason)
			fail_msg("%s: %s", request_cases[i].name,
				 decision_reason_name(d.reason));
	}
}

static void test_request_budgets(void **state)
{
	struct msg_action a;
	struct decision d;

	(void)state;
	guest_make(&g);
	assert_true(request(&g, 0, 9, ACTION_BLOCKS_ALL, &a, &d));
	assert_int_equal(a.blocks, ACTION_BLOCKS_ALL);
	assert_int_equal(a.max_pages, 4 * GIB_PAGES);
	assert_int_equal(a.max_time_us, 40 * SEC_US);
	assert_int_equal(a.max_cpu_us, 20 * SEC_US);
	assert_string_equal(a.reason, "request");
	assert_true(request(&g, 0, 3, 100, &a, &d));
	assert_int_equal(a.order, 3);
	assert_int_equal(a.blocks, 100);
	assert_int_equal(a.max_pages, g.cfg.action_max_pages);
	/* no more than the node holds */
	assert_true(request(&g, 0, 9, UINT32_MAX - 1, &a, &d));
	assert_int_equal(a.blocks, 2048);
	assert_false(request(&g, 0, 9, 0, &a, &d));
	assert_int_equal(d.reason, REASON_ENOUGH);
	assert_false(request(&g, 1, 9, 1, &a, &d));
	assert_int_equal(d.reason, REASON_NO_REPORT);
	assert_false(request(&g, 0, 11, 1, &a, &d));
	assert_int_equal(d.reason, REASON_NO_BACKEND);
	assert_false(request(&g, 0, 255, 1, &a, &d));
	/* a full pass of a large node takes longer */
	node_set(&g, 0, 512 * GIB_PAGES, 100 * GIB_PAGES, 0);
	assert_true(request(&g, 0, 9, ACTION_BLOCKS_ALL, &a, &d));
	assert_int_equal(a.max_cpu_us, 512 * SEC_US);
	assert_int_equal(a.max_time_us, 1024 * SEC_US);
}

/* --- names --- */

static void test_names(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < REASON_COUNT; i++) {
		assert_non_null(decision_reason_name(i));
		assert_non_null(decision_reason_text(i));
		assert_true(strlen(decision_reason_name(i)) <= PROTO_TEXT_MAX);
	}
	for (unsigned int i = 0; i < VM_MODE_COUNT; i++)
		assert_non_null(vm_mode_name(i));
	assert_string_equal(vm_mode_name(VM_MODE_COUNT), "?");
	assert_string_equal(decision_kind_name(DECISION_COUNT), "?");
	assert_string_equal(decision_reason_name(REASON_COUNT), "?");
	assert_string_equal(decision_reason_text(REASON_COUNT), "?");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_reasons),
	cmocka_unit_test(test_action),
	cmocka_unit_test(test_partial_ask),
	cmocka_unit_test(test_nothing_left_outside),
	cmocka_unit_test(test_zones_are_summed),
	cmocka_unit_test(test_modes),
	cmocka_unit_test(test_hysteresis),
	cmocka_unit_test(test_backoff),
	cmocka_unit_test(test_no_answer),
	cmocka_unit_test(test_result_of_others),
	cmocka_unit_test(test_moves_are_learned),
	cmocka_unit_test(test_neediest_node_first),
	cmocka_unit_test(test_noise),
	cmocka_unit_test(test_noise_in_blocks),
	cmocka_unit_test(test_unreachable_reserve),
	cmocka_unit_test(test_requests),
	cmocka_unit_test(test_request_budgets),
	cmocka_unit_test(test_names),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
