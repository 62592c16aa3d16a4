// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "util.h"
#include "writer.h"

/* for work that nobody waits for */
#define BACKGROUND_NICE 10

/* In the child. Its exit status is the errno. */
static void child(int dir_fd, const char *path, const char *text,
		  bool background, pid_t parent)
{
	sigset_t none;

	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		_exit(errno);
	if (getppid() != parent)
		_exit(ECANCELED); /* it died before the line above */
	if (background)
		(void)setpriority(PRIO_PROCESS, 0, BACKGROUND_NICE);
	_exit(-write_text_at(dir_fd, path, text));
}

int writer_start(struct writer *w, int dir_fd, const char *path,
		 const char *text, bool background)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid)
		child(dir_fd, path, text, background, parent);
	w->pid = pid;
	w->killed = false;
	return 0;
}

static uint64_t timeval_us(struct timeval tv)
{
	return (uint64_t)tv.tv_sec * SEC_US + (uint64_t)tv.tv_usec;
}

int writer_step(struct writer *w)
{
	struct rusage ru;
	int status;
	pid_t pid;

	if (w->pid <= 0)
		return -ENOENT;
	pid = wait4(w->pid, &status, WNOHANG, &ru);
	if (pid < 0)
		return -errno;
	if (!pid)
		return 0;
	w->pid = 0;
	w->reaped_cpu_us += timeval_us(ru.ru_utime) + timeval_us(ru.ru_stime);
	if (WIFSIGNALED(status))
		return w->killed ? -ECANCELED : -EINTR;
	return WEXITSTATUS(status) ? -WEXITSTATUS(status) : 1;
}

void writer_kill(struct writer *w)
{
	if (w->pid <= 0)
		return;
	w->killed = true;
	(void)kill(w->pid, SIGKILL); /* ESRCH: it ended */
}

uint64_t writer_cpu_us(const struct writer *w)
{
	struct timespec ts;
	clockid_t clock;

	/* unlike its schedstat, the clock counts up to this moment */
	if (w->pid <= 0 || clock_getcpuclockid(w->pid, &clock) ||
	    clock_gettime(clock, &ts) < 0)
		return w->reaped_cpu_us;
	return w->reaped_cpu_us + (uint64_t)ts.tv_sec * SEC_US +
	       (uint64_t)ts.tv_nsec / 1000;
}
