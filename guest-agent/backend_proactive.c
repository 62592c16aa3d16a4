// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * DOC: the kernel's own compaction, up to a wanted score
 *
 * kcompactd compacts in the background where a node's score, the share of its
 * free memory that is of no use for PMD-sized blocks, exceeds a high
 * watermark, and stops in each zone at a low one. Both follow from
 * compaction_proactiveness, P; writing that wakes it at once:
 *
 *	low = 100 - P	(older kernels: 5 at least)
 *	high = low + 10	(newer ones: low + min(10, low / 2))
 *
 * The wanted blocks mean a score; P is chosen so that low lies there, or lower
 * where high would be too high to start. It is put back, and with it the
 * watermarks, when there are enough.
 *
 * Which of the two formulas holds matters only for scores of 15 and below:
 * there an older kernel starts at no P, a newer one does. Above, a P that
 * starts the one starts the other. So no version is asked: up to 15 we write
 * 100 and look whether kcompactd begins to work. Where it does not, that is
 * remembered, and the next such request is refused.
 *
 * It works on all nodes, only for the PMD's order, and may be told neither
 * budget nor priority: what it spends is watched, and P put back at a limit.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend.h"
#include "util.h"

/* least score that an older kernel starts above, at P = 100 */
#define OLD_FLOOR_PCT 15
#define OLD_GAP_PCT   10

/* The kernel looks each 0.5 s: three looks without work, and it has ended. */
#define IDLE_US (1500 * MSEC_US)
/* what such looks cost at most; work costs all of a CPU */
#define IDLE_CPU_US (5 * MSEC_US)

/* It sees the new watermarks after a page block's work, milliseconds, where it
 * gets a CPU. What it does after this long is not for us any more. */
#define LAST_BLOCK_US (1 * SEC_US)

static int proactive_probe(int sys_fd, unsigned int node)
{
	char path[64];

	(void)sys_fd;
	(void)snprintf(path, sizeof(path), "devices/system/node/node%u/compact",
		       node);
	/* the caller knows whether the knob is there: this is not /proc */
	return faccessat(sys_fd, path, F_OK, 0) < 0 ? -errno : 0;
}

static const struct knob_state *knob(const struct job *j)
{
	return &j->knobs->knob[KNOB_COMPACTION_PROACTIVENESS];
}

static struct verdict refusal(enum stop_why why, const char *text)
{
	return (struct verdict){.stop = true, .why = why, .text = text};
}

static struct verdict proactive_admit(const struct job *j)
{
	if (j->order != j->caps->pmd_order)
		return refusal(WHY_MISSING, "makes PMD-sized blocks only");
	if (knob(j)->missing)
		return refusal(WHY_MISSING, "no compaction_proactiveness");
	if (knob(j)->denied || knob(j)->foreign)
		return refusal(WHY_DENIED,
			       "compaction_proactiveness is not ours to set");
	if (!j->score_pct || j->score_pct <= j->memory->proactive_floor_pct)
		return refusal(WHY_EXHAUSTED,
			       "score is below where the kernel starts");
	return (struct verdict){0};
}

/* The score at which the wanted blocks are there, rounded down. */
static unsigned int wanted_score_pct(const struct job *j)
{
	uint64_t in_blocks;
	unsigned int pct;

	if (j->all || !j->start_pages)
		return 0;
	in_blocks = MIN(j->target_blocks << j->order, j->start_pages);
	pct = (unsigned int)((j->start_pages - in_blocks) * 100 /
			     j->start_pages);
	/* the kernel truncates, and must not stop a few blocks short */
	return pct ? pct - 1 : 0;
}

static int64_t choose_value(struct job *j)
{
	unsigned int low = wanted_score_pct(j);

	j->proactive.below_start = j->score_pct <= OLD_FLOOR_PCT;
	if (j->proactive.below_start)
		return knob(j)->current == 100 ? 99 : 100;
	/* high < score by the formula that gives the higher one */
	low = MIN(low, j->score_pct - OLD_GAP_PCT - 1);
	/* a value that is there already would wake nobody */
	if (100 - low == (unsigned int)knob(j)->current)
		return low ? 101 - low : 99;
	return 100 - low;
}

/* The thread that compacts the node, or 0. */
static pid_t find_kcompactd(const struct job *j)
{
	int fd = openat(j->knobs->proc_fd, ".",
			O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	char want[32], comm[64], path[64];
	struct dirent *d;
	pid_t found = 0;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	(void)snprintf(want, sizeof(want), "kcompactd%u\n", j->node);
	while (!found && (d = readdir(dir))) {
		if (!isdigit((unsigned char)d->d_name[0]))
			continue;
		(void)snprintf(path, sizeof(path), "%.20s/comm", d->d_name);
		if (read_text_at(fd, path, comm, sizeof(comm)) > 0 &&
		    !strcmp(comm, want))
			found = (pid_t)strtol(d->d_name, NULL, 10);
	}
	closedir(dir);
	return found;
}

static uint64_t thread_cpu_us(const struct job *j)
{
	struct timespec ts;
	clockid_t clock;

	if (!j->proactive.kcompactd ||
	    clock_getcpuclockid(j->proactive.kcompactd, &clock) ||
	    clock_gettime(clock, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * SEC_US + (uint64_t)ts.tv_nsec / 1000;
}

static int proactive_start(struct job *j, uint64_t now_us)
{
	struct proactive_job *p = &j->proactive;

	memset(p, 0, sizeof(*p));
	p->kcompactd = find_kcompactd(j);
	if (!p->kcompactd)
		return -ESRCH;
	p->base_cpu_us = p->busy_cpu_us = thread_cpu_us(j);
	p->busy_us = now_us;
	knobs_hold(j->knobs, KNOB_COMPACTION_PROACTIVENESS, choose_value(j));
	knobs_tick(j->knobs, now_us);
	return 0;
}

static void put_back(struct job *j)
{
	knobs_unhold(j->knobs, KNOB_COMPACTION_PROACTIVENESS);
	knobs_tick(j->knobs, j->now_us);
}

static void proactive_finish(struct job *j, uint64_t now_us)
{
	j->now_us = now_us;
	put_back(j);
}

/* Not just waiting for a CPU: its counters are only written when it is done. */
static bool thread_sleeps(const struct job *j)
{
	char path[32], text[256];
	const char *end;

	(void)snprintf(path, sizeof(path), "%d/stat",
		       (int)j->proactive.kcompactd);
	if (read_text_at(j->knobs->proc_fd, path, text, sizeof(text)) <= 0)
		return true;
	/* "PID (NAME) STATE" */
	end = strrchr(text, ')');
	return !end || !strncmp(end, ") S", 3);
}

/* Has it done next to nothing since it was last seen at work? */
static bool idle_for(struct job *j, uint64_t time_us, uint64_t cpu_us)
{
	struct proactive_job *p = &j->proactive;
	uint64_t now_cpu_us = thread_cpu_us(j);

	if (now_cpu_us - p->busy_cpu_us > cpu_us || !thread_sleeps(j)) {
		p->busy_cpu_us = now_cpu_us;
		p->busy_us = j->now_us;
		return false;
	}
	return j->now_us - p->busy_us >= time_us;
}

static int proactive_step(struct job *j)
{
	struct proactive_job *p = &j->proactive;

	if (p->cancelled)
		return idle_for(j, 1, 0) ||
		       j->now_us - p->cancelled_us > LAST_BLOCK_US;
	if (knob(j)->foreign)
		return -ECANCELED;
	if (!knob(j)->managed) {
		/* written too short a time ago: the next tick does it */
		knobs_tick(j->knobs, j->now_us);
		p->busy_us = j->now_us;
		return 0;
	}
	if (!idle_for(j, IDLE_US, IDLE_CPU_US))
		return 0;
	if (p->below_start && p->busy_cpu_us - p->base_cpu_us <= IDLE_CPU_US)
		j->memory->proactive_floor_pct = OLD_FLOOR_PCT;
	return 1;
}

static void proactive_cancel(struct job *j)
{
	j->proactive.cancelled = true;
	j->proactive.cancelled_us = j->now_us;
	put_back(j);
}

static uint64_t proactive_cpu_us(const struct job *j)
{
	uint64_t cpu_us = thread_cpu_us(j);

	return cpu_us - MIN(cpu_us, j->proactive.base_cpu_us);
}

static struct verdict proactive_check(const struct job *j,
				      const struct progress *p)
{
	(void)p;
	if (j->memory->proactive_floor_pct && j->proactive.below_start)
		return refusal(WHY_EXHAUSTED,
			       "score is below where the kernel starts");
	return (struct verdict){0};
}

const struct backend_ops backend_proactive = {
	.probe = proactive_probe,
	.start = proactive_start,
	.step = proactive_step,
	.cancel = proactive_cancel,
	.finish = proactive_finish,
	.cpu_us = proactive_cpu_us,
	.admit = proactive_admit,
	.check = proactive_check,
};
