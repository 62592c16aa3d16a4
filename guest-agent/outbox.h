/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Frames waiting for a host that may not read. Bounded: the newest report
 * takes the place of one that waits, since old news is of no use.
 */
#ifndef AGENT_OUTBOX_H
#define AGENT_OUTBOX_H

#include "proto.h"

/* a report of full size, one that is half sent, and some results */
#define OUTBOX_SIZE (2 * PROTO_FRAME_MAX + 8192)

struct outbox {
	size_t len;	  /* bytes of frames in buf, the first one at 0 */
	size_t head_sent; /* bytes of the first frame that are gone */
	uint64_t dropped; /* frames, ever */
	uint8_t buf[OUTBOX_SIZE];
};

/**
 * outbox_put() - queue a message
 *
 * An unsent one of the same type goes if it is a REPORT or a HELLO.
 *
 * Return: 0; -ENOBUFS if it had to be dropped; -EINVAL if it cannot be
 * encoded.
 */
int outbox_put(struct outbox *o, const struct msg *m);

/**
 * outbox_flush() - write what the fd takes without blocking
 *
 * Return: 0, also if something is left; -errno if the link is gone.
 */
int outbox_flush(struct outbox *o, int fd);

/**
 * outbox_clear() - the connection ended: nobody waits for these
 */
void outbox_clear(struct outbox *o);

#endif
