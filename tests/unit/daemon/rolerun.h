/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One process of the daemon alone, with the test as supervisor and core.
 */
#ifndef VMDEFRAG_ROLERUN_H
#define VMDEFRAG_ROLERUN_H

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "config.h"
#include "roles.h"
#include "util.h"

struct rolerun {
	pid_t pid;
	int sup_fd, core_fd;
};

/* A new core: the process gets another link. */
static inline void rolerun_link(struct rolerun *rr)
{
	struct ipc_msg m = {.op = IPC_LINK, .link.role = ROLE_CORE};
	int pair[2];

	close_fd_ptr(&rr->core_fd);
	assert_int_equal(ipc_pair(pair), 0);
	assert_int_equal(ipc_send(rr->sup_fd, &m, pair[1]), 0);
	close(pair[1]);
	rr->core_fd = pair[0];
}

static inline void rolerun_start(struct rolerun *rr, role_main_fn fn,
				 const struct config *cfg)
{
	int pair[2];

	assert_int_equal(ipc_pair(pair), 0);
	rr->core_fd = -1;
	rr->sup_fd = pair[0];
	rr->pid = fork();
	assert_true(rr->pid >= 0);
	if (!rr->pid) {
		sigset_t mask;

		/* as child.c does */
		sigemptyset(&mask);
		sigaddset(&mask, SIGTERM);
		(void)sigprocmask(SIG_BLOCK, &mask, NULL);
		close(pair[0]);
		_exit(fn(cfg, pair[1], -1));
	}
	close(pair[1]);
	rolerun_link(rr);
}

/* Return: exit status, or -signal; -ETIMEDOUT. */
static inline int rolerun_wait(struct rolerun *rr)
{
	int status;

	for (int i = 0; i < 5000; i++) {
		if (waitpid(rr->pid, &status, WNOHANG) == rr->pid) {
			close_fd_ptr(&rr->core_fd);
			close_fd_ptr(&rr->sup_fd);
			rr->core_fd = rr->sup_fd = -1;
			return WIFEXITED(status) ? WEXITSTATUS(status)
						 : -WTERMSIG(status);
		}
		(void)poll(NULL, 0, 1);
	}
	(void)kill(rr->pid, SIGKILL);
	return -ETIMEDOUT;
}

static inline int rolerun_stop(struct rolerun *rr)
{
	struct ipc_msg m = {.op = IPC_STOP};

	assert_int_equal(ipc_send(rr->sup_fd, &m, -1), 0);
	return rolerun_wait(rr);
}

/* The next message, within @max_ms. Return: as ipc_recv(). */
static inline int rolerun_recv(struct rolerun *rr, int max_ms,
			       struct ipc_msg *m, int *fd)
{
	struct pollfd p = {rr->core_fd, POLLIN, 0};

	*fd = -1;
	(void)poll(&p, 1, max_ms);
	return ipc_recv(rr->core_fd, m, fd);
}

/* A request and its answer. Return: its result; an fd is in *fd. */
static inline int rolerun_ask(struct rolerun *rr, struct ipc_msg *m, int *fd)
{
	static uint64_t id;
	uint32_t op = m->op;

	m->id = ++id;
	assert_int_equal(ipc_send(rr->core_fd, m, -1), 0);
	assert_int_equal(rolerun_recv(rr, 5000, m, fd), 1);
	assert_int_equal(m->op, op);
	assert_int_equal(m->id, id);
	return m->result;
}

static inline void rolerun_reload(struct rolerun *rr, const struct config *cfg)
{
	struct ipc_msg m = {.op = IPC_RELOAD};
	int fd = config_write_fd(cfg);

	assert_true(fd >= 0);
	assert_int_equal(ipc_send(rr->sup_fd, &m, fd), 0);
	close(fd);
}

#endif
