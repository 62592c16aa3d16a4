/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: the link, and when to try again
 *
 * A virtio-serial port without a host reads as ended and polls as hung up,
 * all the time: polling it would spin. So such a link is kept open but QUIET,
 * out of the poll set, and looked at by a timer. Any other error closes it.
 */
#ifndef AGENT_LINK_H
#define AGENT_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "transport.h"

enum link_state {
	LINK_CLOSED,
	LINK_QUIET, /* open, but nobody at the other end */
	LINK_UP,
};

struct link {
	struct transport transport;
	int sys_fd;
	enum link_state state;
	int fd; /* -1 where closed */
	uint64_t try_us, pause_us;
	int said; /* the last error that was logged, so as to say it once */
};

void link_init(struct link *l, const struct transport *t, int sys_fd);

/**
 * link_tick() - open it, or see whether somebody came, if that is due
 *
 * Return: true if it has come up just now.
 */
bool link_tick(struct link *l, uint64_t now_us);

/**
 * link_deadline_us() - when link_tick() has something to do
 *
 * Return: UINT64_MAX for never.
 */
uint64_t link_deadline_us(const struct link *l);

/**
 * link_failed() - reading or writing gave @error, a negative errno
 */
void link_failed(struct link *l, int error, uint64_t now_us);

void link_close(struct link *l);

#endif
