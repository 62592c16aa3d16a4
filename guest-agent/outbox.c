// SPDX-License-Identifier: GPL-2.0-or-later
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "outbox.h"
#include "proto_codec.h"
#include "util.h"

/* The frames are our own encoder's, so their headers need no checks. */
static uint16_t frame_type(const uint8_t *frame)
{
	uint16_t le;

	memcpy(&le, frame + offsetof(struct wire_hdr, type), sizeof(le));
	return le16toh(le);
}

static size_t frame_size(const uint8_t *frame)
{
	uint32_t le;

	memcpy(&le, frame + offsetof(struct wire_hdr, len), sizeof(le));
	return PROTO_HDR_SIZE + le32toh(le);
}

static void remove_at(struct outbox *o, size_t at)
{
	size_t size = frame_size(o->buf + at);

	memmove(o->buf + at, o->buf + at + size, o->len - at - size);
	o->len -= size;
}

/* Drop frames of @type that nothing has been sent of. */
static void drop_type(struct outbox *o, uint16_t type)
{
	size_t at = o->head_sent ? frame_size(o->buf) : 0;

	while (at < o->len) {
		if (frame_type(o->buf + at) == type) {
			remove_at(o, at);
			o->dropped++;
		} else {
			at += frame_size(o->buf + at);
		}
	}
}

int outbox_put(struct outbox *o, const struct msg *m)
{
	long n;

	if (m->type == MSG_REPORT || m->type == MSG_HELLO)
		drop_type(o, m->type);
	n = msg_encode(m, o->buf + o->len, OUTBOX_SIZE - o->len);
	if (n == -EMSGSIZE) {
		drop_type(o, MSG_REPORT);
		n = msg_encode(m, o->buf + o->len, OUTBOX_SIZE - o->len);
	}
	if (n == -EMSGSIZE) {
		o->dropped++;
		return -ENOBUFS;
	}
	if (n < 0)
		return (int)n;
	o->len += (size_t)n;
	return 0;
}

static void sent(struct outbox *o, size_t n)
{
	o->head_sent += n;
	while (o->len && o->head_sent >= frame_size(o->buf)) {
		o->head_sent -= frame_size(o->buf);
		remove_at(o, 0);
	}
}

int outbox_flush(struct outbox *o, int fd)
{
	while (o->len) {
		ssize_t n =
			write(fd, o->buf + o->head_sent, o->len - o->head_sent);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		if (!n)
			return 0;
		sent(o, (size_t)n);
	}
	return 0;
}

void outbox_clear(struct outbox *o)
{
	o->len = 0;
	o->head_sent = 0;
}
