// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "link.h"
#include "log.h"
#include "util.h"

static void on_ready(struct source *s, unsigned int revents);

void link_init(struct link *k, struct loop *l, enum role role)
{
	memset(k, 0, sizeof(*k));
	k->loop = l;
	k->role = role;
	k->fd = -1;
	k->src.on_ready = on_ready;
	k->next_id = 1;
}

static void request_finish(struct link_request *q, int result,
			   const struct ipc_msg *m, int fd)
{
	struct link_request copy = *q;

	/* free first: the callee may ask the next thing at once */
	q->used = false;
	copy.answer(copy.ctx, copy.cookie, result, m, fd);
}

static void fail_all(struct link *k, int result)
{
	for (size_t i = 0; i < LINK_REQUESTS_MAX; i++) {
		if (k->request[i].used)
			request_finish(&k->request[i], result, NULL, -1);
	}
}

static void fail_oldest(struct link *k)
{
	struct link_request *oldest = NULL;

	for (size_t i = 0; i < LINK_REQUESTS_MAX; i++) {
		struct link_request *q = &k->request[i];

		if (q->used && (!oldest || q->id < oldest->id))
			oldest = q;
	}
	if (oldest)
		request_finish(oldest, -ETIMEDOUT, NULL, -1);
}

static void link_drop(struct link *k, int result)
{
	if (k->fd < 0)
		return;
	loop_remove(k->loop, &k->src);
	close(k->fd);
	k->fd = -1;
	fail_all(k, result);
}

void link_set(struct link *k, int fd)
{
	link_drop(k, -ECONNRESET);
	k->fd = fd;
	if (fd >= 0 && loop_watch(k->loop, &k->src, fd, POLLIN) < 0)
		link_drop(k, -ENOMEM);
}

static void answer_received(struct link *k, const struct ipc_msg *m, int fd)
{
	for (size_t i = 0; i < LINK_REQUESTS_MAX; i++) {
		struct link_request *q = &k->request[i];

		if (!q->used || q->id != m->id)
			continue;
		request_finish(q, m->result, m->result ? NULL : m, fd);
		return;
	}
	/* overdue, and failed already */
	if (fd >= 0)
		close(fd);
}

static void on_ready(struct source *s, unsigned int revents)
{
	struct link *k = container_of(s, struct link, src);
	struct ipc_msg m;
	int fd, r;

	(void)revents;
	while (k->fd >= 0) {
		r = ipc_recv(k->fd, &m, &fd);
		if (r == -EAGAIN)
			return;
		if (r <= 0) {
			if (r < 0)
				log_err_errno(r, "Link to the %s is broken",
					      role_name(k->role));
			link_drop(k, -ECONNRESET);
			if (r < 0)
				k->stuck(k);
			return;
		}
		if (m.id) {
			answer_received(k, &m, fd);
			continue;
		}
		if (fd >= 0)
			close(fd); /* no unasked message carries one */
		if (k->message)
			k->message(k, &m);
	}
}

int link_call(struct link *k, struct ipc_msg *m, uint64_t deadline_us,
	      link_answer_fn *answer, void *ctx, uint64_t cookie)
{
	struct link_request *q = NULL;
	int r;

	if (k->fd < 0)
		return -ENOTCONN;
	for (size_t i = 0; i < LINK_REQUESTS_MAX && !q; i++) {
		if (!k->request[i].used)
			q = &k->request[i];
	}
	if (!q)
		return -EBUSY;
	m->id = k->next_id++;
	r = ipc_send(k->fd, m, -1);
	if (r < 0)
		return r;
	*q = (struct link_request){
		.used = true,
		.id = m->id,
		.deadline_us = deadline_us,
		.cookie = cookie,
		.answer = answer,
		.ctx = ctx,
	};
	return 0;
}

void link_tick(struct link *k, uint64_t now_us)
{
	for (size_t i = 0; i < LINK_REQUESTS_MAX; i++) {
		if (!k->request[i].used || now_us < k->request[i].deadline_us)
			continue;
		k->timeouts++;
		/* it serves one after the other, so it is the oldest that it
		 * is stuck with; the others need not suffer for it */
		fail_oldest(k);
		log_warn("The %s did not answer in time; replacing it",
			 role_name(k->role));
		link_drop(k, -ECONNRESET);
		k->stuck(k);
		return;
	}
}
