// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * DOC: free blocks by taking a memory block offline and back online
 *
 * Taking a memory block offline moves each of its pages elsewhere, and it
 * comes back as nothing but free blocks of the highest order: 64 of order 9
 * for 128 MiB. Which block is cheap kpageflags tells, read once in slices;
 * then the best one is taken, moves for each block gained, and the next, until
 * there is enough. One more than the target at most, and no finer.
 *
 * Who is a candidate:
 * - of this node alone, in one zone, memory from end to end;
 * - none of a device's: virtio-mem's memory stands in /proc/iomem as "System
 *   RAM (virtio_mem)", kmem's as "System RAM (kmem)", the guest's own as
 *   "System RAM". virtio-mem unplugs by offlining such blocks itself, and
 *   holds those that are in part plugged;
 * - without a page that cannot move. has_unmovable_pages() would say EBUSY
 *   after 14 to 42 ms. Unknown pages are the kernel's, or lie on a per-CPU
 *   list, which offlining drains: the lists are capped first, and what is
 *   still unknown counts as the kernel's;
 * - without a hugetlb page: offlining would shrink somebody's pool;
 * - that fits back: see the zone trap in memblocks.h.
 * The node must have the moves' size free elsewhere, twice, above its high
 * watermark.
 *
 * A signal ends the kernel's attempt (EINTR) once it has tried each page of
 * the block, and it retries without end otherwise: a pinned page would keep it
 * busy for ever. So each has its time. Where the last block that is needed has
 * just been emptied, and its free blocks show in buddyinfo, the action is at
 * its target and ends it then: the block stays online, and as empty.
 *
 * A block that was taken is always brought back, by another child; should the
 * agent die, by the next start, which finds it in the journal.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend.h"
#include "log.h"
#include "memblocks.h"
#include "memlayout.h"
#include "pbscan.h"
#include "procfile.h"
#include "proto_codec.h"
#include "util.h"

/* as in the compact backend */
#define PCP_FRACTION_CAP 100000

/* 64 GiB of 4 KiB pages: 1.5 s of CPU. What lies behind is not looked at. */
#define SCAN_WORDS_MAX (UINT64_C(1) << 24)

/* Measured: 0.12 to 1.0 s under emulation, with 4,000 to 6,000 moves. */
#define TAKE_MAX_US (10 * SEC_US)

/* Blocks that could not be taken, before it is given up. */
#define FAILURES_MAX 3u

/* 1 TiB of 128 MiB; guests from 64 GiB on mostly have greater blocks. */
#define BLOCKS_MAX 8192u

struct candidate {
	uint32_t movable, free_pages, sticky;
	uint16_t whole; /* free blocks of the wanted order */
	bool bad;	/* has a page that cannot move, or was tried */
	bool seen;
};

struct memblock_map {
	struct memlayout layout;
	struct pbscan scan;
	uint64_t block_pages;
	uint32_t nr;
	unsigned int order;
	struct candidate c[];
};

static int memblock_probe(int sys_fd, unsigned int node)
{
	return memblocks_probe(sys_fd, node);
}

static struct verdict no(enum stop_why why, const char *text)
{
	return (struct verdict){.stop = true, .why = why, .text = text};
}

static uint64_t own_cpu_us(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * SEC_US + (uint64_t)ts.tv_nsec / 1000;
}

/* From pbscan_step(): one pageblock more. */
static void count(void *ctx, uint64_t pfn, const struct pageblock *b)
{
	struct memblock_map *m = ctx;
	uint64_t number = pfn / m->block_pages;
	struct candidate *c = &m->c[number];

	if (number >= m->nr)
		return;
	c->seen = true;
	c->movable += b->pages[PAGE_MOVABLE];
	c->free_pages += b->pages[PAGE_FREE];
	c->sticky += b->sticky_pages;
	for (unsigned int o = m->order; o < PROTO_ORDERS_MAX; o++)
		c->whole += (uint16_t)(b->free_blocks[o] << (o - m->order));
	if (pageblock_is_spoilt(b) || b->pages[PAGE_HUGETLB])
		c->bad = true;
}

static int make_map(struct job *j)
{
	uint64_t bytes, block_pages, nr;
	struct memlayout layout;
	struct memblock_map *m;
	int r = memblocks_bytes(j->sys_fd, &bytes);

	if (!r)
		r = memlayout_read(j->proc_fd, j->caps->page_size, &layout);
	if (r < 0)
		return r;
	block_pages = bytes / j->caps->page_size;
	nr = memlayout_end_pfn(&layout) / block_pages + 1;
	nr = MIN(nr, (uint64_t)BLOCKS_MAX);
	m = calloc(1, sizeof(*m) + nr * sizeof(m->c[0]));
	if (!m)
		return -ENOMEM;
	m->layout = layout;
	m->block_pages = block_pages;
	m->nr = (uint32_t)nr;
	m->order = j->order;
	r = pbscan_open(&m->scan, j->proc_fd, j->caps, &m->layout,
			SCAN_WORDS_MAX);
	if (r < 0) {
		free(m);
		return r;
	}
	j->memblock.map = m;
	return 0;
}

static struct verdict memblock_admit(const struct job *j)
{
	auto_close int fd = procfile_open(j->proc_fd, "kpageflags");
	struct memlayout layout;

	if (fd < 0)
		return no(WHY_MISSING, "kpageflags cannot be read");
	if (memlayout_read(j->proc_fd, j->caps->page_size, &layout) == -EACCES)
		return no(WHY_MISSING, "iomem does not tell whose memory is");
	if (loans_any(j->loans))
		return no(WHY_BUSY, "a block waits for being put back");
	return (struct verdict){0};
}

static int memblock_start(struct job *j, uint64_t now_us)
{
	struct memblock_job *b = &j->memblock;
	int r;

	memset(b, 0, sizeof(*b));
	r = make_map(j);
	if (r < 0)
		return r;
	/* pages on these lists look like the kernel's */
	knobs_hold(j->knobs, KNOB_PCP_HIGH_FRACTION, PCP_FRACTION_CAP);
	knobs_tick(j->knobs, now_us);
	b->holds_knob = true;
	return 0;
}

/* Is the block what its place says, and would it come back the same? */
static bool fits(const struct job *j, uint32_t number, uint8_t *ret_zone)
{
	const struct memblock_map *m = j->memblock.map;
	uint64_t start_pfn = number * m->block_pages;
	uint64_t end_pfn = start_pfn + m->block_pages;
	struct memblock block;
	unsigned int node;
	int zone;

	if (memlayout_ram_pages(&m->layout, start_pfn, end_pfn, true) !=
	    m->block_pages)
		return false;
	if (memblock_read(j->sys_fd, number, &block) < 0)
		return false;
	zone = memblock_only_zone(&block);
	if (zone < 0 || memblock_on_nodes(j->sys_fd, number, &node) != 1 ||
	    node != j->node)
		return false;
	if (zone < ZONE_KIND_NORMAL &&
	    memlayout_at_edge(&m->layout, node, zone, start_pfn, end_pfn))
		return false;
	*ret_zone = (uint8_t)zone;
	return true;
}

static uint64_t gain_of(const struct memblock_map *m, const struct candidate *c)
{
	uint64_t all = m->block_pages >> m->order;

	return all - MIN(all, (uint64_t)c->whole);
}

/* Room for its pages elsewhere, twice. */
static bool has_room(const struct job *j, const struct candidate *c)
{
	return j->free_pages >
	       j->floor_pages + c->free_pages + 2 * (uint64_t)c->movable;
}

/* Fewest moves for each block gained; a sticky page counts fourfold. */
static bool is_better(const struct memblock_map *m, const struct candidate *a,
		      const struct candidate *b)
{
	uint64_t cost_a = a->movable + 3 * (uint64_t)a->sticky;
	uint64_t cost_b = b->movable + 3 * (uint64_t)b->sticky;

	return cost_a * gain_of(m, b) < cost_b * gain_of(m, a);
}

/* Return: the best block that is left, or NULL, with why in the verdict. */
static struct candidate *choose(struct job *j, uint32_t *ret_number,
				uint8_t *ret_zone)
{
	struct memblock_map *m = j->memblock.map;
	struct candidate *best = NULL;
	bool no_room = false;
	uint8_t zone;

	for (uint32_t i = 0; i < m->nr; i++) {
		struct candidate *c = &m->c[i];

		if (!c->seen || c->bad || !gain_of(m, c) ||
		    (best && !is_better(m, c, best)))
			continue;
		if (!has_room(j, c)) {
			no_room = true;
			continue;
		}
		if (!fits(j, i, &zone)) {
			c->bad = true;
			continue;
		}
		best = c;
		*ret_number = i;
		*ret_zone = zone;
	}
	if (!best && no_room)
		j->memblock.verdict =
			no(WHY_LOW_MEMORY, "too little is free elsewhere");
	else if (!best)
		j->memblock.verdict =
			no(WHY_EXHAUSTED, "no further memory block fits");
	return best;
}

static int write_state(struct job *j, const char *word)
{
	char path[MEMBLOCK_PATH_MAX];

	memblock_state_path(j->memblock.number, path);
	return writer_start(&j->memblock.writer, j->sys_fd, path, word,
			    j->urgency == URGENCY_BACKGROUND);
}

/* Return: as step(). */
static int take(struct job *j, struct candidate *c)
{
	struct memblock_job *b = &j->memblock;
	int r = loans_take_block(j->loans, b->number, b->zone);

	c->bad = true; /* not again */
	if (r < 0)
		return r;
	r = write_state(j, "offline");
	if (r < 0) {
		loans_end_block(j->loans, b->number);
		return r;
	}
	log_debug("Memory block %" PRIu32 ": %u moves, zone %s", b->number,
		  c->movable, zone_kind_name(b->zone));
	b->stage = MEMBLOCK_TAKE;
	b->taken_us = j->now_us;
	return 0;
}

/* With fresh figures: another one, or the end. */
static int next(struct job *j)
{
	struct candidate *c;

	if (j->memblock.ending || j->blocks >= j->target_blocks)
		return 1;
	if (j->memblock.failures >= FAILURES_MAX) {
		j->memblock.verdict =
			no(WHY_EXHAUSTED, "memory blocks could not be emptied");
		return 1;
	}
	c = choose(j, &j->memblock.number, &j->memblock.zone);
	return c ? take(j, c) : 1;
}

static int scan(struct job *j)
{
	struct memblock_job *b = &j->memblock;
	uint64_t begun_us = own_cpu_us();
	int r = pbscan_step(&b->map->scan, PBSCAN_SLICE_WORDS, count, b->map);

	b->scan_cpu_us += own_cpu_us() - begun_us;
	j->kpageflags_words = b->map->scan.words;
	if (b->ending)
		return 1;
	j->look_soon = true;
	if (!r)
		return 0;
	/* what the budget did not reach is not chosen from */
	if (r < 0 && r != -EDQUOT)
		return r;
	pbscan_close(&b->map->scan);
	b->stage = MEMBLOCK_CHOOSE;
	return 0;
}

static int choose_again(struct job *j)
{
	j->memblock.stage = MEMBLOCK_CHOOSE;
	j->look_soon = true;
	return 0;
}

/*
 * The kernel's answer to "offline". EBUSY: a page that cannot move, or does
 * not; EINVAL: a memmap or reserved pages in it, or not online any more;
 * EINTR: a signal. The block is as it was after each of these.
 */
static int taken(struct job *j, int result)
{
	struct memblock_job *b = &j->memblock;
	struct memblock now;
	int r = memblock_read(j->sys_fd, b->number, &now);

	/* also where a signal came just too late, or it cannot be told */
	if (r < 0 || now.state != MEMBLOCK_ONLINE) {
		b->stage = MEMBLOCK_RETURN;
		return write_state(j, memblock_online_word(b->zone));
	}
	loans_end_block(j->loans, b->number);
	log_debug("Memory block %" PRIu32 ": %s", b->number,
		  strerror(result < 0 ? -result : EINVAL));
	b->failures++;
	if (b->ending)
		return 1;
	if (result == -EINTR)
		return result; /* somebody killed our child */
	return choose_again(j);
}

/* Return: as step(). What failed loans_tick() tries again. */
static int returned(struct job *j, int result)
{
	struct memblock_job *b = &j->memblock;
	struct memblock now;
	int r = memblock_read(j->sys_fd, b->number, &now);

	if (!r && now.state != MEMBLOCK_ONLINE)
		r = result < 0 ? result : -EBUSY;
	if (r < 0)
		return r;
	loans_end_block(j->loans, b->number);
	if (memblock_only_zone(&now) != b->zone) {
		log_err("Memory block %" PRIu32 " came back to zone %s, not %s",
			b->number, zone_kind_name(now.first_zone),
			zone_kind_name(b->zone));
		return -EXDEV;
	}
	return choose_again(j);
}

static int memblock_step(struct job *j)
{
	struct memblock_job *b = &j->memblock;
	int r;

	if (b->stage == MEMBLOCK_SCAN)
		return scan(j);
	if (b->stage == MEMBLOCK_CHOOSE)
		return next(j);
	if (b->stage == MEMBLOCK_TAKE && j->now_us - b->taken_us > TAKE_MAX_US)
		writer_kill(&b->writer);
	r = writer_step(&b->writer);
	if (!r)
		return 0;
	return b->stage == MEMBLOCK_TAKE ? taken(j, r) : returned(j, r);
}

/* The way back is never cut short. */
static void memblock_cancel(struct job *j)
{
	j->memblock.ending = true;
	if (j->memblock.stage == MEMBLOCK_TAKE)
		writer_kill(&j->memblock.writer);
}

static void memblock_finish(struct job *j, uint64_t now_us)
{
	struct memblock_job *b = &j->memblock;

	if (b->holds_knob) {
		knobs_unhold(j->knobs, KNOB_PCP_HIGH_FRACTION);
		knobs_tick(j->knobs, now_us);
	}
	b->holds_knob = false;
	if (b->map)
		pbscan_close(&b->map->scan);
	free(b->map);
	b->map = NULL;
}

static uint64_t memblock_cpu_us(const struct job *j)
{
	return j->memblock.scan_cpu_us + writer_cpu_us(&j->memblock.writer);
}

static struct verdict memblock_check(const struct job *j,
				     const struct progress *p)
{
	(void)p;
	return j->memblock.verdict;
}

const struct backend_ops backend_memblock = {
	.probe = memblock_probe,
	.start = memblock_start,
	.step = memblock_step,
	.cancel = memblock_cancel,
	.finish = memblock_finish,
	.cpu_us = memblock_cpu_us,
	.admit = memblock_admit,
	.check = memblock_check,
};
