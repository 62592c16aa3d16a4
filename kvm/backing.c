// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <numaif.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "backing.h"
#include "util.h"

#define PAGE_BYTES  UINT64_C(4096)
#define BLOCK_PAGES ((uint32_t)(MEMSLOT_BLOCK_BYTES / PAGE_BYTES))

/*
 * PAGEMAP_SCAN as the kernel defines it (Documentation/admin-guide/mm/
 * pagemap.rst), for headers that are older than the call.
 */
struct scan_region {
	uint64_t start, end, categories;
};

struct scan_arg {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask;
	uint64_t return_mask;
};

#define SCAN_IOCTL   _IOWR('f', 16, struct scan_arg)
#define SCAN_PRESENT (1u << 3)
#define SCAN_SWAPPED (1u << 4)
#define SCAN_HUGE    (1u << 6)
/* more than this in the last call of a range, and walk_end is wrong */
#define SCAN_REGIONS 512u

/* bits of pagemap's words */
#define PM_EXCLUSIVE (UINT64_C(1) << 56)
#define PM_SWAPPED   (UINT64_C(1) << 62)
#define PM_PRESENT   (UINT64_C(1) << 63)
#define PM_WORDS     4096u

static uint64_t own_cpu_us(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * SEC_US + (uint64_t)ts.tv_nsec / 1000;
}

void backing_run(uint64_t start, uint64_t end, bool present, uint8_t flags,
		 uint64_t hva, struct backing_block *block, uint32_t nr)
{
	uint64_t last = hva + nr * MEMSLOT_BLOCK_BYTES;

	start = MAX(start, hva);
	end = MIN(end, last);
	while (start < end) {
		uint64_t i = (start - hva) / MEMSLOT_BLOCK_BYTES;
		uint64_t next = hva + (i + 1) * MEMSLOT_BLOCK_BYTES;
		uint64_t to = MIN(end, next);
		uint64_t pages = (to - start) / PAGE_BYTES;
		uint8_t add = flags;

		if (pages < BLOCK_PAGES)
			add &= (uint8_t)~BACKING_HUGE;
		if (present)
			block[i].present = (uint16_t)MIN(
				block[i].present + pages, BLOCK_PAGES);
		block[i].flags |= add;
		start = to;
	}
}

static int scan_ioctl(int fd, uint64_t hva, struct backing_block *block,
		      uint32_t nr, struct backing_cost *cost)
{
	struct scan_region region[SCAN_REGIONS];
	struct scan_arg arg = {
		.size = sizeof(arg),
		.start = hva,
		.end = hva + nr * MEMSLOT_BLOCK_BYTES,
		.vec = (uintptr_t)region,
		.vec_len = SCAN_REGIONS,
		.category_anyof_mask = SCAN_PRESENT | SCAN_SWAPPED,
		.return_mask = SCAN_PRESENT | SCAN_SWAPPED | SCAN_HUGE,
	};

	while (arg.start < arg.end) {
		int n = ioctl(fd, SCAN_IOCTL, &arg);

		if (n < 0)
			return -errno;
		cost->calls++;
		for (int i = 0; i < n; i++) {
			uint64_t is = region[i].categories;
			uint8_t flags = 0;

			if (is & SCAN_PRESENT && is & SCAN_HUGE)
				flags |= BACKING_HUGE;
			if (is & SCAN_SWAPPED)
				flags |= BACKING_SWAPPED;
			backing_run(region[i].start, region[i].end,
				    is & SCAN_PRESENT, flags, hva, block, nr);
		}
		if (arg.walk_end <= arg.start)
			break;
		arg.start = arg.walk_end;
	}
	return 0;
}

/* Return: 0; -ESRCH where the mapping ends. */
static int scan_pagemap(int fd, uint64_t hva, struct backing_block *block,
			uint32_t nr, struct backing_cost *cost)
{
	uint64_t word[PM_WORDS];
	uint64_t left = (uint64_t)nr * BLOCK_PAGES, at = hva;

	cost->by_pagemap = true;
	while (left) {
		size_t want = MIN(left, PM_WORDS) * sizeof(word[0]);
		ssize_t n = pread(fd, word, want,
				  (off_t)(at / PAGE_BYTES * sizeof(word[0])));

		if (n < 0)
			return -errno;
		n /= (ssize_t)sizeof(word[0]);
		if (!n)
			return -ESRCH;
		cost->calls++;
		for (ssize_t i = 0; i < n; i++, at += PAGE_BYTES) {
			bool present = word[i] & PM_PRESENT;
			uint8_t flags = 0;

			if (word[i] & PM_SWAPPED)
				flags |= BACKING_SWAPPED;
			if (present && !(word[i] & PM_EXCLUSIVE))
				flags |= BACKING_SHARED;
			backing_run(at, at + PAGE_BYTES, present, flags, hva,
				    block, nr);
		}
		left -= (uint64_t)n;
	}
	return 0;
}

#define NODES_AT_ONCE 1024u

/* One question a block, not a page: nodes differ by block where they do. */
static void find_nodes(pid_t pid, uint64_t hva, struct backing_block *block,
		       uint32_t nr)
{
	void *page[NODES_AT_ONCE];
	int status[NODES_AT_ONCE];

	for (uint32_t from = 0; from < nr; from += NODES_AT_ONCE) {
		uint32_t n = MIN(nr - from, NODES_AT_ONCE);

		for (uint32_t i = 0; i < n; i++)
			page[i] =
				(void *)(uintptr_t)(hva +
						    (from +
						     i) * MEMSLOT_BLOCK_BYTES);
		/* refused, or gone: nodes stay unknown */
		if (move_pages(pid, n, page, NULL, status, 0) < 0)
			return;
		for (uint32_t i = 0; i < n; i++) {
			if (status[i] >= 0 && status[i] < BACKING_NODE_NONE)
				block[from + i].node = (uint8_t)status[i];
		}
	}
}

/* Blocks of one slot. */
static int scan_part(const struct qemuproc *p, int fd, const struct memslot *s,
		     uint64_t block_nr, uint32_t nr, bool nodes,
		     struct backing_block *block, struct backing_cost *cost)
{
	uint64_t hva = s->hva + (block_nr * MEMSLOT_BLOCK_BYTES - s->gpa);
	int r;

	for (uint32_t i = 0; i < nr; i++)
		block[i] = (struct backing_block){.node = BACKING_NODE_NONE,
						  .flags = BACKING_KNOWN};
	r = cost->by_pagemap ? -ENOTTY : scan_ioctl(fd, hva, block, nr, cost);
	if (r == -ENOTTY || r == -EINVAL)
		r = scan_pagemap(fd, hva, block, nr, cost);
	/* all of hugetlb that is there is huge, whatever its mapping */
	for (uint32_t i = 0; i < nr && s->kind == MEMSLOT_HUGETLB; i++) {
		if (block[i].present && s->page_kib >= 2048)
			block[i].flags |= BACKING_HUGE;
	}
	if (!r && nodes)
		find_nodes(p->pid, hva, block, nr);
	return r;
}

int backing_scan(const struct qemuproc *p, const struct memslots *ms,
		 uint32_t index, uint32_t nr, bool nodes,
		 struct backing_block *ret_block, struct backing_cost *ret_cost)
{
	uint64_t begun_us = own_cpu_us();
	auto_close int fd = openat(p->dir_fd, "pagemap", O_RDONLY | O_CLOEXEC);
	int r = 0;

	memset(ret_cost, 0, sizeof(*ret_cost));
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	while (nr && !r) {
		uint32_t slot, n;
		uint64_t first, at = memslots_block(ms, index, &slot);

		if (at == UINT64_MAX)
			return -EINVAL;
		n = memslot_blocks(&ms->slot[slot], &first);
		n = (uint32_t)MIN(nr, n - (at - first));
		r = scan_part(p, fd, &ms->slot[slot], at, n, nodes, ret_block,
			      ret_cost);
		ret_block += n;
		index += n;
		nr -= n;
	}
	ret_cost->cpu_us = own_cpu_us() - begun_us;
	return r;
}
