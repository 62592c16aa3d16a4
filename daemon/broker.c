// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The virt broker: knows which VMs exist and tells the core. They come from
 * the configuration; a connection to libvirt would keep broker.want up to
 * date in its place, and nothing else would change.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "config.h"
#include "log.h"
#include "roles.h"
#include "util.h"
#include "vmfeed.h"

struct broker {
	int sup_fd, core_fd;
	struct config cfg; /* owned after the first reload */
	const struct ipc_vm *want;
	size_t nr_want;
	struct vmfeed feed;
	bool blocked; /* the core does not read at the moment */
	bool stop;
};

static void drop_core(struct broker *b)
{
	close_fd_ptr(&b->core_fd);
	b->core_fd = -1;
	b->blocked = false;
}

static void take_config(struct broker *b, int fd)
{
	char what[CONF_WHAT_MAX];
	struct config fresh;

	if (config_read_fd(fd, &fresh, what) < 0) {
		log_err("%s", what);
		config_free(&fresh);
		return;
	}
	config_free(&b->cfg);
	b->cfg = fresh;
	b->want = b->cfg.vm;
	b->nr_want = b->cfg.nr_vms;
}

/* Return: 0, or -errno at which the process should end. */
static int take_supervisor(struct broker *b)
{
	auto_close int fd = -1;
	struct ipc_msg m;
	int r = ipc_recv(b->sup_fd, &m, &fd);

	if (r == -EAGAIN)
		return 0;
	if (r < 0)
		return log_err_errno(r, "Bad message from the supervisor");
	if (!r || m.op == IPC_STOP) {
		b->stop = true;
		return 0;
	}
	if (m.op == IPC_LINK && m.link.role == ROLE_CORE) {
		drop_core(b);
		b->core_fd = take_fd(&fd);
		vmfeed_reset(&b->feed);
		return 0;
	}
	if (m.op == IPC_RELOAD) {
		take_config(b, fd);
		return 0;
	}
	return log_err_errno(-EPROTO, "Supervisor sent %s", ipc_op_name(m.op));
}

static void tell_core(struct broker *b)
{
	struct ipc_msg m;
	int r;

	b->blocked = false;
	while (vmfeed_next(&b->feed, b->want, b->nr_want, &m)) {
		r = ipc_send(b->core_fd, &m, -1);
		if (r == -EAGAIN) {
			b->blocked = true;
			return;
		}
		if (r < 0) {
			drop_core(b);
			return;
		}
		vmfeed_sent(&b->feed, &m);
	}
}

/* The core has nothing to say here: it is the end, or not our core. */
static void take_core(struct broker *b)
{
	auto_close int fd = -1;
	struct ipc_msg m;
	int r = ipc_recv(b->core_fd, &m, &fd);

	if (r == -EAGAIN)
		return;
	if (r)
		log_err("The core sent %s where nothing is expected",
			r > 0 ? ipc_op_name(m.op) : "a bad message");
	drop_core(b);
}

static int loop_once(struct broker *b)
{
	struct pollfd p[] = {
		{b->sup_fd, POLLIN, 0},
		{b->core_fd, POLLIN | (b->blocked ? POLLOUT : 0), 0},
	};
	int r = 0;

	if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
		return log_err_errno(-errno, "poll failed");
	if (p[1].revents & ~POLLOUT)
		take_core(b);
	if (p[0].revents)
		r = take_supervisor(b);
	if (b->core_fd >= 0)
		tell_core(b);
	return r;
}

int broker_main(const struct config *cfg, int sup_fd, int listen_fd)
{
	struct broker b = {
		.sup_fd = sup_fd,
		.core_fd = -1,
		.want = cfg->vm,
		.nr_want = cfg->nr_vms,
	};
	int r;

	(void)listen_fd;
	r = vmfeed_init(&b.feed);
	if (r < 0)
		log_err_errno(r, "Cannot start");
	while (!r && !b.stop)
		r = loop_once(&b);
	drop_core(&b);
	vmfeed_free(&b.feed);
	config_free(&b.cfg);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
