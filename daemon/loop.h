/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: the core's event loop
 *
 * One thread, one loop_turn() after the other; every handler returns at once.
 * Two engines behind it: io_uring (multishot recv into a ring of provided
 * buffers, multishot accept and poll), and poll(2) where a ring is refused
 * (kernel.io_uring_disabled, seccomp, an old kernel). They behave alike, and
 * the tests run on both.
 *
 * A source is known to the engine by slot and generation, never by address:
 * a completion that arrives after loop_remove() finds another generation and
 * is dropped, so the owner may free the source at once, even from within its
 * own handler.
 */
#ifndef VMDEFRAG_LOOP_H
#define VMDEFRAG_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum loop_kind {
	LOOP_AUTO,
	LOOP_URING,
	LOOP_POLL,
	LOOP_KIND_COUNT,
};

const char *loop_kind_name(unsigned int kind);

struct loop;

/* Embedded in its owner; zeroed, with the handler of its use filled in. */
struct source {
	/* loop_recv(): @n bytes; 0: end of stream; <0: -errno. After either
	 * of the latter the source is removed already. */
	void (*on_recv)(struct source *s, const uint8_t *buf, long n);
	/* loop_accept(): the new fd, the handler's to close; or -errno */
	void (*on_accept)(struct source *s, int fd);
	/* loop_watch(): poll(2) bits. Read until -EAGAIN: with io_uring only
	 * new events are told. */
	void (*on_ready)(struct source *s, unsigned int revents);
	uint32_t slot; /* the loop's: 0 when not watched, else index + 1 */
};

/**
 * loop_open() - start an engine
 * @kind:    LOOP_AUTO falls back to poll(2) with one line in the log
 *
 * Return: 0; -errno of io_uring_setup(2) where LOOP_URING was demanded.
 */
int loop_open(enum loop_kind kind, struct loop **ret_loop);
void loop_close(struct loop *l);

/* The engine in use. */
enum loop_kind loop_kind(const struct loop *l);

/* fd stays the caller's; remove the source before closing it. */
int loop_recv(struct loop *l, struct source *s, int fd);
int loop_accept(struct loop *l, struct source *s, int fd);
int loop_watch(struct loop *l, struct source *s, int fd, unsigned int events);

/**
 * loop_remove() - no further call for @s; a source not watched is fine
 */
void loop_remove(struct loop *l, struct source *s);

static inline bool source_active(const struct source *s)
{
	return s->slot != 0;
}

/**
 * loop_turn() - wait for events, call the handlers
 * @timeout_us: at most this long; 0 only looks
 *
 * Return: handlers called, or -errno (never -EINTR).
 */
int loop_turn(struct loop *l, uint64_t timeout_us);

/* What it cost so far. */
struct loop_stats {
	uint64_t turns, syscalls, events, batched_waits;
};
void loop_stats(const struct loop *l, struct loop_stats *ret_stats);

#endif
