/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: the core's end of a link to another of our processes
 *
 * Requests are numbered, bounded in number, and each has a deadline: the
 * helper may hang in a /proc read of a stuck QEMU. When one is missed, the
 * supervisor is asked for a new process. The oldest request fails with
 * -ETIMEDOUT, since that is what a process that serves one after the other is
 * stuck with; all others with -ECONNRESET: to be asked again.
 */
#ifndef VMDEFRAG_LINK_H
#define VMDEFRAG_LINK_H

#include "ipc.h"
#include "loop.h"

/* More than the VMs of a large host need at once: sampling is staggered. */
#define LINK_REQUESTS_MAX 256

/* Called once a request: @fd is the callee's; @m only when result is 0. */
typedef void link_answer_fn(void *ctx, uint64_t cookie, int result,
			    const struct ipc_msg *m, int fd);

struct link_request {
	bool used;
	uint64_t id, deadline_us, cookie;
	link_answer_fn *answer;
	void *ctx;
};

struct link {
	struct loop *loop;
	struct source src;
	int fd; /* -1: the process is being started anew */
	enum role role;
	/* messages that answer no request (broker) */
	void (*message)(struct link *k, const struct ipc_msg *m);
	/* a deadline passed, or the process broke the rules: replace it */
	void (*stuck)(struct link *k);
	uint64_t next_id;
	struct link_request request[LINK_REQUESTS_MAX];
	uint64_t timeouts;
};

void link_init(struct link *k, struct loop *l, enum role role);

/**
 * link_set() - use a new connection; requests under way fail with -ECONNRESET
 * @fd: the link's from now on
 */
void link_set(struct link *k, int fd);

/**
 * link_call() - send a request
 * @m:      op and arguments; the id is filled in
 * @cookie: handed to @answer
 *
 * Return: 0; -ENOTCONN while the process is away; -EBUSY when
 * LINK_REQUESTS_MAX are under way; -EAGAIN. @answer is called only after 0.
 */
int link_call(struct link *k, struct ipc_msg *m, uint64_t deadline_us,
	      link_answer_fn *answer, void *ctx, uint64_t cookie);

/**
 * link_tick() - fail what is overdue
 */
void link_tick(struct link *k, uint64_t now_us);

#endif
