// SPDX-License-Identifier: GPL-2.0-or-later
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "crc32c.h"
#include "proto_codec.h"

void framer_init(struct framer *f, uint8_t *buf)
{
	memset(f, 0, sizeof(*f));
	f->buf = buf;
}

void framer_reset(struct framer *f)
{
	f->start = 0;
	f->end = 0;
}

uint8_t *framer_room(struct framer *f, size_t *ret_room)
{
	/*
	 * Move what is left of a frame to the front only where the tail got
	 * small: a stream of short frames is then copied once in a while, not
	 * at each read.
	 */
	if (f->start == f->end) {
		framer_reset(f);
	} else if (f->start && PROTO_FRAME_MAX - f->end < 4096) {
		memmove(f->buf, f->buf + f->start, f->end - f->start);
		f->end -= f->start;
		f->start = 0;
	}
	*ret_room = PROTO_FRAME_MAX - f->end;
	return f->buf + f->end;
}

void framer_fed(struct framer *f, size_t n)
{
	f->end += n;
}

/* Does a sound header stand at @p? */
static bool header_read(const uint8_t *p, struct wire_hdr *ret_h)
{
	struct wire_hdr h;

	memcpy(&h, p, sizeof(h));
	if (le32toh(h.magic) != PROTO_MAGIC ||
	    le32toh(h.hdr_crc) !=
		    crc32c(p, offsetof(struct wire_hdr, hdr_crc)) ||
	    le32toh(h.len) > PROTO_BODY_MAX)
		return false;
	ret_h->magic = PROTO_MAGIC;
	ret_h->type = le16toh(h.type);
	ret_h->flags = le16toh(h.flags);
	ret_h->len = le32toh(h.len);
	ret_h->seq = le32toh(h.seq);
	ret_h->session = le64toh(h.session);
	ret_h->body_crc = le32toh(h.body_crc);
	ret_h->hdr_crc = le32toh(h.hdr_crc);
	return true;
}

/* Do the bytes at hand still allow a frame to start here? */
static bool may_be_magic(const uint8_t *p, size_t left)
{
	static const uint8_t magic[4] = {'V', 'M', 'D', 'F'};

	return !memcmp(p, magic, left < sizeof(magic) ? left : sizeof(magic));
}

/* Step over bytes that start no frame. Return: how many. */
static size_t skip_garbage(struct framer *f, struct wire_hdr *ret_h,
			   bool *ret_found)
{
	size_t from = f->start;

	*ret_found = false;
	while (f->start < f->end) {
		const uint8_t *p = f->buf + f->start;
		size_t left = f->end - f->start;

		if (may_be_magic(p, left)) {
			if (left < PROTO_HDR_SIZE)
				break; /* the rest may come */
			if (header_read(p, ret_h)) {
				*ret_found = true;
				break;
			}
		}
		f->start++;
	}
	return f->start - from;
}

int framer_next(struct framer *f, struct wire_hdr *ret_h,
		const uint8_t **ret_body)
{
	struct wire_hdr h;
	size_t skipped;
	bool found;

	skipped = skip_garbage(f, &h, &found);
	if (skipped) {
		f->skipped += skipped;
		return -EBADMSG;
	}
	if (!found || f->end - f->start < PROTO_HDR_SIZE + h.len)
		return 0;

	*ret_body = f->buf + f->start + PROTO_HDR_SIZE;
	if (crc32c(*ret_body, h.len) != h.body_crc) {
		/*
		 * The header is sound, so its length is too, but a writer that
		 * died amid a body may have been followed by a whole frame:
		 * look for it inside.
		 */
		f->bad_bodies++;
		f->start++;
		f->skipped++;
		return -EBADMSG;
	}
	f->start += PROTO_HDR_SIZE + h.len;
	*ret_h = h;
	return 1;
}

bool framer_pending(const struct framer *f)
{
	return f->end != f->start;
}

bool framer_rescue(struct framer *f)
{
	for (size_t at = f->start + 1; at + PROTO_HDR_SIZE <= f->end; at++) {
		const uint8_t *p = f->buf + at;
		struct wire_hdr h;

		if (!may_be_magic(p, PROTO_HDR_SIZE) || !header_read(p, &h))
			continue;
		if (f->end - at < PROTO_HDR_SIZE + h.len ||
		    crc32c(p + PROTO_HDR_SIZE, h.len) != h.body_crc)
			continue;
		f->skipped += at - f->start;
		f->start = at;
		return true;
	}
	return false;
}
