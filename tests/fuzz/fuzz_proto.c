// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Bytes of the channel: framed, decoded, and what was decoded encoded again,
 * which must succeed and give the same message.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "proto_codec.h"

static void check_body(const struct wire_hdr *h, const uint8_t *body)
{
	static uint8_t again[PROTO_FRAME_MAX];
	static struct msg m, m2;
	const char *what;
	struct wire_hdr h2 = *h;
	long n;

	if (msg_decode(h, body, &m, &what))
		return;
	n = msg_encode(&m, again, sizeof(again));
	if (n < 0)
		abort();
	h2.len = (uint32_t)n - PROTO_HDR_SIZE;
	if (msg_decode(&h2, again + PROTO_HDR_SIZE, &m2, &what) ||
	    memcmp(&m, &m2, sizeof(m)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t buf[PROTO_FRAME_MAX];
	struct wire_hdr h = {0};
	const uint8_t *body;
	struct framer f;

	/* as a stream, in pieces of odd sizes */
	framer_init(&f, buf);
	for (size_t at = 0; at < size;) {
		size_t room, n = 1 + (at * 7 + size) % 97;
		uint8_t *to = framer_room(&f, &room);
		int r;

		n = n < size - at ? n : size - at;
		n = n < room ? n : room;
		if (!n)
			abort(); /* the framer must always find room */
		memcpy(to, data + at, n);
		framer_fed(&f, n);
		at += n;
		while ((r = framer_next(&f, &h, &body))) {
			if (r > 0)
				check_body(&h, body);
		}
		framer_rescue(&f);
	}
	/* as a body of each type, past the checksums */
	for (uint16_t type = 0; size <= PROTO_BODY_MAX && type <= MSG_TYPE_END;
	     type++) {
		h.type = type;
		h.len = (uint32_t)size;
		check_body(&h, data);
	}
	return 0;
}
