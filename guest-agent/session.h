/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: the agent's end of a session
 *
 *	DOWN	no link. session_up() leads to
 *	GREET	HELLO is sent, again after 1, 2, 4, 8 s and a bit; a WELCOME
 *		with our nonce leads to
 *	OPEN	frames of this session are handed to the owner
 *
 * SYNC leads from anywhere to GREET with a HELLO at once: the host has
 * restarted. A violation by the host, or its BYE, leads there without one.
 * Losing the link leads to DOWN. Whatever leads out of OPEN is told to the
 * owner by ended().
 */
#ifndef AGENT_SESSION_H
#define AGENT_SESSION_H

#include "log.h"
#include "outbox.h"
#include "proto.h"
#include "proto_codec.h"

struct session_ops {
	void (*opened)(void *ctx, const struct msg_welcome *w, uint64_t now_us);
	void (*ended)(void *ctx, const char *why, uint64_t now_us);
	void (*directive)(void *ctx, const struct msg_directive *d,
			  uint64_t now_us);
	void (*action)(void *ctx, const struct msg_action *a, uint64_t now_us);
	void (*cancel)(void *ctx, const struct msg_cancel *c, uint64_t now_us);
	void (*map_ask)(void *ctx, const struct msg_map_ask *q,
			uint64_t now_us);
	void (*backing)(void *ctx, const struct msg_backing *b,
			uint64_t now_us);
};

enum session_state {
	SESSION_DOWN,
	SESSION_GREET,
	SESSION_OPEN,
};

struct session {
	const struct session_ops *ops;
	void *ctx;
	enum session_state state;
	struct msg_hello hello;
	uint64_t id;
	uint32_t seq_in, seq_out, seq_hello;
	uint64_t hello_at_us, hello_pause_us;
	uint64_t bad_frames; /* stale ones, violations and garbage, ever */
	struct log_limit trouble;
	struct framer framer;
	struct outbox out;
	struct msg in; /* the frame in hand; too big for a stack */
	uint8_t in_buf[PROTO_FRAME_MAX];
};

/**
 * session_init() - without a link
 */
void session_init(struct session *s, const struct msg_hello *hello,
		  const struct session_ops *ops, void *ctx);

/**
 * session_up() - a link is there: say HELLO
 */
void session_up(struct session *s, uint64_t now_us);

/**
 * session_down() - the link is gone
 */
void session_down(struct session *s, const char *why, uint64_t now_us);

/**
 * session_read() - read once from the link, and act on what is complete
 *
 * Return: 0; -EAGAIN if there was nothing; -ENOTCONN at the end of the
 * stream; another -errno. Only 0 and -EAGAIN leave the link usable.
 */
int session_read(struct session *s, int fd, uint64_t now_us);

/**
 * session_tick() - HELLO, when it is due
 */
void session_tick(struct session *s, uint64_t now_us);

/**
 * session_deadline_us() - when session_tick() has something to do
 *
 * Return: UINT64_MAX for never.
 */
uint64_t session_deadline_us(const struct session *s);

/**
 * session_send() - queue a message of the open session
 * @m: session and sequence number are filled in
 *
 * Return: 0; -ENOTCONN without a session; another -errno.
 */
int session_send(struct session *s, struct msg *m);

/**
 * session_bye() - end it from our side
 */
void session_bye(struct session *s, enum bye_reason reason, const char *text);

#endif
