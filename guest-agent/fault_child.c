// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * DOC: where the blocks go
 *
 * A page fault in an MADV_HUGEPAGE region tries the biggest enabled folio size
 * that fits into the region, then each smaller one. To get exactly one size,
 * regions are made into which no bigger one fits, so that nobody's switches
 * need to be turned off: for orders below the PMD's a region is two blocks,
 * the second and third of an aligned group of four,
 *
 *	| 0 | 1 : 2 | 3 |	each next bigger aligned range sticks out
 *	    [region]
 *
 * so half as many regions are needed as blocks, and address space is free. A
 * block is ours if its last page is there after its first one was touched:
 * with a smaller folio it is not. Then what came is given back at once.
 *
 * Free blocks of the order that exist already are handed out first, so they
 * are held too, until the end: what counts is held and free ones together.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fault_child.h"
#include "frag.h"
#include "procfile.h"
#include "procfs.h"
#include "util.h"

/* for work that nobody waits for */
#define BACKGROUND_NICE 10

/* Free memory and blocks are counted each so many pages taken, 1 MiB: a look
 * costs 5 us natively, the faults between two of them at least 250 us. */
#define LOOK_PAGES 256u

/*
 * When there is no more to be had. The two scanners of direct compaction meet
 * long before all is had, since the one for free pages strides, and the kernel
 * remembers which page blocks were hopeless, also for long after they have
 * changed. Then it defers: it lets 1, 2, 4, up to 64 attempts fail at once,
 * with a scan between, and at last starts anew with that memory wiped. So a
 * hundred failures in a row may have hundreds of blocks behind them (measured:
 * 98 % of the faults succeeded over five such rounds). What tells is the work
 * done in vain: no block for a scan of all the node, or for more failures than
 * such a round has.
 */
#define FAILED_MAX 200

/* A fault that takes so many times the fastest one did more than taking and
 * clearing a block; and a floor, for clocks and interrupts. */
#define SLOW_TIMES  2
#define SLOW_MIN_US 50u

/*
 * How soon what is held is given back to who needs it. A look costs 10 us
 * natively: 0.02 % of a CPU while something is held.
 */
#define HOLD_LOOK_US 50000

struct holder {
	const struct fault_plan *plan;
	struct fault_share *share;
	int buddyinfo_fd, vmstat_fd;
	size_t block_bytes, page_bytes;
	char *base;
	uint64_t max_blocks, tried;
	unsigned int failed;   /* in a row */
	uint64_t scanned;      /* by all, at the last look */
	uint64_t vain_scanned; /* since the last block that we got */
	bool got_one;	       /* since the last look */
	uint64_t fastest_us;
	uint64_t allocstall; /* at the last look, if there was one */
	bool looked;
	bool slow; /* a fault since then was */
};

static _Noreturn void finish(const struct holder *h, enum fault_end end,
			     int error)
{
	atomic_store(&h->share->error, error);
	atomic_store(&h->share->end, end);
	_exit(error);
}

static _Noreturn void fail(const struct holder *h, int error)
{
	finish(h, FAULT_ERROR, error);
}

/* The kernel's out-of-memory killer takes us before anybody else. */
static void die_first(const struct holder *h)
{
	int r = write_text_at(h->plan->proc_fd, "self/oom_score_adj", "1000");

	/* a copy of some guest's /proc, in tests, has no self */
	if (r < 0 && r != -ENOENT)
		fail(h, -r);
}

static void bind_to_node(const struct holder *h)
{
	unsigned long mask[PROTO_NODES_MAX * 4 / sizeof(unsigned long)] = {0};
	const unsigned int bits = 8 * sizeof(unsigned long);
	unsigned int node = h->plan->node;

	if (node >= bits * ARRAY_SIZE(mask))
		fail(h, EINVAL);
	mask[node / bits] = 1ul << node % bits;
	/* a kernel without NUMA has one node */
	if (syscall(SYS_set_mempolicy, MPOL_BIND, mask,
		    bits * ARRAY_SIZE(mask) + 1) < 0 &&
	    errno != ENOSYS)
		fail(h, errno);
}

static void set_up_process(const struct holder *h)
{
	sigset_t none;

	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		fail(h, errno);
	if (getppid() != h->plan->parent)
		fail(h, ECANCELED); /* it died before the line above */
	if (h->plan->background)
		(void)setpriority(PRIO_PROCESS, 0, BACKGROUND_NICE);
	/* whoever started the agent may have set it */
	(void)prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	die_first(h);
	bind_to_node(h);
}

static int count_free(const struct holder *h, uint64_t *ret_blocks,
		      uint64_t *ret_pages)
{
	uint32_t blocks[PROTO_ORDERS_MAX];
	struct zones z = {0};
	int r = procfile_lines(h->buddyinfo_fd, buddyinfo_line, &z);

	if (r < 0)
		return r;
	zones_sum_node(&z, h->plan->node, blocks);
	*ret_blocks = frag_suitable_blocks(blocks, h->plan->want_order);
	*ret_pages = frag_free_pages(blocks);
	return 0;
}

static void map_or_fail(const struct holder *h, char *at, size_t bytes)
{
	void *got = mmap(at, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
				 MAP_FIXED_NOREPLACE,
			 -1, 0);

	if (got == MAP_FAILED || madvise(at, bytes, MADV_HUGEPAGE) < 0) {
		/* the limit of regions: as many blocks as can be held */
		if (errno == ENOMEM && h->tried)
			finish(h, FAULT_YIELD, 0);
		fail(h, errno);
	}
}

/* Addresses for more blocks than there can be. */
static void find_room(struct holder *h)
{
	uint64_t blocks, pages;
	size_t group = 4 * h->block_bytes, bytes;
	int r = count_free(h, &blocks, &pages);
	char *at;

	if (r < 0)
		fail(h, -r);
	/* failed ones need room too, and others may free memory meanwhile */
	h->max_blocks = 2 * (pages >> h->plan->order) + FAILED_MAX;
	bytes = (h->max_blocks / 2 + 2) * group;
	at = mmap(NULL, bytes, PROT_NONE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED || munmap(at, bytes) < 0)
		fail(h, errno);
	h->base = (char *)(((uintptr_t)at + group - 1) & ~(group - 1));
	/* nothing bigger than the PMD's size exists: one region does */
	if (h->plan->order == h->plan->pmd_order)
		map_or_fail(h, h->base, h->max_blocks * h->block_bytes);
}

static char *block_at(const struct holder *h, uint64_t i)
{
	if (h->plan->order == h->plan->pmd_order)
		return h->base + i * h->block_bytes;
	return h->base + (i / 2 * 4 + 1 + i % 2) * h->block_bytes;
}

static char *next_block(const struct holder *h)
{
	char *at = block_at(h, h->tried);

	if (h->plan->order != h->plan->pmd_order && h->tried % 2 == 0)
		map_or_fail(h, at, 2 * h->block_bytes);
	return at;
}

static bool is_whole(const struct holder *h, char *block)
{
	unsigned char last = 0;

	if (mincore(block + h->block_bytes - h->page_bytes, h->page_bytes,
		    &last) < 0)
		fail(h, errno);
	return last & 1;
}

static bool take_block(const struct holder *h, char *block)
{
	*(volatile char *)block = 1;
	if (!h->plan->collapse)
		return is_whole(h, block);
	if (!madvise(block, h->block_bytes, MADV_COLLAPSE))
		return true;
	if (errno != ENOMEM && errno != EAGAIN && errno != EBUSY)
		fail(h, errno);
	return false;
}

static void account(struct holder *h, bool ok, uint64_t took_us)
{
	uint64_t clear_us = ok ? MIN(h->fastest_us, took_us) : 0;

	h->tried++;
	h->failed = ok ? 0 : h->failed + 1;
	h->got_one = h->got_one || ok;
	h->slow = h->slow || !ok ||
		  took_us > MAX(SLOW_TIMES * h->fastest_us, SLOW_MIN_US);
	if (ok)
		h->fastest_us = clear_us;
	atomic_fetch_add(ok ? &h->share->held_blocks : &h->share->failed_blocks,
			 1);
	/* what clearing the block takes is no stall */
	atomic_fetch_add(&h->share->stall_us, took_us - clear_us);
}

static void try_block(struct holder *h)
{
	char *block = next_block(h);
	uint64_t begun_us = now_us();
	bool ok = take_block(h, block);

	account(h, ok, now_us() - begun_us);
	if (!ok)
		(void)madvise(block, h->block_bytes, MADV_DONTNEED);
}

/*
 * Nothing tells whose direct reclaim it was. While one of our faults was slow
 * it is taken as ours, else as somebody else's.
 */
static void look_at_counters(struct holder *h)
{
	struct vmstat vs = {0};
	uint64_t scanned;

	if (procfile_lines(h->vmstat_fd, vmstat_line, &vs) < 0)
		return;
	scanned = vs.ctr[CTR_COMPACT_MIGRATE_SCANNED] +
		  vs.ctr[CTR_COMPACT_FREE_SCANNED];
	if (h->looked && h->slow)
		atomic_fetch_add(&h->share->stalls,
				 vs.ctr[CTR_ALLOCSTALL] - h->allocstall);
	if (h->looked)
		h->vain_scanned += scanned - h->scanned;
	if (h->got_one)
		h->vain_scanned = 0;
	h->allocstall = vs.ctr[CTR_ALLOCSTALL];
	h->scanned = scanned;
	h->looked = true;
	h->slow = h->got_one = false;
}

/* Blocks that were there before were taken, too: those go back. */
static void keep_only(struct holder *h, uint64_t folios)
{
	for (uint64_t i = 0; i < h->tried; i++) {
		char *block = block_at(h, i);

		if (atomic_load(&h->share->held_blocks) <= folios)
			return;
		if (!is_whole(h, block))
			continue;
		(void)madvise(block, h->block_bytes, MADV_DONTNEED);
		atomic_fetch_sub(&h->share->held_blocks, 1);
	}
}

/* What rises when somebody finds no block, or no memory. */
static uint64_t need_counter(const struct holder *h)
{
	struct vmstat vs = {0};

	if (procfile_lines(h->vmstat_fd, vmstat_line, &vs) < 0)
		return 0;
	return vs.ctr[CTR_COMPACT_STALL] + vs.ctr[CTR_THP_FAULT_FALLBACK] +
	       vs.ctr[CTR_ALLOCSTALL];
}

static _Noreturn void hold(struct holder *h)
{
	const unsigned int shift = h->plan->order - h->plan->want_order;
	uint64_t until_us = sum_sat_u64(now_us(), h->plan->hold_us);
	uint64_t before, blocks, pages;

	/* rounded up: a folio is two blocks of a smaller order, or more */
	keep_only(h,
		  (h->plan->hold_blocks + (UINT64_C(1) << shift) - 1) >> shift);
	before = need_counter(h);
	atomic_store(&h->share->end, FAULT_HOLDS);
	while (now_us() < until_us) {
		(void)usleep(HOLD_LOOK_US);
		if (need_counter(h) != before)
			finish(h, FAULT_NEEDED, 0);
		if (!count_free(h, &blocks, &pages) &&
		    pages < h->plan->floor_pages)
			finish(h, FAULT_FLOOR, 0);
	}
	finish(h, FAULT_TARGET, 0);
}

/* Return: faults until the next look; does not return where it ends. */
static unsigned int look(struct holder *h)
{
	const unsigned int most = MAX(LOOK_PAGES >> h->plan->order, 1u);
	const unsigned int shift = h->plan->order - h->plan->want_order;
	uint64_t blocks, pages, have;
	int r = count_free(h, &blocks, &pages);

	if (r < 0)
		fail(h, -r);
	look_at_counters(h);
	have = blocks + (atomic_load(&h->share->held_blocks) << shift);
	if (have >= h->plan->target_blocks && h->plan->hold_us)
		hold(h);
	if (have >= h->plan->target_blocks)
		finish(h, FAULT_TARGET, 0);
	if (pages < h->plan->floor_pages + ((uint64_t)most << h->plan->order))
		finish(h, FAULT_FLOOR, 0);
	if (h->vain_scanned > h->plan->node_pages || h->failed > FAILED_MAX ||
	    h->tried + most > h->max_blocks)
		finish(h, FAULT_YIELD, 0);
	/* never past the target by more than a few */
	return (unsigned int)CLAMP(
		(h->plan->target_blocks - have) >> shift >> 2, 1u, most);
}

static void open_sources(struct holder *h)
{
	h->buddyinfo_fd = procfile_open(h->plan->proc_fd, "buddyinfo");
	h->vmstat_fd = procfile_open(h->plan->proc_fd, "vmstat");
	if (h->buddyinfo_fd < 0 || h->vmstat_fd < 0)
		fail(h, ENOENT);
}

_Noreturn void fault_child(const struct fault_plan *plan,
			   struct fault_share *share)
{
	struct holder h = {
		.plan = plan,
		.share = share,
		.page_bytes = (size_t)sysconf(_SC_PAGESIZE),
		.fastest_us = SEC_US,
	};

	h.block_bytes = h.page_bytes << plan->order;
	set_up_process(&h);
	open_sources(&h);
	find_room(&h);
	while (true) {
		for (unsigned int n = look(&h); n > 0; n--)
			try_block(&h);
	}
}
