/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Between the files of the policy (policy*.c) and their tests; nobody else's.
 */
#ifndef VMDEFRAG_POLICY_PRIV_H
#define VMDEFRAG_POLICY_PRIV_H

#include "policy.h"
#include "util.h"

/*
 * Every page count from a guest is cut to this before any arithmetic: 4 PiB
 * of 4 KiB pages, which is all that 52 bits of physical address can name. A
 * product with 10000 or a shift by an order then fits 64 bits with room.
 */
#define PAGES_MAX (UINT64_C(1) << 40)

/* One guest node as the policy sees it: the report, checked and summed. */
struct node_view {
	uint8_t node;
	bool known; /* has a zone of ours to look at */
	uint64_t size_pages;
	/* zones that user memory comes from, see policy_view.c */
	uint64_t managed_pages, free_pages, high_pages;
	uint64_t anon_pages, file_pages;
	uint64_t free_blocks; /* those that the agent holds among them */
	uint64_t held_pages, scattered_pages;
	uint32_t unusable_permille;
	uint64_t curve_moves; /* a block, 0: no usable curve */
	/* filled by policy.c */
	struct policy_node_state *st;
	uint64_t reserve_blocks, low_blocks;
};

struct guest_view {
	uint32_t page_size;
	uint8_t order;	   /* of the blocks that the policy keeps free */
	uint8_t pmd_order; /* of the THPs that demand is counted in */
	bool order_in_use; /* the guest hands out huge pages at all */
	bool backend_ok;   /* cfg's backend is there and may be used */
	bool pressure;
	bool host_base; /* and no smaller order to work at */
	uint64_t size_pages;
	/* of zones whose min watermark is the kernel's base for all others */
	uint64_t base_pages, base_managed_pages;
	uint8_t mthp_always_order; /* highest one always on, 0: none */
	uint8_t nr_nodes;
	struct node_view node[PROTO_NODES_MAX];
};

/**
 * guest_view_build() - check, clamp and sum what the guest says
 * @s: with hello and report
 */
void guest_view_build(const struct policy_cfg *cfg,
		      const struct policy_snapshot *s,
		      struct guest_view *ret_v);

/**
 * demand_update() - take the counters of a report into account, once
 * @v: nodes with their state attached
 */
void demand_update(struct policy_state *st, const struct msg_report *r,
		   const struct guest_view *v);

/**
 * demand_pressure_guess() - does a guest without PSI look pressed?
 */
bool demand_pressure_guess(const struct policy_state *st);

/**
 * knobs_observe() - learn the guest's own values, and who set what
 */
void knobs_observe(struct policy_state *st, const struct msg_report *r);

/**
 * knobs_decide() - the directive's knobs, and the decision about them
 */
void knobs_decide(const struct policy_cfg *cfg, struct policy_state *st,
		  const struct msg_hello *h, const struct guest_view *v,
		  uint64_t now_us, struct msg_directive *dir,
		  struct decision *d);

/**
 * knobs_keep() - hold what is held, change nothing
 */
void knobs_keep(const struct policy_state *st, struct msg_directive *dir);

/**
 * wsf_gap_pages() - the kernel's gap between two watermarks of a zone
 * @base_pages: min watermark before any boost
 */
uint64_t wsf_gap_pages(uint64_t managed_pages, uint64_t base_pages,
		       uint32_t wsf);

/**
 * wsf_for_gap() - smallest watermark_scale_factor that gives such a gap
 *
 * Return: 1 and more; may lie beyond what the kernel or we allow.
 */
uint64_t wsf_for_gap(uint64_t managed_pages, uint64_t gap_pages);

/**
 * wsf_nil_max() - largest watermark_scale_factor without any effect, or 0
 */
uint64_t wsf_nil_max(uint64_t managed_pages, uint64_t base_pages);

/* An action that gains less than 1/4 of its ask was not worth its scan; one
 * that could only be asked for so little is not either. */
#define WORTH_DEN 4

/**
 * guest_hold() - what holds for the whole guest, whatever its memory is like
 *
 * Return: true with @ret_reason if nothing may run.
 */
bool guest_hold(const struct policy_cfg *cfg, const struct policy_snapshot *s,
		enum decision_reason *ret_reason);

/**
 * low_memory() - has the node too little free memory for any compaction?
 */
bool low_memory(const struct guest_view *v, const struct node_view *nv);

/**
 * moves_per_block() - page moves that one more free block is expected to cost
 * @nv: its state may be missing
 *
 * Return: 1 and more.
 */
uint64_t moves_per_block(const struct node_view *nv, uint8_t order);

/**
 * backoff_raise() - wait longer before the next action on this node
 */
void backoff_raise(const struct policy_cfg *cfg, struct policy_node_state *ns,
		   uint64_t now_us);

/**
 * action_fill() - a background action with its budgets; id and reason not
 * @moves: expected, a block
 */
void action_fill(const struct policy_cfg *cfg, uint8_t node, uint8_t order,
		 uint64_t blocks, uint64_t moves, struct msg_action *ret_a);

void node_evidence(const struct guest_view *v, const struct node_view *nv,
		   struct decision *d);
void reason_copy(char *dst, unsigned int reason);
void decision_evidence(struct decision *d, const char *name, uint64_t value);
void decision_reject(struct decision *d, const char *what, const char *why);

static inline uint64_t pages_clamp(uint64_t pages)
{
	return MIN(pages, PAGES_MAX);
}

static inline uint64_t mul_sat(uint64_t a, uint64_t b)
{
	return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static inline uint64_t elapsed_us(uint64_t now_us, uint64_t since_us)
{
	return now_us > since_us ? now_us - since_us : 0;
}

#endif
