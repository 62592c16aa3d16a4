// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The core process: makes the loop, introduces the manager to the other
 * processes as the supervisor hands their links out, and turns.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

#include "control.h"
#include "core.h"
#include "log.h"
#include "manager.h"
#include "util.h"

/* Redialling, leases, penalties and deadlines are all coarser than this. */
#define TICK_US (250 * MSEC_US)
/* a tenth of the silence that the supervisor bears */
#define ALIVE_US (1 * SEC_US)

struct core {
	struct loop *loop;
	struct manager m;
	struct control *control;
	struct source sup, sig;
	int sup_fd, sig_fd;
	bool stop, ready_sent;
	struct config reloaded; /* of the newest IPC_RELOAD */
	bool have_reloaded;
};

static void tell_supervisor(struct core *c, enum ipc_op op, enum role role)
{
	struct ipc_msg m = {.op = op};
	int r;

	m.link.role = role;
	r = ipc_send(c->sup_fd, &m, -1);
	if (r < 0)
		log_warn_errno(r, "Cannot reach the supervisor, ignoring");
}

static void replace(struct manager *m, enum role role)
{
	tell_supervisor(container_of(m, struct core, m), IPC_REPLACE, role);
}

static void reload(struct core *c, int fd)
{
	char what[CONF_WHAT_MAX] = "";
	struct config next;
	int r;

	r = config_read_fd(fd, &next, what);
	if (r < 0) {
		log_err("Cannot read the new configuration, keeping the old "
			"one: %s",
			what);
		config_free(&next);
		return;
	}
	manager_reload(&c->m, &next);
	if (c->have_reloaded)
		config_free(&c->reloaded);
	c->reloaded = next;
	c->have_reloaded = true;
	c->m.cfg = &c->reloaded;
	log_notice("Configuration reloaded");
}

static void supervisor_message(struct core *c, const struct ipc_msg *m, int *fd)
{
	switch (m->op) {
	case IPC_LINK:
		if (*fd >= 0)
			link_set(&c->m.link[m->link.role], take_fd(fd));
		break;
	case IPC_RELOAD:
		if (*fd >= 0)
			reload(c, *fd);
		break;
	case IPC_STOP:
		c->stop = true;
		break;
	default:
		log_warn("Unexpected message %u from the supervisor, ignoring",
			 m->op);
	}
}

static void on_supervisor(struct source *s, unsigned int revents)
{
	struct core *c = container_of(s, struct core, sup);
	struct ipc_msg m;
	int r;

	(void)revents;
	while (!c->stop) {
		auto_close int fd = -1;

		r = ipc_recv(c->sup_fd, &m, &fd);
		if (r == -EAGAIN)
			return;
		if (r <= 0)
			c->stop = true; /* it is gone */
		else
			supervisor_message(c, &m, &fd);
	}
}

static void on_signal(struct source *s, unsigned int revents)
{
	struct core *c = container_of(s, struct core, sig);
	struct signalfd_siginfo si;

	(void)revents;
	while (read(c->sig_fd, &si, sizeof(si)) == sizeof(si))
		c->stop = true;
}

static int signals_open(struct core *c)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	c->sig_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (c->sig_fd < 0)
		return -errno;
	c->sig.on_ready = on_signal;
	return loop_watch(c->loop, &c->sig, c->sig_fd, POLLIN);
}

static int core_open(struct core *c, const struct config *cfg, int listen_fd)
{
	int r;

	r = loop_open(cfg->loop, &c->loop);
	if (r < 0)
		return log_err_errno(r, "Cannot start the event loop '%s'",
				     loop_kind_name(cfg->loop));
	manager_init(&c->m, c->loop, cfg);
	c->m.replace = replace;
	c->sup.on_ready = on_supervisor;
	r = loop_watch(c->loop, &c->sup, c->sup_fd, POLLIN);
	if (!r)
		r = signals_open(c);
	if (!r)
		r = control_open(&c->m, listen_fd, &c->control);
	if (r < 0)
		return log_err_errno(r, "Cannot set up the core");
	log_info("core: serving by %s", loop_kind_name(loop_kind(c->loop)));
	return 0;
}

static int core_run(struct core *c)
{
	uint64_t next_tick_us = now_us(), next_alive_us = 0;

	while (!c->stop) {
		uint64_t now = now_us();
		int r;

		if (now >= next_tick_us) {
			manager_tick(&c->m, now);
			next_tick_us = now + TICK_US;
		}
		if (now >= next_alive_us) {
			tell_supervisor(c, IPC_ALIVE, ROLE_CORE);
			next_alive_us = now + ALIVE_US;
		}
		if (c->m.synced && !c->ready_sent) {
			c->ready_sent = true;
			tell_supervisor(c, IPC_READY, ROLE_CORE);
		}
		r = loop_turn(c->loop, next_tick_us - now);
		if (r < 0)
			return log_err_errno(r, "The event loop failed");
	}
	return 0;
}

static void core_close(struct core *c)
{
	control_close(c->control);
	if (c->loop)
		manager_free(&c->m); /* says BYE to each agent */
	if (c->sig_fd >= 0)
		close(c->sig_fd);
	loop_close(c->loop);
	if (c->have_reloaded)
		config_free(&c->reloaded);
}

int core_main(const struct config *cfg, int sup_fd, int listen_fd)
{
	struct core c = {.sup_fd = sup_fd, .sig_fd = -1};
	int r;

	r = core_open(&c, cfg, listen_fd);
	if (!r)
		r = core_run(&c);
	core_close(&c);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
