// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * DOC: free blocks by way of a pool of huge pages
 *
 * A pool that grows by K pages makes the kernel find K blocks of their order,
 * by order-targeted direct compaction where there are none; a pool that
 * shrinks again frees them whole. The kernel's search stops by itself at the
 * last page, unlike that of nodeN/compact.
 *
 * The pool takes what is free before it has anything compacted, so it grows
 * by the blocks that were free at first, and those wanted on top. What it
 * holds counts as free: it will be. It must not hold so much that others find
 * nothing, hence the floor below.
 *
 * It grows in steps, each one write(2) by a child: any signal ends a write
 * early, and from 6.12 on a pool shows its new pages only when one is over.
 * Between two steps the size is compared with what we wrote: one that is
 * neither is somebody else's from then on, ours with it. (One between the
 * size before the step and that asked for may be what the kernel could do.)
 *
 * Shrinking never takes a page from a user: pages in use, and those that a
 * mapping has reserved, become surplus ones, which the kernel frees with
 * their last user. So the old size can always be written, and always is. The
 * per-CPU lists hold pages of this order, too, so they are capped meanwhile.
 *
 * The kernel's allocation of a pool's page wakes kswapd for its order, which
 * then reclaims up to a high watermark, however much memory is free: measured
 * on 6.12, 2 GiB with 1.1 GiB free, 18,619 pages of the cache for K = 100, or
 * 974 pages swapped out. No flag and no knob of ours prevents that. So this
 * backend is not for guests with swap, and stops when much is reclaimed; in a
 * guest of anonymous memory without swap nothing is.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backend.h"
#include "caps.h"
#include "hugepool.h"
#include "log.h"
#include "util.h"

/* as in the compact backend */
#define PCP_FRACTION_CAP 100000

/*
 * Pages a step, beside those that are to be had without any compaction: an
 * eighth of what is missing, so that steps grow short towards the target.
 * A step costs a fork, some 0.3 ms; a page 10 ms (both emulated).
 */
#define STEP_MIN 4u
#define STEP_MAX 64u
#define STEP_ALL 16u

/*
 * Above a background's noise. A kswapd that is woken for a huge page takes up
 * to a high watermark at once (see above), so this tells at the first time.
 */
#define RECLAIMED_MAX_PAGES 4096

static struct hugepool pool_of(const struct job *j)
{
	return (struct hugepool){.node = j->node, .kib = j->hugetlb.kib};
}

static int hugetlb_probe(int sys_fd, unsigned int node)
{
	return hugepool_probe(sys_fd, node);
}

static uint64_t held(const struct job *j)
{
	const struct hugetlb_job *h = &j->hugetlb;

	return h->foreign ? 0 : h->now - MIN(h->now, h->original);
}

/* Free ones, and those that will be. */
static uint64_t have(const struct job *j)
{
	return j->blocks + held(j);
}

/* Pages that the next step may take; 0: no more can be asked for. */
static uint64_t step_pages(const struct job *j)
{
	uint64_t missing = j->target_blocks - MIN(j->target_blocks, have(j));
	uint64_t room = (j->free_pages - MIN(j->free_pages, j->floor_pages)) >>
			j->order;
	uint64_t step = CLAMP(missing / 8, STEP_MIN, STEP_MAX);

	step = j->all ? STEP_ALL : MIN(step, missing);
	return MIN(j->blocks + step, room);
}

static int write_size(struct job *j, uint64_t pages)
{
	struct hugepool p = pool_of(j);
	char path[HUGEPOOL_PATH_MAX], text[32];

	hugepool_size_path(&p, path);
	(void)snprintf(text, sizeof(text), "%" PRIu64, pages);
	return writer_start(&j->hugetlb.writer, j->sys_fd, path, text,
			    j->urgency == URGENCY_BACKGROUND);
}

/* Journal first. Return: 0, or -errno with nothing written. */
static int grow(struct job *j, uint64_t pages)
{
	struct hugetlb_job *h = &j->hugetlb;
	uint64_t ours = h->now + pages;
	int r = loans_take_pool(j->loans, j->node, h->kib, h->original, ours);

	if (r < 0)
		return r;
	r = write_size(j, ours);
	if (r < 0 && h->now == h->original)
		loans_end_pool(j->loans, j->node, h->kib);
	if (!r) {
		h->ours = ours;
		h->idle = false;
	}
	return r;
}

static void give_back_knob(struct job *j, uint64_t now_us)
{
	if (j->hugetlb.holds_knob) {
		knobs_unhold(j->knobs, KNOB_PCP_HIGH_FRACTION);
		knobs_tick(j->knobs, now_us);
	}
	j->hugetlb.holds_knob = false;
}

static struct verdict no(enum stop_why why, const char *text)
{
	return (struct verdict){.stop = true, .why = why, .text = text};
}

static struct verdict hugetlb_admit(const struct job *j)
{
	struct hugepool p = {.node = j->node,
			     .kib = j->caps->page_size / 1024 << j->order};
	struct hugepool_size size;
	int r = hugepool_read(j->sys_fd, &p, &size);

	if (r == -ENOENT)
		return no(WHY_MISSING, "no huge pages of this order");
	/* growing would turn these into pages of the pool, for good */
	if (!r && size.surplus_pages)
		return no(WHY_BUSY, "pool has surplus pages");
	if (caps_has_swap(j->proc_fd))
		return no(WHY_RECLAIM, "with swap on kswapd would swap");
	if (!step_pages(j))
		return no(WHY_LOW_MEMORY, "no room for a pool");
	if (loans_any(j->loans))
		return no(WHY_BUSY, "pool waits for being put back");
	return (struct verdict){0};
}

static int hugetlb_start(struct job *j, uint64_t now_us)
{
	struct hugetlb_job *h = &j->hugetlb;
	struct hugepool_size size;
	struct hugepool p;
	int r;

	memset(h, 0, sizeof(*h));
	h->kib = j->caps->page_size / 1024 << j->order;
	p = pool_of(j);
	r = hugepool_read(j->sys_fd, &p, &size);
	if (r < 0)
		return r;
	h->original = h->now = h->ours = size.pages;
	/* without it there is less to be had, which the result shows */
	knobs_hold(j->knobs, KNOB_PCP_HIGH_FRACTION, PCP_FRACTION_CAP);
	knobs_tick(j->knobs, now_us);
	h->holds_knob = true;
	r = grow(j, step_pages(j));
	if (r < 0)
		give_back_knob(j, now_us);
	return r;
}

static int put_back(struct job *j)
{
	j->hugetlb.stage = HUGETLB_PUT_BACK;
	j->hugetlb.idle = false;
	return write_size(j, j->hugetlb.original);
}

/* Whoever resized it has the last word. */
static int lose(struct job *j, uint64_t pages)
{
	struct hugetlb_job *h = &j->hugetlb;

	log_notice("Pool of %" PRIu32 " KiB pages on node %u was changed by "
		   "somebody else from %" PRIu64 " to %" PRIu64 ": left alone",
		   h->kib, j->node, h->ours, pages);
	h->foreign = true;
	loans_end_pool(j->loans, j->node, h->kib);
	h->verdict = no(WHY_BUSY, "pool was changed by others");
	return 1;
}

/*
 * A step is over: @result as from writer_step(). Return: as step().
 */
static int grown(struct job *j, int result)
{
	struct hugetlb_job *h = &j->hugetlb;
	uint64_t before = h->now;
	struct hugepool p = pool_of(j);
	struct hugepool_size size;
	int r = hugepool_read(j->sys_fd, &p, &size);

	if (!r && (size.pages < before || size.pages > h->ours))
		return lose(j, size.pages);
	if (!r)
		h->now = size.pages;
	if (result < 0 && result != -ECANCELED)
		h->error = result;
	/* short of what was asked for: the kernel found no more, or a signal */
	if (r < 0 || result < 0 || h->ending || h->now < h->ours)
		return put_back(j);
	/*
	 * Not at once: who wants to resize the pool has waited for the lock
	 * that our step held, and must have had his turn when we look again.
	 */
	h->idle = true;
	return 0;
}

/* With fresh figures: another step, or the way back. */
static int next(struct job *j)
{
	uint64_t pages = step_pages(j);
	struct hugepool p = pool_of(j);
	struct hugepool_size size;

	if (j->hugetlb.ending || have(j) >= j->target_blocks)
		return put_back(j);
	if (hugepool_read(j->sys_fd, &p, &size) == 0 &&
	    size.pages != j->hugetlb.ours)
		return lose(j, size.pages);
	if (!pages)
		j->hugetlb.verdict =
			no(WHY_LOW_MEMORY, "pool would take too much");
	if (!pages || grow(j, pages) < 0)
		return put_back(j);
	return 0;
}

/* What failed loans_tick() tries again. Return: as step(). */
static int given_back(struct job *j)
{
	struct hugetlb_job *h = &j->hugetlb;
	struct hugepool p = pool_of(j);
	struct hugepool_size size;
	int r = hugepool_read(j->sys_fd, &p, &size);

	if (r < 0)
		return r;
	h->now = size.pages;
	if (size.pages > h->original)
		return -EBUSY;
	loans_end_pool(j->loans, j->node, h->kib);
	return h->error < 0 ? h->error : 1;
}

static int hugetlb_step(struct job *j)
{
	struct hugetlb_job *h = &j->hugetlb;
	int r;

	if (h->stage == HUGETLB_GROW && h->idle)
		return next(j);
	r = writer_step(&h->writer);
	if (!r)
		return 0;
	if (h->stage == HUGETLB_GROW)
		return grown(j, r);
	return r < 0 ? r : given_back(j);
}

/* The way back is never cut short. */
static void hugetlb_cancel(struct job *j)
{
	struct hugetlb_job *h = &j->hugetlb;

	h->ending = true;
	if (h->stage == HUGETLB_GROW)
		writer_kill(&h->writer);
}

static void hugetlb_finish(struct job *j, uint64_t now_us)
{
	give_back_knob(j, now_us);
}

static uint64_t hugetlb_cpu_us(const struct job *j)
{
	return writer_cpu_us(&j->hugetlb.writer);
}

static struct verdict hugetlb_check(const struct job *j,
				    const struct progress *p)
{
	if (j->hugetlb.verdict.stop)
		return j->hugetlb.verdict;
	if (p->reclaimed_pages > RECLAIMED_MAX_PAGES)
		return no(WHY_RECLAIM, "reclaim rises");
	return (struct verdict){0};
}

/* Direct compaction stalls by PSI's measure, and is nearly all it does. */
static void hugetlb_own(const struct job *j, struct job_own *ret_own)
{
	*ret_own = (struct job_own){
		.held_blocks = held(j),
		.stall_us = hugetlb_cpu_us(j),
	};
}

const struct backend_ops backend_hugetlb = {
	.probe = hugetlb_probe,
	.start = hugetlb_start,
	.step = hugetlb_step,
	.cancel = hugetlb_cancel,
	.finish = hugetlb_finish,
	.cpu_us = hugetlb_cpu_us,
	.admit = hugetlb_admit,
	.check = hugetlb_check,
	.own = hugetlb_own,
};
