// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "link.h"
#include "log.h"
#include "util.h"

#define PAUSE_MIN_US (1 * SEC_US)
#define PAUSE_MAX_US (8 * SEC_US)
/* one poll(2) each: a daemon that starts is heard within this time */
#define QUIET_PAUSE_US (1 * SEC_US)

void link_init(struct link *l, const struct transport *t, int sys_fd)
{
	*l = (struct link){
		.transport = *t,
		.sys_fd = sys_fd,
		.fd = -1,
		.pause_us = PAUSE_MIN_US,
	};
}

void link_close(struct link *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
	l->state = LINK_CLOSED;
}

static void try_later(struct link *l, int error, uint64_t now_us)
{
	l->try_us = now_us + l->pause_us;
	l->pause_us = MIN(l->pause_us * 2, PAUSE_MAX_US);
	if (l->said != error)
		(void)log_info_errno(error, "No link to the host by '%s' yet",
				     l->transport.name);
	l->said = error;
}

static bool host_is_there(const struct link *l)
{
	struct pollfd p = {.fd = l->fd, .events = POLLIN};

	return poll(&p, 1, 0) >= 0 && !(p.revents & (POLLHUP | POLLERR));
}

static bool link_open(struct link *l, uint64_t now_us)
{
	int r = transport_open(&l->transport, l->sys_fd);

	if (r < 0) {
		try_later(l, r, now_us);
		return false;
	}
	l->fd = r;
	l->said = 0;
	l->state = LINK_UP;
	return true;
}

bool link_tick(struct link *l, uint64_t now_us)
{
	if (l->state == LINK_UP || now_us < l->try_us)
		return false;
	if (l->state == LINK_CLOSED)
		return link_open(l, now_us);
	l->try_us = now_us + QUIET_PAUSE_US;
	if (!host_is_there(l))
		return false;
	l->state = LINK_UP;
	return true;
}

uint64_t link_deadline_us(const struct link *l)
{
	return l->state == LINK_UP ? UINT64_MAX : l->try_us;
}

void link_failed(struct link *l, int error, uint64_t now_us)
{
	if (error == -ENOTCONN && transport_stays_open(&l->transport)) {
		l->state = LINK_QUIET;
		l->try_us = now_us + QUIET_PAUSE_US;
		return;
	}
	link_close(l);
	/* it was up before, so the first try may be soon */
	l->pause_us = PAUSE_MIN_US;
	try_later(l, error, now_us);
}
