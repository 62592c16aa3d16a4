/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One piece of work for the host: admitted or refused, driven through a
 * backend, stopped at its target or the first limit, accounted for.
 */
#ifndef AGENT_ACTION_H
#define AGENT_ACTION_H

#include "backend.h"
#include "budget.h"
#include "config.h"
#include "gain.h"
#include "hold.h"
#include "limits.h"
#include "sample.h"

/* What holds for any action just now; the agent owns it. */
struct action_env {
	const struct config *cfg;
	const struct msg_hello *caps;
	const struct sampler *sampler;
	struct knobs *knobs;
	struct loans *loans;
	struct budget *budget;
	struct backend_memory *memory;
	struct gains *gains; /* NULL: none is kept */
	struct holds *holds; /* NULL: nothing is held */
	int proc_fd, sys_fd;
	bool observe, quiet;
	uint16_t psi_abort_centi;
};

struct action {
	bool running;
	struct job job;
	const struct backend_ops *ops;
	struct limits limits;
	struct progress progress;
	struct vmstat start_vmstat;
	uint64_t start_us, next_look_us;
	uint64_t psi_look_us;
	/* where PSI and our own part in it stood, to tell them apart */
	uint64_t psi_base_us, psi_base_some_us, psi_base_own_us;
	struct job_own own; /* of the newest one, also after its end */
	uint64_t end_us;
	char choice[PROTO_TEXT_MAX + 1]; /* what auto chose, and why */
	struct verdict verdict;		 /* why it was told to stop */
	struct msg_result result;
	uint64_t kpageflags_words; /* of all before this one */
};

/**
 * action_start() - begin what the host asks for
 *
 * Return: true if it runs now; false if *@ret_result says why not.
 */
bool action_start(struct action *a, const struct action_env *env,
		  const struct msg_action *req, uint64_t now_us,
		  struct msg_result *ret_result);

/**
 * action_step() - watch a running action
 *
 * Return: true if it has ended, and *@ret_result tells how.
 */
bool action_step(struct action *a, const struct action_env *env,
		 uint64_t now_us, struct msg_result *ret_result);

/**
 * action_stop() - make it end soon; action_step() then says when
 */
void action_stop(struct action *a, enum stop_why why, const char *text);

/**
 * action_deadline_us() - when action_step() should be called at the latest
 *
 * Return: UINT64_MAX if nothing runs.
 */
uint64_t action_deadline_us(const struct action *a);

#endif
