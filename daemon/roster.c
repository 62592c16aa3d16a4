// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "log.h"
#include "roster.h"
#include "util.h"

void roster_init(struct roster *r)
{
	memset(r->child, 0, sizeof(r->child));
	for (unsigned int i = 0; i < ROLE_COUNT; i++) {
		r->child[i].fd = -1;
		r->child[i].due = true;
	}
}

uint64_t roster_backoff_us(unsigned int failures)
{
	if (!failures)
		return 0;
	/* 100 ms << 6 is beyond the maximum */
	return MIN(ROSTER_BACKOFF_MIN_US << MIN(failures - 1, 6u),
		   ROSTER_BACKOFF_MAX_US);
}

static void schedule(struct roster *r, enum role role, uint64_t now)
{
	struct roster_child *c = &r->child[role];

	if (r->stopping)
		return;
	if (now - c->started_us >= ROSTER_STABLE_US)
		c->failures = 0;
	c->due = true;
	c->due_us = now + roster_backoff_us(c->failures++);
	if (c->due_us > now)
		log_info("Starting the %s again in %llu ms", role_title(role),
			 (unsigned long long)((c->due_us - now) / MSEC_US));
}

static void forget_link(struct roster_child *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

void roster_kill(struct roster *r, enum role role)
{
	if (r->child[role].pid)
		(void)kill(r->child[role].pid, SIGKILL);
}

int roster_send(struct roster *r, enum role role, const struct ipc_msg *m,
		int pass_fd)
{
	struct roster_child *c = &r->child[role];
	int err;

	if (c->fd < 0)
		return -ESRCH;
	err = ipc_send(c->fd, m, pass_fd);
	/* gone: its SIGCHLD is under way */
	if (!err || err == -EPIPE)
		return err;
	log_warn_errno(err,
		       "The %s (pid %d) does not take messages, killing it",
		       role_title(role), c->pid);
	roster_kill(r, role);
	return err;
}

/* Introduce the core and @role to each other. */
static void link_core(struct roster *r, enum role role)
{
	struct ipc_msg to_core = {.op = IPC_LINK, .link.role = role};
	struct ipc_msg to_other = {.op = IPC_LINK, .link.role = ROLE_CORE};
	int pair[2], err;

	if (r->child[ROLE_CORE].fd < 0 || r->child[role].fd < 0)
		return;
	err = ipc_pair(pair);
	if (err < 0) {
		log_err_errno(err, "Cannot link the %s to the core",
			      role_title(role));
		/* nothing else would try again */
		roster_kill(r, role);
		return;
	}
	/* a failed send is the end of that process, and leads here again */
	(void)roster_send(r, ROLE_CORE, &to_core, pair[0]);
	(void)roster_send(r, role, &to_other, pair[1]);
	close(pair[0]);
	close(pair[1]);
}

static void link_role(struct roster *r, enum role role)
{
	if (role != ROLE_CORE) {
		link_core(r, role);
		return;
	}
	for (unsigned int i = 0; i < ROLE_COUNT; i++) {
		if (i != ROLE_CORE)
			link_core(r, i);
	}
}

static pid_t *free_slot(struct roster_child *c)
{
	for (size_t i = 0; i < ROSTER_ALIVE_MAX; i++) {
		if (!c->killed[i])
			return &c->killed[i];
	}
	return NULL;
}

static void start_role(struct roster *r, enum role role, uint64_t now)
{
	struct roster_child *c = &r->child[role];
	struct child_spec spec = {
		.role = role,
		.main = r->main[role],
		.cfg = r->cfg,
		.id = r->id,
		.listen_fd = role == ROLE_CORE ? r->listen_fd : -1,
	};
	pid_t pid;

	c->due = false;
	c->started_us = now;
	pid = child_start(&spec, &c->fd);
	if (pid < 0) {
		log_err_errno((int)pid, "Cannot start the %s",
			      role_title(role));
		schedule(r, role, now);
		return;
	}
	c->pid = pid;
	log_debug("Started the %s (pid %d)", role_title(role), pid);
	link_role(r, role);
}

void roster_start_due(struct roster *r, uint64_t now)
{
	/* the core last: it then finds all the others */
	for (unsigned int n = ROLE_COUNT; n-- > 0;) {
		struct roster_child *c = &r->child[n];

		if (!c->due || r->stopping || now < c->due_us)
			continue;
		if (free_slot(c)) {
			c->refused = false;
			start_role(r, n, now);
		} else if (!c->refused) {
			c->refused = true;
			log_err("%d processes of the %s were killed and none "
				"ends (D state?): no more until one does",
				ROSTER_ALIVE_MAX, role_title(n));
		}
	}
}

uint64_t roster_next_us(const struct roster *r)
{
	uint64_t next = UINT64_MAX;

	for (unsigned int i = 0; i < ROLE_COUNT; i++) {
		const struct roster_child *c = &r->child[i];

		/* a refused one waits for a process to end, not for a time */
		if (c->due && !c->refused && !r->stopping)
			next = MIN(next, c->due_us);
	}
	return next;
}

static void log_end(enum role role, pid_t pid, int status, bool expected)
{
	const char *name = role_title(role);

	if (WIFSIGNALED(status))
		(void)log_full(expected ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING, 0,
			       "The %s (pid %d) was ended by signal %d (%s)%s",
			       name, pid, WTERMSIG(status),
			       strsignal(WTERMSIG(status)),
			       WCOREDUMP(status) ? ", and dumped core" : "");
	else if (expected && !WEXITSTATUS(status))
		log_debug("The %s (pid %d) ended orderly", name, pid);
	else
		log_warn("The %s (pid %d) ended%s with status %d", name, pid,
			 expected ? "" : " unasked", WEXITSTATUS(status));
}

static void note_end(struct roster *r, pid_t pid, int status, uint64_t now)
{
	for (unsigned int i = 0; i < ROLE_COUNT; i++) {
		struct roster_child *c = &r->child[i];

		for (size_t k = 0; k < ROSTER_ALIVE_MAX; k++) {
			if (c->killed[k] != pid)
				continue;
			c->killed[k] = 0;
			c->refused = false;
			log_end(i, pid, status, true);
			return;
		}
		if (c->pid != pid)
			continue;
		log_end(i, pid, status, r->stopping);
		c->pid = 0;
		forget_link(c);
		schedule(r, i, now);
		return;
	}
}

void roster_reap(struct roster *r, uint64_t now)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		note_end(r, pid, status, now);
}

void roster_replace(struct roster *r, enum role role, uint64_t now)
{
	struct roster_child *c = &r->child[role];
	pid_t *slot = free_slot(c);

	if (!c->pid)
		return; /* on its way already */
	log_warn("The %s (pid %d) is stuck: replacing it", role_title(role),
		 c->pid);
	roster_kill(r, role);
	/* started only with a slot free, so there is one */
	if (slot)
		*slot = c->pid;
	c->pid = 0;
	forget_link(c);
	schedule(r, role, now);
}
