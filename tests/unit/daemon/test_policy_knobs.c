// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How the policy measures demand, and which knobs follow from it.
 */
#include "policy_guest.h"

/* --- demand --- */

/* @per_s faults of huge pages a second over @s seconds. */
static void fault(struct guest *gu, uint64_t per_s, unsigned int s)
{
	for (unsigned int i = 0; i < s; i++) {
		gu->report.ctr[CTR_THP_FAULT_ALLOC] += per_s / 2;
		gu->report.ctr[CTR_THP_FAULT_FALLBACK] += per_s - per_s / 2;
		tick(gu, SEC_US);
	}
}

static int64_t node_evidence_of(const struct guest *gu, unsigned int i,
				const char *name)
{
	int64_t val;

	assert_true(evidence_get(&gu->plan.decision[i], name, &val));
	return val;
}

static void test_demand(void **state)
{
	(void)state;
	guest_make(&g);
	g.cfg.mode = VM_MODE_DENSITY;
	fault(&g, 4, 100);
	assert_in_range(node_evidence_of(&g, 0, "demand_milliblocks_per_s"),
			3900, 4000);
	/* 4 a second over a cooldown and an action, 20 s */
	assert_in_range(node_evidence_of(&g, 0, "reserve_blocks"), 78, 80);
	/* the upper bound: 10 % of 4 GiB */
	fault(&g, 1000, 60);
	assert_int_equal(node_evidence_of(&g, 0, "reserve_blocks"), 204);
	/* and it is let go of */
	fault(&g, 0, 3000);
	assert_int_equal(node_evidence_of(&g, 0, "reserve_blocks"), 0);
	assert_int_equal(node_evidence_of(&g, 0, "demand_milliblocks_per_s"),
			 0);
}

static const struct policy_node_state *only_node(void)
{
	for (size_t i = 0; i < PROTO_NODES_MAX; i++) {
		if (g.st.node[i].used)
			return &g.st.node[i];
	}
	return NULL;
}

/* What waits between two actions follows what faults take meanwhile. */
static void test_cooldown_follows_demand(void **state)
{
	static const struct {
		uint32_t per_s;
		uint64_t min_us, max_us;
	} cases[] = {
		{0, 10 * SEC_US, 10 * SEC_US},
		/* a reserve of 81 (2 %: 40): 5 s for a quarter */
		{4, 4900 * MSEC_US, 5200 * MSEC_US},
		/* of 204, the most: 5.1 s at 10 a second, 2.55 s at 20 */
		{10, 4900 * MSEC_US, 5300 * MSEC_US},
		{20, 2500 * MSEC_US, 2700 * MSEC_US},
		{1000, 1 * SEC_US, 1 * SEC_US},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		guest_make(&g);
		fault(&g, cases[i].per_s, 200);
		assert_in_range(only_node()->cooldown_us, cases[i].min_us,
				cases[i].max_us);
		/* never longer than configured */
		g.cfg.cooldown_us = 0;
		tick(&g, SEC_US);
		assert_int_equal(only_node()->cooldown_us, 0);
	}
}

static void test_demand_true_time(void **state)
{
	int64_t slow;

	(void)state;
	/* the same rate in late reports, or in repeated ones */
	guest_make(&g);
	decide(&g);
	for (int i = 0; i < 20; i++) {
		g.report.ctr[CTR_THP_FAULT_ALLOC] += 70;
		tick(&g, 7 * SEC_US);
		decide(&g);
		decide(&g);
	}
	slow = node_evidence_of(&g, 0, "demand_milliblocks_per_s");
	assert_in_range(slow, 9900, 10000);
	/* reports in quick succession wait for an interval that tells */
	for (int i = 0; i < 100; i++) {
		g.report.ctr[CTR_THP_FAULT_ALLOC] += 1;
		tick(&g, 100 * MSEC_US);
	}
	assert_in_range(node_evidence_of(&g, 0, "demand_milliblocks_per_s"),
			9900, 10001);
}

static void test_demand_over_reboots(void **state)
{
	(void)state;
	guest_make(&g);
	fault(&g, 4, 100);
	/* the clock alone runs backwards */
	g.report.guest_us = 50 * SEC_US;
	decide(&g);
	assert_in_range(node_evidence_of(&g, 0, "demand_milliblocks_per_s"),
			3900, 4000);
	/* counters and clock fall, same boot: a restored snapshot */
	g.report.guest_us = SEC_US;
	g.report.ctr[CTR_THP_FAULT_ALLOC] = 5;
	g.report.ctr[CTR_THP_FAULT_FALLBACK] = 5;
	decide(&g);
	assert_in_range(node_evidence_of(&g, 0, "demand_milliblocks_per_s"),
			3900, 4000);
	/* a reboot, with larger counters and a later clock than before */
	g.hello.boot_id[0] = 2;
	g.report.ctr[CTR_THP_FAULT_ALLOC] = 1000000;
	g.report.guest_us = 10000 * SEC_US;
	decide(&g);
	assert_int_equal(node_evidence_of(&g, 0, "demand_milliblocks_per_s"),
			 0);
	fault(&g, 4, 100);
	assert_in_range(node_evidence_of(&g, 0, "demand_milliblocks_per_s"),
			3900, 4000);
	/* counters that do not exist say nothing */
	g.report.ctr_valid = 0;
	g.report.ctr[CTR_THP_FAULT_ALLOC] += 1000000;
	tick(&g, SEC_US);
	assert_in_range(node_evidence_of(&g, 0, "demand_milliblocks_per_s"),
			3900, 4000);
}

static void test_demand_by_node(void **state)
{
	(void)state;
	guest_make(&g);
	g.report.nr_nodes = g.report.nr_zones = 2;
	node_set(&g, 1, 4 * GIB_PAGES, GIB_PAGES, 0);
	g.report.node[0].anon_pages = 3000;
	g.report.node[1].anon_pages = 1000;
	fault(&g, 4, 100);
	assert_in_range(node_evidence_of(&g, 0, "demand_milliblocks_per_s"),
			2900, 3000);
	assert_in_range(node_evidence_of(&g, 1, "demand_milliblocks_per_s"),
			950, 1000);
	/* no anonymous memory at all: by size */
	guest_make(&g);
	g.report.nr_nodes = g.report.nr_zones = 2;
	node_set(&g, 1, 4 * GIB_PAGES, GIB_PAGES, 0);
	g.report.node[0].anon_pages = g.report.node[1].anon_pages = 0;
	fault(&g, 4, 100);
	assert_in_range(node_evidence_of(&g, 1, "demand_milliblocks_per_s"),
			1900, 2000);
}

static void test_stalls_without_psi(void **state)
{
	(void)state;
	guest_make(&g);
	g.report.psi_valid = 0;
	decide(&g);
	g.report.ctr[CTR_ALLOCSTALL] += 9;
	tick(&g, SEC_US);
	assert_int_not_equal(g.plan.decision[0].reason, REASON_PRESSURE);
	g.report.ctr[CTR_ALLOCSTALL] += 10;
	tick(&g, SEC_US);
	assert_int_equal(g.plan.decision[0].reason, REASON_PRESSURE);
	tick(&g, SEC_US);
	assert_int_not_equal(g.plan.decision[0].reason, REASON_PRESSURE);
}

static void test_large_pmd(void **state)
{
	(void)state;
	/* 64 KiB pages: PMD of 512 MiB, order 13, buddy lists up to 13 */
	guest_make(&g);
	g.hello.page_size = 65536;
	g.hello.pmd_order = g.hello.pageblock_order = 13;
	g.hello.nr_orders = 14;
	node_set(&g, 0, 64 * GIB_PAGES / 16, 16 * GIB_PAGES / 16, 0);
	decide(&g);
	assert_int_equal(g.plan.action[0].order, 13);
	assert_int_equal(g.plan.action[0].blocks, 2);
	/* pageblocks smaller than the PMD: those are what can be kept */
	guest_make(&g);
	g.hello.pmd_order = 11;
	g.hello.nr_orders = 12;
	g.cfg.mode = VM_MODE_DENSITY;
	fault(&g, 1, 100);
	assert_in_range(node_evidence_of(&g, 0, "reserve_blocks"), 76, 80);
}

/* --- knobs --- */

/* The kernel's own words, for comparison: mm/page_alloc.c */
static uint64_t kernel_gap(uint64_t managed, uint64_t base, uint64_t wsf)
{
	unsigned __int128 scaled = (unsigned __int128)managed * wsf / 10000;

	return base >> 2 > scaled ? base >> 2 : (uint64_t)scaled;
}

static void test_wsf_formula(void **state)
{
	(void)state;
	for (uint64_t m = 1000; m < PAGES_MAX; m = m * 3 + 1) {
		uint64_t base = m / 350;
		uint64_t nil = wsf_nil_max(m, base);

		for (uint32_t wsf = 1; wsf <= 3000; wsf += 7) {
			uint64_t gap = kernel_gap(m, base, wsf);
			uint64_t back = wsf_for_gap(m, m * wsf / 10000);

			assert_int_equal(wsf_gap_pages(m, base, wsf), gap);
			assert_true(gap == base / 4 ? wsf <= nil : wsf > nil);
			/* the smallest factor that gives that gap */
			assert_true(back <= wsf);
			assert_true(kernel_gap(m, 0, back) >= m * wsf / 10000);
			assert_true(back == 1 || kernel_gap(m, 0, back - 1) <
							 m * wsf / 10000);
		}
	}
	assert_int_equal(wsf_for_gap(0, 100), 1);
	assert_int_equal(wsf_nil_max(0, 100), 0);
	(void)wsf_for_gap(UINT64_MAX, UINT64_MAX);
	(void)wsf_nil_max(1, UINT64_MAX);
}

static int64_t wsf_held(const struct guest *gu)
{
	const struct msg_directive *d = &gu->plan.directive;

	return d->knob_mask >> KNOB_WATERMARK_SCALE_FACTOR & 1
		       ? d->knob[KNOB_WATERMARK_SCALE_FACTOR]
		       : 0;
}

static bool proactive_off(const struct guest *gu)
{
	return gu->plan.directive.knob_mask >> KNOB_COMPACTION_PROACTIVENESS &
	       1;
}

static void test_wsf_ramp(void **state)
{
	unsigned int writes = 0;
	int64_t last = 0;
	int written_s = 0;

	(void)state;
	guest_make(&g);
	/* reserve 40 blocks, half of it a gap: 10240 pages of 1048576 */
	for (int i = 0; i < 600; i++) {
		tick(&g, SEC_US);
		if (wsf_held(&g) != last) {
			/* time to see what the last one did */
			assert_true(!writes || i - written_s >= 15);
			written_s = i;
			writes++;
			assert_true(wsf_held(&g) > last);
			/* no effect up to base / 4: the first step starts
			 * there, and none goes further than 2.5 times */
			assert_true(last == 0 || wsf_held(&g) <= last * 5 / 2);
		}
		last = wsf_held(&g);
	}
	assert_int_equal(last, 98);
	assert_in_range(writes, 1, 5);
	/* a little more or less of demand rewrites nothing */
	node_set(&g, 0, 4 * GIB_PAGES + 9 * MIB_PAGES, GIB_PAGES, 0);
	tick(&g, 60 * SEC_US);
	assert_int_equal(wsf_held(&g), last);
	/* the reserve is no longer wanted: put back, in steps */
	thp_never(&g);
	for (int i = 0; i < 10; i++)
		tick(&g, 60 * SEC_US);
	assert_int_equal(wsf_held(&g), 0);
}

static void test_wsf_without_effect(void **state)
{
	(void)state;
	/* min_free_kbytes raised so far that 98 changes nothing */
	guest_make(&g);
	g.report.zone[0].min_pages = 4 * 4 * GIB_PAGES * 99 / 10000;
	for (int i = 0; i < 10; i++)
		tick(&g, 60 * SEC_US);
	assert_int_equal(wsf_held(&g), 0);
	/* the guest's own is higher */
	guest_make(&g);
	g.report.knob[KNOB_WATERMARK_SCALE_FACTOR] = 150;
	for (int i = 0; i < 10; i++)
		tick(&g, 60 * SEC_US);
	assert_int_equal(wsf_held(&g), 0);
	/* no memory to take it from, but by swapping */
	guest_make(&g);
	node_set(&g, 0, 4 * GIB_PAGES, 1000, 0);
	g.report.node[0].file_pages = 0;
	for (int i = 0; i < 10; i++)
		tick(&g, 60 * SEC_US);
	assert_int_equal(wsf_held(&g), 0);
}

static void test_wsf_caps(void **state)
{
	static const struct {
		enum vm_mode mode;
		uint64_t pages;
		int64_t want;
	} cases[] = {
		{VM_MODE_BALANCED, 4 * GIB_PAGES, 150},
		{VM_MODE_PERFORMANCE, 4 * GIB_PAGES, 150},
		{VM_MODE_BALANCED, 8 * GIB_PAGES, 200},
		{VM_MODE_PERFORMANCE, 8 * GIB_PAGES, 500},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		guest_make(&g);
		g.cfg.mode = cases[i].mode;
		g.cfg.reserve_max_pct = 100;
		node_set(&g, 0, cases[i].pages, cases[i].pages / 2, 0);
		for (int j = 0; j < 20; j++)
			fault(&g, 100000, 60);
		assert_int_equal(wsf_held(&g), cases[i].want);
	}
}

/* A guest whose own proactive compaction keeps next to nothing ready. */
static void kernel_keeps_little(struct guest *gu)
{
	gu->report.knob[KNOB_COMPACTION_PROACTIVENESS] = 1;
}

static void test_wsf_not_raised_under_pressure(void **state)
{
	(void)state;
	guest_make(&g);
	psi_high(&g);
	for (int i = 0; i < 10; i++)
		tick(&g, 60 * SEC_US);
	assert_int_equal(wsf_held(&g), 0);
}

static void test_knobs_missing_or_foreign(void **state)
{
	(void)state;
	guest_make(&g);
	g.hello.knobs = 0;
	decide(&g);
	assert_int_equal(g.plan.directive.knob_mask, 0);

	guest_make(&g);
	kernel_keeps_little(&g);
	decide(&g);
	assert_true(proactive_off(&g));
	assert_int_equal(g.plan.directive.knob[KNOB_COMPACTION_PROACTIVENESS],
			 0);
	assert_true(wsf_held(&g) > 0);
	/* somebody else writes it: theirs, also after the flag is gone */
	g.report.knob_foreign = 1u << KNOB_WATERMARK_SCALE_FACTOR;
	tick(&g, SEC_US);
	g.report.knob_foreign = 0;
	tick(&g, 60 * SEC_US);
	assert_int_equal(wsf_held(&g), 0);
	assert_true(directive_of(&g)->nr_rejected > 0);
	/* what is off already is not written again */
	guest_make(&g);
	g.report.knob[KNOB_COMPACTION_PROACTIVENESS] = 0;
	decide(&g);
	assert_false(proactive_off(&g));
}

static void test_proactiveness(void **state)
{
	(void)state;
	guest_make(&g);
	no_backend(&g);
	decide(&g);
	assert_false(proactive_off(&g));

	guest_make(&g);
	mode_density(&g); /* no demand: the kernel's own serves */
	decide(&g);
	assert_false(proactive_off(&g));

	/* the kernel's own keeps 20 % of what is free in blocks: more than
	 * our reserve, which must not take its place */
	guest_make(&g);
	decide(&g);
	assert_false(proactive_off(&g));
	g.cfg.reserve_min_pct = 10;
	tick(&g, 200 * SEC_US);
	assert_true(proactive_off(&g));

	/* put back once ours has failed three times in a row */
	guest_make(&g);
	kernel_keeps_little(&g);
	for (int i = 0; i < 3; i++) {
		tick(&g, 200 * SEC_US);
		assert_true(proactive_off(&g));
		assert_int_equal(g.plan.nr_actions, 1);
		answer(&g, 0, WHY_EXHAUSTED);
	}
	tick(&g, 200 * SEC_US);
	assert_false(proactive_off(&g));
	assert_true(g.plan.changed[g.plan.nr_decisions - 1]);
	answer(&g, 40, WHY_TARGET);
	tick(&g, SEC_US);
	assert_false(proactive_off(&g)); /* not at once: it woke kcompactd */
	tick(&g, 200 * SEC_US);
	assert_true(proactive_off(&g));
}

static void test_knobs_over_holds(void **state)
{
	int64_t wsf;

	(void)state;
	guest_make(&g);
	kernel_keeps_little(&g);
	for (int i = 0; i < 10; i++) {
		tick(&g, 60 * SEC_US);
		answer(&g, 40, WHY_TARGET);
	}
	wsf = wsf_held(&g);
	/* a migration must not be woken into by knobs put back */
	migrating(&g);
	tick(&g, SEC_US);
	assert_int_equal(wsf_held(&g), wsf);
	assert_true(proactive_off(&g));
	assert_true(g.plan.changed[0]);
	tick(&g, SEC_US);
	assert_false(g.plan.changed[0]);
	g.snap.vm_migrating = false;
	tick(&g, SEC_US);
	assert_true(g.plan.changed[0]); /* the verdict after it is news */
	/* whoever pauses gets the guest's own values */
	paused(&g);
	tick(&g, SEC_US);
	assert_int_equal(g.plan.directive.knob_mask, 0);
	g.snap.user_paused = false;
	tick(&g, SEC_US);
	assert_true(wsf_held(&g) > 0);
}

/* A daemon that was restarted goes on from what its agent holds. */
static void test_knobs_adopted(void **state)
{
	(void)state;
	guest_make(&g);
	g.report.knob_managed = ALL_KNOBS;
	g.report.knob[KNOB_WATERMARK_SCALE_FACTOR] = 98;
	g.report.knob[KNOB_COMPACTION_PROACTIVENESS] = 0;
	/* the guest's own value is not known: the kernel's default is taken */
	g.cfg.reserve_min_pct = 10;
	decide(&g);
	assert_true(wsf_held(&g) >= 98);
	assert_true(proactive_off(&g));
	/* nothing but the two that are steered is ever held */
	assert_int_equal(g.plan.directive.knob_mask,
			 1u << KNOB_WATERMARK_SCALE_FACTOR |
				 1u << KNOB_COMPACTION_PROACTIVENESS);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_demand),
	cmocka_unit_test(test_cooldown_follows_demand),
	cmocka_unit_test(test_demand_true_time),
	cmocka_unit_test(test_demand_over_reboots),
	cmocka_unit_test(test_demand_by_node),
	cmocka_unit_test(test_stalls_without_psi),
	cmocka_unit_test(test_large_pmd),
	cmocka_unit_test(test_wsf_formula),
	cmocka_unit_test(test_wsf_ramp),
	cmocka_unit_test(test_wsf_without_effect),
	cmocka_unit_test(test_wsf_caps),
	cmocka_unit_test(test_wsf_not_raised_under_pressure),
	cmocka_unit_test(test_knobs_missing_or_foreign),
	cmocka_unit_test(test_proactiveness),
	cmocka_unit_test(test_knobs_over_holds),
	cmocka_unit_test(test_knobs_adopted),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
