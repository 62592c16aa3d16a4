/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The policy: what a guest should be told. PURE: no clock, no I/O, no log, no
 * allocation; the same inputs give the same plan, which is what makes replay
 * and table tests possible. Mode "observe" decides like "balanced"; that
 * nothing then happens is act.c's business alone.
 */
#ifndef VMDEFRAG_POLICY_H
#define VMDEFRAG_POLICY_H

#include "proto.h"

enum vm_mode {
	VM_MODE_OFF,	 /* not looked at */
	VM_MODE_OBSERVE, /* decides and reports, changes nothing */
	VM_MODE_BALANCED,
	VM_MODE_PERFORMANCE, /* larger reserve, sooner */
	VM_MODE_DENSITY,     /* reserve only for measured demand */
	VM_MODE_COUNT
};

const char *vm_mode_name(unsigned int mode);

struct policy_cfg {
	uint32_t mode;	  /* enum vm_mode */
	uint32_t backend; /* enum backend; BACKEND_AUTO: agent's choice */
	uint32_t reserve_min_pct; /* of node memory, free as target order */
	uint32_t reserve_max_pct;
	uint32_t cpu_budget_pct; /* of one guest CPU, long-term */
	uint32_t
		psi_abort_pct; /* memory some avg10; 0: the guest's own limit */
	uint64_t action_max_us; /* one action, time */
	uint64_t action_max_cpu_us;
	uint64_t action_max_pages;
	uint64_t cooldown_us;	 /* between actions on one node, at most */
	uint64_t backoff_max_us; /* after actions that brought too little */
	uint64_t lease_us;
	uint32_t collapse; /* enum collapse_mode: host huge pages under it */
	bool hint;	   /* tell agents what is huge below them */
	uint64_t map_interval_us; /* between two looks at what backs a VM */
	/* blocks of the reserve are held by the agent for so long, or until
	 * somebody needs them; 0: they are left free */
	uint64_t reserve_hold_us;
};

/* Shipped defaults, each with its reason in policy.c. */
void policy_cfg_defaults(struct policy_cfg *cfg);

/* What is known of a VM at one instant. Pointers are borrowed. */
struct policy_snapshot {
	const struct msg_hello *hello;
	const struct msg_report *report; /* NULL: none in this session yet */
	uint64_t report_age_us;
	bool user_paused;    /* vmdefragctl pause */
	bool vm_stopped;     /* QMP: not running */
	bool vm_migrating;   /* QMP: migration, snapshot: no page may move */
	bool action_running; /* an action of ours is under way */
	/* the host has base pages under the guest, and that will stay so */
	bool host_base;
};

/* Why the policy wants what it wants; the stable vocabulary of history,
 * explain, metrics. */
enum decision_reason {
	REASON_OFF,
	REASON_NO_REPORT, /* nothing known yet, or report too old */
	REASON_USER_PAUSED,
	REASON_VM_STOPPED,
	REASON_MIGRATING,
	REASON_NO_BACKEND, /* guest offers no way */
	REASON_PRESSURE,   /* PSI above the limit */
	REASON_LOW_MEMORY, /* free memory too small to compact in */
	REASON_ENOUGH,	   /* reserve is there */
	REASON_SHORTAGE,   /* too little free memory, not fragmentation */
	REASON_COOLDOWN,
	REASON_BACKOFF,	   /* last actions brought too little */
	REASON_BUSY,	   /* an action runs */
	REASON_HEADROOM,   /* reserve short, memory fragmented: act */
	REASON_REQUEST,	   /* vmdefragctl compact */
	REASON_WATERMARKS, /* knobs follow the reserve */
	REASON_HOST_BASE,  /* huge pages would lie on base pages for good */
	REASON_COUNT
};

const char *decision_reason_name(unsigned int reason);

/**
 * decision_reason_text() - one plain English sentence, for explain
 */
const char *decision_reason_text(unsigned int reason);

enum decision_kind {
	DECISION_HOLD,	    /* do nothing, or stay quiet */
	DECISION_DIRECTIVE, /* knobs changed */
	DECISION_ACTION,    /* compaction asked for */
	DECISION_COUNT
};

const char *decision_kind_name(unsigned int kind);

#define DECISION_EVIDENCE_MAX 12
#define DECISION_REJECTED_MAX 4

struct decision {
	uint64_t time_us;
	uint8_t kind;
	uint8_t reason;
	uint8_t node;
	uint8_t order;
	uint32_t blocks; /* asked, for an action */
	uint8_t nr_evidence;
	struct {
		const char *name; /* static, unit in it: "free_blocks" */
		int64_t value;
	} evidence[DECISION_EVIDENCE_MAX];
	uint8_t nr_rejected; /* what else was considered, and why not */
	struct {
		const char *what, *why; /* static */
	} rejected[DECISION_REJECTED_MAX];
};

/*
 * Per node memory of the policy between ticks. All zeroes is a valid start,
 * for this and for policy_state.
 */
struct policy_node_state {
	uint8_t node;
	uint8_t order; /* of the blocks that are kept free */
	bool used;
	bool refilling; /* fell below the low mark, reserve not yet full */
	bool pending;	/* an action was planned, no result came yet */
	bool recorded;	/* last_* hold something */
	uint8_t below_reports; /* successive ones below the low mark */
	uint64_t cooldown_us;  /* between actions at the demand of now */
	uint64_t cooldown_until_us, backoff_us, backoff_until_us;
	/* measured demand, blocks of the PMD order a second, x 1000 */
	uint64_t demand_milli;
	uint32_t moves_per_block;	/* learned from results; 0: not yet */
	uint8_t last_kind, last_reason; /* history records changes only */
};

struct policy_state {
	uint8_t boot_id[16]; /* of the guest that all of this is about */
	bool have_boot;
	uint64_t seen_guest_us; /* of the newest report looked at */
	uint64_t last_guest_us; /* of the report that demand came from */
	uint64_t last_thp_alloc, last_thp_fallback, last_allocstall;
	bool have_last;
	uint64_t stall_milli; /* allocstall a second, x 1000 */
	struct policy_node_state node[PROTO_NODES_MAX];
	/* what the newest directive holds */
	uint32_t last_knob_mask;
	int64_t last_knob[KNOB_COUNT];
	/* the guest's own values, seen while we did not hold the knob */
	uint32_t own_knob_mask;
	int64_t own_knob[KNOB_COUNT];
	uint32_t foreign_mask; /* somebody else's, until the guest reboots */
	uint64_t wsf_since_us, proactive_since_us; /* of the last change */
	/* a hold of the whole guest, for the same "changes only" */
	bool hold_recorded;
	uint8_t hold_reason;
};

struct policy_plan {
	struct msg_directive directive; /* id is the caller's to fill */
	uint8_t nr_actions;
	struct msg_action action[PROTO_NODES_MAX]; /* the same */
	/* all of this tick; .changed tells the ones worth a history entry */
	uint8_t nr_decisions;
	struct decision decision[PROTO_NODES_MAX + 1];
	bool changed[PROTO_NODES_MAX + 1];
};

/**
 * policy_decide() - one tick for one VM
 * @ret_plan: complete: a directive in every case (its quiet flag says that
 *            nothing may run), at most one action: an agent runs one at a
 *            time, so the neediest node comes first
 *
 * The plan counts as carried out: the node's cooldown begins here, not when
 * the result comes, and an action whose result never comes counts as one that
 * brought nothing.
 */
void policy_decide(const struct policy_cfg *cfg, struct policy_state *st,
		   const struct policy_snapshot *s, uint64_t now_us,
		   struct policy_plan *ret_plan);

/**
 * policy_request() - an action that a person asked for
 * @order:  of the blocks; 0: the order that the policy itself would choose
 * @blocks: further free ones, or ACTION_BLOCKS_ALL
 *
 * Checks what must hold for any action (off, paused, stopped, migrating, no
 * fresh report, no backend, busy, low memory), not whether it pays.
 * Return: true with @ret_action, or false; @ret_d says why in both cases.
 */
bool policy_request(const struct policy_cfg *cfg,
		    const struct policy_snapshot *s, uint8_t node,
		    uint8_t order, uint32_t blocks, uint64_t now_us,
		    struct msg_action *ret_action, struct decision *ret_d);

/**
 * policy_result() - how an action ended, for cooldown and back-off
 */
void policy_result(const struct policy_cfg *cfg, struct policy_state *st,
		   const struct msg_result *r, uint64_t now_us);

#endif
