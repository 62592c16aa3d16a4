/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: work that a person asked for: vmdefragctl compact VM [--blocks N]
 * [--order N]
 *
 * Nodes are worked one after the other, the one with most loose free memory
 * first; a wanted number of blocks is met by as many nodes as it takes. One
 * job a VM at a time. When its client goes away, the job is cancelled.
 */
#ifndef VMDEFRAG_JOB_H
#define VMDEFRAG_JOB_H

#include "proto.h"

struct vm;

enum job_event_kind {
	JOB_STARTED,  /* .action */
	JOB_PROGRESS, /* .free_blocks from the newest report */
	JOB_RESULT,   /* .result of one node */
	JOB_DONE,     /* .text; the job is freed after the call */
};

struct job_event {
	enum job_event_kind kind;
	const struct msg_action *action;
	const struct msg_result *result;
	uint64_t free_blocks, free_pages; /* blocks: of the job's order */
	bool ok;
	const char *text;
};

struct job_ask {
	uint32_t blocks;  /* further free ones, or ACTION_BLOCKS_ALL */
	uint8_t backend;  /* enum backend */
	uint8_t order;	  /* of the blocks; 0: the guest's PMD order */
	uint32_t hold_ms; /* see struct msg_action */
	uint64_t time_us; /* limit for all of it */
};

struct job {
	struct vm *vm;
	void *client;  /* the control socket's; NULL: it went away */
	uint32_t want; /* further free blocks, or ACTION_BLOCKS_ALL */
	uint32_t got;
	uint8_t backend, order;
	uint32_t hold_ms;
	uint64_t deadline_us;
	uint64_t nodes_done; /* bit i: report.node[i] was worked */
	uint64_t action_id;
	uint8_t action_node; /* index */
	/* refused for what a report said that may be a second old: the next
	 * one decides */
	bool recheck;
	uint8_t refusal;     /* enum decision_reason, the last one */
	const char *stopped; /* a limit that a node met; static, or NULL */
};

/**
 * job_start() - begin
 * @ret_why: static or the VM's text, on failure
 *
 * Return: 0, after which events come through manager.job_event, JOB_DONE
 * last; or -errno.
 */
int job_start(struct vm *v, void *client, const struct job_ask *ask,
	      uint64_t now_us, struct job **ret_job, const char **ret_why);

/* The client is gone, or the VM is: cancel; no event is sent any more. */
void job_abandon(struct job *j);

/* From the VM: a result came, a report came, the session ended, time. */
void job_result(struct job *j, const struct msg_result *r, uint64_t now_us);
void job_report(struct job *j, uint64_t now_us);
void job_session_down(struct job *j, const char *why);
void job_tick(struct job *j, uint64_t now_us);

#endif
