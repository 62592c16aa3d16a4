// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * DOC: whole-node compaction that stops where it is told
 *
 * Writing to nodeN/compact compacts all of the node, without a target, in the
 * writer's context; a fatal signal ends it on every kernel (measured: within
 * 1 to 20 ms). So a child writes, and is killed once there is enough.
 *
 * One pass leaves some behind: pages that were locked for a moment, and on
 * 6.12 and later whatever lies on the per-CPU lists, which such a compaction
 * does not drain. Capping these lists first makes each page that compaction
 * frees push others out, until they are as good as empty (measured on 6.1,
 * 6.12 and 7.3: 20,000 pages down to 400 within one pass). It is done for
 * small targets too: where kcompactd happened to run beside us, 104,000 moves
 * on 6.1 made no single block of order 9 without it, each being short of the
 * few pages that lay on a list, and 97 % with it. Passes are repeated while
 * one gains something.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend.h"
#include "util.h"

/* high = managed / cpus / this, which is its lower limit on all but the
 * biggest guests: four batches a list */
#define PCP_FRACTION_CAP 100000

/* a pass over an already compacted node gains nothing, so the bound is only
 * met where somebody frees and fragments meanwhile */
#define PASSES_MAX 6

/* for work that nobody waits for */
#define BACKGROUND_NICE 10

static void compact_path(char *path, size_t size, unsigned int node)
{
	(void)snprintf(path, size, "devices/system/node/node%u/compact", node);
}

static int compact_probe(int sys_fd, unsigned int node)
{
	char path[64];

	compact_path(path, sizeof(path), node);
	return faccessat(sys_fd, path, W_OK, 0) < 0 ? -errno : 0;
}

/* In the child. Its exit status is the errno. */
static void compact_child(const struct job *j, pid_t parent)
{
	sigset_t none;
	ssize_t n;

	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		_exit(errno);
	if (getppid() != parent)
		_exit(ECANCELED); /* it died before the line above */
	if (j->urgency == URGENCY_BACKGROUND)
		(void)setpriority(PRIO_PROCESS, 0, BACKGROUND_NICE);

	/* 6.12 and later want exactly this */
	n = write(j->compact.fd, "1", 1);
	_exit(n < 0 ? errno : 0);
}

static int begin_pass(struct job *j)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid)
		compact_child(j, parent);
	j->compact.pid = pid;
	j->compact.passes++;
	j->compact.pass_blocks = j->blocks;
	return 0;
}

static void cap_pcp_lists(struct job *j, uint64_t now_us)
{
	/* without it there is less to be had, which the result shows */
	knobs_hold(j->knobs, KNOB_PCP_HIGH_FRACTION, PCP_FRACTION_CAP);
	knobs_tick(j->knobs, now_us);
	j->compact.holds_knob = true;
}

static void compact_finish(struct job *j, uint64_t now_us)
{
	if (j->compact.holds_knob) {
		knobs_unhold(j->knobs, KNOB_PCP_HIGH_FRACTION);
		knobs_tick(j->knobs, now_us);
	}
	j->compact.holds_knob = false;
	if (j->compact.fd >= 0)
		close(j->compact.fd);
	j->compact.fd = -1;
}

static int compact_start(struct job *j, uint64_t now_us)
{
	char path[64];
	int r;

	memset(&j->compact, 0, sizeof(j->compact));
	compact_path(path, sizeof(path), j->node);
	j->compact.fd = openat(j->sys_fd, path, O_WRONLY | O_CLOEXEC);
	if (j->compact.fd < 0)
		return -errno;
	cap_pcp_lists(j, now_us);
	r = begin_pass(j);
	if (r < 0)
		compact_finish(j, now_us);
	return r;
}

/* Is another pass worth its scan of the whole node? */
static bool pass_was_worth_it(const struct job *j)
{
	uint64_t gain = j->blocks - MIN(j->blocks, j->compact.pass_blocks);
	uint64_t free_blocks = j->start_pages >> j->order;

	/* at least 1 % of what could be had at best */
	return gain > free_blocks / 100;
}

static uint64_t timeval_us(struct timeval tv)
{
	return (uint64_t)tv.tv_sec * SEC_US + (uint64_t)tv.tv_usec;
}

static int compact_step(struct job *j)
{
	struct rusage ru;
	int status, r;
	pid_t pid;

	pid = wait4(j->compact.pid, &status, WNOHANG, &ru);
	if (pid < 0)
		return -errno;
	if (!pid)
		return 0;
	j->compact.pid = 0;
	j->compact.reaped_cpu_us +=
		timeval_us(ru.ru_utime) + timeval_us(ru.ru_stime);

	if (WIFSIGNALED(status))
		return j->compact.killed ? 1 : -EINTR;
	if (WEXITSTATUS(status))
		return -WEXITSTATUS(status);
	if (j->compact.killed || j->blocks >= j->target_blocks ||
	    j->compact.passes >= PASSES_MAX || !pass_was_worth_it(j))
		return 1;
	r = begin_pass(j);
	return r < 0 ? r : 0;
}

static void compact_cancel(struct job *j)
{
	j->compact.killed = true;
	if (j->compact.pid > 0)
		(void)kill(j->compact.pid, SIGKILL); /* ESRCH: it ended */
}

static uint64_t compact_cpu_us(const struct job *j)
{
	struct timespec ts;
	clockid_t clock;

	/* unlike its schedstat, the clock counts up to this moment */
	if (j->compact.pid <= 0 ||
	    clock_getcpuclockid(j->compact.pid, &clock) ||
	    clock_gettime(clock, &ts) < 0)
		return j->compact.reaped_cpu_us;
	return j->compact.reaped_cpu_us + (uint64_t)ts.tv_sec * SEC_US +
	       (uint64_t)ts.tv_nsec / 1000;
}

const struct backend_ops backend_compact = {
	.probe = compact_probe,
	.start = compact_start,
	.step = compact_step,
	.cancel = compact_cancel,
	.finish = compact_finish,
	.cpu_us = compact_cpu_us,
};
