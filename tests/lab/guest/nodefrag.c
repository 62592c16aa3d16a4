// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * nodefrag - leave N MiB of one NUMA node free, and no free 2 MiB block in it
 *
 *	nodefrag --node N --free-mib M [--pin] [--seed S] [--pid-file FILE]
 *
 * DOC: Theory of Operation
 *
 * fragment.c does this to a whole machine; a host has nodes. Nearly all free
 * memory of the node is taken as base pages, bound to it, then pages chosen at
 * random are given back until M MiB are free. The process holds the rest
 * until it is killed; start it in the background.
 *
 * --pin: of each physical 2 MiB one page that is held goes into a pipe as well
 * (vmsplice), which takes a reference, so that it cannot be migrated: the node
 * stays as it is whatever compaction, THP faults or collapses try. Without it
 * all is movable, and a fault that may compact directly finds its huge page.
 *
 * Per-CPU lists would hide whole MiB: they are emptied by the knob that makes
 * them small while this builds. Prints one line: "free_kib F free_2m B held_kib
 * H pinned P".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE	    4096ul
#define PAGES_PMD   512u
#define PMD_ORDER   9
#define MPOL_BIND_  2
#define PCP_KNOB    "/proc/sys/vm/percpu_pagelist_high_fraction"
#define STEP_MAX    (32ul << 20)
#define MINFREE	    "/proc/sys/vm/min_free_kbytes"
#define MINFREE_LOW 2048 /* what is free below that lies in large blocks */
#define MARGIN_KIB  3072 /* above the high watermark: kswapd must sleep */
#define PIPE_BUFS   16	 /* a pipe's own size; more needs privileges */
#define ROUNDS_MAX  12
#define PFN_MASK    ((1ull << 55) - 1)

static struct {
	int node;
	unsigned long free_kib;
	bool pin;
	uint64_t seed;
	const char *pid_file;
} o = {.node = -1, .seed = 1};

static uint8_t *map, *gone;
static size_t size, filled, given;
static unsigned pinned;

static void die(const char *what)
{
	fprintf(stderr, "nodefrag: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t rng(void)
{
	uint64_t x = o.seed += 0x9e3779b97f4a7c15ull; /* splitmix64 */

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static unsigned long node_kib(const char *key)
{
	unsigned long v = 0;
	char path[96], line[128], want[32];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/meminfo",
		 o.node);
	snprintf(want, sizeof(want), " %s:", key);
	f = fopen(path, "re");
	if (!f)
		die(path);
	while (fgets(line, sizeof(line), f)) {
		char *at = strstr(line, want);

		if (at)
			v = strtoul(at + strlen(want), NULL, 10);
	}
	fclose(f);
	return v;
}

static unsigned long node_free_2m(void)
{
	FILE *f = fopen("/proc/buddyinfo", "re");
	unsigned long sum = 0;
	char line[512];
	int node;

	if (!f)
		die("/proc/buddyinfo");
	while (fgets(line, sizeof(line), f)) {
		char *p = strstr(line, "zone"), *end;

		if (sscanf(line, "Node %d,", &node) != 1 || node != o.node ||
		    !p)
			continue;
		p += 4;
		p += strspn(p, " ");
		p += strcspn(p, " ");
		for (int i = 0;; i++, p = end) {
			unsigned long n = strtoul(p, &end, 10);

			if (end == p)
				break;
			if (i >= PMD_ORDER)
				sum += n << (i - PMD_ORDER);
		}
	}
	fclose(f);
	return sum;
}

/* What to leave alone while filling: high watermarks, and ZONE_DMA whole. */
static unsigned long floor_kib(void)
{
	FILE *f = fopen("/proc/zoneinfo", "re");
	unsigned long pages = 0, n, nr_free = 0;
	char line[256], zone[32] = "";
	int node = -1;

	if (!f)
		die("/proc/zoneinfo");
	while (fgets(line, sizeof(line), f)) {
		sscanf(line, "Node %d, zone %31s", &node, zone);
		if (node != o.node)
			continue;
		if (sscanf(line, " pages free %lu", &n) == 1)
			nr_free = n;
		if (sscanf(line, " high %lu", &n) == 1)
			pages += strcmp(zone, "DMA") ? n : nr_free;
	}
	fclose(f);
	return pages * (PAGE / 1024) + MARGIN_KIB;
}

static unsigned long knob(const char *path)
{
	unsigned long v = 0;
	FILE *f = fopen(path, "re");

	if (!f || fscanf(f, "%lu", &v) != 1)
		die(path);
	fclose(f);
	return v;
}

static void knob_set(const char *path, unsigned long v)
{
	FILE *f = fopen(path, "we");

	if (!f || fprintf(f, "%lu", v) < 0 || fclose(f))
		die(path);
}

static void reserve(void)
{
	unsigned long mask = 1ul << o.node;

	size = node_kib("MemTotal") * 1024;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	gone = calloc(size / PAGE, 1);
	if (map == MAP_FAILED || !gone)
		die("memory");
	memset(gone, 0, size / PAGE);
	if (madvise(map, size, MADV_NOHUGEPAGE) ||
	    syscall(SYS_mbind, map, size, MPOL_BIND_, &mask, 64, 0))
		die("mbind");
}

static void fill(void)
{
	unsigned long stop = floor_kib();

	while (filled < size) {
		unsigned long now = node_kib("MemFree");
		size_t len;

		if (now <= stop)
			break;
		len = (now - stop) * 1024 / 2;
		len = len > STEP_MAX ? STEP_MAX : len & ~(PAGE - 1);
		if (len > size - filled)
			len = size - filled;
		if (len < 64 * PAGE)
			break;
		if (madvise(map + filled, len, MADV_POPULATE_WRITE))
			die("MADV_POPULATE_WRITE");
		filled += len;
	}
}

static uint64_t pfn_of(int pm, size_t page)
{
	uint64_t v;

	if (pread(pm, &v, 8, ((uintptr_t)map / PAGE + page) * 8) != 8)
		die("pagemap");
	return v & PFN_MASK;
}

static void pin_page(size_t page)
{
	static int fds[2], used = PIPE_BUFS;
	struct iovec v = {map + page * PAGE, PAGE};

	if (used == PIPE_BUFS) {
		/* both ends stay open for as long as we live */
		if (pipe2(fds, O_NONBLOCK))
			die("pipe");
		used = 0;
	}
	if (vmsplice(fds[1], &v, 1, SPLICE_F_NONBLOCK) != (ssize_t)PAGE)
		die("vmsplice");
	used++;
	pinned++;
	gone[page] = 2; /* never given back */
}

/* One page of each physical 2 MiB; which of them is chance. */
static void pin(void)
{
	int pm = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	static uint8_t done[1u << 20]; /* blocks: 2 TiB */
	size_t pages = filled / PAGE, first = rng() % PAGES_PMD;

	if (pm < 0)
		die("pagemap");
	for (size_t i = 0; i < pages; i++) {
		size_t page = (first + i) % pages;
		uint64_t block = pfn_of(pm, page) / PAGES_PMD;

		if (block < sizeof(done) && !done[block]) {
			done[block] = 1;
			pin_page(page);
		}
	}
	close(pm);
}

static void give_back(size_t want)
{
	size_t pages = filled / PAGE, left = 0;

	for (size_t i = 0; i < pages; i++)
		left += !gone[i];
	for (size_t i = 0; i < pages && want; i++) {
		if (gone[i])
			continue;
		if (rng() % left-- >= want)
			continue;
		if (madvise(map + i * PAGE, PAGE, MADV_DONTNEED))
			die("MADV_DONTNEED");
		gone[i] = 1;
		given += PAGE;
		want--;
	}
}

static void build(void)
{
	/* --pin needs a pipe for each 32 MiB */
	struct rlimit files = {65536, 65536};
	unsigned long min_free = knob(MINFREE);

	setrlimit(RLIMIT_NOFILE, &files);
	knob_set(PCP_KNOB, 100000);
	if (min_free > MINFREE_LOW)
		knob_set(MINFREE, MINFREE_LOW);
	reserve();
	fill();
	if (o.pin)
		pin();
	for (int i = 0; i < ROUNDS_MAX; i++) {
		unsigned long now = node_kib("MemFree");

		if (now + 1024 >= o.free_kib)
			break;
		give_back((o.free_kib - now) / 4);
	}
	knob_set(MINFREE, min_free);
	knob_set(PCP_KNOB, 0);
}

static void parse(int argc, char **argv)
{
	static const struct option opts[] = {
		{"node", 1, 0, 'n'},	 {"free-mib", 1, 0, 'f'},
		{"pin", 0, 0, 'p'},	 {"seed", 1, 0, 's'},
		{"pid-file", 1, 0, 'P'}, {0, 0, 0, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "", opts, NULL)) != -1) {
		if (c == 'n')
			o.node = atoi(optarg);
		else if (c == 'f')
			o.free_kib = strtoul(optarg, NULL, 10) * 1024;
		else if (c == 'p')
			o.pin = true;
		else if (c == 's')
			o.seed = strtoull(optarg, NULL, 10);
		else if (c == 'P')
			o.pid_file = optarg;
		else
			exit(2);
	}
	if (o.node < 0 || o.node > 63 || !o.free_kib) {
		fprintf(stderr, "usage: nodefrag --node N --free-mib M [--pin] "
				"[--seed S] [--pid-file FILE]\n");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	FILE *f;

	parse(argc, argv);
	build();
	printf("free_kib %lu free_2m %lu held_kib %zu pinned %u\n",
	       node_kib("MemFree"), node_free_2m(), (filled - given) / 1024,
	       pinned);
	fflush(stdout);
	/* Written last: that it is there says that all is done. */
	if (o.pid_file) {
		f = fopen(o.pid_file, "we");
		if (!f || fprintf(f, "%d\n", getpid()) < 0 || fclose(f))
			die(o.pid_file);
	}
	for (;;)
		pause();
}
