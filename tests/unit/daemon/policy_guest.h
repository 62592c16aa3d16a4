/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest for tests of the policy: guest_make() makes one node of 4 GiB, 1 GiB
 * of it free and all of that scattered, which is what the policy is there for.
 */
#ifndef VMDEFRAG_TEST_POLICY_GUEST_H
#define VMDEFRAG_TEST_POLICY_GUEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "policy.h"
#include "policy_priv.h"

#define GIB_PAGES UINT64_C(262144)
#define MIB_PAGES UINT64_C(256)
#define ALL_KNOBS ((UINT32_C(1) << KNOB_COUNT) - 1)

struct guest {
	struct msg_hello hello;
	struct msg_report report;
	struct policy_snapshot snap;
	struct policy_cfg cfg;
	struct policy_state st;
	struct policy_plan plan;
	uint64_t now_us;
};

static struct guest g;

/* Node @i gets @free_pages, of which @blocks whole ones of order 9. */
static inline void node_set(struct guest *gu, unsigned int i, uint64_t total,
			    uint64_t free_pages, uint64_t blocks)
{
	struct node_report *n = &gu->report.node[i];
	struct zone_report *z = &gu->report.zone[i];

	n->node = i;
	n->total_pages = total;
	n->free_pages = free_pages;
	n->anon_pages = total / 4;
	n->file_pages = total / 4;
	z->node = i;
	z->kind = ZONE_KIND_NORMAL;
	z->present_pages = total;
	z->managed_pages = total;
	z->free_pages = free_pages;
	z->min_pages = total / 400;
	z->low_pages = total / 400 * 5 / 4;
	z->high_pages = total / 400 * 6 / 4;
	memset(z->free_blocks, 0, sizeof(z->free_blocks));
	z->free_blocks[9] = blocks;
	z->free_blocks[0] = free_pages - (blocks << 9);
}

static inline void guest_make(struct guest *gu)
{
	memset(gu, 0, sizeof(*gu));
	gu->hello = (struct msg_hello){
		.page_size = 4096,
		.nr_orders = 11,
		.pmd_order = 9,
		.pageblock_order = 9,
		.nr_nodes = 1,
		.nr_cpus = 2,
		.mem_pages = 4 * GIB_PAGES,
		.knobs = ALL_KNOBS,
		.backends = 1u << BACKEND_COMPACT,
		.boot_id = {1},
	};
	gu->report.guest_us = 100 * SEC_US;
	gu->report.psi_valid = 1;
	gu->report.ctr_valid = UINT64_MAX;
	gu->report.knob_valid = ALL_KNOBS;
	gu->report.knob[KNOB_WATERMARK_SCALE_FACTOR] = 10;
	gu->report.knob[KNOB_COMPACTION_PROACTIVENESS] = 20;
	gu->report.thp_enabled = MTHP_ALWAYS;
	gu->report.nr_nodes = 1;
	gu->report.nr_zones = 1;
	node_set(gu, 0, 4 * GIB_PAGES, GIB_PAGES, 0);
	gu->snap.hello = &gu->hello;
	gu->snap.report = &gu->report;
	policy_cfg_defaults(&gu->cfg);
	gu->cfg.mode = VM_MODE_BALANCED;
	gu->now_us = 1000 * SEC_US;
}

static inline void decide(struct guest *gu)
{
	policy_decide(&gu->cfg, &gu->st, &gu->snap, gu->now_us, &gu->plan);
}

static inline void tick(struct guest *gu, uint64_t us)
{
	gu->now_us += us;
	gu->report.guest_us += us;
	decide(gu);
}

/* An agent that gains @gained of the planned action's blocks. */
static inline void answer(struct guest *gu, uint32_t gained, enum stop_why why)
{
	const struct msg_action *a = &gu->plan.action[0];
	struct msg_result r = {
		.why = why,
		.node = a->node,
		.order = a->order,
		.asked = a->blocks,
		.blocks_before = 10,
		.blocks_after = 10 + gained,
		.migrated = (uint64_t)gained * 300,
	};

	policy_result(&gu->cfg, &gu->st, &r, gu->now_us);
}

static inline bool evidence_get(const struct decision *d, const char *name,
				int64_t *ret_val)
{
	for (unsigned int i = 0; i < d->nr_evidence; i++) {
		if (strcmp(d->evidence[i].name, name) != 0)
			continue;
		*ret_val = d->evidence[i].value;
		return true;
	}
	return false;
}

static inline const struct decision *directive_of(const struct guest *gu)
{
	return &gu->plan.decision[gu->plan.nr_decisions - 1];
}

/* Changes that several tables of cases use. */

static inline void mode_density(struct guest *gu)
{
	gu->cfg.mode = VM_MODE_DENSITY;
}

static inline void no_backend(struct guest *gu)
{
	gu->hello.backends = 0;
}

static inline void psi_high(struct guest *gu)
{
	gu->report.psi.some_avg10_centi =
		(uint16_t)(gu->cfg.psi_abort_pct * 100);
}

static inline void migrating(struct guest *gu)
{
	gu->snap.vm_migrating = true;
}

static inline void paused(struct guest *gu)
{
	gu->snap.user_paused = true;
}

static inline void thp_never(struct guest *gu)
{
	gu->report.thp_enabled = MTHP_NEVER;
}

#endif
