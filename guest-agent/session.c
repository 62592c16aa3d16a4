// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "session.h"
#include "util.h"

#define HELLO_PAUSE_MIN_US (1 * SEC_US)
#define HELLO_PAUSE_MAX_US (8 * SEC_US)
/* after a host that does not want us: a SYNC cuts it short */
#define REFUSED_PAUSE_US (60 * SEC_US)

void session_init(struct session *s, const struct msg_hello *hello,
		  const struct session_ops *ops, void *ctx)
{
	memset(s, 0, sizeof(*s));
	s->ops = ops;
	s->ctx = ctx;
	s->hello = *hello;
	s->trouble.interval_us = 60 * SEC_US;
	s->trouble.burst = 5;
	framer_init(&s->framer, s->in_buf);
}

static void say_trouble(struct session *s, const char *what, uint64_t now_us)
{
	unsigned int suppressed;

	if (log_limit_pass(&s->trouble, now_us, &suppressed))
		log_warn("Host: %s (%u more since the last such line)", what,
			 suppressed);
}

/* Many guests of a host start at once: don't let them speak in step. */
static uint64_t jitter_us(const struct session *s, uint64_t pause_us)
{
	uint64_t mixed =
		(s->hello.nonce ^ s->seq_hello) * UINT64_C(0x9e3779b97f4a7c15);

	return (mixed >> 33) % (pause_us / 4);
}

static void hello_later(struct session *s, uint64_t pause_us, uint64_t now_us)
{
	s->hello_pause_us = pause_us;
	s->hello_at_us = now_us + pause_us + jitter_us(s, pause_us);
}

static void hello_now(struct session *s, uint64_t now_us)
{
	struct msg m = {.type = MSG_HELLO, .seq = ++s->seq_hello};

	m.hello = s->hello;
	if (outbox_put(&s->out, &m) < 0)
		log_err("Failed to encode the handshake");
	hello_later(s,
		    CLAMP(s->hello_pause_us * 2, HELLO_PAUSE_MIN_US,
			  HELLO_PAUSE_MAX_US),
		    now_us);
}

/* Out of OPEN, if there; the next HELLO after @pause_us. */
static void greet_later(struct session *s, const char *why, uint64_t pause_us,
			uint64_t now_us)
{
	bool was_open = s->state == SESSION_OPEN;

	s->state = SESSION_GREET;
	hello_later(s, pause_us, now_us);
	if (was_open)
		s->ops->ended(s->ctx, why, now_us);
}

void session_up(struct session *s, uint64_t now_us)
{
	s->state = SESSION_GREET;
	s->hello_pause_us = 0;
	hello_now(s, now_us);
}

void session_down(struct session *s, const char *why, uint64_t now_us)
{
	bool was_open = s->state == SESSION_OPEN;

	s->state = SESSION_DOWN;
	framer_reset(&s->framer);
	outbox_clear(&s->out);
	if (was_open)
		s->ops->ended(s->ctx, why, now_us);
}

int session_send(struct session *s, struct msg *m)
{
	if (s->state != SESSION_OPEN)
		return -ENOTCONN;
	m->session = s->id;
	m->seq = ++s->seq_out;
	return outbox_put(&s->out, m);
}

void session_bye(struct session *s, enum bye_reason reason, const char *text)
{
	struct msg m = {.type = MSG_BYE};

	m.bye.reason = reason;
	text_copy_printable(m.bye.text, sizeof(m.bye.text), text);
	(void)session_send(s, &m); /* a full outbox: the host finds out */
}

static void violation(struct session *s, const char *what, uint64_t now_us)
{
	s->bad_frames++;
	say_trouble(s, what, now_us);
	if (s->state != SESSION_OPEN)
		return;
	session_bye(s, BYE_VIOLATION, what);
	greet_later(s, what, HELLO_PAUSE_MIN_US, now_us);
}

static void handle_sync(struct session *s, uint64_t now_us)
{
	greet_later(s, "host says SYNC", HELLO_PAUSE_MIN_US, now_us);
	s->hello_pause_us = 0;
	hello_now(s, now_us);
}

static void handle_welcome(struct session *s, uint64_t now_us)
{
	const struct msg_welcome *w = &s->in.welcome;

	if (w->nonce != s->hello.nonce || !s->in.session) {
		s->bad_frames++;
		return;
	}
	if (w->version < s->hello.ver_min || w->version > s->hello.ver_max) {
		violation(s, "welcome with a version that we do not speak",
			  now_us);
		return;
	}
	if (s->state == SESSION_OPEN && s->in.session == s->id) {
		/* said again, to a HELLO that crossed the first answer */
		s->seq_in = MAX(s->seq_in, s->in.seq);
		return;
	}
	/* the answer to a HELLO that was repeated */
	if (s->state == SESSION_OPEN)
		s->ops->ended(s->ctx, "host says WELCOME anew", now_us);
	s->state = SESSION_OPEN;
	s->id = s->in.session;
	s->seq_in = s->in.seq;
	s->seq_out = 0;
	s->ops->opened(s->ctx, w, now_us);
}

static void handle_bye(struct session *s, uint64_t now_us)
{
	const struct msg_bye *bye = &s->in.bye;
	bool ours = s->state == SESSION_OPEN ? s->in.session == s->id
					     : !s->in.session;

	if (!ours || (s->in.session && s->in.seq <= s->seq_in)) {
		s->bad_frames++;
		return;
	}
	log_notice("Host says bye: %s%s%s", bye_reason_name(bye->reason),
		   bye->text[0] ? ": " : "", bye->text);
	greet_later(s, "host says BYE",
		    bye->reason == BYE_EXIT ? HELLO_PAUSE_MAX_US
					    : REFUSED_PAUSE_US,
		    now_us);
}

/* A frame that belongs to a session: is it this one, and in order? */
static bool frame_is_due(struct session *s, const struct wire_hdr *h,
			 uint64_t now_us)
{
	if (s->state != SESSION_OPEN || h->session != s->id) {
		s->bad_frames++;
		return false;
	}
	if (h->seq <= s->seq_in) {
		violation(s, "sequence number does not grow", now_us);
		return false;
	}
	s->seq_in = h->seq;
	return true;
}

static void handle_of_session(struct session *s, uint64_t now_us)
{
	switch (s->in.type) {
	case MSG_DIRECTIVE:
		s->ops->directive(s->ctx, &s->in.directive, now_us);
		break;
	case MSG_ACTION:
		s->ops->action(s->ctx, &s->in.action, now_us);
		break;
	case MSG_CANCEL:
		s->ops->cancel(s->ctx, &s->in.cancel, now_us);
		break;
	case MSG_MAP_ASK:
		s->ops->map_ask(s->ctx, &s->in.map_ask, now_us);
		break;
	case MSG_BACKING:
		s->ops->backing(s->ctx, &s->in.backing, now_us);
		break;
	default:
		violation(s, "message of the wrong direction", now_us);
		break;
	}
}

static bool makes_session(uint16_t type)
{
	return type == MSG_SYNC || type == MSG_WELCOME || type == MSG_BYE;
}

static void handle_frame(struct session *s, const struct wire_hdr *h,
			 const uint8_t *body, uint64_t now_us)
{
	const char *what;
	int r;

	if (!makes_session(h->type) && !frame_is_due(s, h, now_us))
		return;
	r = msg_decode(h, body, &s->in, &what);
	if (r == -ENOMSG)
		return; /* of a newer host */
	if (r < 0) {
		violation(s, what, now_us);
		return;
	}
	switch (h->type) {
	case MSG_SYNC:
		handle_sync(s, now_us);
		break;
	case MSG_WELCOME:
		handle_welcome(s, now_us);
		break;
	case MSG_BYE:
		handle_bye(s, now_us);
		break;
	default:
		handle_of_session(s, now_us);
		break;
	}
}

static void handle_garbage(struct session *s, uint64_t bad_bodies_before,
			   uint64_t now_us)
{
	if (s->framer.bad_bodies != bad_bodies_before)
		violation(s, "checksum of a frame is wrong", now_us);
	else
		s->bad_frames++;
}

static void handle_input(struct session *s, uint64_t now_us)
{
	struct wire_hdr h;
	const uint8_t *body;

	for (;;) {
		uint64_t bad_bodies = s->framer.bad_bodies;
		int r = framer_next(&s->framer, &h, &body);

		if (!r)
			return;
		if (r < 0)
			handle_garbage(s, bad_bodies, now_us);
		else
			handle_frame(s, &h, body, now_us);
	}
}

int session_read(struct session *s, int fd, uint64_t now_us)
{
	size_t room;
	uint8_t *to = framer_room(&s->framer, &room);
	ssize_t n = read(fd, to, room);

	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	if (!n)
		return -ENOTCONN;
	framer_fed(&s->framer, (size_t)n);
	handle_input(s, now_us);
	return 0;
}

uint64_t session_deadline_us(const struct session *s)
{
	return s->state == SESSION_GREET ? s->hello_at_us : UINT64_MAX;
}

void session_tick(struct session *s, uint64_t now_us)
{
	if (s->state == SESSION_GREET && now_us >= s->hello_at_us)
		hello_now(s, now_us);
}
