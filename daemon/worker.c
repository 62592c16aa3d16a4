// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "child.h"
#include "util.h"
#include "worker.h"

/* FACTS: 1 to 20 ms after SIGKILL under emulation; 10 x margin */
#define KILLED_WAIT_US (200 * MSEC_US)

static int write_in_child(int fd, const char *text, pid_t parent)
{
	size_t len = strlen(text);
	int keep[] = {fd};
	sigset_t none;
	ssize_t n;

	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != parent)
		return ECANCELED;
	(void)prctl(PR_SET_NAME, "vmdefrag-write", 0, 0, 0);
	child_close_others(keep, ARRAY_SIZE(keep));
	n = write(fd, text, len);
	if (n < 0)
		return errno;
	return (size_t)n == len ? 0 : EIO;
}

int worker_start(int dir_fd, const char *path, const char *text,
		 struct worker *ret)
{
	auto_close int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC);
	pid_t parent = getpid(), pid;
	int pidfd, r;

	if (fd < 0)
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid) /* errno fits into an exit status */
		_exit(write_in_child(fd, text, parent));
	pidfd = pidfd_open(pid, 0);
	if (pidfd < 0) {
		r = -errno;
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		return r;
	}
	/* close-on-exec by itself */
	ret->pid = pid;
	ret->pidfd = pidfd;
	return 0;
}

void worker_kill(const struct worker *w)
{
	if (w->pid)
		(void)kill(w->pid, SIGKILL);
}

bool worker_reap(struct worker *w, int *ret_result, uint64_t *ret_cpu_us)
{
	struct rusage ru;
	int status;

	if (!w->pid || wait4(w->pid, &status, WNOHANG, &ru) != w->pid)
		return false;
	close(w->pidfd);
	w->pid = 0;
	w->pidfd = -1;
	*ret_result = WIFEXITED(status) ? -WEXITSTATUS(status) : -ECANCELED;
	*ret_cpu_us =
		(uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * SEC_US +
		(uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
	return true;
}

static void wait_for(const struct worker *w, uint64_t max_us)
{
	struct pollfd p = {w->pidfd, POLLIN, 0};
	uint64_t end_us = now_us() + max_us, now;

	while ((now = now_us()) < end_us) {
		int ms = (int)((end_us - now) / MSEC_US) + 1;

		if (poll(&p, 1, ms) > 0)
			return;
	}
}

bool worker_end(struct worker *w, uint64_t max_us, int *ret_result,
		uint64_t *ret_cpu_us)
{
	worker_kill(w);
	if (w->pid)
		wait_for(w, max_us);
	return worker_reap(w, ret_result, ret_cpu_us);
}

int worker_run(int dir_fd, const char *path, const char *text, uint64_t max_us)
{
	struct worker w;
	uint64_t cpu_us;
	int result, r;

	r = worker_start(dir_fd, path, text, &w);
	if (r < 0)
		return r;
	wait_for(&w, max_us);
	if (worker_reap(&w, &result, &cpu_us))
		return result;
	if (worker_end(&w, KILLED_WAIT_US, &result, &cpu_us))
		return -ETIMEDOUT;
	close(w.pidfd);
	return -EBUSY;
}
