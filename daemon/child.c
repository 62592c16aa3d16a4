// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "child.h"
#include "log.h"
#include "proctitle.h"
#include "util.h"

static const char *const role_idents[ROLE_COUNT] = {
	[ROLE_CORE] = "vmdefragd[core]",
	[ROLE_BROKER] = "vmdefragd[broker]",
	[ROLE_HELPER] = "vmdefragd[helper]",
	[ROLE_KNOBS] = "vmdefragd[knobs]",
};

static int compare_ints(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

void child_close_others(int *keep, size_t nr)
{
	unsigned int next = STDERR_FILENO + 1;

	qsort(keep, nr, sizeof(*keep), compare_ints);
	for (size_t i = 0; i < nr; i++) {
		if (keep[i] < (int)next)
			continue;
		if ((unsigned int)keep[i] > next)
			(void)close_range(next, (unsigned int)keep[i] - 1, 0);
		next = (unsigned int)keep[i] + 1;
	}
	(void)close_range(next, ~0u, 0);
}

/*
 * SIGINT and SIGHUP come to the whole process group from a terminal, but it is
 * the supervisor who decides what they mean. Core and knob writer have things
 * to put back, so SIGTERM does not end them by itself.
 */
static void set_signals(enum role role)
{
	static const int ignored[] = {SIGINT, SIGHUP, SIGPIPE};
	sigset_t mask;

	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		(void)signal(ignored[i], SIG_IGN);
	sigemptyset(&mask);
	if (role == ROLE_CORE || role == ROLE_KNOBS)
		sigaddset(&mask, SIGTERM);
	(void)sigprocmask(SIG_SETMASK, &mask, NULL);
}

/* After privileges: a change of credentials clears it. */
static int follow_parent(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) < 0)
		return -errno;
	return getppid() == parent ? 0 : -ESRCH;
}

static int child_run(const struct child_spec *spec, int sup_fd, pid_t parent)
{
	int keep[] = {sup_fd, spec->listen_fd}, r;

	set_signals(spec->role);
	child_close_others(keep, ARRAY_SIZE(keep));
	log_setup(role_idents[spec->role],
		  spec->cfg->verbose ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO);
	/* sd_notify is the supervisor's */
	(void)unsetenv("NOTIFY_SOCKET");
	(void)unsetenv("WATCHDOG_USEC");
	proctitle_set(role_name(spec->role));
	r = privs_drop(spec->role, spec->id);
	if (r < 0) {
		log_err_errno(r, "Cannot drop privileges");
		return EXIT_FAILURE;
	}
	r = follow_parent(parent);
	if (r < 0)
		return EXIT_FAILURE;
	return spec->main(spec->cfg, sup_fd, spec->listen_fd);
}

pid_t child_start(const struct child_spec *spec, int *ret_fd)
{
	pid_t parent = getpid(), pid;
	int pair[2], r;

	r = ipc_pair(pair);
	if (r < 0)
		return r;
	pid = fork();
	if (!pid) /* no atexit handlers: they are the supervisor's */
		_exit(child_run(spec, pair[1], parent));
	r = pid < 0 ? -errno : 0;
	close(pair[1]);
	if (r < 0) {
		close(pair[0]);
		return r;
	}
	*ret_fd = pair[0];
	return pid;
}
