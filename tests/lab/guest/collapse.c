// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * collapse - ask for huge pages under another process's memory
 *
 *	collapse --pid PID --map-mib N [--fill]
 *
 * process_madvise(MADV_COLLAPSE), 2 MiB at a time, over all mappings of exactly
 * N MiB (a guest's RAM is one). Blocks with nothing in them are left alone
 * unless --fill: a collapse fills holes. Prints one line:
 *
 *	blocks B tried T done D huge H empty E enomem N eagain A einval I other
 *O
 *
 * huge: were so before, by PAGEMAP_SCAN where the kernel has it, else 0.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define BLOCK	      (2ull << 20)
#define PAGES	      512u
#define PRESENT	      (1ull << 63)
#define COLLAPSE      25 /* MADV_COLLAPSE */
#define EAGAIN_TRIES  5
#define PAGE_IS_HUGE_ (1ull << 6)
#define PAGEMAP_SCAN_ _IOWR('f', 16, struct scan_arg)

struct scan_region {
	uint64_t start, end, categories;
};

struct scan_arg {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages,
		inverted, mask, anyof, ret;
};

static struct {
	unsigned blocks, tried, done, huge, empty, enomem, eagain, einval,
		other;
} n;
static int pidfd, pagemap;
static bool fill;

static bool is_huge(uint64_t at)
{
	struct scan_region r[1];
	struct scan_arg a = {.size = sizeof(a),
			     .start = at,
			     .end = at + BLOCK,
			     .vec = (uintptr_t)r,
			     .vec_len = 1,
			     .mask = PAGE_IS_HUGE_,
			     .ret = PAGE_IS_HUGE_};

	return ioctl(pagemap, PAGEMAP_SCAN_, &a) == 1 &&
	       r[0].end - r[0].start == BLOCK;
}

static bool is_empty(uint64_t at)
{
	uint64_t pm[PAGES];

	if (pread(pagemap, pm, sizeof(pm), at / 4096 * 8) != sizeof(pm))
		return true;
	for (unsigned i = 0; i < PAGES; i++)
		if (pm[i] & PRESENT)
			return false;
	return true;
}

static int collapse(uint64_t at)
{
	struct iovec v = {(void *)(uintptr_t)at, BLOCK};

	if (syscall(SYS_process_madvise, pidfd, &v, 1, COLLAPSE, 0) ==
	    (long)BLOCK)
		return 0;
	return errno;
}

static void block(uint64_t at)
{
	int e = EAGAIN;

	n.blocks++;
	if (is_huge(at)) {
		n.huge++;
		return;
	}
	if (!fill && is_empty(at)) {
		n.empty++;
		return;
	}
	n.tried++;
	for (int i = 0; i < EAGAIN_TRIES && e == EAGAIN; i++)
		e = collapse(at);
	if (!e)
		n.done++;
	else if (e == ENOMEM)
		n.enomem++;
	else if (e == EAGAIN)
		n.eagain++;
	else if (e == EINVAL)
		n.einval++;
	else
		n.other++;
}

static void run(int pid, uint64_t bytes)
{
	unsigned long long start, end;
	char path[64], line[4352];
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	pagemap = open(path, O_RDONLY);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	pidfd = syscall(SYS_pidfd_open, pid, 0);
	if (pagemap < 0 || !maps || pidfd < 0) {
		perror("collapse");
		exit(1);
	}
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%llx-%llx", &start, &end) != 2 ||
		    end - start != bytes)
			continue;
		start = (start + BLOCK - 1) / BLOCK * BLOCK;
		for (; start + BLOCK <= end; start += BLOCK)
			block(start);
	}
	fclose(maps);
}

int main(int argc, char **argv)
{
	static const struct option opts[] = {{"pid", 1, 0, 'p'},
					     {"map-mib", 1, 0, 'm'},
					     {"fill", 0, 0, 'f'},
					     {0, 0, 0, 0}};
	uint64_t mib = 0;
	int c, pid = 0;

	while ((c = getopt_long(argc, argv, "", opts, NULL)) != -1) {
		if (c == 'p')
			pid = atoi(optarg);
		else if (c == 'm')
			mib = strtoull(optarg, NULL, 10);
		else if (c == 'f')
			fill = true;
		else
			return 2;
	}
	if (!pid || !mib) {
		fprintf(stderr, "usage: collapse --pid PID --map-mib N "
				"[--fill]\n");
		return 2;
	}
	run(pid, mib << 20);
	printf("blocks %u tried %u done %u huge %u empty %u enomem %u eagain "
	       "%u einval %u other %u\n",
	       n.blocks, n.tried, n.done, n.huge, n.empty, n.enomem, n.eagain,
	       n.einval, n.other);
	return n.blocks ? 0 : 1;
}
