// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * DOC: what happens when
 *
 * One thread, one poll(2) over a signalfd and the links of the four. Signals:
 * SIGCHLD reaps; SIGHUP reads the configuration again; SIGTERM and SIGINT end
 * the daemon in phases, each left when its processes are gone or its time is
 * over, or at once on a further signal, if that comes a second later: who
 * signals a process and then its group, as timeout(1) does, means one end:
 *
 *	core	IPC_STOP; it has guests put their knobs back
 *	rest	IPC_STOP to the others; the knob writer puts pools back
 *	kill	SIGKILL to whoever is left, which D state may outlive
 *
 * If the supervisor itself dies, the four see the end of their link (and
 * SIGTERM) and end orderly on their own.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>

#include "log.h"
#include "roster.h"
#include "rundir.h"
#include "supervisor.h"
#include "util.h"

#define STOP_CORE_US  (5 * SEC_US)
#define STOP_REST_US  (5 * SEC_US)
#define STOP_KILL_US  (1 * SEC_US)
#define STOP_AGAIN_US (1 * SEC_US)
/*
 * A core that says nothing for so long does not turn: it is replaced. Long
 * enough for a host that is overloaded; sessions outlive it, and agents keep
 * their knobs for a lease.
 */
#define CORE_SILENT_US (10 * SEC_US)

enum phase {
	PHASE_RUN,
	PHASE_STOP_CORE,
	PHASE_STOP_REST,
	PHASE_KILL,
	PHASE_DONE,
};

struct supervisor {
	const struct options *options;
	struct config *cfg;
	struct identity id;
	struct roster roster;
	int lock_fd, listen_fd, signal_fd;
	bool own_socket;
	bool ready; /* was said to systemd */
	enum phase phase;
	uint64_t phase_end_us;
	uint64_t stop_us;     /* of the signal that counted */
	uint64_t watchdog_us; /* between WATCHDOG=1; 0: not asked for */
	uint64_t watchdog_next_us;
	uint64_t core_heard_us;
	pid_t core_heard_pid;
};

static bool all_gone(const struct supervisor *s)
{
	for (unsigned int i = 0; i < ROLE_COUNT; i++) {
		if (s->roster.child[i].pid)
			return false;
	}
	return true;
}

static void send_stop(struct supervisor *s, enum role role)
{
	struct ipc_msg m = {.op = IPC_STOP};

	(void)roster_send(&s->roster, role, &m, -1);
}

static void enter_phase(struct supervisor *s, enum phase phase, uint64_t now)
{
	s->phase = phase;
	switch (phase) {
	case PHASE_STOP_CORE:
		s->roster.stopping = true;
		send_stop(s, ROLE_CORE);
		s->phase_end_us = now + STOP_CORE_US;
		break;
	case PHASE_STOP_REST:
		roster_kill(&s->roster, ROLE_CORE);
		for (unsigned int i = 0; i < ROLE_COUNT; i++) {
			if (i != ROLE_CORE)
				send_stop(s, i);
		}
		s->phase_end_us = now + STOP_REST_US;
		break;
	case PHASE_KILL:
		for (unsigned int i = 0; i < ROLE_COUNT; i++)
			roster_kill(&s->roster, i);
		s->phase_end_us = now + STOP_KILL_US;
		break;
	case PHASE_RUN:
	case PHASE_DONE:
		break;
	}
}

/* Is what the current phase waits for over and done? */
static bool phase_over(const struct supervisor *s)
{
	switch (s->phase) {
	case PHASE_STOP_CORE:
		return !s->roster.child[ROLE_CORE].pid;
	case PHASE_STOP_REST:
	case PHASE_KILL:
		return all_gone(s);
	default:
		return false;
	}
}

static void log_overdue(const struct supervisor *s)
{
	for (unsigned int i = 0; i < ROLE_COUNT; i++) {
		const struct roster_child *c = &s->roster.child[i];
		bool waited = s->phase != PHASE_STOP_CORE || i == ROLE_CORE;

		if (c->pid && waited)
			log_warn("The %s (pid %d) did not end in time, %s",
				 role_title(i), c->pid,
				 s->phase == PHASE_KILL ? "leaving it behind"
							: "killing it");
	}
}

static void advance_phase(struct supervisor *s, uint64_t now)
{
	while (s->phase != PHASE_RUN && s->phase != PHASE_DONE) {
		if (!phase_over(s)) {
			if (now < s->phase_end_us)
				return;
			log_overdue(s);
		}
		enter_phase(s, s->phase + 1, now);
	}
}

static void stop(struct supervisor *s, int signo, uint64_t now)
{
	if (s->phase != PHASE_RUN && now - s->stop_us < STOP_AGAIN_US)
		return;
	s->stop_us = now;
	if (s->phase != PHASE_RUN) {
		log_notice("Ending at once, on another signal %d (%s)", signo,
			   strsignal(signo));
		s->phase_end_us = now;
		return;
	}
	log_notice("Ending, on signal %d (%s)", signo, strsignal(signo));
	(void)sd_notify(0, "STOPPING=1");
	enter_phase(s, PHASE_STOP_CORE, now);
}

/* What was used once at the start; the rest of a new configuration counts. */
static void keep_fixed(struct config *new_cfg, const struct config *old)
{
	if (strcmp(new_cfg->run_dir, old->run_dir) ||
	    strcmp(new_cfg->state_dir, old->state_dir) ||
	    strcmp(new_cfg->user, old->user) ||
	    strcmp(new_cfg->group, old->group) || new_cfg->loop != old->loop)
		log_warn("RunDir, StateDir, User, Group and Loop stay as they "
			 "are until the daemon is started anew");
	memcpy(new_cfg->run_dir, old->run_dir, sizeof(old->run_dir));
	memcpy(new_cfg->state_dir, old->state_dir, sizeof(old->state_dir));
	memcpy(new_cfg->user, old->user, sizeof(old->user));
	memcpy(new_cfg->group, old->group, sizeof(old->group));
	memcpy(new_cfg->node_dir, old->node_dir, sizeof(old->node_dir));
	memcpy(new_cfg->proc_dir, old->proc_dir, sizeof(old->proc_dir));
	new_cfg->loop = old->loop;
}

static int tell_config(struct supervisor *s)
{
	/* helper first: the sockets it may open come before the VMs that the
	 * broker will speak of */
	static const enum role order[] = {ROLE_HELPER, ROLE_BROKER, ROLE_CORE};
	struct ipc_msg m = {.op = IPC_RELOAD};
	auto_close int fd = config_write_fd(s->cfg);

	if (fd < 0)
		return fd;
	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		(void)roster_send(&s->roster, order[i], &m, fd);
	return 0;
}

static void apply_log_level(const struct config *cfg)
{
	log_setup("vmdefragd", cfg->verbose ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO);
}

static void read_config_again(struct supervisor *s)
{
	struct config fresh, old;
	char what[CONF_WHAT_MAX];
	int r;

	if (options_config(s->options, &fresh, what) < 0) {
		log_err("New configuration refused, keeping the old one: %s",
			what);
		config_free(&fresh);
		return;
	}
	keep_fixed(&fresh, s->cfg);
	old = *s->cfg;
	*s->cfg = fresh;
	config_free(&old);
	apply_log_level(s->cfg);
	r = tell_config(s);
	if (r < 0)
		log_err_errno(r, "Cannot pass the new configuration on");
	else
		log_notice("New configuration: %zu VMs", s->cfg->nr_vms);
}

static void reload(struct supervisor *s, uint64_t now)
{
	if (s->phase != PHASE_RUN)
		return;
	(void)sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now);
	read_config_again(s);
	(void)sd_notify(0, "READY=1");
}

static void take_signals(struct supervisor *s, uint64_t now)
{
	struct signalfd_siginfo si;

	while (read(s->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		switch (si.ssi_signo) {
		case SIGCHLD:
			roster_reap(&s->roster, now);
			break;
		case SIGHUP:
			reload(s, now);
			break;
		default:
			stop(s, (int)si.ssi_signo, now);
		}
	}
}

/* Return: 0, or -EPROTO for what @role may not say. */
static int handle_message(struct supervisor *s, enum role role,
			  const struct ipc_msg *m, uint64_t now)
{
	if (role != ROLE_CORE)
		return -EPROTO;
	switch (m->op) {
	case IPC_READY:
		if (!s->ready)
			log_notice("Ready: %zu VMs configured", s->cfg->nr_vms);
		s->ready = true;
		(void)sd_notify(0, "READY=1");
		return 0;
	case IPC_ALIVE:
		s->core_heard_us = now;
		return 0;
	case IPC_REPLACE:
		if (m->link.role == ROLE_CORE)
			return -EPROTO;
		if (s->phase == PHASE_RUN)
			roster_replace(&s->roster, m->link.role, now);
		return 0;
	default:
		return -EPROTO;
	}
}

static void take_messages(struct supervisor *s, enum role role, uint64_t now)
{
	struct roster_child *c = &s->roster.child[role];
	struct ipc_msg m;
	int fd = -1, r;

	/* none of them has more to say than a few at once */
	for (int n = 0; n < 16; n++) {
		r = ipc_recv(c->fd, &m, &fd);
		if (r == -EAGAIN)
			return;
		if (r > 0)
			r = handle_message(s, role, &m, now);
		if (fd >= 0)
			close(fd);
		if (r < 0)
			log_err_errno(r,
				      "The %s (pid %d) sent what it should "
				      "not, killing it",
				      role_title(role), c->pid);
		if (r < 0)
			roster_kill(&s->roster, role);
		else if (m.op == IPC_READY || m.op == IPC_REPLACE ||
			 m.op == IPC_ALIVE)
			continue;
		/* ended, or is about to: SIGCHLD tells how */
		close(c->fd);
		c->fd = -1;
		return;
	}
}

/* Its first word counts from its start. */
static uint64_t core_silent_at_us(const struct supervisor *s)
{
	return s->core_heard_us + CORE_SILENT_US;
}

static void watch_core(struct supervisor *s, uint64_t now)
{
	pid_t pid = s->roster.child[ROLE_CORE].pid;

	if (pid != s->core_heard_pid) {
		s->core_heard_pid = pid;
		s->core_heard_us = now;
	}
	if (s->phase != PHASE_RUN || !pid || now < core_silent_at_us(s))
		return;
	log_err("The core (pid %d) has not turned its loop for %u s", pid,
		(unsigned int)(CORE_SILENT_US / SEC_US));
	roster_replace(&s->roster, ROLE_CORE, now);
}

/* systemd's: says that we turn, and that the core does. */
static void ping_watchdog(struct supervisor *s, uint64_t now)
{
	if (!s->watchdog_us || now < s->watchdog_next_us)
		return;
	(void)sd_notify(0, "WATCHDOG=1");
	s->watchdog_next_us = now + s->watchdog_us;
}

static int poll_timeout_ms(const struct supervisor *s, uint64_t now)
{
	uint64_t next = roster_next_us(&s->roster);

	if (s->phase != PHASE_RUN)
		next = MIN(next, s->phase_end_us);
	else if (s->roster.child[ROLE_CORE].pid)
		next = MIN(next, core_silent_at_us(s));
	if (s->watchdog_us)
		next = MIN(next, s->watchdog_next_us);
	if (next == UINT64_MAX)
		return -1;
	if (next <= now)
		return 0;
	return (int)MIN((next - now) / MSEC_US + 1, 3600u * 1000u);
}

static int loop_once(struct supervisor *s)
{
	struct pollfd p[1 + ROLE_COUNT];
	uint64_t now = now_us();

	p[ROLE_COUNT] = (struct pollfd){s->signal_fd, POLLIN, 0};
	for (unsigned int i = 0; i < ROLE_COUNT; i++)
		p[i] = (struct pollfd){s->roster.child[i].fd, POLLIN, 0};
	if (poll(p, ARRAY_SIZE(p), poll_timeout_ms(s, now)) < 0 &&
	    errno != EINTR)
		return log_err_errno(-errno, "poll failed");
	now = now_us();
	/* links before signals: what a process said before it ended counts,
	 * and none of these fds was closed since */
	for (unsigned int i = 0; i < ROLE_COUNT; i++) {
		if (p[i].revents && p[i].fd == s->roster.child[i].fd)
			take_messages(s, i, now);
	}
	if (p[ROLE_COUNT].revents)
		take_signals(s, now);
	watch_core(s, now);
	roster_start_due(&s->roster, now);
	advance_phase(s, now);
	ping_watchdog(s, now);
	return 0;
}

static int open_signals(void)
{
	sigset_t mask;
	int fd;

	(void)signal(SIGPIPE, SIG_IGN);
	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGHUP);
	sigaddset(&mask, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
		return -errno;
	fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* Return: STATUS_OK, or the exit status, said why. */
static int set_up_places(struct supervisor *s)
{
	char what[CONF_WHAT_MAX];
	int r;

	if (privs_identity(s->cfg->user, s->cfg->group, &s->id, what) < 0) {
		log_err("%s", what);
		return STATUS_NOPERM;
	}
	if (!s->id.split)
		log_warn("Not started as root: all processes run as uid %u, "
			 "without users of their own; what needs root will be "
			 "refused by the kernel",
			 s->id.uid);
	r = rundir_open(s->cfg->run_dir, &s->lock_fd, what);
	if (!r)
		r = rundir_state(s->cfg->state_dir, &s->id, what);
	if (!r)
		r = rundir_listen(s->cfg, &s->id, &s->listen_fd, &s->own_socket,
				  what);
	if (!r)
		return STATUS_OK;
	log_err("%s", what);
	if (r == -EBUSY)
		return STATUS_RUNNING;
	return r == -EPERM || r == -EACCES ? STATUS_NOPERM : STATUS_FAILED;
}

static int set_up(struct supervisor *s)
{
	uint64_t watchdog = 0;
	int r;

	r = set_up_places(s);
	if (r)
		return r;
	s->signal_fd = open_signals();
	if (s->signal_fd < 0) {
		log_err_errno(s->signal_fd, "Cannot take signals");
		return STATUS_FAILED;
	}
	r = privs_supervisor(&s->id);
	if (r < 0) {
		log_err_errno(r, "Cannot drop privileges");
		return STATUS_NOPERM;
	}
	/* twice as often as asked for, as sd_watchdog_enabled(3) says */
	if (sd_watchdog_enabled(0, &watchdog) > 0)
		s->watchdog_us = watchdog / 2;
	s->roster.listen_fd = s->listen_fd;
	roster_init(&s->roster);
	return STATUS_OK;
}

static void tear_down(struct supervisor *s)
{
	char path[CONFIG_DIR_MAX + sizeof("/" CONFIG_SOCKET_NAME)];

	if (s->listen_fd >= 0 && s->own_socket) {
		snprintf(path, sizeof(path), "%s/%s", s->cfg->run_dir,
			 CONFIG_SOCKET_NAME);
		(void)unlink(path);
	}
	for (unsigned int i = 0; i < ROLE_COUNT; i++) {
		if (s->roster.child[i].fd > 0)
			close(s->roster.child[i].fd);
	}
	close_fd_ptr(&s->signal_fd);
	close_fd_ptr(&s->listen_fd);
	close_fd_ptr(&s->lock_fd);
}

int supervisor_run(const struct supervisor_args *args)
{
	struct supervisor s = {
		.options = args->options,
		.cfg = args->cfg,
		.lock_fd = -1,
		.listen_fd = -1,
		.signal_fd = -1,
		.roster = {.cfg = args->cfg, .id = &s.id},
	};
	int status;

	memcpy(s.roster.main, args->main, sizeof(args->main));
	apply_log_level(s.cfg);
	status = set_up(&s);
	while (!status && s.phase != PHASE_DONE) {
		if (loop_once(&s) < 0)
			status = STATUS_FAILED;
	}
	tear_down(&s);
	return status;
}
