// SPDX-License-Identifier: GPL-2.0-or-later
/* The agent's end of a session, fed with bytes through a socketpair. */
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "crc32c.h"
#include "session.h"
#include "util.h"

#define NONCE UINT64_C(0x1122334455667788)
#define ID    UINT64_C(77)

struct fix {
	struct session s;
	int agent, host; /* the two ends */
	uint8_t buf[PROTO_FRAME_MAX];
	struct framer framer; /* of the host's end */
	struct msg got;
	unsigned int opened, ended, directives, actions, cancels;
	char why[64];
};

static void on_opened(void *ctx, const struct msg_welcome *w, uint64_t now)
{
	(void)w;
	(void)now;
	((struct fix *)ctx)->opened++;
}

static void on_ended(void *ctx, const char *why, uint64_t now)
{
	struct fix *f = ctx;

	(void)now;
	f->ended++;
	text_copy_printable(f->why, sizeof(f->why), why);
}

static void on_directive(void *ctx, const struct msg_directive *d, uint64_t now)
{
	(void)d;
	(void)now;
	((struct fix *)ctx)->directives++;
}

static void on_action(void *ctx, const struct msg_action *a, uint64_t now)
{
	(void)a;
	(void)now;
	((struct fix *)ctx)->actions++;
}

static void on_cancel(void *ctx, const struct msg_cancel *c, uint64_t now)
{
	(void)c;
	(void)now;
	((struct fix *)ctx)->cancels++;
}

static void on_map_ask(void *ctx, const struct msg_map_ask *q, uint64_t now)
{
	(void)ctx;
	(void)q;
	(void)now;
}

static void on_backing(void *ctx, const struct msg_backing *b, uint64_t now)
{
	(void)ctx;
	(void)b;
	(void)now;
}

static const struct session_ops ops = {on_opened, on_ended,  on_directive,
				       on_action, on_cancel, on_map_ask,
				       on_backing};

static const struct msg_hello hello = {
	.ver_min = 1,
	.ver_max = PROTO_MAJOR,
	.nonce = NONCE,
	.page_size = 4096,
	.nr_orders = 11,
	.pmd_order = 9,
	.pageblock_order = 9,
	.nr_nodes = 1,
	.nr_cpus = 2,
};

static int setup(void **state)
{
	static struct fix f;
	int fds[2];

	memset(&f, 0, sizeof(f));
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	f.agent = fds[0];
	f.host = fds[1];
	framer_init(&f.framer, f.buf);
	session_init(&f.s, &hello, &ops, &f);
	session_up(&f.s, SEC_US);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fix *f = *state;

	close(f->agent);
	close(f->host);
	return 0;
}

/* Next message that the agent sent; its type, or 0. */
static unsigned int take(struct fix *f)
{
	const uint8_t *body;
	const char *what;
	struct wire_hdr h;
	size_t room;
	uint8_t *to;
	ssize_t n;

	assert_int_equal(outbox_flush(&f->s.out, f->agent), 0);
	to = framer_room(&f->framer, &room);
	n = read(f->host, to, room);
	if (n > 0)
		framer_fed(&f->framer, (size_t)n);
	if (framer_next(&f->framer, &h, &body) != 1)
		return 0;
	assert_int_equal(msg_decode(&h, body, &f->got, &what), 0);
	return f->got.type;
}

static void feed(struct fix *f, const uint8_t *bytes, size_t len,
		 uint64_t now_us)
{
	assert_int_equal(write(f->host, bytes, len), len);
	assert_int_equal(session_read(&f->s, f->agent, now_us), 0);
}

static size_t encode(struct msg *m, uint8_t *buf)
{
	long n = msg_encode(m, buf, PROTO_FRAME_MAX);

	assert_true(n > 0);
	return (size_t)n;
}

static struct msg make(uint16_t type, uint32_t seq, uint64_t session)
{
	struct msg m = {.type = type, .seq = seq, .session = session};

	switch (type) {
	case MSG_WELCOME:
		m.welcome = (struct msg_welcome){.version = 1,
						 .nonce = NONCE,
						 .interval_ms = 1000,
						 .lease_ms = 5000};
		break;
	case MSG_DIRECTIVE:
		m.directive.id = 1;
		m.directive.lease_ms = 5000;
		break;
	case MSG_ACTION:
		m.action.id = 1;
		m.action.order = 9;
		m.action.blocks = 1;
		break;
	default:
		break;
	}
	return m;
}

static void send_msg(struct fix *f, struct msg m, uint64_t now_us)
{
	uint8_t buf[PROTO_FRAME_MAX];

	feed(f, buf, encode(&m, buf), now_us);
}

static void open_session(struct fix *f)
{
	assert_int_equal(take(f), MSG_HELLO);
	send_msg(f, make(MSG_WELCOME, 1, ID), SEC_US);
	assert_int_equal(f->s.state, SESSION_OPEN);
	assert_int_equal(f->opened, 1);
}

static void handshake(void **state)
{
	struct fix *f = *state;
	struct msg m = {.type = MSG_BYE};

	open_session(f);
	assert_int_equal(f->got.hello.nonce, NONCE);
	send_msg(f, make(MSG_DIRECTIVE, 2, ID), SEC_US);
	send_msg(f, make(MSG_ACTION, 5, ID), SEC_US);
	send_msg(f, make(MSG_CANCEL, 6, ID), SEC_US);
	assert_int_equal(f->directives, 1);
	assert_int_equal(f->actions, 1);
	assert_int_equal(f->cancels, 1);
	assert_int_equal(session_send(&f->s, &m), 0);
	assert_int_equal(take(f), MSG_BYE);
	assert_int_equal(f->got.session, ID);
	assert_int_equal(f->got.seq, 1);
}

/* 1, 2, 4, 8, 8 s and at most a quarter more. */
static void hello_backs_off(void **state)
{
	static const uint64_t pauses[] = {1, 2, 4, 8, 8, 8};
	struct fix *f = *state;
	uint64_t now = SEC_US;

	for (size_t i = 0; i < ARRAY_SIZE(pauses); i++) {
		uint64_t due = session_deadline_us(&f->s);

		assert_int_equal(take(f), MSG_HELLO);
		assert_in_range(due - now, pauses[i] * SEC_US,
				pauses[i] * SEC_US * 5 / 4);
		session_tick(&f->s, due - 1);
		assert_int_equal(take(f), 0);
		session_tick(&f->s, due);
		now = due;
	}
}

static void sync_is_answered_at_once(void **state)
{
	struct fix *f = *state;

	open_session(f);
	send_msg(f, make(MSG_SYNC, 1, 0), 2 * SEC_US);
	assert_int_equal(f->ended, 1);
	assert_int_equal(f->s.state, SESSION_GREET);
	assert_int_equal(take(f), MSG_HELLO);
	send_msg(f, make(MSG_WELCOME, 1, ID + 1), 2 * SEC_US);
	assert_int_equal(f->s.state, SESSION_OPEN);
	/* of the session before: stale, but no harm */
	send_msg(f, make(MSG_ACTION, 50, ID), 2 * SEC_US);
	assert_int_equal(f->actions, 0);
	assert_int_equal(f->s.state, SESSION_OPEN);
	assert_int_equal(f->s.bad_frames, 1);
}

static void wrong_welcomes_open_nothing(void **state)
{
	struct fix *f = *state;
	struct msg m = make(MSG_WELCOME, 1, ID);

	m.welcome.nonce++;
	send_msg(f, m, SEC_US);
	send_msg(f, make(MSG_WELCOME, 1, 0), SEC_US);
	m = make(MSG_WELCOME, 1, ID);
	m.welcome.version = PROTO_MAJOR + 1;
	send_msg(f, m, SEC_US);
	assert_int_equal(f->opened, 0);
	assert_int_equal(f->s.bad_frames, 3);
}

static void outside_a_session_nothing_counts(void **state)
{
	struct fix *f = *state;

	send_msg(f, make(MSG_DIRECTIVE, 2, ID), SEC_US);
	send_msg(f, make(MSG_ACTION, 3, 0), SEC_US);
	assert_int_equal(f->directives + f->actions, 0);
	assert_int_equal(f->s.bad_frames, 2);
}

static void expect_violation(struct fix *f)
{
	assert_int_equal(f->s.state, SESSION_GREET);
	assert_int_equal(f->ended, 1);
	assert_int_equal(take(f), MSG_BYE);
	assert_int_equal(f->got.bye.reason, BYE_VIOLATION);
}

static void replay_ends_the_session(void **state)
{
	struct fix *f = *state;

	open_session(f);
	send_msg(f, make(MSG_ACTION, 9, ID), SEC_US);
	send_msg(f, make(MSG_ACTION, 9, ID), SEC_US);
	assert_int_equal(f->actions, 1);
	expect_violation(f);
}

static void wrong_direction_ends_the_session(void **state)
{
	struct fix *f = *state;

	open_session(f);
	send_msg(f, make(MSG_RESULT, 9, ID), SEC_US);
	expect_violation(f);
}

static void broken_body_ends_the_session(void **state)
{
	struct fix *f = *state;
	uint8_t buf[PROTO_FRAME_MAX];
	struct msg m = make(MSG_ACTION, 9, ID);
	size_t n = encode(&m, buf);

	open_session(f);
	buf[n - 1] ^= 1;
	feed(f, buf, n, SEC_US);
	assert_int_equal(f->actions, 0);
	expect_violation(f);
}

static void garbage_is_skipped(void **state)
{
	struct fix *f = *state;
	uint8_t buf[PROTO_FRAME_MAX + 64];
	struct msg m = make(MSG_ACTION, 9, ID);

	open_session(f);
	memset(buf, 'V', 64);
	feed(f, buf, 64 + encode(&m, buf + 64), SEC_US);
	assert_int_equal(f->actions, 1);
	assert_int_equal(f->s.state, SESSION_OPEN);
	assert_true(f->s.bad_frames > 0);
}

static void frames_come_in_pieces(void **state)
{
	struct fix *f = *state;
	uint8_t buf[PROTO_FRAME_MAX];
	struct msg m = make(MSG_ACTION, 9, ID);
	size_t n = encode(&m, buf);

	open_session(f);
	for (size_t i = 0; i < n; i++)
		feed(f, buf + i, 1, SEC_US);
	assert_int_equal(f->actions, 1);
}

/* A daemon that died amid a frame, and its successor's SYNC. */
static void sync_after_half_a_frame(void **state)
{
	struct fix *f = *state;
	uint8_t buf[PROTO_FRAME_MAX];
	struct msg m = make(MSG_DIRECTIVE, 9, ID);
	size_t n = encode(&m, buf);

	open_session(f);
	feed(f, buf, n / 2, SEC_US);
	for (unsigned int i = 0; i < 4; i++)
		send_msg(f, make(MSG_SYNC, 1 + i, 0), 2 * SEC_US);
	assert_int_equal(f->s.state, SESSION_GREET);
	assert_int_equal(take(f), MSG_BYE);
	assert_int_equal(take(f), MSG_HELLO);
	assert_int_equal(take(f), 0);
}

static void unknown_types_are_skipped(void **state)
{
	struct fix *f = *state;
	uint8_t buf[PROTO_FRAME_MAX];
	struct msg m = make(MSG_SYNC, 2, ID);
	struct wire_hdr h;
	size_t n;

	open_session(f);
	n = encode(&m, buf);
	/* what a later host may send, and the codec cannot encode */
	memcpy(&h, buf, sizeof(h));
	h.type = htole16(200);
	h.hdr_crc = htole32(crc32c(&h, offsetof(struct wire_hdr, hdr_crc)));
	memcpy(buf, &h, sizeof(h));
	feed(f, buf, n, SEC_US);
	assert_int_equal(f->s.state, SESSION_OPEN);
	assert_int_equal(f->s.bad_frames, 0);
	send_msg(f, make(MSG_CANCEL, 3, ID), SEC_US);
	assert_int_equal(f->cancels, 1);
}

static void bye_is_believed(void **state)
{
	struct fix *f = *state;
	struct msg m = make(MSG_BYE, 2, ID);

	open_session(f);
	m.bye.reason = BYE_REFUSED;
	send_msg(f, m, SEC_US);
	assert_int_equal(f->ended, 1);
	assert_true(session_deadline_us(&f->s) >= 61 * SEC_US);
	send_msg(f, make(MSG_SYNC, 1, 0), 2 * SEC_US);
	assert_int_equal(take(f), MSG_HELLO);
}

static void end_of_stream(void **state)
{
	struct fix *f = *state;

	open_session(f);
	assert_int_equal(session_read(&f->s, f->agent, SEC_US), -EAGAIN);
	shutdown(f->host, SHUT_WR);
	assert_int_equal(session_read(&f->s, f->agent, SEC_US), -ENOTCONN);
	session_down(&f->s, "gone", SEC_US);
	assert_int_equal(f->ended, 1);
	assert_true(session_deadline_us(&f->s) == UINT64_MAX);
}

/* A host that does not read: old reports go, results stay, nothing grows. */
static void reports_do_not_pile_up(void **state)
{
	struct fix *f = *state;
	static struct msg m;
	unsigned int results = 0, reports = 0, type;

	open_session(f);
	for (unsigned int i = 0; i < 1000; i++) {
		memset(&m, 0, sizeof(m));
		m.type = MSG_REPORT;
		m.report.guest_us = i;
		assert_int_equal(session_send(&f->s, &m), 0);
		if (i % 100)
			continue;
		memset(&m, 0, sizeof(m));
		m.type = MSG_RESULT;
		assert_int_equal(session_send(&f->s, &m), 0);
	}
	assert_true(f->s.out.len <= OUTBOX_SIZE);
	while ((type = take(f))) {
		results += type == MSG_RESULT;
		reports += type == MSG_REPORT;
	}
	assert_int_equal(results, 10);
	assert_int_equal(reports, 1);
	assert_int_equal(f->got.report.guest_us, 999);
	assert_int_equal(f->s.out.dropped, 999);
}

/* More results than fit: dropped and counted, the link stays sound. */
static void outbox_is_bounded(void **state)
{
	struct fix *f = *state;
	static struct msg m;
	unsigned int i = 0, got = 0;

	open_session(f);
	memset(&m, 0, sizeof(m));
	m.type = MSG_RESULT;
	while (session_send(&f->s, &m) == 0)
		i++;
	assert_true(f->s.out.len <= OUTBOX_SIZE);
	assert_int_equal(f->s.out.dropped, 1);
	while (take(f) == MSG_RESULT)
		got++;
	assert_int_equal(got, i);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(handshake),
		T(hello_backs_off),
		T(sync_is_answered_at_once),
		T(wrong_welcomes_open_nothing),
		T(outside_a_session_nothing_counts),
		T(replay_ends_the_session),
		T(wrong_direction_ends_the_session),
		T(broken_body_ends_the_session),
		T(garbage_is_skipped),
		T(frames_come_in_pieces),
		T(sync_after_half_a_frame),
		T(unknown_types_are_skipped),
		T(bye_is_believed),
		T(end_of_stream),
		T(reports_do_not_pile_up),
		T(outbox_is_bounded),
	};

	log_setup("test_session", LOG_LEVEL_ERR - 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
