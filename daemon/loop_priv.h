/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between loop.c and its two engines; nobody else includes this. */
#ifndef VMDEFRAG_LOOP_PRIV_H
#define VMDEFRAG_LOOP_PRIV_H

#include "loop.h"

enum source_kind {
	SOURCE_NONE,
	SOURCE_RECV,
	SOURCE_ACCEPT,
	SOURCE_WATCH,
};

struct slot {
	struct source *source; /* NULL: free */
	uint32_t generation;   /* grows at each removal */
	enum source_kind kind;
	int fd;
	unsigned int events; /* SOURCE_WATCH */
	uint32_t next_free;  /* index + 1 */
};

struct engine_ops {
	enum loop_kind kind;
	int (*open)(struct loop *l);
	void (*close)(struct loop *l);
	/* begin to watch the slot; 0 or -errno */
	int (*arm)(struct loop *l, uint32_t index);
	/* stop; slot content is still there */
	void (*disarm)(struct loop *l, uint32_t index);
	int (*turn)(struct loop *l, uint64_t timeout_us);
};

struct loop {
	const struct engine_ops *ops;
	void *engine;
	struct slot *slot;
	uint32_t nr_slots, first_free; /* index + 1 */
	uint32_t nr_recv;	       /* active SOURCE_RECV */
	struct loop_stats stats;
};

extern const struct engine_ops loop_uring_ops, loop_poll_ops;

/* Hand an event to the slot's source, if it still is of @generation. */
bool slot_is(const struct loop *l, uint32_t index, uint32_t generation);
void slot_recv(struct loop *l, uint32_t index, const uint8_t *buf, long n);
void slot_accept(struct loop *l, uint32_t index, int fd);
void slot_ready(struct loop *l, uint32_t index, unsigned int revents);

#endif
