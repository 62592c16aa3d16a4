// SPDX-License-Identifier: GPL-2.0-or-later
/* The poll(2) engine: for hosts where io_uring is refused. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "loop_priv.h"
#include "util.h"

/* One read takes what a ring's buffer would, so both engines batch alike. */
#define READ_MAX 4096

struct poll_engine {
	struct pollfd *pfd;
	struct {
		uint32_t index, generation;
	} * who;
	size_t nr_alloc;
};

static int poll_open(struct loop *l)
{
	l->engine = calloc(1, sizeof(struct poll_engine));
	return l->engine ? 0 : -ENOMEM;
}

static void poll_close(struct loop *l)
{
	struct poll_engine *e = l->engine;

	free(e->pfd);
	free(e->who);
	free(e);
}

/* Nothing to arm: each turn looks at all slots. */
static int poll_arm(struct loop *l, uint32_t index)
{
	(void)l;
	(void)index;
	return 0;
}

static void poll_disarm(struct loop *l, uint32_t index)
{
	(void)l;
	(void)index;
}

static int poll_reserve(struct poll_engine *e, size_t n)
{
	void *p;

	if (n <= e->nr_alloc)
		return 0;
	p = realloc(e->pfd, n * sizeof(*e->pfd));
	if (!p)
		return -ENOMEM;
	e->pfd = p;
	p = realloc(e->who, n * sizeof(*e->who));
	if (!p)
		return -ENOMEM;
	e->who = p;
	e->nr_alloc = n;
	return 0;
}

static void poll_event(struct loop *l, uint32_t index, unsigned int revents)
{
	const struct slot *slot = &l->slot[index];
	uint8_t buf[READ_MAX];
	ssize_t n;
	int fd;

	switch (slot->kind) {
	case SOURCE_RECV:
		l->stats.syscalls++;
		n = recv(slot->fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		slot_recv(l, index, buf, n < 0 ? -errno : (long)n);
		break;
	case SOURCE_ACCEPT:
		l->stats.syscalls++;
		fd = accept4(slot->fd, NULL, NULL,
			     SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		slot_accept(l, index, fd < 0 ? -errno : fd);
		break;
	case SOURCE_WATCH:
		slot_ready(l, index, revents);
		break;
	case SOURCE_NONE:
		break;
	}
}

static int poll_turn(struct loop *l, uint64_t timeout_us)
{
	struct poll_engine *e = l->engine;
	struct timespec ts = {
		.tv_sec = (time_t)(timeout_us / SEC_US),
		.tv_nsec = (long)(timeout_us % SEC_US * 1000),
	};
	size_t n = 0;
	int events = 0, r;

	r = poll_reserve(e, l->nr_slots);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < l->nr_slots; i++) {
		const struct slot *slot = &l->slot[i];

		if (!slot->source)
			continue;
		e->pfd[n].fd = slot->fd;
		e->pfd[n].events = slot->kind == SOURCE_WATCH
					   ? (short)slot->events
					   : POLLIN;
		e->pfd[n].revents = 0;
		e->who[n].index = i;
		e->who[n].generation = slot->generation;
		n++;
	}
	l->stats.syscalls++;
	r = ppoll(e->pfd, n, &ts, NULL);
	if (r < 0)
		return -errno;
	for (size_t i = 0; r > 0 && i < n; i++) {
		if (!e->pfd[i].revents)
			continue;
		/* a handler before may have removed it */
		if (!slot_is(l, e->who[i].index, e->who[i].generation))
			continue;
		poll_event(l, e->who[i].index, (unsigned int)e->pfd[i].revents);
		events++;
	}
	return events;
}

const struct engine_ops loop_poll_ops = {
	.kind = LOOP_POLL,
	.open = poll_open,
	.close = poll_close,
	.arm = poll_arm,
	.disarm = poll_disarm,
	.turn = poll_turn,
};
