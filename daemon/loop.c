// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "log.h"
#include "loop_priv.h"
#include "util.h"

static int open_engine(struct loop *l, const struct engine_ops *ops)
{
	l->ops = ops;
	return ops->open(l);
}

int loop_open(enum loop_kind kind, struct loop **ret_loop)
{
	struct loop *l = calloc(1, sizeof(*l));
	int r = 0;

	if (!l)
		return -ENOMEM;
	if (kind != LOOP_POLL) {
		r = open_engine(l, &loop_uring_ops);
		if (r < 0 && kind == LOOP_AUTO)
			log_notice("io_uring is not to be had here (%s); "
				   "using poll(2)",
				   strerror(-r));
	}
	if (kind == LOOP_POLL || (kind == LOOP_AUTO && r < 0))
		r = open_engine(l, &loop_poll_ops);
	if (r < 0) {
		free(l);
		return r;
	}
	*ret_loop = l;
	return 0;
}

void loop_close(struct loop *l)
{
	if (!l)
		return;
	l->ops->close(l);
	free(l->slot);
	free(l);
}

enum loop_kind loop_kind(const struct loop *l)
{
	return l->ops->kind;
}

void loop_stats(const struct loop *l, struct loop_stats *ret_stats)
{
	*ret_stats = l->stats;
}

/* A free slot's index, or -ENOMEM. */
static int slot_alloc(struct loop *l, uint32_t *ret_index)
{
	if (!l->first_free) {
		uint32_t n = l->nr_slots ? l->nr_slots * 2 : 64;
		struct slot *grown = realloc(l->slot, n * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		memset(grown + l->nr_slots, 0,
		       (n - l->nr_slots) * sizeof(*grown));
		for (uint32_t i = n; i > l->nr_slots; i--) {
			grown[i - 1].next_free = l->first_free;
			l->first_free = i;
		}
		l->slot = grown;
		l->nr_slots = n;
	}
	*ret_index = l->first_free - 1;
	l->first_free = l->slot[*ret_index].next_free;
	return 0;
}

static int source_add(struct loop *l, struct source *s, int fd,
		      enum source_kind kind, unsigned int events)
{
	struct slot *slot;
	uint32_t index;
	int r;

	if (source_active(s))
		return -EBUSY;
	r = slot_alloc(l, &index);
	if (r < 0)
		return r;
	slot = &l->slot[index];
	slot->source = s;
	slot->kind = kind;
	slot->fd = fd;
	slot->events = events;
	s->slot = index + 1;
	l->nr_recv += kind == SOURCE_RECV;

	r = l->ops->arm(l, index);
	if (r < 0)
		loop_remove(l, s);
	return r;
}

int loop_recv(struct loop *l, struct source *s, int fd)
{
	return source_add(l, s, fd, SOURCE_RECV, 0);
}

int loop_accept(struct loop *l, struct source *s, int fd)
{
	return source_add(l, s, fd, SOURCE_ACCEPT, 0);
}

int loop_watch(struct loop *l, struct source *s, int fd, unsigned int events)
{
	return source_add(l, s, fd, SOURCE_WATCH, events);
}

void loop_remove(struct loop *l, struct source *s)
{
	uint32_t index = s->slot - 1;
	struct slot *slot;

	if (!source_active(s))
		return;
	slot = &l->slot[index];
	l->ops->disarm(l, index);
	l->nr_recv -= slot->kind == SOURCE_RECV;
	slot->source = NULL;
	slot->kind = SOURCE_NONE;
	slot->generation++;
	slot->next_free = l->first_free;
	l->first_free = index + 1;
	s->slot = 0;
}

int loop_turn(struct loop *l, uint64_t timeout_us)
{
	int r = l->ops->turn(l, timeout_us);

	l->stats.turns++;
	if (r > 0)
		l->stats.events += (uint64_t)r;
	return r == -EINTR ? 0 : r;
}

bool slot_is(const struct loop *l, uint32_t index, uint32_t generation)
{
	return index < l->nr_slots && l->slot[index].source &&
	       l->slot[index].generation == generation;
}

void slot_recv(struct loop *l, uint32_t index, const uint8_t *buf, long n)
{
	struct source *s = l->slot[index].source;

	if (n <= 0)
		loop_remove(l, s);
	s->on_recv(s, buf, n);
}

void slot_accept(struct loop *l, uint32_t index, int fd)
{
	struct source *s = l->slot[index].source;

	s->on_accept(s, fd);
}

void slot_ready(struct loop *l, uint32_t index, unsigned int revents)
{
	struct source *s = l->slot[index].source;

	s->on_ready(s, revents);
}
