// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <cmocka.h>
#include <string.h>

#include "crc32c.h"
#include "proto_codec.h"
#include "util.h"

static uint8_t frame[PROTO_FRAME_MAX];

static struct msg_hello sound_hello(void)
{
	struct msg_hello h = {
		.ver_min = 1,
		.ver_max = 1,
		.nonce = 0x1122334455667788,
		.page_size = 4096,
		.nr_orders = 11,
		.pmd_order = 9,
		.pageblock_order = 9,
		.nr_nodes = 1,
		.nr_cpus = 2,
		.mem_pages = 524288,
		.knobs = 0x1f,
		.backends = 1u << BACKEND_COMPACT,
	};

	strcpy(h.agent_version, "0.1.0");
	strcpy(h.kernel_release, "6.12.0-cloud-amd64");
	return h;
}

/* The largest report there can be. */
static void fill_report(struct msg_report *r)
{
	memset(r, 0, sizeof(*r));
	r->guest_us = UINT64_MAX;
	r->psi_valid = 1;
	r->ctr_valid = UINT64_MAX;
	for (size_t i = 0; i < CTR_COUNT; i++)
		r->ctr[i] = i * 1000003;
	for (size_t i = 0; i < KNOB_COUNT; i++)
		r->knob[i] = -(int64_t)i;
	r->nr_mthp = PROTO_ORDERS_MAX - 1;
	for (size_t i = 0; i < r->nr_mthp; i++)
		r->mthp[i] = (struct mthp_report){(uint8_t)(i + 1), 3, i, i};
	r->nr_nodes = PROTO_NODES_MAX;
	r->nr_zones = PROTO_ZONES_MAX;
	for (size_t n = 0; n < PROTO_NODES_MAX; n++) {
		r->node[n].node = (uint8_t)(n * 3);
		r->node[n].free_pages = n;
		r->node[n].unusable_permille[9] = 1000;
		r->node[n].curve.nr_points = 2;
		r->node[n].curve.point[0].moves = 5;
		r->node[n].curve.point[1].moves = 5;
		for (size_t k = 0; k < ZONE_KIND_COUNT; k++) {
			struct zone_report *z = &r->zone[n * 4 + k];

			z->node = (uint8_t)(n * 3);
			z->kind = (uint8_t)k;
			z->free_blocks[10] = (uint32_t)(n * k);
		}
	}
}

static void decode_frame(size_t len, struct msg *ret_m, int *ret_r,
			 const char **ret_what)
{
	struct framer f;
	struct wire_hdr h;
	const uint8_t *body;
	static uint8_t copy[PROTO_FRAME_MAX];
	size_t room;

	framer_init(&f, copy);
	memcpy(framer_room(&f, &room), frame, len);
	framer_fed(&f, len);
	assert_int_equal(framer_next(&f, &h, &body), 1);
	*ret_r = msg_decode(&h, body, ret_m, ret_what);
}

static void roundtrip(const struct msg *m)
{
	long n = msg_encode(m, frame, sizeof(frame));
	const char *what = "";
	static struct msg got;
	int r;

	assert_true(n > 0);
	decode_frame((size_t)n, &got, &r, &what);
	assert_int_equal(r, 0);
	assert_memory_equal(m, &got, sizeof(got));
}

static void test_roundtrip(void **state)
{
	static struct msg m;

	(void)state;
	memset(&m, 0, sizeof(m));
	m.type = MSG_SYNC;
	m.seq = 1;
	roundtrip(&m);

	m.type = MSG_HELLO;
	m.session = 7;
	m.hello = sound_hello();
	roundtrip(&m);

	memset(&m, 0, sizeof(m));
	m.type = MSG_WELCOME;
	m.welcome = (struct msg_welcome){1, 9, 1000, 30000};
	roundtrip(&m);

	memset(&m, 0, sizeof(m));
	m.type = MSG_REPORT;
	fill_report(&m.report);
	roundtrip(&m);

	memset(&m, 0, sizeof(m));
	m.type = MSG_DIRECTIVE;
	m.directive.lease_ms = 30000;
	m.directive.knob_mask = 3;
	m.directive.knob[1] = -1;
	strcpy(m.directive.reason, "headroom");
	roundtrip(&m);

	memset(&m, 0, sizeof(m));
	m.type = MSG_ACTION;
	m.action.order = 9;
	m.action.blocks = ACTION_BLOCKS_ALL;
	roundtrip(&m);

	memset(&m, 0, sizeof(m));
	m.type = MSG_RESULT;
	m.result.status = RESULT_STOPPED;
	m.result.why = WHY_PRESSURE;
	strcpy(m.result.text, "psi 12.5");
	roundtrip(&m);
}

static void test_largest_report_fits(void **state)
{
	static struct msg m;
	long n;

	(void)state;
	m.type = MSG_REPORT;
	fill_report(&m.report);
	n = msg_encode(&m, frame, sizeof(frame));
	assert_in_range(n, 1, 24 * 1024);
	assert_int_equal(msg_encode(&m, frame, 1000), -EMSGSIZE);
}

/* The bytes of version 1, for ever: a changed layout must not pass. */
static void test_layout_of_version_1(void **state)
{
	struct msg m = {.type = MSG_WELCOME, .seq = 2, .session = 0x0102};
	static const uint8_t want[] = {
		'V', 'M', 'D', 'F', 3, 0, 0, 0, 18, 0, 0, 0,
		2,   0,	  0,   0,   2, 1, 0, 0, 0,  0, 0, 0,
	};
	static const uint8_t want_body[] = {
		1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0xe8, 3, 0, 0, 0x30, 0x75, 0, 0,
	};

	(void)state;
	m.welcome = (struct msg_welcome){1, 9, 1000, 30000};
	assert_int_equal(msg_encode(&m, frame, sizeof(frame)), 32 + 18);
	assert_memory_equal(frame, want, sizeof(want));
	assert_memory_equal(frame + 32, want_body, sizeof(want_body));
}

static void test_refused_values(void **state)
{
	struct msg m = {.type = MSG_HELLO};

	(void)state;
	m.hello = sound_hello();
	m.hello.page_size = 5000;
	assert_int_equal(msg_encode(&m, frame, sizeof(frame)), -EINVAL);
	m.hello = sound_hello();
	m.hello.ver_min = 2;
	assert_int_equal(msg_encode(&m, frame, sizeof(frame)), -EINVAL);
	m.hello = sound_hello();
	m.hello.nr_nodes = PROTO_NODES_MAX + 1;
	assert_int_equal(msg_encode(&m, frame, sizeof(frame)), -EINVAL);
	m.hello = sound_hello();
	m.hello.kernel_release[0] = '\n';
	assert_int_equal(msg_encode(&m, frame, sizeof(frame)), -EINVAL);
	m.hello = sound_hello();
	memset(m.hello.kernel_release, 'x', PROTO_TEXT_MAX);
	assert_true(msg_encode(&m, frame, sizeof(frame)) > 0);
}

/* Each body byte set to each of some values: decoded or refused, no more. */
static void test_mangled_bodies(void **state)
{
	static const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff};
	static struct msg m, got;
	const char *what;
	struct wire_hdr h = {0};
	long n;

	(void)state;
	m.type = MSG_REPORT;
	fill_report(&m.report);
	m.report.nr_nodes = 2;
	m.report.nr_zones = 3;
	m.report.nr_mthp = 2;
	n = msg_encode(&m, frame, sizeof(frame));
	assert_true(n > 0);
	h.type = MSG_REPORT;
	h.len = (uint32_t)n - PROTO_HDR_SIZE;
	for (size_t i = PROTO_HDR_SIZE; i < (size_t)n; i++) {
		uint8_t was = frame[i];

		for (size_t k = 0; k < ARRAY_SIZE(values); k++) {
			int r;

			frame[i] = values[k];
			r = msg_decode(&h, frame + PROTO_HDR_SIZE, &got, &what);
			assert_true(r == 0 || r == -EPROTO);
			assert_in_range(got.report.nr_nodes, 0, 255);
			if (!r)
				assert_in_range(got.report.nr_nodes, 0,
						PROTO_NODES_MAX);
		}
		frame[i] = was;
	}
	for (uint32_t len = 0; len < h.len; len++) {
		struct wire_hdr cut = {.type = MSG_REPORT, .len = len};

		assert_int_equal(
			msg_decode(&cut, frame + PROTO_HDR_SIZE, &got, &what),
			-EPROTO);
	}
}

/* A newer minor version appends to the message and to its records. */
static void test_growth_at_the_tail(void **state)
{
	static uint8_t body[PROTO_BODY_MAX];
	static struct msg m, got;
	struct wire_hdr h = {.type = MSG_ACTION};
	const char *what;
	long n;

	(void)state;
	m.type = MSG_ACTION;
	m.action.order = 9;
	m.action.blocks = 3;
	n = msg_encode(&m, frame, sizeof(frame));
	h.len = (uint32_t)n - PROTO_HDR_SIZE + 5;
	memcpy(body, frame + PROTO_HDR_SIZE, (size_t)n - PROTO_HDR_SIZE);
	memset(body + n - PROTO_HDR_SIZE, 0xee, 5);
	assert_int_equal(msg_decode(&h, body, &got, &what), 0);
	assert_int_equal(got.action.blocks, 3);

	h.type = 77;
	assert_int_equal(msg_decode(&h, body, &got, &what), -ENOMSG);

	/* a sender of before hold_ms ends where it began; half of it is none */
	m.action.hold_ms = 7;
	n = msg_encode(&m, frame, sizeof(frame));
	h.type = MSG_ACTION;
	h.len = (uint32_t)n - PROTO_HDR_SIZE;
	assert_int_equal(msg_decode(&h, frame + PROTO_HDR_SIZE, &got, &what),
			 0);
	assert_int_equal(got.action.hold_ms, 7);
	h.len -= 4;
	assert_int_equal(msg_decode(&h, frame + PROTO_HDR_SIZE, &got, &what),
			 0);
	assert_int_equal(got.action.hold_ms, 0);
	h.len += 2;
	assert_int_equal(msg_decode(&h, frame + PROTO_HDR_SIZE, &got, &what),
			 -EPROTO);
}

static void test_unordered_reports(void **state)
{
	static struct msg m;

	(void)state;
	m.type = MSG_REPORT;
	fill_report(&m.report);
	m.report.node[1].node = 0;
	assert_int_equal(msg_encode(&m, frame, sizeof(frame)), -EINVAL);
	fill_report(&m.report);
	m.report.zone[5].kind = 0;
	assert_int_equal(msg_encode(&m, frame, sizeof(frame)), -EINVAL);
	fill_report(&m.report);
	m.report.zone[63].node = 200;
	assert_int_equal(msg_encode(&m, frame, sizeof(frame)), -EINVAL);
	fill_report(&m.report);
	m.report.node[0].curve.point[0].blocks = 9;
	assert_int_equal(msg_encode(&m, frame, sizeof(frame)), -EINVAL);
}

/* --- framer ------------------------------------------------------------------
 */

static uint8_t fbuf[PROTO_FRAME_MAX];

static void feed(struct framer *f, const void *data, size_t n)
{
	size_t room;
	uint8_t *at = framer_room(f, &room);

	assert_true(n <= room);
	memcpy(at, data, n);
	framer_fed(f, n);
}

static size_t sync_frame(uint8_t *buf, uint32_t seq)
{
	struct msg m = {.type = MSG_SYNC, .seq = seq};

	return (size_t)msg_encode(&m, buf, PROTO_FRAME_MAX);
}

static void test_framer_byte_by_byte(void **state)
{
	struct framer f;
	struct wire_hdr h;
	const uint8_t *body;
	size_t n = sync_frame(frame, 3);

	(void)state;
	framer_init(&f, fbuf);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(framer_next(&f, &h, &body), 0);
		feed(&f, frame + i, 1);
	}
	assert_int_equal(framer_next(&f, &h, &body), 1);
	assert_int_equal(h.seq, 3);
	assert_false(framer_pending(&f));
}

static void test_framer_garbage(void **state)
{
	struct framer f;
	struct wire_hdr h;
	const uint8_t *body;
	size_t n = sync_frame(frame, 4);

	(void)state;
	framer_init(&f, fbuf);
	feed(&f, "login: VMDVMDF garbage that is no header at all VM", 50);
	feed(&f, frame, n);
	assert_int_equal(framer_next(&f, &h, &body), -EBADMSG);
	while (framer_next(&f, &h, &body) == -EBADMSG)
		;
	assert_int_equal(h.seq, 4);
	assert_int_equal(f.skipped, 50);
}

static void test_framer_bad_body(void **state)
{
	struct msg m = {.type = MSG_CANCEL, .seq = 1};
	struct framer f;
	struct wire_hdr h;
	const uint8_t *body;
	size_t n = (size_t)msg_encode(&m, frame, sizeof(frame));
	int r;

	(void)state;
	frame[PROTO_HDR_SIZE] ^= 1;
	framer_init(&f, fbuf);
	feed(&f, frame, n);
	n = sync_frame(frame, 9);
	feed(&f, frame, n);
	assert_int_equal(framer_next(&f, &h, &body), -EBADMSG);
	assert_int_equal(f.bad_bodies, 1);
	while ((r = framer_next(&f, &h, &body)) == -EBADMSG)
		;
	assert_int_equal(r, 1);
	assert_int_equal(h.seq, 9);
}

/* A long frame begun by a peer that died, then its successor's hello. */
static void test_framer_rescue(void **state)
{
	static struct msg m;
	struct framer f;
	struct wire_hdr h;
	const uint8_t *body;
	size_t n;

	(void)state;
	m.type = MSG_REPORT;
	fill_report(&m.report);
	assert_true(msg_encode(&m, frame, sizeof(frame)) > 1000);
	framer_init(&f, fbuf);
	feed(&f, frame, 1000);
	assert_int_equal(framer_next(&f, &h, &body), 0);
	assert_true(framer_pending(&f));
	assert_false(framer_rescue(&f));
	n = sync_frame(frame, 11);
	feed(&f, frame, n - 1);
	assert_false(framer_rescue(&f));
	feed(&f, frame + n - 1, 1);
	assert_int_equal(framer_next(&f, &h, &body), 0);
	assert_true(framer_rescue(&f));
	assert_int_equal(framer_next(&f, &h, &body), 1);
	assert_int_equal(h.seq, 11);
}

/* Whole frames, truncated ones and noise in any mix: all sound ones arrive
 * as long as nothing before them claims their bytes. */
static void test_framer_stream(void **state)
{
	struct framer f;
	struct wire_hdr h;
	const uint8_t *body;
	unsigned int seed = 1, got = 0;

	(void)state;
	framer_init(&f, fbuf);
	for (uint32_t i = 0; i < 20000; i++) {
		size_t n = sync_frame(frame, i + 1);
		int r;

		if (rand_r(&seed) % 4 == 0) {
			uint8_t noise[64];
			size_t len = (size_t)(rand_r(&seed) % 64);

			for (size_t k = 0; k < len; k++)
				noise[k] = (uint8_t)rand_r(&seed);
			feed(&f, noise, len);
		}
		feed(&f, frame, n);
		while ((r = framer_next(&f, &h, &body)) != 0)
			got += r > 0;
	}
	assert_int_equal(got, 20000);
}

static void test_crc32c(void **state)
{
	uint8_t data[300];

	(void)state;
	assert_int_equal(crc32c("123456789", 9), 0xe3069283);
	assert_int_equal(crc32c_by_table("123456789", 9), 0xe3069283);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7);
	for (size_t n = 0; n <= sizeof(data); n++)
		assert_int_equal(crc32c(data, n), crc32c_by_table(data, n));
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(backend_name(BACKEND_COMPACT), "compact");
	assert_string_equal(backend_name(99), "?");
	assert_int_equal(name_lookup(backend_name, BACKEND_COUNT, "kmod"),
			 BACKEND_KMOD);
	assert_int_equal(name_lookup(backend_name, BACKEND_COUNT, "?"),
			 -ENOENT);
	assert_int_equal(name_lookup(msg_type_name, MSG_TYPE_END, "?"),
			 -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_roundtrip),
		cmocka_unit_test(test_largest_report_fits),
		cmocka_unit_test(test_layout_of_version_1),
		cmocka_unit_test(test_refused_values),
		cmocka_unit_test(test_mangled_bodies),
		cmocka_unit_test(test_growth_at_the_tail),
		cmocka_unit_test(test_unordered_reports),
		cmocka_unit_test(test_framer_byte_by_byte),
		cmocka_unit_test(test_framer_garbage),
		cmocka_unit_test(test_framer_bad_body),
		cmocka_unit_test(test_framer_rescue),
		cmocka_unit_test(test_framer_stream),
		cmocka_unit_test(test_crc32c),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
