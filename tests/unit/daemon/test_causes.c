// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "causes.h"
#include "util.h"

#define GIB	(UINT64_C(1) << 30)
#define FACT(f) .layout = 1u << (f)
/* 820 blocks that the guest holds huge, of which the host has so many */
#define HUGE(n)                                                                \
	.all = {                                                               \
		.huge_huge = n,                                                \
		.guest_only = 820 - (n),                                       \
		.collapsible = 820 - (n),                                      \
		.host_kib = 820 * 2048,                                        \
		.host_huge = n,                                                \
	}
#define KNOWN                                                                  \
	.host_known = true, .guest_known = true, .acts = true,                 \
	.collapse_mode = COLLAPSE_ON
#define SLOT(k, gpa_, hva_, off)                                               \
	.slots = &(const struct memslots)                                      \
	{                                                                      \
		.nr = 1, .slot = {                                             \
			{.gpa = gpa_,                                          \
			 .hva = hva_,                                          \
			 .len = 2 * GIB,                                       \
			 .offset = off,                                        \
			 .kind = k}                                            \
		}                                                              \
	}
#define ANON SLOT(MEMSLOT_ANON, 0, 0x7f0000000000, 0)

/* One prepared fault each, as what is read would show it. */
static const struct {
	const char *what;
	struct cause_facts f;
	int first; /* -1: none */
} rows[] = {
	{"all is well", {KNOWN, ANON, HUGE(820)}, -1},
	{"an SEV guest",
	 {KNOWN, ANON, HUGE(0), FACT(LAYOUT_CONFIDENTIAL)},
	 CAUSE_CONFIDENTIAL},
	{"a pid that is no QEMU", {FACT(LAYOUT_NOT_QEMU)}, CAUSE_NO_LAYOUT},
	{"QEMU stuck", {KNOWN, ANON, HUGE(820), .stale_ms = 9000}, CAUSE_STALE},
	{"migrating",
	 {KNOWN, ANON, HUGE(0), .migrating = true},
	 CAUSE_MIGRATING},
	{"hugetlb",
	 {KNOWN, SLOT(MEMSLOT_HUGETLB, 0, 0x7f0000000000, 0), HUGE(820)},
	 CAUSE_HUGETLB},
	{"slot at odd addresses",
	 {KNOWN, SLOT(MEMSLOT_ANON, 0, 0x7f0000001000, 0), HUGE(0)},
	 CAUSE_SLOT_MISALIGNED},
	{"QEMU 7.2's memfd",
	 {KNOWN, SLOT(MEMSLOT_SHMEM, 0, 0x7f00000ff000, 0), HUGE(0)},
	 CAUSE_MEMFD_MISALIGNED},
	{"PR_SET_THP_DISABLE",
	 {KNOWN, ANON, HUGE(0), .thp_disabled = true},
	 CAUSE_THP_PROCESS_OFF},
	{"memfd without huge pages",
	 {KNOWN, SLOT(MEMSLOT_SHMEM, 0, 0x7f0000000000, 0), HUGE(0),
	  .shmem_thp = HOST_THP_NEVER},
	 CAUSE_SHMEM_OFF},
	{"THP off",
	 {KNOWN, ANON, HUGE(0), .thp = HOST_THP_NEVER},
	 CAUSE_THP_OFF},
	{"NOHUGEPAGE",
	 {KNOWN, ANON, HUGE(0), .hold = COLLAPSE_HOLD_REFUSED},
	 CAUSE_REFUSED},
	{"VFIO", {KNOWN, ANON, HUGE(0), FACT(LAYOUT_VFIO)}, CAUSE_VFIO},
	{"locked", {KNOWN, ANON, HUGE(0), FACT(LAYOUT_LOCKED)}, CAUSE_LOCKED},
	{"swapped out",
	 {KNOWN, ANON, .all = {.guest_only = 820, .swapped = 40}},
	 CAUSE_SWAPPED},
	{"KSM", {KNOWN, ANON, HUGE(100), .ksm = true}, CAUSE_KSM},
	{"KSM, by pagemap",
	 {KNOWN, ANON, .all = {.guest_only = 820, .shared = 40}},
	 CAUSE_KSM},
	{"memory.high",
	 {KNOWN, ANON, HUGE(0), .hold = COLLAPSE_HOLD_MEMCG},
	 CAUSE_MEMCG},
	{"host node without blocks",
	 {KNOWN, ANON, HUGE(0), .hold = COLLAPSE_HOLD_NO_BLOCK},
	 CAUSE_NO_HOST_BLOCKS},
	{"numatune",
	 {KNOWN, ANON, HUGE(0), FACT(LAYOUT_NUMATUNE), .off_node_blocks = 9},
	 CAUSE_NUMATUNE},
	{"NX huge pages",
	 {KNOWN, ANON, HUGE(820), FACT(LAYOUT_KVM), .nx_huge_pages = true},
	 CAUSE_NX},
	{"balloon of base pages",
	 {KNOWN, ANON, HUGE(1), FACT(LAYOUT_BALLOON), .ballooned_kib = 1 << 20},
	 CAUSE_BALLOON},
	{"reporting below order 9",
	 {KNOWN, ANON, HUGE(400), FACT(LAYOUT_REPORTING), .reporting_order = 0},
	 CAUSE_REPORTING_ORDER},
	{"migrated in",
	 {KNOWN, ANON, HUGE(0), .came_by_migration = true},
	 CAUSE_MIGRATED_IN},
	{"nothing to blame", {KNOWN, ANON, HUGE(300)}, CAUSE_BASE},
	{"guest without THP",
	 {KNOWN, ANON, .guest_thp_never = true},
	 CAUSE_GUEST_THP_OFF},
	{"host only",
	 {KNOWN, ANON, .all = {.host_only = 800}},
	 CAUSE_HOST_ONLY},
	{"no agent",
	 {.host_known = true,
	  ANON,
	  .collapse_mode = COLLAPSE_ON,
	  .reporting_order = UINT16_MAX},
	 CAUSE_NO_AGENT},
	{"ksmtuned runs", {KNOWN, ANON, HUGE(820), .rivals = 1}, CAUSE_RIVAL},
};

static void first_cause(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		enum cause found[CAUSE_COUNT];
		unsigned int n = causes_find(&rows[i].f, found);
		int first = n ? (int)found[0] : -1;

		if (first != rows[i].first)
			fail_msg("%s: %s", rows[i].what,
				 n ? cause_name(found[0]) : "none");
	}
}

static void in_words(void **state)
{
	(void)state;
	for (unsigned int c = 0; c < CAUSE_COUNT; c++) {
		bool tested = false;

		assert_true(strlen(cause_text(c)) > 20);
		/* whoever is told of a fault is told what would mend it */
		assert_true(!cause_is_problem(c) || strlen(cause_cure(c)) > 9);
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
			tested |= rows[i].first == (int)c;
		if (!tested && c != CAUSE_COLLAPSE_OFF && c != CAUSE_VIRTIO_MEM)
			fail_msg("no row for %s", cause_name(c));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_cause),
		cmocka_unit_test(in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
