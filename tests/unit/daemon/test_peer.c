// SPDX-License-Identifier: GPL-2.0-or-later
/* Sessions over a socketpair, on both engines of the loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <cmocka.h>
#include <string.h>
#include <sys/socket.h>

#include "crc32c.h"
#include "peer.h"
#include "util.h"

struct fix {
	struct loop *l;
	struct peer p;
	int guest; /* the agent's end */
	uint32_t seq;
	uint64_t session, nonce;
	unsigned int ups, downs, messages, closes;
	char why[128];
	const char *refusal;
};

static enum loop_kind engine;

static const char *on_up(struct peer *p, const struct msg_hello *h)
{
	struct fix *f = container_of(p, struct fix, p);

	(void)h;
	f->ups += !f->refusal;
	return f->refusal;
}

static void on_message(struct peer *p, const struct msg *m)
{
	(void)m;
	container_of(p, struct fix, p)->messages++;
}

static void on_down(struct peer *p, const char *why)
{
	struct fix *f = container_of(p, struct fix, p);

	f->downs++;
	snprintf(f->why, sizeof(f->why), "%s", why);
}

static void on_closed(struct peer *p, int error)
{
	(void)error;
	container_of(p, struct fix, p)->closes++;
}

static const struct peer_ops ops = {on_up, on_message, on_down, on_closed};

static void connect_guest(struct fix *f)
{
	int sv[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sv), 0);
	f->guest = sv[1];
	assert_int_equal(peer_open(&f->p, sv[0], now_us()), 0);
}

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	assert_int_equal(loop_open(engine, &f->l), 0);
	peer_init(&f->p, f->l, &ops, 1000, 30000);
	connect_guest(f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fix *f = *state;

	peer_close(&f->p, BYE_EXIT, "test ends");
	if (f->guest >= 0)
		close(f->guest);
	loop_close(f->l);
	free(f);
	return 0;
}

/* Let the loop work until nothing more happens. */
static void settle(struct fix *f)
{
	for (int quiet = 0; quiet < 2;) {
		int r = loop_turn(f->l, 2 * MSEC_US);

		assert_true(r >= 0);
		quiet = r ? 0 : quiet + 1;
	}
}

static void guest_bytes(struct fix *f, const void *p, size_t n)
{
	const uint8_t *at = p;

	while (n) {
		ssize_t r = send(f->guest, at, n, MSG_NOSIGNAL);

		if (r < 0 && errno == EAGAIN) {
			if (!source_active(&f->p.in))
				return; /* not listened to: as meant */
			loop_turn(f->l, MSEC_US);
			continue;
		}
		assert_true(r > 0);
		at += r;
		n -= (size_t)r;
	}
}

static void guest_send(struct fix *f, struct msg *m)
{
	static uint8_t buf[PROTO_FRAME_MAX];
	long n;

	n = msg_encode(m, buf, sizeof(buf));
	assert_true(n > 0);
	guest_bytes(f, buf, (size_t)n);
}

/* What the daemon sent; false when there is no more. */
static bool guest_recv(struct fix *f, struct msg *ret_m)
{
	static uint8_t buf[PROTO_FRAME_MAX];
	struct framer fr;
	struct wire_hdr h;
	const uint8_t *body;
	const char *what;
	ssize_t n;

	framer_init(&fr, buf);
	n = recv(f->guest, buf, PROTO_HDR_SIZE, 0);
	if (n <= 0)
		return false;
	assert_int_equal(n, PROTO_HDR_SIZE);
	framer_fed(&fr, (size_t)n);
	if (framer_next(&fr, &h, &body) == 0) {
		uint32_t len;

		memcpy(&len, buf + 8, sizeof(len));
		n = recv(f->guest, buf + PROTO_HDR_SIZE, len, 0);
		assert_int_equal(n, len);
		framer_fed(&fr, (size_t)n);
		assert_int_equal(framer_next(&fr, &h, &body), 1);
	}
	assert_int_equal(msg_decode(&h, body, ret_m, &what), 0);
	return true;
}

/* The newest message of a type; false if none came. */
static bool guest_find(struct fix *f, unsigned int type, struct msg *ret_m)
{
	static struct msg m;
	bool found = false;

	while (guest_recv(f, &m)) {
		if (m.type != type)
			continue;
		*ret_m = m;
		found = true;
	}
	return found;
}

static void hello(struct fix *f, uint16_t ver_min, uint16_t ver_max)
{
	static struct msg m;

	memset(&m, 0, sizeof(m));
	m.type = MSG_HELLO;
	m.hello = (struct msg_hello){
		.ver_min = ver_min,
		.ver_max = ver_max,
		.nonce = ++f->nonce,
		.page_size = 4096,
		.nr_orders = 11,
		.pmd_order = 9,
		.pageblock_order = 9,
		.nr_nodes = 1,
		.nr_cpus = 1,
	};
	guest_send(f, &m);
	settle(f);
}

static void session(struct fix *f)
{
	static struct msg m;

	hello(f, 1, 1);
	assert_true(guest_find(f, MSG_WELCOME, &m));
	assert_int_equal(m.welcome.version, 1);
	assert_int_equal(m.welcome.nonce, f->nonce);
	assert_int_not_equal(m.session, 0);
	f->session = m.session;
	f->seq = 0;
}

static void report(struct fix *f, uint32_t seq)
{
	static struct msg m;

	memset(&m, 0, sizeof(m));
	m.type = MSG_REPORT;
	m.session = f->session;
	m.seq = seq;
	m.report.nr_nodes = 1;
	guest_send(f, &m);
	settle(f);
}

static void test_handshake(void **state)
{
	struct fix *f = *state;
	struct msg m;

	settle(f);
	assert_true(guest_recv(f, &m));
	assert_int_equal(m.type, MSG_SYNC);
	session(f);
	assert_int_equal(f->ups, 1);
	report(f, 1);
	report(f, 5); /* gaps are fine */
	assert_int_equal(f->messages, 2);
}

static void test_no_common_version(void **state)
{
	struct fix *f = *state;
	static struct msg m;

	hello(f, PROTO_MAJOR + 1, PROTO_MAJOR + 3);
	assert_true(guest_find(f, MSG_BYE, &m));
	assert_int_equal(m.bye.reason, BYE_VERSION);
	assert_string_equal(m.bye.text, "versions 1-1 here, 2-4 there");
	assert_int_equal(f->ups, 0);
	/* a newer agent that still speaks ours is met there */
	hello(f, 1, PROTO_MAJOR + 3);
	assert_true(guest_find(f, MSG_WELCOME, &m));
	assert_int_equal(m.welcome.version, PROTO_MAJOR);
}

static void test_refused(void **state)
{
	struct fix *f = *state;
	static struct msg m;

	f->refusal = "not served";
	hello(f, 1, 1);
	assert_true(guest_find(f, MSG_BYE, &m));
	assert_int_equal(m.bye.reason, BYE_REFUSED);
	assert_false(f->p.up);
}

static void test_stale_and_replayed(void **state)
{
	struct fix *f = *state;
	static struct msg m;
	uint64_t old;

	session(f);
	old = f->session;
	session(f); /* the agent started anew */
	assert_int_equal(f->downs, 1);
	f->session = old;
	report(f, 9);
	assert_int_equal(f->messages, 0);
	assert_int_equal(f->p.stats.stale, 1);
	f->session = f->p.session;
	report(f, 2);
	assert_true(f->p.up);
	report(f, 2);
	assert_false(f->p.up);
	assert_string_equal(f->why, "sequence number does not grow");
	assert_true(guest_find(f, MSG_BYE, &m));
	assert_int_equal(m.bye.reason, BYE_VIOLATION);
}

/*
 * The answer to SYNC crosses the hello of an agent that just opened; a guest
 * that stood still says hello again however late: the same session, whose
 * welcome is repeated.
 */
static void test_hello_twice(void **state)
{
	struct fix *f = *state;
	struct msg m;

	session(f);
	f->nonce--;
	hello(f, 1, 1);
	assert_int_equal(f->ups, 1);
	assert_int_equal(f->downs, 0);
	assert_true(guest_find(f, MSG_WELCOME, &m));
	assert_int_equal(m.session, f->session);
	report(f, 1);
	assert_int_equal(f->messages, 1);
	/* the same nonce later is a new start: a guest restored from a
	 * snapshot, or an agent that lost its session */
	f->nonce--;
	hello(f, 1, 1);
	assert_int_equal(f->ups, 2);
}

/* A session that only the agent believes in is asked to begin anew. */
static void test_stale_wakes_sync(void **state)
{
	struct fix *f = *state;
	struct msg m;

	settle(f);
	assert_true(guest_recv(f, &m));
	f->session = 77;
	for (int i = 0; i < 5; i++)
		report(f, 1);
	assert_false(guest_recv(f, &m));
	peer_tick(&f->p, now_us());
	assert_true(guest_recv(f, &m));
	assert_int_equal(m.type, MSG_SYNC);
	assert_false(guest_recv(f, &m));
}

static void test_garbage_ends_session(void **state)
{
	struct fix *f = *state;

	session(f);
	guest_bytes(f, "\r\nDebian GNU/Linux guest ttyS0\r\n\r\nlogin: ", 42);
	settle(f);
	assert_false(f->p.up);
	assert_int_equal(f->p.stats.violations, 1);
	/* not listened to until the penalty ends */
	hello(f, 1, 1);
	assert_int_equal(f->ups, 1);
	peer_tick(&f->p, now_us() + 2 * SEC_US);
	settle(f);
	assert_int_equal(f->ups, 2);
}

static void test_garbage_before_session(void **state)
{
	struct fix *f = *state;

	guest_bytes(f, "boot messages and VMDF and more of them", 39);
	settle(f);
	session(f);
	assert_int_equal(f->p.stats.violations, 0);
	assert_int_equal(f->p.stats.garbage_bytes, 39);
}

static void test_wrong_direction(void **state)
{
	struct fix *f = *state;
	struct msg m = {.type = MSG_WELCOME, .seq = 1};

	session(f);
	m.session = f->session;
	m.welcome = (struct msg_welcome){1, 1, 1000, 30000};
	guest_send(f, &m);
	settle(f);
	assert_false(f->p.up);
}

static void test_unknown_type_skipped(void **state)
{
	struct fix *f = *state;
	uint8_t buf[PROTO_HDR_SIZE];
	struct wire_hdr h;
	struct msg m = {.type = MSG_SYNC, .seq = 1};

	session(f);
	m.session = f->session;
	assert_int_equal(msg_encode(&m, buf, sizeof(buf)), PROTO_HDR_SIZE);
	/* type 200, checksum to match */
	buf[4] = 200;
	memcpy(&h, buf, sizeof(h));
	h.hdr_crc = crc32c(buf, offsetof(struct wire_hdr, hdr_crc));
	memcpy(buf, &h, sizeof(h));
	guest_bytes(f, buf, sizeof(buf));
	settle(f);
	assert_true(f->p.up);
	assert_int_equal(f->p.stats.unknown, 1);
	report(f, 1);
	assert_int_equal(f->messages, 1);
}

static void test_flood_is_cut_off(void **state)
{
	struct fix *f = *state;
	uint64_t before;

	session(f);
	for (uint32_t i = 1; i < 400; i++)
		report(f, i);
	assert_false(f->p.up);
	assert_int_equal(f->p.stats.rate_limited, 1);
	assert_in_range(f->messages, PEER_FRAMES_BURST - 5,
			PEER_FRAMES_BURST + 50);
	assert_false(source_active(&f->p.in));
	/* bytes that come meanwhile are not even read */
	before = f->p.stats.bytes;
	for (int i = 0; i < 100; i++)
		hello(f, 1, 1);
	assert_int_equal(f->p.stats.bytes, before);
}

static void test_penalty_doubles(void **state)
{
	struct fix *f = *state;
	uint64_t now = now_us();

	for (int i = 0; i < 10; i++) {
		uint64_t want =
			MIN(PEER_PENALTY_MIN_US << i, PEER_PENALTY_MAX_US);

		session(f);
		guest_bytes(f, "xxxx", 4);
		settle(f);
		assert_int_equal(f->p.penalty_us, want);
		now = f->p.penalty_until_us;
		/* at once again: time is an argument */
		f->p.last_violation_us = now_us();
		peer_tick(&f->p, now);
		assert_true(source_active(&f->p.in));
	}
}

static void test_half_frame_then_reboot(void **state)
{
	struct fix *f = *state;
	static uint8_t buf[PROTO_FRAME_MAX];
	static struct msg m;
	long n;

	session(f);
	memset(&m, 0, sizeof(m));
	m.type = MSG_REPORT;
	m.session = f->session;
	m.seq = 1;
	m.report.nr_nodes = 3;
	m.report.node[1].node = 1;
	m.report.node[2].node = 2;
	n = msg_encode(&m, buf, sizeof(buf));
	guest_bytes(f, buf, (size_t)n / 2);
	settle(f);
	hello(f, 1, 1);
	assert_int_equal(f->ups, 1); /* taken for the rest of the report */
	peer_tick(&f->p, now_us() + 2 * PEER_PENDING_US);
	assert_int_equal(f->ups, 2);
	assert_true(f->p.up);
}

static void test_guest_that_does_not_read(void **state)
{
	struct fix *f = *state;
	struct msg m = {.type = MSG_CANCEL};
	int r = 0;

	session(f);
	for (int i = 0; i < 100000 && !r; i++)
		r = peer_send(&f->p, &m);
	assert_int_equal(r, -ENOBUFS);
	assert_false(f->p.up);
	assert_string_equal(f->why, "does not read");
}

static void test_connection_lost(void **state)
{
	struct fix *f = *state;

	session(f);
	close(f->guest);
	f->guest = -1;
	settle(f);
	assert_int_equal(f->downs, 1);
	assert_int_equal(f->closes, 1);
	assert_int_equal(f->p.fd, -1);
	connect_guest(f);
	session(f);
	assert_int_equal(f->ups, 2);
}

static void test_silence(void **state)
{
	struct fix *f = *state;

	session(f);
	peer_tick(&f->p, now_us() + PEER_SILENT_US / 2);
	assert_true(f->p.up);
	peer_tick(&f->p, now_us() + 2 * PEER_SILENT_US);
	assert_false(f->p.up);
	assert_string_equal(f->why, "silent");
}

static int run_on(enum loop_kind kind)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_handshake),
		T(test_no_common_version),
		T(test_refused),
		T(test_stale_and_replayed),
		T(test_hello_twice),
		T(test_stale_wakes_sync),
		T(test_garbage_ends_session),
		T(test_garbage_before_session),
		T(test_wrong_direction),
		T(test_unknown_type_skipped),
		T(test_flood_is_cut_off),
		T(test_penalty_doubles),
		T(test_half_frame_then_reboot),
		T(test_guest_that_does_not_read),
		T(test_connection_lost),
		T(test_silence),
	};

	engine = kind;
	return cmocka_run_group_tests_name(loop_kind_name(kind), tests, NULL,
					   NULL);
}

int main(void)
{
	struct loop *l;
	int bad = 0;

	/* where a ring is refused, the test says so and goes on with poll */
	if (loop_open(LOOP_URING, &l) == 0) {
		loop_close(l);
		bad += run_on(LOOP_URING);
	} else {
		puts("1..1\nok 1 - uring # SKIP io_uring is refused here");
	}
	return bad + run_on(LOOP_POLL);
}
