/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: the life of one VM
 *
 * A VM is known by what the broker said of it. Three things about it come and
 * go on their own, each with its back-off, and none waits for another: the
 * channel to the agent, the QMP socket, and samples of the QEMU process, all
 * by way of the helper.
 */
#ifndef VMDEFRAG_VM_H
#define VMDEFRAG_VM_H

#include "history.h"
#include "ipc.h"
#include "kvmstats.h"
#include "link.h"
#include "peer.h"
#include "policy.h"
#include "policy_collapse.h"
#include "vmmap.h"

struct manager;
struct job;
struct qmp;

/* A socket that the helper opens for us, again and again. */
struct dial {
	bool opening;
	uint64_t retry_at_us, retry_us; /* back-off */
	int last_error;			/* 0 or -errno; for explain */
};

/* What an action under way may still take: deadline and who asked. */
struct vm_action {
	uint64_t id; /* 0: none */
	uint64_t deadline_us;
	struct msg_action action;
};

struct vm_proc {
	bool valid, asked;
	uint64_t at_us, next_us;
	int32_t pid;
	uint64_t start_time;
	int last_error;
	uint64_t rss_kib, anon_huge_kib, shmem_huge_kib, hugetlb_kib, swap_kib;
	bool locked_valid; /* VmLck and VmPin are known */
	uint64_t locked_kib, pinned_kib;
};

/* Memory by host node, where the VM has a control group of its own. */
struct vm_numa {
	bool valid, asked;
	uint64_t at_us, next_us;
	int last_error;
	uint32_t nr_nodes;
	struct {
		uint64_t kib, huge_kib;
	} node[IPC_NUMA_MAX];
};

/* How KVM maps the VM. */
struct vm_kvm {
	bool valid, asked;
	bool by_qmp;	   /* else debugfs */
	bool qmp_has_none; /* until the next connection */
	uint64_t at_us, next_us, query_id;
	int last_error;
	struct kvm_pages pages;
};

struct vm {
	struct vm *next;
	struct manager *m;
	struct ipc_vm cfg;
	uint64_t serial; /* never reused: a helper's answer may come late */

	struct peer peer;
	struct dial channel, qmp_dial;
	int qmp_fd; /* -1: closed */
	struct source qmp_src;
	struct qmp *qmp;
	uint64_t qmp_heard_us, qmp_refresh_us;

	struct policy_cfg pcfg;
	struct policy_state pst;
	bool paused; /* vmdefragctl pause */

	bool have_hello, have_report;
	struct msg_hello hello;	  /* of the newest session */
	struct msg_report report; /* newest, kept after the session ended */
	uint64_t report_us, report_count;

	struct msg_directive directive; /* last sent in this session */
	uint64_t directive_us;		/* when; 0: none in this session */
	struct vm_action action;
	struct job *job;	   /* vmdefragctl compact */
	unsigned int nr_recorders; /* vmdefragctl record */

	struct vm_proc proc;
	struct vm_numa numa;
	struct vmmap map;
	struct collapse_state collapse;
	enum collapse_hold collapse_hold; /* of the newest plan */
	struct collapse_plan collapse_plan;
	uint64_t ballooned_kib; /* the most that was ever seen missing */
	bool collapsing;	/* the helper is at it */
	uint64_t collapse_next_us, collapse_count_us;
	/* where QMP says that its memory devices are */
	uint64_t dimms_id; /* of the query under way; 0: none */
	uint32_t nr_dimms;
	struct ipc_dimm dimm[IPC_DIMMS_MAX];
	struct vm_kvm kvm;
	struct history history;
	char down_why[PROTO_TEXT_MAX + 1]; /* why the last session ended */
};

/**
 * vm_new() - from what the broker said; connects at the next vm_tick()
 */
struct vm *vm_new(struct manager *m, const struct ipc_vm *cfg, uint64_t now_us);

/**
 * vm_update() - changed configuration of the same VM
 */
void vm_update(struct vm *v, const struct ipc_vm *cfg, uint64_t now_us);

/**
 * vm_free() - sends BYE, so that the agent puts the guest's knobs back
 */
void vm_free(struct vm *v);

/**
 * vm_tick() - time passes: redial, sample, deadlines, lease
 */
void vm_tick(struct vm *v, uint64_t now_us);

/**
 * vm_decide() - run the policy on what is known now, and act on it
 */
void vm_decide(struct vm *v, uint64_t now_us);

/**
 * vm_set_paused() - stop acting, or go on; knobs are put back at once
 */
void vm_set_paused(struct vm *v, bool paused, uint64_t now_us);

/**
 * vm_record_begin() - tell a new recorder what the policy knows now
 */
void vm_record_begin(struct vm *v, uint64_t now_us);

/* Snapshot for the policy; pointers into @v. */
struct policy_snapshot vm_snapshot(const struct vm *v, uint64_t now_us);

/* vm_qmp.c: what QEMU itself says about the VM. */
void vm_qmp_tick(struct vm *v, uint64_t now_us);
void vm_qmp_close(struct vm *v);
void vm_qmp_state(const struct vm *v, struct policy_snapshot *s,
		  uint64_t now_us);
/**
 * vm_qmp_ask_kvm() - ask QEMU for KVM's page counts
 *
 * Return: 0 if it was asked; -errno: it cannot be, or has none.
 */
int vm_qmp_ask_kvm(struct vm *v);

/* "running", "stopped", "migrating", …; "unknown" without QMP */
const char *vm_qmp_state_name(const struct vm *v, uint64_t now_us);

/* vm_map.c: whose memory, for the helper's requests about it */
void vm_map_guest(const struct vm *v, struct ipc_guest *ret_guest);
/* the helper's answer to act_collapse(); a link_answer_fn */
void vm_map_collapsed(void *ctx, uint64_t cookie, int result,
		      const struct ipc_msg *m, int fd);
/* base pages under the guest, and no way to change that */
bool vm_map_host_base(const struct vm *v);
/* something happened that changes what backs the VM: look soon */
void vm_map_again(struct vm *v, uint64_t now_us);

static inline bool vm_is_active(const struct vm *v)
{
	return v->cfg.mode > VM_MODE_OBSERVE;
}

/* "up", "down", "penalty" or "closed" */
const char *vm_session_name(const struct vm *v, uint64_t now_us);

#endif
