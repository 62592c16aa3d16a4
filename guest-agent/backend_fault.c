// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * DOC: blocks by direct compaction, for exactly the wanted order
 *
 * A page fault that wants a folio of an order compacts until there is one
 * block of it, and no further: a fraction of the moves of a whole pass where
 * few blocks are wanted, and the only way that aims at an order. A child takes
 * block after block until enough are held and free together, then ends, which
 * frees what it held: buddies merge, so the blocks are there.
 *
 * The child is the limit of the harm: killed at once, dead with the agent, the
 * first victim of the out-of-memory killer, and nothing of it survives it.
 *
 * Which switches it takes:
 * - The PMD's size, where a fault would not get it by the switches as they
 *   are: MADV_COLLAPSE of a region with one page asks none of them, neither
 *   "enabled" nor "defrag" (6.1+), so nothing is changed. A fault is cheaper,
 *   since a collapse drains the LRU batches of all CPUs, so it goes first.
 * - Smaller sizes (6.8+) have no way of a single process: prctl(2) can only
 *   take THP away. So hugepages-NkB/enabled is held at "madvise" while it
 *   lasts, journalled: regions of others that asked for huge pages may get
 *   that size meanwhile, and nobody else. "always" and "madvise" serve as
 *   they are.
 * - "defrag" must let advised regions compact directly: "defer" becomes
 *   "defer+madvise" and "never" becomes "madvise", which differ from the old
 *   value for advised regions alone.
 *
 * None of these allocations wakes kswapd (GFP_TRANSHUGE). One that found
 * nothing by compaction may reclaim by itself: for what the kernel calls a
 * costly order, above 3, only if free memory is short, and then it gives up.
 * Smaller orders it reclaims and swaps for, however much is free, up to the
 * out-of-memory killer (measured with 1.1 of 2 GiB free, order 3, 7.3: 1,047
 * pages swapped out for 212 blocks). So blocks of these are made by faults of
 * order 4, as two or more at a time.
 *
 * Orders up to 3 and the PMD's are freed to per-CPU lists first, which would
 * hide them, so these are capped meanwhile. Some may stay there even so, or
 * be taken by others: then another pass gets the few that are missing.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend.h"
#include "fault_child.h"
#include "log.h"
#include "mthp.h"
#include "util.h"

/* as for the compact backend */
#define PCP_FRACTION_CAP 100000

#define PASSES_MAX	 4

/* "defrag" may not be written more often than once a second */
#define SWITCH_WAIT_US (2 * SEC_US)

/*
 * Direct reclaims of others that mean memory is short. A fault of ours that
 * finds nothing counts as one too, though it reclaims nothing where enough is
 * free: the yield tells the same.
 */
#define STALLS_MAX 32
/* What is swapped out meanwhile is taken as our doing. */
#define SWAPPED_MAX_PAGES 64
/* 16 MiB: as for scanned pages of other actions */
#define RECLAIMED_MAX_PAGES 4096

/* What the kernel calls costly begins behind this order, the same for ever. */
#define COSTLY_ORDER 3

static bool can_collapse(void)
{
	/* of nothing at all: is the advice known? */
	return !madvise(NULL, 0, MADV_COLLAPSE);
}

static int fault_probe(int sys_fd, unsigned int node)
{
	(void)node;
	return faccessat(sys_fd, "kernel/mm/transparent_hugepage/enabled", R_OK,
			 0) < 0
		       ? -ENOENT
		       : 0;
}

/* The value of "defrag" that lets us compact, or the present one. */
static int64_t defrag_wanted(const struct job *j)
{
	switch (j->knobs->knob[KNOB_THP_DEFRAG].current) {
	case THP_DEFRAG_DEFER:
		return THP_DEFRAG_DEFER_MADVISE;
	case THP_DEFRAG_NEVER:
		return THP_DEFRAG_MADVISE;
	default:
		return j->knobs->knob[KNOB_THP_DEFRAG].current;
	}
}

static bool defrag_serves(const struct job *j)
{
	const struct knob_state *s = &j->knobs->knob[KNOB_THP_DEFRAG];

	return s->readable && defrag_wanted(j) == s->current;
}

/* Of the folios that are taken. */
static unsigned int folio_order(const struct job *j)
{
	return MAX(j->order, COSTLY_ORDER + 1u);
}

static bool size_serves(const struct job *j)
{
	return mthp_serves_advised(j->sys_fd, folio_order(j),
				   j->caps->pmd_order);
}

static bool may_switch(const struct job *j, unsigned int knob)
{
	const struct knob_state *s = &j->knobs->knob[knob];

	return !s->missing && !s->denied && !s->foreign;
}

static bool is_pmd(const struct job *j)
{
	return folio_order(j) == j->caps->pmd_order;
}

static struct verdict refusal(enum stop_why why, const char *text)
{
	return (struct verdict){.stop = true, .why = why, .text = text};
}

static struct verdict fault_admit(const struct job *j)
{
	uint64_t room = j->start_pages - MIN(j->start_pages, j->floor_pages);

	/* what is known of the switches may be a second old */
	knobs_tick(j->knobs, j->now_us);
	if (!is_pmd(j) && !(j->caps->mthp_orders >> folio_order(j) & 1))
		return refusal(WHY_MISSING, "no folio size of this order here");
	if (is_pmd(j) && !(size_serves(j) && defrag_serves(j)) &&
	    !can_collapse())
		return refusal(WHY_MISSING, "THP is off, and no MADV_COLLAPSE");
	if (!is_pmd(j) &&
	    ((!size_serves(j) && !may_switch(j, KNOB_MTHP(folio_order(j)))) ||
	     (!defrag_serves(j) && !may_switch(j, KNOB_THP_DEFRAG))))
		return refusal(WHY_DENIED, "THP switches are not ours to set");
	if (!j->all && j->target_blocks > room >> j->order)
		return refusal(WHY_LOW_MEMORY,
			       "too little free to hold that many blocks");
	return (struct verdict){0};
}

static void hold_switches(struct job *j)
{
	if (!is_pmd(j) && !size_serves(j))
		knobs_hold(j->knobs, KNOB_MTHP(folio_order(j)), MTHP_MADVISE);
	if (!is_pmd(j) && !defrag_serves(j))
		knobs_hold(j->knobs, KNOB_THP_DEFRAG, defrag_wanted(j));
	/* without it there is less to be seen afterwards */
	knobs_hold(j->knobs, KNOB_PCP_HIGH_FRACTION, PCP_FRACTION_CAP);
	knobs_tick(j->knobs, j->now_us);
}

static void unhold_switches(struct job *j)
{
	knobs_unhold(j->knobs, KNOB_MTHP(folio_order(j)));
	knobs_unhold(j->knobs, KNOB_THP_DEFRAG);
	knobs_unhold(j->knobs, KNOB_PCP_HIGH_FRACTION);
	knobs_tick(j->knobs, j->now_us);
}

/*
 * Between the last look of the child and ours after its end some blocks are
 * split by others (measured: 13 of 1,600 of order 4), and another pass for
 * these would take all the rest again.
 */
static uint64_t pass_target(const struct job *j)
{
	uint64_t missing = j->target_blocks - MIN(j->target_blocks, j->blocks);

	if (j->all)
		return j->target_blocks;
	return j->target_blocks + missing / 128 + (128u >> j->order);
}

static int begin_pass(struct job *j)
{
	struct fault_plan plan = {
		.proc_fd = j->knobs->proc_fd,
		.sys_fd = j->sys_fd,
		.node = j->node,
		.order = folio_order(j),
		.want_order = j->order,
		.pmd_order = j->caps->pmd_order,
		.collapse = j->fault.collapse,
		.background = j->urgency == URGENCY_BACKGROUND,
		.target_blocks = pass_target(j),
		.floor_pages = j->floor_pages,
		/* about: it only bounds work in vain */
		.node_pages = j->caps->mem_pages / MAX(j->caps->nr_nodes, 1),
		.hold_us = j->hold_us,
		.hold_blocks = j->target_blocks - j->start_blocks,
		.parent = getpid(),
	};
	pid_t pid;

	memset(j->fault.share, 0, sizeof(*j->fault.share));
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid)
		fault_child(&plan, j->fault.share);
	j->fault.pid = pid;
	j->fault.passes++;
	return 0;
}

static int fault_start(struct job *j, uint64_t now_us)
{
	void *share =
		mmap(NULL, sizeof(*j->fault.share), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (share == MAP_FAILED)
		return -errno;
	memset(&j->fault, 0, sizeof(j->fault));
	j->fault.share = share;
	j->fault.collapse = is_pmd(j) && !(size_serves(j) && defrag_serves(j));
	j->fault.pass_until_us = now_us + SWITCH_WAIT_US;
	hold_switches(j);
	return 0;
}

static uint64_t fault_cpu_us(const struct job *j)
{
	struct timespec ts;
	clockid_t clock;

	if (j->fault.pid <= 0 || clock_getcpuclockid(j->fault.pid, &clock) ||
	    clock_gettime(clock, &ts) < 0)
		return j->fault.reaped_cpu_us;
	return j->fault.reaped_cpu_us + (uint64_t)ts.tv_sec * SEC_US +
	       (uint64_t)ts.tv_nsec / 1000;
}

static void fault_finish(struct job *j, uint64_t now_us)
{
	j->now_us = now_us;
	unhold_switches(j);
	if (j->fault.pid > 0 &&
	    atomic_load(&j->fault.share->end) == FAULT_HOLDS) {
		struct hold h = {
			.pid = j->fault.pid,
			.share = j->fault.share,
			.charged_us = fault_cpu_us(j) - j->fault.reaped_cpu_us,
			.action_id = j->action_id,
			.node = j->node,
			.folio_order = folio_order(j),
		};

		holds_add(j->holds, &h);
	} else {
		(void)munmap(j->fault.share, sizeof(*j->fault.share));
	}
	j->fault.share = NULL;
}

static void reaped(struct job *j, const struct rusage *ru)
{
	struct fault_job *f = &j->fault;

	f->pid = 0;
	f->reaped_cpu_us += (uint64_t)ru->ru_utime.tv_sec * SEC_US +
			    (uint64_t)ru->ru_utime.tv_usec +
			    (uint64_t)ru->ru_stime.tv_sec * SEC_US +
			    (uint64_t)ru->ru_stime.tv_usec;
	log_info("Held %llu blocks of order %u, %llu faults fell back",
		 (unsigned long long)atomic_load(&f->share->held_blocks),
		 folio_order(j),
		 (unsigned long long)atomic_load(&f->share->failed_blocks));
	f->stalls += atomic_load(&f->share->stalls);
	f->stall_us += atomic_load(&f->share->stall_us);
	atomic_store(&f->share->stalls, 0);
	atomic_store(&f->share->stall_us, 0);
	/* they are free now */
	atomic_store(&f->share->held_blocks, 0);
}

/* Between two passes: what was held has become free, and is counted. */
static int next_pass(struct job *j)
{
	struct fault_job *f = &j->fault;

	if (f->killed)
		return 1;
	if (!f->passes) {
		if (f->collapse || (size_serves(j) && defrag_serves(j)))
			return begin_pass(j);
		if (j->now_us >= f->pass_until_us)
			return -EACCES;
		knobs_tick(j->knobs, j->now_us);
		return 0;
	}
	if (j->blocks >= j->target_blocks || f->passes >= PASSES_MAX ||
	    atomic_load(&f->share->end) != FAULT_TARGET)
		return 1;
	return begin_pass(j);
}

static int fault_step(struct job *j)
{
	struct rusage ru;
	int status;
	pid_t pid;

	if (!j->fault.pid)
		return next_pass(j);
	pid = wait4(j->fault.pid, &status, WNOHANG, &ru);
	if (pid < 0)
		return -errno;
	if (!pid)
		return atomic_load(&j->fault.share->end) == FAULT_HOLDS &&
		       !j->fault.killed;
	reaped(j, &ru);
	if (WIFSIGNALED(status))
		return j->fault.killed ? 1 : -EINTR;
	if (WEXITSTATUS(status))
		return -WEXITSTATUS(status);
	return j->fault.killed ? 1 : 0;
}

static void fault_cancel(struct job *j)
{
	j->fault.killed = true;
	if (j->fault.pid > 0)
		(void)kill(j->fault.pid, SIGKILL); /* ESRCH: it ended */
}

static void fault_own(const struct job *j, struct job_own *ret_own)
{
	const struct fault_job *f = &j->fault;

	ret_own->held_blocks = atomic_load(&f->share->held_blocks)
			       << (folio_order(j) - j->order);
	ret_own->allocstall = f->stalls + atomic_load(&f->share->stalls);
	ret_own->stall_us = f->stall_us + atomic_load(&f->share->stall_us);
}

static struct verdict fault_check(const struct job *j, const struct progress *p)
{
	struct job_own own;
	uint64_t stalls;

	fault_own(j, &own);
	stalls = p->allocstalls;
	stalls -= MIN(stalls, own.allocstall);
	switch (atomic_load(&j->fault.share->end)) {
	case FAULT_YIELD:
		return refusal(WHY_EXHAUSTED, "too many faults fell back");
	case FAULT_FLOOR:
		return refusal(WHY_LOW_MEMORY,
			       "free memory is near the high watermark");
	default:
		break;
	}
	if (stalls > STALLS_MAX)
		return refusal(WHY_RECLAIM, "allocations stall for reclaim");
	if (p->swapped_out_pages > SWAPPED_MAX_PAGES)
		return refusal(WHY_RECLAIM, "guest swaps");
	if (p->reclaimed_pages > RECLAIMED_MAX_PAGES)
		return refusal(WHY_RECLAIM, "memory is being reclaimed");
	return (struct verdict){0};
}

const struct backend_ops backend_fault = {
	.probe = fault_probe,
	.start = fault_start,
	.step = fault_step,
	.cancel = fault_cancel,
	.finish = fault_finish,
	.cpu_us = fault_cpu_us,
	.admit = fault_admit,
	.check = fault_check,
	.own = fault_own,
};
