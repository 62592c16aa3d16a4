// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "log.h"
#include "peer.h"
#include "util.h"

static void on_recv(struct source *s, const uint8_t *buf, long n);
static void on_writable(struct source *s, unsigned int revents);

void peer_init(struct peer *p, struct loop *l, const struct peer_ops *ops,
	       uint32_t interval_ms, uint32_t lease_ms)
{
	memset(p, 0, sizeof(*p));
	p->ops = ops;
	p->loop = l;
	p->fd = -1;
	p->in.on_recv = on_recv;
	p->out.on_ready = on_writable;
	p->interval_ms = interval_ms;
	p->lease_ms = lease_ms;
}

/* Take @n from a bucket that fills by @per_sec up to @burst. */
static bool bucket_take(struct bucket *b, int64_t n, int64_t per_sec,
			int64_t burst, uint64_t now_us)
{
	uint64_t passed_us = MIN(now_us - b->filled_us, 3600 * SEC_US);
	int64_t more = (int64_t)(passed_us * (uint64_t)per_sec / SEC_US);

	/* keep the remainder: many short turns must fill it too */
	if (more) {
		b->level = MIN(b->level + more, burst);
		b->filled_us = now_us;
	}
	if (b->level < 0)
		return false;
	b->level -= n;
	return true;
}

/* Send what the buffer holds, as far as the socket takes it. */
static int out_flush(struct peer *p)
{
	size_t done = 0;

	while (done < p->out_len) {
		ssize_t n = send(p->fd, p->out_buf + done, p->out_len - done,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			return -errno; /* on_recv() will see it too */
		done += (size_t)n;
	}
	memmove(p->out_buf, p->out_buf + done, p->out_len - done);
	p->out_len -= done;
	if (p->out_len && !source_active(&p->out))
		return loop_watch(p->loop, &p->out, p->fd, POLLOUT);
	if (!p->out_len)
		loop_remove(p->loop, &p->out);
	return 0;
}

static void on_writable(struct source *s, unsigned int revents)
{
	struct peer *p = container_of(s, struct peer, out);

	(void)revents;
	(void)out_flush(p); /* a broken connection shows up in on_recv() */
}

static int send_frame(struct peer *p, const struct msg *m)
{
	long n;

	if (p->fd < 0)
		return -ENOTCONN;
	n = msg_encode(m, p->out_buf + p->out_len, PEER_OUT_MAX - p->out_len);
	if (n == -EMSGSIZE)
		return -ENOBUFS;
	if (n < 0)
		return (int)n;
	p->out_len += (size_t)n;
	return out_flush(p);
}

static void session_down(struct peer *p, const char *why)
{
	if (!p->up)
		return;
	p->up = false;
	p->session = 0;
	p->ops->down(p, why);
}

static void send_bye(struct peer *p, enum bye_reason reason, const char *text)
{
	struct msg m = {.type = MSG_BYE, .session = p->session};

	m.seq = ++p->tx_seq;
	m.bye.reason = reason;
	text_copy_printable(m.bye.text, sizeof(m.bye.text), text);
	(void)send_frame(p, &m); /* the session ends either way */
}

/* Don't listen for a while; longer each time it comes to this. */
static void penalize(struct peer *p)
{
	if (p->now_us - p->last_violation_us > PEER_PENALTY_FORGET_US ||
	    !p->penalty_us)
		p->penalty_us = PEER_PENALTY_MIN_US;
	else
		p->penalty_us = MIN(2 * p->penalty_us, PEER_PENALTY_MAX_US);
	p->last_violation_us = p->now_us;
	p->penalty_until_us = p->now_us + p->penalty_us;
	loop_remove(p->loop, &p->in);
	framer_reset(&p->framer);
}

static void violation(struct peer *p, const char *what)
{
	p->stats.violations++;
	send_bye(p, BYE_VIOLATION, what);
	session_down(p, what);
	penalize(p);
}

static void over_rate(struct peer *p, const char *what)
{
	p->stats.rate_limited++;
	send_bye(p, BYE_RATE, what);
	session_down(p, what);
	penalize(p);
}

void peer_close(struct peer *p, enum bye_reason reason, const char *text)
{
	if (p->fd < 0)
		return;
	if (p->up)
		send_bye(p, reason, text);
	loop_remove(p->loop, &p->in);
	loop_remove(p->loop, &p->out);
	close(p->fd);
	p->fd = -1;
	session_down(p, text);
	free(p->in_buf);
	free(p->out_buf);
	p->in_buf = NULL;
	p->out_buf = NULL;
	p->out_len = 0;
}

static int send_sync(struct peer *p)
{
	struct msg m = {.type = MSG_SYNC, .seq = ++p->tx_seq};

	return send_frame(p, &m);
}

int peer_open(struct peer *p, int fd, uint64_t now_us)
{
	int r;

	p->fd = fd;
	p->now_us = now_us;
	p->out_len = 0;
	p->in_buf = malloc(PROTO_FRAME_MAX);
	p->out_buf = malloc(PEER_OUT_MAX);
	if (!p->in_buf || !p->out_buf) {
		peer_close(p, BYE_EXIT, "out of memory");
		return -ENOMEM;
	}
	framer_init(&p->framer, p->in_buf);
	p->frames = (struct bucket){PEER_FRAMES_BURST, now_us};
	p->bytes = (struct bucket){PEER_BYTES_BURST, now_us};
	p->last_rx_us = now_us;
	p->pending_since_us = 0;

	r = p->penalty_until_us > now_us ? 0 : loop_recv(p->loop, &p->in, fd);
	if (!r)
		r = send_sync(p);
	if (r < 0)
		peer_close(p, BYE_EXIT, "cannot open");
	return r;
}

int peer_send(struct peer *p, struct msg *m)
{
	int r;

	if (!p->up)
		return -ENOTCONN;
	m->session = p->session;
	m->seq = ++p->tx_seq;
	r = send_frame(p, m);
	if (r == -ENOBUFS)
		session_down(p, "does not read");
	return r;
}

/* The highest major version that both speak, or 0. */
static uint16_t version_choose(const struct msg_hello *h)
{
	uint16_t top = MIN(h->ver_max, (uint16_t)PROTO_MAJOR);

	return top >= h->ver_min && top >= PROTO_MAJOR_MIN ? top : 0;
}

static void send_welcome(struct peer *p)
{
	struct msg m = {
		.type = MSG_WELCOME,
		.welcome =
			{
				.version = p->version,
				.nonce = p->nonce,
				.interval_ms = p->interval_ms,
				.lease_ms = p->lease_ms,
			},
	};

	if (peer_send(p, &m) < 0)
		session_down(p, "cannot answer");
}

/*
 * An agent says HELLO when it opens the port, again as answer to our SYNC, and
 * again until it is answered, which a guest that boots or stood still notices
 * late. As long as nothing of the session came from it, another HELLO of the
 * same process means that one: the answer is repeated, and the agent ignores
 * it if it has it already. A new session each time would end what the one
 * before had begun.
 */
static void hello_received(struct peer *p, const struct msg_hello *h)
{
	const char *refusal;
	char text[PROTO_TEXT_MAX + 1];
	uint64_t session;
	uint16_t version;

	if (p->up && h->nonce == p->nonce && !p->rx_seq) {
		send_welcome(p);
		return;
	}
	session_down(p, "agent started anew");

	version = version_choose(h);
	if (!version) {
		snprintf(text, sizeof(text), "versions %u-%u here, %u-%u there",
			 PROTO_MAJOR_MIN, PROTO_MAJOR, h->ver_min, h->ver_max);
		send_bye(p, BYE_VERSION, text);
		return;
	}
	if (getrandom(&session, sizeof(session), 0) != sizeof(session))
		return;		  /* the agent says hello again */
	p->session = session | 1; /* never 0 */
	p->tx_seq = 0;
	p->rx_seq = 0;
	p->version = version;

	refusal = p->ops->up(p, h);
	if (refusal) {
		p->session = 0;
		send_bye(p, BYE_REFUSED, refusal);
		return;
	}
	p->up = true;
	p->nonce = h->nonce;
	p->stats.sessions++;
	send_welcome(p);
}

static bool type_is_from_agent(unsigned int type)
{
	return type == MSG_HELLO || type == MSG_BYE || type == MSG_REPORT ||
	       type == MSG_RESULT || type == MSG_MAP;
}

static void session_message(struct peer *p, const struct msg *m)
{
	if (m->seq <= p->rx_seq) {
		violation(p, "sequence number does not grow");
		return;
	}
	p->rx_seq = m->seq;
	if (m->type == MSG_BYE) {
		log_debug("agent says bye (%s): %s",
			  bye_reason_name(m->bye.reason), m->bye.text);
		session_down(p, "agent ended");
		return;
	}
	p->ops->message(p, m);
}

static void frame_received(struct peer *p, const struct wire_hdr *h,
			   const uint8_t *body)
{
	struct msg m;
	const char *what;
	int r;

	p->stats.frames++;
	if (!bucket_take(&p->frames, 1, PEER_FRAMES_PER_SEC, PEER_FRAMES_BURST,
			 p->now_us)) {
		over_rate(p, "too many frames");
		return;
	}
	/* cheap checks first: stale frames are not even decoded */
	if (h->type != MSG_HELLO && (!p->up || h->session != p->session)) {
		p->stats.stale++;
		p->stale_seen = true;
		return;
	}
	r = msg_decode(h, body, &m, &what);
	if (r == -ENOMSG) {
		p->stats.unknown++;
		return;
	}
	if (r < 0 || !type_is_from_agent(m.type)) {
		violation(p, r < 0 ? what : "message of the wrong direction");
		return;
	}
	p->last_rx_us = p->now_us;
	if (m.type == MSG_HELLO)
		hello_received(p, &m.hello);
	else
		session_message(p, &m);
}

/* All whole frames in the buffer; stops when the peer stops listening. */
static void frames_drain(struct peer *p)
{
	struct wire_hdr h;
	const uint8_t *body;
	int r;

	while (source_active(&p->in)) {
		r = framer_next(&p->framer, &h, &body);
		if (!r)
			break;
		if (r < 0 && p->up) {
			violation(p, "bytes that are no frame");
			break;
		}
		if (r > 0)
			frame_received(p, &h, body);
	}
	if (p->fd < 0)
		return;
	p->stats.garbage_bytes = p->framer.skipped;
	if (!framer_pending(&p->framer))
		p->pending_since_us = 0;
	else if (!p->pending_since_us)
		p->pending_since_us = p->now_us;
}

static void bytes_received(struct peer *p, const uint8_t *buf, size_t n)
{
	p->stats.bytes += n;
	if (!bucket_take(&p->bytes, (int64_t)n, PEER_BYTES_PER_SEC,
			 PEER_BYTES_BURST, p->now_us)) {
		over_rate(p, "too many bytes");
		return;
	}
	while (n && source_active(&p->in)) {
		size_t room, part;
		uint8_t *at = framer_room(&p->framer, &room);

		part = MIN(n, room);
		memcpy(at, buf, part);
		framer_fed(&p->framer, part);
		buf += part;
		n -= part;
		frames_drain(p);
	}
}

static void on_recv(struct source *s, const uint8_t *buf, long n)
{
	struct peer *p = container_of(s, struct peer, in);

	p->now_us = now_us();
	if (n > 0) {
		bytes_received(p, buf, (size_t)n);
		return;
	}
	peer_close(p, BYE_EXIT, "channel closed");
	p->ops->closed(p, (int)n);
}

static void penalty_end(struct peer *p)
{
	p->penalty_until_us = 0;
	p->frames = (struct bucket){PEER_FRAMES_BURST, p->now_us};
	p->bytes = (struct bucket){PEER_BYTES_BURST, p->now_us};
	p->pending_since_us = 0;
	if (loop_recv(p->loop, &p->in, p->fd) < 0 || send_sync(p) < 0) {
		peer_close(p, BYE_EXIT, "channel broken");
		p->ops->closed(p, -EIO);
	}
}

void peer_tick(struct peer *p, uint64_t now_us)
{
	p->now_us = now_us;
	if (p->fd < 0)
		return;
	if (p->penalty_until_us) {
		if (now_us >= p->penalty_until_us)
			penalty_end(p);
		return;
	}
	if (p->pending_since_us &&
	    now_us - p->pending_since_us > PEER_PENDING_US &&
	    framer_rescue(&p->framer))
		frames_drain(p);
	if (p->up && now_us - p->last_rx_us > PEER_SILENT_US)
		session_down(p, "silent");
	/* once a second at most, so stale floods are not answered in kind */
	if (!p->up && p->stale_seen)
		(void)send_sync(p); /* a broken channel shows in on_recv() */
	p->stale_seen = false;
}
