// SPDX-License-Identifier: GPL-2.0-or-later
/* What auto chooses, and what it learns from how actions end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "choice.h"
#include "util.h"

#define BIT(b) (1u << (b))
#define STOCK                                                                  \
	(BIT(BACKEND_COMPACT) | BIT(BACKEND_FAULT) | BIT(BACKEND_PROACTIVE))
#define EVERYONE (STOCK | BIT(BACKEND_HUGETLB) | BIT(BACKEND_MEMBLOCK))

/* 2 GiB, 1.1 GiB free in pieces; a case changes one thing. */
static const struct choice_ask plain = {
	.usable = STOCK,
	.order = 4,
	.pmd_order = 9,
	.mthp_orders = 0x3fc,
	.page_size = 4096,
	.urgency = URGENCY_NORMAL,
	.blocks = 1600,
	.free_pages = 288000,
	.free_blocks = 500,
	.floor_pages = 20000,
	.score_pct = 95,
	.nr_nodes = 1,
	.cpu_left_us = 30 * SEC_US,
	.cpu_burst_us = 30 * SEC_US,
};

/* As if measured here, now: pages and us per MiB. */
static void measured(struct gains *g, enum backend b, enum gain_class c,
		     uint64_t work, uint64_t cpu_us)
{
	g->seen[b][c] = (struct gain_seen){{work, cpu_us}, 1000 * SEC_US};
}

static enum backend choose(struct gains *g, const struct choice_ask *ask)
{
	char text[PROTO_TEXT_MAX + 1];
	enum backend b = choice_make(g, ask, 1000 * SEC_US, text);

	assert_in_range(strlen(text), 10, PROTO_TEXT_MAX);
	assert_memory_equal(text, "auto: ", 6);
	return b;
}

/* All of a kind cost the same, but `cheap`, which costs next to nothing: is
 * it taken, or can it not do this? */
static void who_can(void **state)
{
	const struct {
		const char *what;
		struct choice_ask ask;
		enum backend cheap, want;
	} cases[] = {
		{"fault for a size", plain, BACKEND_FAULT, BACKEND_FAULT},
		{"no size of the order", plain, BACKEND_FAULT, BACKEND_COMPACT},
		{"all of it", plain, BACKEND_FAULT, BACKEND_COMPACT},
		{"nearly all of it", plain, BACKEND_FAULT, BACKEND_COMPACT},
		{"no room to hold them", plain, BACKEND_FAULT, BACKEND_COMPACT},
		{"not usable", plain, BACKEND_FAULT, BACKEND_COMPACT},
		{"proactive in the background", plain, BACKEND_PROACTIVE,
		 BACKEND_PROACTIVE},
		{"somebody waits", plain, BACKEND_PROACTIVE, BACKEND_COMPACT},
		{"it makes no small ones", plain, BACKEND_PROACTIVE,
		 BACKEND_COMPACT},
		{"it starts not so low", plain, BACKEND_PROACTIVE,
		 BACKEND_COMPACT},
		{"it knows no node", plain, BACKEND_PROACTIVE, BACKEND_COMPACT},
		{"a memory block's worth", plain, BACKEND_MEMBLOCK,
		 BACKEND_MEMBLOCK},
		{"a bit more than one", plain, BACKEND_MEMBLOCK,
		 BACKEND_COMPACT},
		{"a pool makes no small ones", plain, BACKEND_HUGETLB,
		 BACKEND_COMPACT},
		{"a pool", plain, BACKEND_HUGETLB, BACKEND_HUGETLB},
		{"held: one alone can, however dear", plain, BACKEND_HUGETLB,
		 BACKEND_FAULT},
		{"held, and none can", plain, BACKEND_HUGETLB, BACKEND_HUGETLB},
	};
	struct choice_ask ask[ARRAY_SIZE(cases)];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ask[i] = cases[i].ask;
	ask[1].mthp_orders = 0;
	ask[2].all = true;
	ask[3].blocks = 9000;
	ask[4].floor_pages = 260000;
	ask[5].usable = BIT(BACKEND_COMPACT);
	for (size_t i = 6; i <= 10; i++) {
		ask[i].order = i == 8 ? 4 : 9;
		ask[i].blocks = 50;
		ask[i].free_blocks = 10;
		ask[i].urgency = i == 7 ? URGENCY_NORMAL : URGENCY_BACKGROUND;
	}
	ask[9].score_pct = 15;
	ask[10].nr_nodes = 2;
	for (size_t i = 11; i < ARRAY_SIZE(cases); i++) {
		ask[i].usable = EVERYONE;
		ask[i].order = i == 13 ? 4 : 9;
		ask[i].blocks = i == 12 ? 70 : 60;
		ask[i].free_blocks = 10;
	}
	ask[15].hold = ask[16].hold = true;
	ask[16].usable &= ~BIT(BACKEND_FAULT);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct gains g = {0};

		for (unsigned int b = 1; b < BACKEND_COUNT; b++)
			for (unsigned int c = 0; c < GAIN_CLASS_COUNT; c++)
				measured(&g, b, c,
					 b == BACKEND_COMPACT ? 500 : 1000,
					 5000);
		for (unsigned int c = 0; c < GAIN_CLASS_COUNT; c++)
			measured(&g, cases[i].cheap, c, 10, 100);
		if (choose(&g, &ask[i]) != cases[i].want)
			fail_msg("%s", cases[i].what);
	}
}

static void by_what_it_costs(void **state)
{
	/* work and CPU of compact and fault */
	const struct {
		enum urgency urgency;
		uint64_t compact[2], fault[2];
		enum backend want;
	} cases[] = {
		{URGENCY_NORMAL, {1000, 1000}, {900, 900}, BACKEND_FAULT},
		{URGENCY_NORMAL, {900, 900}, {1000, 1000}, BACKEND_COMPACT},
		/* half the work for one and a half of the CPU time */
		{URGENCY_NORMAL, {1000, 1000}, {500, 1500}, BACKEND_FAULT},
		{URGENCY_URGENT, {1000, 1000}, {600, 2500}, BACKEND_COMPACT},
		{URGENCY_URGENT, {1000, 1000}, {1400, 600}, BACKEND_FAULT},
		{URGENCY_NORMAL, {1000, 1000}, {1500, 600}, BACKEND_COMPACT},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct choice_ask ask = plain;
		struct gains g = {0};

		ask.urgency = cases[i].urgency;
		measured(&g, BACKEND_COMPACT, GAIN_MIDDLE, cases[i].compact[0],
			 cases[i].compact[1]);
		measured(&g, BACKEND_FAULT, GAIN_MIDDLE, cases[i].fault[0],
			 cases[i].fault[1]);
		if (choose(&g, &ask) != cases[i].want)
			fail_msg("case %zu", i);
	}
}

static void none_can(void **state)
{
	struct choice_ask ask = plain;
	struct gains g = {0};

	(void)state;
	ask.usable = BIT(BACKEND_HUGETLB);
	assert_int_equal(choose(&g, &ask), BACKEND_COMPACT);
}

static void explores_now_and_then(void **state)
{
	struct choice_ask ask = plain;
	unsigned int other = 0;
	struct gains g = {0};

	(void)state;
	measured(&g, BACKEND_COMPACT, GAIN_MIDDLE, 100, 100);
	ask.urgency = URGENCY_BACKGROUND;
	for (unsigned int i = 0; i < 160; i++)
		other += choose(&g, &ask) != BACKEND_COMPACT;
	assert_int_equal(other, 10);

	/* not where somebody waits, nor on a tight budget */
	ask.urgency = URGENCY_NORMAL;
	for (unsigned int i = 0; i < 160; i++)
		assert_int_equal(choose(&g, &ask), BACKEND_COMPACT);
	ask.urgency = URGENCY_BACKGROUND;
	ask.cpu_left_us = 10 * SEC_US;
	for (unsigned int i = 0; i < 160; i++)
		assert_int_equal(choose(&g, &ask), BACKEND_COMPACT);
}

/* 16 MiB for 32,000 pages of work and 160 ms */
static const struct msg_result ended = {
	.status = RESULT_DONE,
	.why = WHY_TARGET,
	.backend = BACKEND_FAULT,
	.order = 4,
	.asked = 256,
	.blocks_before = 100,
	.blocks_after = 356,
	.migrated = 4000,
	.reclaimed = 100,
	.migrate_scanned = 20000,
	.free_scanned = 7900,
	.cpu_us = 160000,
};

static void learns(void **state)
{
	struct gains g = {0};
	struct gain was = gains_get(&g, BACKEND_FAULT, GAIN_MIDDLE, 1);
	struct gain now;

	(void)state;
	for (unsigned int i = 0; i < 40; i++)
		gains_learn(&g, &ended, 9, 4096, SEC_US);
	now = gains_get(&g, BACKEND_FAULT, GAIN_MIDDLE, SEC_US);
	assert_in_range(now.work_pages, 1990, 2010); /* 32000 / 16 */
	assert_in_range(now.cpu_us, 9990, 10010);
	/* half way back after half an hour, all the way after a day */
	now = gains_get(&g, BACKEND_FAULT, GAIN_MIDDLE, 1801 * SEC_US);
	assert_in_range(now.work_pages, MIN(was.work_pages, 2000) + 1,
			MAX(was.work_pages, 2000) - 1);
	now = gains_get(&g, BACKEND_FAULT, GAIN_MIDDLE, 86400 * SEC_US);
	assert_in_range(now.work_pages, was.work_pages - 1, was.work_pages + 1);
	/* other orders, other backends: nothing is known */
	assert_int_equal(g.seen[BACKEND_FAULT][GAIN_PMD].when_us, 0);
	assert_int_equal(g.seen[BACKEND_COMPACT][GAIN_MIDDLE].when_us, 0);
}

static void what_tells_nothing(void **state)
{
	const struct {
		uint8_t status, why;
		bool gained, tells;
	} cases[] = {
		{RESULT_REFUSED, WHY_LOW_MEMORY, false, false},
		{RESULT_FAILED, WHY_ERROR, false, false},
		{RESULT_STOPPED, WHY_CANCELLED, false, false},
		{RESULT_STOPPED, WHY_CANCELLED, true, true},
		{RESULT_STOPPED, WHY_PRESSURE, false, false},
		{RESULT_STOPPED, WHY_CPU, false, true},
		{RESULT_DONE, WHY_EXHAUSTED, false, true},
		{RESULT_DONE, WHY_TARGET, true, true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct msg_result r = ended;
		struct gains g = {0};

		r.status = cases[i].status;
		r.why = cases[i].why;
		if (!cases[i].gained)
			r.blocks_after = r.blocks_before;
		gains_learn(&g, &r, 9, 4096, SEC_US);
		if ((g.seen[BACKEND_FAULT][GAIN_MIDDLE].when_us != 0) !=
		    cases[i].tells)
			fail_msg("case %zu", i);
	}
}

/* Nothing for a lot of work makes it dear, but not for ever. */
static void in_vain(void **state)
{
	struct msg_result r = ended;
	struct gains g = {0};
	struct gain was = gains_get(&g, BACKEND_FAULT, GAIN_MIDDLE, 1), now;

	(void)state;
	r.why = WHY_EXHAUSTED;
	r.blocks_after = 50;
	r.free_scanned = UINT64_C(1) << 40;
	gains_learn(&g, &r, 9, 4096, SEC_US);
	now = gains_get(&g, BACKEND_FAULT, GAIN_MIDDLE, SEC_US);
	assert_true(now.work_pages > 3 * was.work_pages);
	assert_true(now.work_pages <= 16 * was.work_pages);
}

static void classes(void **state)
{
	(void)state;
	assert_int_equal(gain_class_of(1, 9), GAIN_SMALL);
	assert_int_equal(gain_class_of(3, 9), GAIN_SMALL);
	assert_int_equal(gain_class_of(4, 9), GAIN_MIDDLE);
	assert_int_equal(gain_class_of(8, 9), GAIN_MIDDLE);
	assert_int_equal(gain_class_of(9, 9), GAIN_PMD);
	assert_int_equal(gain_class_of(10, 9), GAIN_PMD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_can),
		cmocka_unit_test(by_what_it_costs),
		cmocka_unit_test(none_can),
		cmocka_unit_test(explores_now_and_then),
		cmocka_unit_test(learns),
		cmocka_unit_test(what_tells_nothing),
		cmocka_unit_test(in_vain),
		cmocka_unit_test(classes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
