// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * thpprobe - how many of K huge pages does the guest get right now?
 *
 *	thpprobe [--count K] [--order N] [--hold-ms MS]
 *
 * Maps K aligned regions of one huge page each, madvises MADV_HUGEPAGE, touches
 * each once, and counts which became huge. Prints one JSON line; the kernel's
 * own counters of the same time stand beside it, and how long the faults took.
 *
 * Order 9 (the default) counts AnonHugePages of smaps. A smaller order asks for
 * that mTHP size (6.8 and later), whose sysfs switch is set to "madvise" for
 * the time of the probe if it was "never", and counts by its anon_fault_alloc:
 * each region is just that long, so that no other size fits. Exit status 3, and
 * an "error" in the line, where the kernel has no such size.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE	  4096ul
#define PMD_ORDER 9
#define THP_DIR	  "/sys/kernel/mm/transparent_hugepage"
#define COUNTERS  8

static const char *const counter_name[COUNTERS] = {
	"thp_fault_alloc", "thp_fault_fallback", "compact_stall",
	"compact_success", "compact_fail",	 "pgmigrate_success",
	"pgscan_direct",   "allocstall",
};

static void die(const char *what)
{
	fprintf(stderr, "thpprobe: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* allocstall has one line a zone: they are summed up. */
static void counters_read(uint64_t ret[COUNTERS])
{
	FILE *f = fopen("/proc/vmstat", "re");
	unsigned long long value;
	char name[64];

	if (!f)
		die("/proc/vmstat");
	memset(ret, 0, COUNTERS * sizeof(*ret));
	while (fscanf(f, "%63s %llu", name, &value) == 2)
		for (int i = 0; i < COUNTERS; i++)
			if (!strcmp(name, counter_name[i]) ||
			    (i == COUNTERS - 1 &&
			     !strncmp(name, "allocstall_", 11)))
				ret[i] += value;
	fclose(f);
}

static unsigned long anon_huge_kib(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "re");
	unsigned long kib = 0;
	char line[128];

	if (!f)
		die("/proc/self/smaps_rollup");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "AnonHugePages: %lu", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

static int mthp_path(char *path, size_t size, unsigned int order,
		     const char *leaf)
{
	return snprintf(path, size, THP_DIR "/hugepages-%lukB/%s",
			(PAGE << order) / 1024, leaf);
}

static uint64_t mthp_stat(unsigned int order, const char *leaf)
{
	unsigned long long value = 0;
	char path[256];
	FILE *f;

	mthp_path(path, sizeof(path), order, leaf);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%llu", &value) != 1)
		die(path);
	fclose(f);
	return value;
}

/* "madvise" where it was "never"; 1: was changed, -ENOENT: no such size. */
static int mthp_enable(unsigned int order, const char *value)
{
	char path[256], text[128];
	ssize_t n;
	int fd;

	mthp_path(path, sizeof(path), order, "enabled");
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = 0;
	if (!strcmp(value, "madvise") && !strstr(text, "[never]")) {
		close(fd);
		return 0;
	}
	if (write(fd, value, strlen(value)) < 0)
		die(path);
	close(fd);
	return 1;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/*
 * One mapping with a hole after each region: regions in one VMA would let a
 * fault of a smaller order be served by a larger one across the border.
 */
static char *regions_map(unsigned long count, size_t len)
{
	size_t total = (count * 2 + 1) * len;
	char *base = mmap(NULL, total, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *first;

	if (base == MAP_FAILED)
		die("mmap");
	first = (char *)(((uintptr_t)base + len - 1) & ~(len - 1));
	for (unsigned long i = 0; i < count; i++) {
		char *p = first + i * 2 * len;

		if (mprotect(p, len, PROT_READ | PROT_WRITE))
			die("mprotect");
		if (madvise(p, len, MADV_HUGEPAGE))
			die("MADV_HUGEPAGE");
	}
	return first;
}

static void print_result(unsigned long count, unsigned int order,
			 unsigned long huge, uint64_t *ns, const uint64_t *a,
			 const uint64_t *b)
{
	uint64_t sum = 0;

	for (unsigned long i = 0; i < count; i++)
		sum += ns[i];
	qsort(ns, count, sizeof(*ns), by_value);
	printf("{\"thpprobe\": %u, \"count\": %lu, \"huge\": %lu, "
	       "\"success_pct\": %.1f, \"fault_us_mean\": %.1f, "
	       "\"fault_us_p50\": %.1f, \"fault_us_p99\": %.1f, "
	       "\"fault_us_max\": %.1f",
	       order, count, huge, 100.0 * huge / count, sum / 1000.0 / count,
	       ns[count / 2] / 1000.0, ns[count * 99 / 100] / 1000.0,
	       ns[count - 1] / 1000.0);
	for (int i = 0; i < COUNTERS; i++)
		printf(", \"%s\": %llu", counter_name[i],
		       (unsigned long long)(b[i] - a[i]));
	puts("}");
	fflush(stdout);
}

static void probe(unsigned long count, unsigned int order)
{
	size_t len = PAGE << order;
	uint64_t a[COUNTERS], b[COUNTERS];
	uint64_t *ns = malloc(count * sizeof(*ns));
	unsigned long kib = 0, huge;
	uint64_t stat = 0;
	char *p;

	if (!ns)
		die("malloc");
	memset(ns, 0, count * sizeof(*ns)); /* no page faults while timing */
	p = regions_map(count, len);
	kib = anon_huge_kib();
	if (order != PMD_ORDER)
		stat = mthp_stat(order, "stats/anon_fault_alloc");
	counters_read(a);
	for (unsigned long i = 0; i < count; i++) {
		uint64_t t = now_ns();

		*(volatile char *)(p + i * 2 * len) = 1;
		ns[i] = now_ns() - t;
	}
	counters_read(b);
	if (order == PMD_ORDER)
		huge = (anon_huge_kib() - kib) / (len / 1024);
	else
		huge = mthp_stat(order, "stats/anon_fault_alloc") - stat;
	print_result(count, order, huge, ns, a, b);
}

static unsigned long number(const char *s)
{
	char *end;
	unsigned long n = strtoul(s, &end, 10);

	if (end == s || *end) {
		fprintf(stderr, "thpprobe: '%s' is no number\n", s);
		exit(2);
	}
	return n;
}

int main(int argc, char **argv)
{
	static const struct option longopts[] = {
		{"count", required_argument, NULL, 'c'},
		{"order", required_argument, NULL, 'o'},
		{"hold-ms", required_argument, NULL, 'h'},
		{NULL, 0, NULL, 0}};
	unsigned long count = 100, order = PMD_ORDER, hold_ms = 0;
	int c, r = 0;

	while ((c = getopt_long(argc, argv, "", longopts, NULL)) != -1) {
		if (c == 'c')
			count = number(optarg);
		else if (c == 'o')
			order = number(optarg);
		else if (c == 'h')
			hold_ms = number(optarg);
		else
			return 2;
	}
	if (optind != argc || !count || !order || order > PMD_ORDER) {
		fputs("usage: thpprobe [--count K] [--order 1..9] "
		      "[--hold-ms MS]\n",
		      stderr);
		return 2;
	}
	if (order != PMD_ORDER) {
		r = mthp_enable(order, "madvise");
		if (r < 0) {
			printf("{\"thpprobe\": %lu, \"error\": \"the kernel "
			       "has no mTHP of this order\"}\n",
			       order);
			return 3;
		}
	}
	probe(count, order);
	usleep(hold_ms * 1000);
	if (r > 0)
		mthp_enable(order, "never");
	return 0;
}
