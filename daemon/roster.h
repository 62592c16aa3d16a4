/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The four processes as the supervisor sees them: started, linked to the core,
 * replaced, reaped, and started again with back-off.
 */
#ifndef VMDEFRAG_ROSTER_H
#define VMDEFRAG_ROSTER_H

#include "child.h"

/* A process in D state outlives its SIGKILL. This many of one role, the one
 * in use among them, may be alive; then there are no more until one ends. */
#define ROSTER_ALIVE_MAX 4

/* Back-off doubles from the first to the second, once a process ended again
 * within ROSTER_STABLE_US of its start; the first time it is replaced at once.
 */
#define ROSTER_BACKOFF_MIN_US (100 * MSEC_US)
#define ROSTER_BACKOFF_MAX_US (5 * SEC_US)
#define ROSTER_STABLE_US      (10 * SEC_US)

struct roster_child {
	pid_t pid; /* 0: none in use */
	int fd;	   /* link to it; -1 */
	uint64_t started_us;
	unsigned int failures; /* in a row */
	bool due;	       /* to be started at due_us */
	bool refused;	       /* too many alive; was said */
	uint64_t due_us;
	pid_t killed[ROSTER_ALIVE_MAX]; /* not reaped yet; 0: free */
};

struct roster {
	const struct config *cfg; /* for children to come */
	const struct identity *id;
	role_main_fn main[ROLE_COUNT];
	int listen_fd;
	bool stopping; /* start nothing any more */
	struct roster_child child[ROLE_COUNT];
};

/**
 * roster_init() - nobody there, everybody due at once
 */
void roster_init(struct roster *r);

/**
 * roster_start_due() - fork and link those whose time has come
 */
void roster_start_due(struct roster *r, uint64_t now);

/**
 * roster_next_us() - when roster_start_due() has something to do
 *
 * Return: the time, or UINT64_MAX.
 */
uint64_t roster_next_us(const struct roster *r);

/**
 * roster_reap() - take note of all that ended
 */
void roster_reap(struct roster *r, uint64_t now);

/**
 * roster_replace() - SIGKILL @role's process and go on with a new one, whether
 *                    or not the old one ends
 */
void roster_replace(struct roster *r, enum role role, uint64_t now);

/**
 * roster_kill() - SIGKILL, if it lives; what follows comes by roster_reap()
 */
void roster_kill(struct roster *r, enum role role);

/**
 * roster_send() - to a child, which is killed if it does not read
 * @pass_fd: sent along, or -1
 *
 * Return: 0, or -errno; -ESRCH if there is none.
 */
int roster_send(struct roster *r, enum role role, const struct ipc_msg *m,
		int pass_fd);

/**
 * roster_backoff_us() - pause before the next start after @failures in a row
 */
uint64_t roster_backoff_us(unsigned int failures);

#endif
