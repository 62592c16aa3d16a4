// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * nodemap - where a process's memory lies, page by page
 *
 *	nodemap PID
 *
 * Prints "nodeN rss_kib R huge_kib H" for each NUMA node. Shares nothing with
 * numa_maps or smaps, which it is there to check: page frame numbers come from
 * pagemap, their nodes from the spans in zoneinfo, their kind from kpageflags.
 *
 * huge_kib: aligned 2 MiB of the process that are one 2 MiB folio, hugetlb or
 * THP. Whether a PMD maps it kpageflags cannot say; smaps can.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGES_PMD 512u
#define PFN_MASK  ((1ull << 55) - 1)
#define PRESENT	  (1ull << 63)
#define KPF_HEAD  (1ull << 15)
#define KPF_HUGE  (1ull << 17)
#define KPF_ZERO  (1ull << 24)
#define KPF_THP	  (1ull << 22)
#define SPANS_MAX 64
#define NODES_MAX 16

struct span {
	uint64_t start, end;
	int node;
};

static struct span spans[SPANS_MAX];
static int span_count;
static uint64_t rss[NODES_MAX], huge[NODES_MAX]; /* pages */
static int pagemap_fd, flags_fd;

static void die(const char *what)
{
	fprintf(stderr, "nodemap: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* A zone's block ends with its start_pfn, after spanned. */
static void read_spans(void)
{
	FILE *f = fopen("/proc/zoneinfo", "re");
	unsigned long long spanned = 0, v;
	char line[256];
	int node = 0;

	if (!f)
		die("/proc/zoneinfo");
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Node %d, zone", &node) == 1)
			continue;
		if (sscanf(line, " spanned %llu", &v) == 1)
			spanned = v;
		if (sscanf(line, " start_pfn: %llu", &v) != 1 || !spanned)
			continue;
		if (span_count == SPANS_MAX || node >= NODES_MAX)
			die("too many zones");
		spans[span_count++] = (struct span){v, v + spanned, node};
	}
	fclose(f);
}

static int node_of(uint64_t pfn)
{
	for (int i = 0; i < span_count; i++)
		if (pfn >= spans[i].start && pfn < spans[i].end)
			return spans[i].node;
	errno = ERANGE;
	die("a page in no zone");
	return -1;
}

/* `flags` of 512 frames from `pfn` on. */
static bool is_one_folio(uint64_t pfn, const uint64_t *flags)
{
	/* 64 KiB folios have THP and HEAD, too: then there are more heads. */
	if (pfn % PAGES_PMD || !(flags[0] & (KPF_THP | KPF_HUGE)) ||
	    !(flags[0] & KPF_HEAD) || flags[0] & KPF_ZERO)
		return false;
	for (unsigned i = 1; i < PAGES_PMD; i++)
		if (flags[i] & KPF_HEAD)
			return false;
	return true;
}

/*
 * A run of present pages with consecutive frames: one look at their flags. The
 * zero page and the huge one are nobody's memory, and smaps leaves them out.
 */
static void count_run(uint64_t pfn, size_t n)
{
	uint64_t flags[PAGES_PMD];

	if (pread(flags_fd, flags, n * 8, pfn * 8) != (ssize_t)(n * 8))
		die("/proc/kpageflags");
	for (size_t i = 0; i < n; i++)
		if (!(flags[i] & KPF_ZERO))
			rss[node_of(pfn + i)]++;
	if (n == PAGES_PMD && is_one_folio(pfn, flags))
		huge[node_of(pfn)] += PAGES_PMD;
}

/* [start, end) in pages, at most one aligned 2 MiB block. */
static void count(uint64_t start, uint64_t end)
{
	uint64_t pm[PAGES_PMD];
	ssize_t got = pread(pagemap_fd, pm, (end - start) * 8, start * 8);
	size_t n, run;

	if (got < 0)
		die("pagemap");
	n = got / 8;
	for (size_t i = 0; i < n; i += run) {
		uint64_t pfn = pm[i] & PFN_MASK;

		run = 1;
		if (!(pm[i] & PRESENT) || !pfn)
			continue;
		while (i + run < n && pm[i + run] & PRESENT &&
		       (pm[i + run] & PFN_MASK) == pfn + run)
			run++;
		count_run(pfn, run);
	}
}

static void walk(FILE *maps)
{
	unsigned long long start, end;
	char line[4352];

	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%llx-%llx", &start, &end) != 2 ||
		    strstr(line, "[vsyscall]"))
			continue;
		start /= 4096;
		end /= 4096;
		while (start < end) {
			uint64_t next = (start / PAGES_PMD + 1) * PAGES_PMD;

			if (next > end)
				next = end;
			count(start, next);
			start = next;
		}
	}
}

int main(int argc, char **argv)
{
	char path[64];
	FILE *maps;

	if (argc != 2) {
		fprintf(stderr, "usage: nodemap PID\n");
		return 2;
	}
	read_spans();
	snprintf(path, sizeof(path), "/proc/%d/pagemap", atoi(argv[1]));
	pagemap_fd = open(path, O_RDONLY);
	flags_fd = open("/proc/kpageflags", O_RDONLY);
	snprintf(path, sizeof(path), "/proc/%d/maps", atoi(argv[1]));
	maps = fopen(path, "re");
	if (pagemap_fd < 0 || flags_fd < 0 || !maps)
		die(path);
	walk(maps);
	for (int n = 0; n < NODES_MAX; n++)
		for (int i = 0; i < span_count; i++)
			if (spans[i].node == n) {
				printf("node%d rss_kib %llu huge_kib %llu\n", n,
				       (unsigned long long)rss[n] * 4,
				       (unsigned long long)huge[n] * 4);
				break;
			}
	return 0;
}
