/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: the agent
 *
 * Owns everything, and turns one poll(2) loop: bytes from the host, signals
 * by signalfd, and the nearest of a few deadlines. Each turn reads the clock
 * once. Everything below takes that time as an argument.
 *
 * The lease is what makes a dead host harmless: each directive sets it anew;
 * when it runs out all knobs are put back and what runs is stopped, whether
 * there is a session or not. Losing the session alone does not put anything
 * back, since a host that restarts is back in a second.
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "action.h"
#include "config.h"
#include "hint.h"
#include "knob.h"
#include "link.h"
#include "mapper.h"
#include "sample.h"
#include "session.h"

struct agent_options {
	struct config cfg;
	bool observe, once;
	const char *proc_path, *sys_path;
};

struct agent {
	struct config cfg;
	bool observe;
	int proc_fd, sys_fd, run_fd, lock_fd, signal_fd;
	struct msg_hello caps;
	char boot_id[BOOT_ID_TEXT_SIZE];
	struct sampler sampler;
	struct knobs knobs;
	struct loans loans;
	struct budget budget;
	struct action action;
	struct holds holds;
	struct backend_memory memory;
	struct gains gains;
	struct mapper mapper;
	struct hint hint;
	struct mapper_ops mapper_ops;
	struct session session;
	uint64_t last_action_id;

	struct link link;

	uint64_t report_us, interval_us;
	uint64_t lease_us; /* when it ends; 0: there is none */
	struct msg_directive directive;
	uint64_t housekeep_us;
	uint64_t sample_cpu_us;
	bool stop;
	struct msg report; /* too big for a stack */
};

/**
 * agent_open() - probe the guest, put back what an agent before us left
 *
 * Return: 0, or -errno. Logs.
 */
int agent_open(struct agent *a, const struct agent_options *opt);

/**
 * agent_sample() - one report, as it would be sent
 */
int agent_sample(struct agent *a, uint64_t now_us);

/**
 * agent_run() - serve the host until SIGTERM or SIGINT
 *
 * Return: 0, or -errno. Logs.
 */
int agent_run(struct agent *a);

/**
 * agent_close() - stop, put everything back; also what agent_open() left half
 */
void agent_close(struct agent *a);

#endif
