// SPDX-License-Identifier: GPL-2.0-or-later
/* The guest's side of the map, and what the host says of its own. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "hint.h"
#include "mapper.h"
#include "proto_codec.h"
#include "util.h"

static void kinds(void **state)
{
	const struct {
		const char *what;
		struct pageblock b;
		enum guest_block want;
	} cases[] = {
		{"free", {.pages = {[PAGE_FREE] = 512}}, GUEST_BLOCK_FREE},
		{"folio",
		 {.pages = {[PAGE_MOVABLE] = 512}, .folios = {[9] = 1}},
		 GUEST_BLOCK_FOLIO},
		{"mTHP only",
		 {.pages = {[PAGE_MOVABLE] = 512}, .folios = {[8] = 2}},
		 GUEST_BLOCK_BASE_FULL},
		{"hugetlb",
		 {.pages = {[PAGE_HUGETLB] = 512}},
		 GUEST_BLOCK_HUGETLB},
		{"hole",
		 {.pages = {[PAGE_HOLE] = 1, [PAGE_FREE] = 511}},
		 GUEST_BLOCK_NONE},
		{"balloon",
		 {.pages = {[PAGE_OFFLINE] = 1, [PAGE_MOVABLE] = 511}},
		 GUEST_BLOCK_OFFLINE},
		{"one page",
		 {.pages = {[PAGE_FREE] = 511, [PAGE_MOVABLE] = 1}},
		 GUEST_BLOCK_BASE},
		{"89 %",
		 {.pages = {[PAGE_FREE] = 56, [PAGE_UNMOVABLE] = 456}},
		 12},
		{"90 %",
		 {.pages = {[PAGE_FREE] = 51, [PAGE_UNMOVABLE] = 461}},
		 GUEST_BLOCK_BASE_FULL},
		{"full",
		 {.pages = {[PAGE_UNMOVABLE] = 512}},
		 GUEST_BLOCK_BASE_FULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (mapper_block(&cases[i].b) != cases[i].want)
			fail_msg("%s: %d", cases[i].what,
				 mapper_block(&cases[i].b));
	}
}

static void over_the_wire(void **state)
{
	static struct msg m, got;
	static uint8_t frame[PROTO_FRAME_MAX];
	const char *what = NULL;
	struct wire_hdr h = {.type = MSG_MAP};
	long n;

	(void)state;
	for (uint16_t nr = 0; nr <= PROTO_MAP_BLOCKS; nr += 1365) {
		m = (struct msg){.type = MSG_MAP, .seq = 1};
		m.map.id = 9;
		m.map.nr = nr;
		m.map.first_block = 2048;
		m.map.last = 1;
		for (uint16_t i = 0; i < nr; i++)
			m.map.block[i] = i % GUEST_BLOCK_COUNT;
		n = msg_encode(&m, frame, sizeof(frame));
		assert_true(n > 0 && n < 2200);
		h.len = (uint32_t)n - PROTO_HDR_SIZE;
		assert_int_equal(
			msg_decode(&h, frame + PROTO_HDR_SIZE, &got, &what), 0);
		assert_memory_equal(&got.map, &m.map, sizeof(m.map));
		/* cut short anywhere */
		for (uint32_t cut = 0; cut < h.len; cut += 97) {
			struct wire_hdr c = {.type = MSG_MAP, .len = cut};

			assert_int_equal(msg_decode(&c, frame + PROTO_HDR_SIZE,
						    &got, &what),
					 -EPROTO);
		}
	}
	/* beyond what an address can name, and kinds that are none */
	m.map.first_block = PROTO_MAP_BLOCK_MAX - m.map.nr + 1;
	assert_int_equal(msg_encode(&m, frame, sizeof(frame)), -EINVAL);
	m.map.first_block = 0;
	m.map.block[0] = GUEST_BLOCK_COUNT;
	assert_int_equal(msg_encode(&m, frame, sizeof(frame)), -EINVAL);
	m.map.block[0] = 0;
	m.map.nr = PROTO_MAP_BLOCKS + 1;
	assert_int_equal(msg_encode(&m, frame, sizeof(frame)), -EINVAL);
}

static void hints(void **state)
{
	struct msg_backing b = {.id = 3, .first_block = 8, .nr = 10};
	struct hint h = {0};

	(void)state;
	assert_int_equal(hint_huge(&h, 0), -ENODATA);
	b.huge[0] = 0x05;
	assert_int_equal(hint_take(&h, &b, 16), 0);
	assert_int_equal(hint_huge(&h, 7), -ENODATA);
	assert_int_equal(hint_huge(&h, 8), 1);
	assert_int_equal(hint_huge(&h, 9), 0);
	assert_int_equal(hint_huge(&h, 10), 1);
	assert_int_equal(hint_huge(&h, 16), -ENODATA); /* no such block */
	b.huge[0] = 0;
	assert_int_equal(hint_take(&h, &b, 16), 0);
	assert_int_equal(hint_huge(&h, 8), 0);
	b.id = 4; /* all anew */
	b.first_block = 0;
	b.nr = 1;
	assert_int_equal(hint_take(&h, &b, 16), 0);
	assert_int_equal(hint_huge(&h, 8), -ENODATA);
	b.first_block = PROTO_MAP_BLOCK_MAX - 1;
	assert_int_equal(hint_take(&h, &b, 16), 0);
	hint_free(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds),
		cmocka_unit_test(over_the_wire),
		cmocka_unit_test(hints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
