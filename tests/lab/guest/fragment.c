// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fragment - leave N MiB of the guest's memory free, scattered at random
 *
 *	fragment --free-mib N [--kind anon|pagecache] [--seed N]
 *		 [--occupancy uniform|random-per-block] [--dir DIR]
 *		 [--pid-file FILE]
 *	fragment --release [--pid-file FILE]
 *
 * DOC: Theory of Operation
 *
 * Nearly all free memory is taken as base pages, then a seeded random choice of
 * them is given back, page by page, until N MiB are free. What remains is held
 * by a background process (anon) or by the page cache (pagecache). Prints a
 * JSON line before and one after, then "ready".
 *
 * - Random, not regular: the kernel's free scanner strides up to 32 pages, so a
 *   pattern of every 8th page would hide all free pages from compaction.
 * - uniform: each page is given back with the same chance. random-per-block:
 *   each 2 MiB of *physical* memory keeps another random share, so that cheap
 *   and dear blocks exist; needs the page frame numbers, hence root.
 * - anon: MADV_NOHUGEPAGE, never locked (locked pages do not move the same way
 *   on all kernels).
 * - pagecache: pages of holes of a sparse file on a real file system, read one
 *   by one with readahead off: each is an order-0, clean, movable page, and
 *   neither disk nor swap is touched. Memory pressure can drop them: that is
 *   what page cache is.
 * - Per-CPU lists keep freed pages out of the buddy lists, over 100 MiB on
 *   6.12 and later: percpu_pagelist_high_fraction is raised while building and
 *   put back at the end.
 * - kcompactd starts a proactive run within 0.5 s of such a state, and would
 *   have 20 % of the free memory in 2 MiB blocks while we still build. So
 *   compaction_proactiveness is 0 until the "after" line is taken, and then put
 *   back, which starts that run at once. Set it to 0 before to keep the state.
 * - Stops above the high watermarks, so that building wakes no kswapd. What is
 *   free then lies in large blocks: min_free_kbytes is lowered while building,
 *   or these would be a tenth of the result.
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE	       4096ul
#define PMD_ORDER      9
#define PCP_KNOB       "/proc/sys/vm/percpu_pagelist_high_fraction"
#define PCP_SMALL      "100000"
#define PROACTIVE_KNOB "/proc/sys/vm/compaction_proactiveness"
#define MINFREE_KNOB   "/proc/sys/vm/min_free_kbytes"
#define MINFREE_LOW    "8192" /* a 4 GiB guest's own value is 67584 */
#define STEP_MAX       (64ul << 20)
#define MARGIN_KIB     4096 /* above the high watermarks: others allocate too */
#define WINDOW	       (64ul << 20)
#define ROUNDS_MAX     8    /* of giving back; the first one mostly suffices */
#define TOLERANCE_KIB  2048 /* of --free-mib */

struct opts {
	unsigned long free_kib;
	bool pagecache;
	bool per_block;
	uint64_t seed;
	const char *dir;
	const char *pid_file;
};

struct state {
	uint8_t *map;  /* anon: the memory */
	int fd;	       /* pagecache: the file */
	size_t size;   /* bytes reserved */
	size_t filled; /* bytes that hold pages, from the start */
	uint8_t *gone; /* one byte a page: given back */
	uint8_t *drop; /* one byte a page: to be given back now */
	uint32_t *pfn; /* per_block only */
	double keep;   /* exponent that yields the wanted share, per_block */
};

struct mem {
	unsigned long total_kib, free_kib;
	unsigned long free_2m; /* blocks */
};

static void die(const char *what)
{
	fprintf(stderr, "fragment: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* splitmix64: good enough, tiny, and the same everywhere. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static uint64_t rng_state;

static uint64_t rng(void)
{
	rng_state += 0x9e3779b97f4a7c15ull;
	return mix(rng_state);
}

static double unit(uint64_t x)
{
	return (double)(x >> 11) / (double)(1ull << 53);
}

/* x^y for x in 0..1 by repeated square roots: no libm for one call. */
static double root2(double x)
{
	double r = x > 1e-12 ? x : 1e-12;

	for (int i = 0; i < 40; i++)
		r = 0.5 * (r + x / r);
	return r;
}

static double power(double x, double y)
{
	double r = 1, whole = (double)(long)y, frac = y - whole, s = x;

	for (long i = 0; i < (long)whole; i++)
		r *= x;
	for (int i = 0; i < 24 && frac > 0; i++) {
		s = root2(s);
		frac *= 2;
		if (frac >= 1) {
			r *= s;
			frac -= 1;
		}
	}
	return r;
}

static unsigned long buddy_2m(void)
{
	FILE *f = fopen("/proc/buddyinfo", "re");
	unsigned long sum = 0, n;
	char line[512];

	if (!f)
		die("/proc/buddyinfo");
	while (fgets(line, sizeof(line), f)) {
		char *p = strstr(line, "zone"), *end;

		if (!p)
			continue;
		p += strcspn(p, " ");
		p += strspn(p, " ");
		p += strcspn(p, " "); /* over the zone's name */
		for (int o = 0;; o++, p = end) {
			n = strtoul(p, &end, 10);
			if (end == p)
				break;
			if (o >= PMD_ORDER)
				sum += n << (o - PMD_ORDER);
		}
	}
	fclose(f);
	return sum;
}

static struct mem mem_read(void)
{
	struct mem m = {0};
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128];

	if (!f)
		die("/proc/meminfo");
	while (fgets(line, sizeof(line), f)) {
		sscanf(line, "MemTotal: %lu", &m.total_kib);
		sscanf(line, "MemFree: %lu", &m.free_kib);
	}
	fclose(f);
	m.free_2m = buddy_2m();
	return m;
}

/*
 * Free memory to leave alone while filling: every zone's high watermark, and
 * all of ZONE_DMA, which is kept from ordinary allocations.
 */
static unsigned long floor_kib(void)
{
	FILE *f = fopen("/proc/zoneinfo", "re");
	unsigned long pages = 0, n, nr_free = 0;
	char line[256], zone[32] = "";

	if (!f)
		die("/proc/zoneinfo");
	while (fgets(line, sizeof(line), f)) {
		sscanf(line, "Node %*d, zone %31s", zone);
		if (sscanf(line, " pages free %lu", &n) == 1)
			nr_free = n;
		if (sscanf(line, " high %lu", &n) == 1)
			pages += strcmp(zone, "DMA") ? n : nr_free;
	}
	fclose(f);
	return pages * (PAGE / 1024) + MARGIN_KIB;
}

static void report(const struct opts *o, const char *when, struct mem m)
{
	printf("{\"fragment\": \"%s\", \"kind\": \"%s\", \"occupancy\": "
	       "\"%s\", "
	       "\"seed\": %llu, \"free_kib\": %lu, \"free_2m_blocks\": %lu, "
	       "\"free_in_2m_pct\": %.1f}\n",
	       when, o->pagecache ? "pagecache" : "anon",
	       o->per_block ? "random-per-block" : "uniform",
	       (unsigned long long)o->seed, m.free_kib, m.free_2m,
	       m.free_kib ? m.free_2m * 2048 * 100.0 / m.free_kib : 0);
	fflush(stdout);
}

static int knob_write(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = write(fd, value, strlen(value));
	close(fd);
	return n < 0 ? -EIO : 0;
}

static void knob_read(const char *path, char *ret, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, ret, size - 1);

	ret[n > 0 ? n : 0] = 0;
	ret[strcspn(ret, "\n")] = 0;
	if (fd >= 0)
		close(fd);
}

/*
 * Set a knob, remember its old value; that is empty where nothing was written:
 * no such knob, or it had the value already (writing would start a run).
 */
static void knob_set(const char *path, const char *value, char *old,
		     size_t size)
{
	knob_read(path, old, size);
	if (!strcmp(old, value))
		old[0] = 0;
	else if (old[0] && knob_write(path, value))
		die(path);
}

/* Put it back, unless somebody else, such as an agent, has set it since. */
static void knob_restore(const char *path, const char *set, const char *old)
{
	char now[32];

	knob_read(path, now, sizeof(now));
	if (old[0] && !strcmp(now, set) && knob_write(path, old))
		die(path);
}

static void *reserve(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	if (madvise(p, size, MADV_NOHUGEPAGE))
		die("MADV_NOHUGEPAGE");
	return p;
}

static void state_init(const struct opts *o, struct state *s, size_t size)
{
	size_t pages = size / PAGE;

	s->size = size;
	s->gone = reserve(pages);
	s->drop = reserve(pages);
	if (o->per_block)
		s->pfn = reserve(pages * sizeof(*s->pfn));
	/* Touched before memory gets scarce. */
	memset(s->gone, 0, pages);
	memset(s->drop, 0, pages);
	if (s->pfn)
		memset(s->pfn, 0, pages * sizeof(*s->pfn));
	if (!o->pagecache) {
		s->map = reserve(size);
		return;
	}
	char path[512];

	snprintf(path, sizeof(path), "%s/fragment.%d", o->dir, (int)getpid());
	s->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (s->fd < 0 || ftruncate(s->fd, (off_t)size))
		die(path);
	if ((errno = posix_fadvise(s->fd, 0, 0, POSIX_FADV_RANDOM)))
		die("POSIX_FADV_RANDOM");
}

static void fill_step(const struct opts *o, struct state *s, size_t len)
{
	if (!o->pagecache) {
		if (madvise(s->map + s->filled, len, MADV_POPULATE_WRITE))
			die("MADV_POPULATE_WRITE");
	} else {
		char c;

		for (size_t at = 0; at < len; at += PAGE)
			if (pread(s->fd, &c, 1, (off_t)(s->filled + at)) != 1)
				die("reading the file");
	}
	s->filled += len;
}

static void fill(const struct opts *o, struct state *s)
{
	unsigned long stop = floor_kib();

	while (s->filled < s->size) {
		unsigned long now = mem_read().free_kib;
		size_t len;

		if (now <= stop)
			break;
		/* Half of the rest: page tables and others eat as well. */
		len = (now - stop) * 1024 / 2;
		len = len > STEP_MAX ? STEP_MAX : len & ~(PAGE - 1);
		if (len < 64 * PAGE)
			break;
		if (len > s->size - s->filled)
			len = s->size - s->filled;
		fill_step(o, s, len);
	}
}

/* Page frame numbers of one window; 0 where the page is gone. */
static void pfn_window(const struct opts *o, struct state *s, int pm,
		       size_t start, size_t len)
{
	static uint64_t entry[WINDOW / PAGE];
	uint8_t *at = s->map + start;
	size_t n = len / PAGE;

	if (o->pagecache) {
		at = mmap(NULL, len, PROT_READ, MAP_SHARED | MAP_POPULATE,
			  s->fd, (off_t)start);
		if (at == MAP_FAILED)
			die("mapping the file");
	}
	if (pread(pm, entry, n * 8, (off_t)((uintptr_t)at / PAGE * 8)) !=
	    (ssize_t)(n * 8))
		die("/proc/self/pagemap");
	for (size_t i = 0; i < n; i++)
		s->pfn[start / PAGE + i] = entry[i] >> 63 ? entry[i] : 0;
	/* Mapped pages could not be dropped. */
	if (o->pagecache)
		munmap(at, len);
}

static void pfn_read(const struct opts *o, struct state *s)
{
	int pm = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (pm < 0)
		die("/proc/self/pagemap");
	for (size_t at = 0; at < s->filled; at += WINDOW) {
		size_t len = s->filled - at;

		pfn_window(o, s, pm, at, len > WINDOW ? WINDOW : len);
	}
	close(pm);
}

static double block_chance(const struct opts *o, const struct state *s,
			   uint32_t block)
{
	static uint32_t last;
	static double chance = -1;

	/* Neighbours mostly lie in one block; power() is slow when emulated. */
	if (chance < 0 || block != last)
		chance = power(unit(mix(o->seed ^ block)), s->keep);
	last = block;
	return chance;
}

/*
 * Mark about `want` pages of those still held. Per block, the chance of a page
 * is u^keep with u its block's own random number: over all blocks the mean is
 * 1/(keep + 1), so keep follows from the wanted share.
 */
static void choose(const struct opts *o, struct state *s, size_t want)
{
	size_t pages = s->filled / PAGE, held = 0, left;
	double share;

	for (size_t i = 0; i < pages; i++)
		held += !s->gone[i];
	if (want > held)
		want = held;
	share = held ? (double)want / (double)held : 0;
	if (o->per_block && s->keep == 0 && share > 0)
		s->keep = 1 / share - 1;
	left = held;
	for (size_t i = 0; i < pages; i++) {
		double chance = left ? (double)want / (double)left : 0;

		if (s->gone[i])
			continue;
		if (s->pfn && s->pfn[i])
			chance = block_chance(o, s, s->pfn[i] >> PMD_ORDER);
		left--;
		if (unit(rng()) >= chance)
			continue;
		s->drop[i] = 1;
		if (want)
			want--;
	}
	/* Later rounds only correct what is missing: uniformly. */
	s->pfn = NULL;
}

static void give_back_run(const struct opts *o, struct state *s, size_t first,
			  size_t n)
{
	if (!o->pagecache) {
		if (madvise(s->map + first * PAGE, n * PAGE, MADV_DONTNEED))
			die("MADV_DONTNEED");
		return;
	}
	errno = posix_fadvise(s->fd, (off_t)(first * PAGE), (off_t)(n * PAGE),
			      POSIX_FADV_DONTNEED);
	if (errno)
		die("POSIX_FADV_DONTNEED");
}

static void give_back(const struct opts *o, struct state *s)
{
	size_t pages = s->filled / PAGE, i = 0, n;

	while (i < pages) {
		for (n = 0; i + n < pages && s->drop[i + n]; n++) {
			s->drop[i + n] = 0;
			s->gone[i + n] = 1;
		}
		if (n)
			give_back_run(o, s, i, n);
		i += n ? n : 1;
	}
}

static void build(const struct opts *o, struct state *s)
{
	fill(o, s);
	if (o->per_block)
		pfn_read(o, s);
	for (int i = 0; i < ROUNDS_MAX; i++) {
		unsigned long now = mem_read().free_kib;

		if (now + TOLERANCE_KIB >= o->free_kib)
			break;
		choose(o, s, (o->free_kib - now) * 1024 / PAGE);
		give_back(o, s);
	}
}

static void write_pid(const char *path)
{
	FILE *f = fopen(path, "we");

	if (!f || fprintf(f, "%d\n", (int)getpid()) < 0 || fclose(f))
		die(path);
}

static void hold(void)
{
	int null = open("/dev/null", O_RDWR);

	dup2(null, 0);
	dup2(null, 1);
	dup2(null, 2);
	for (;;)
		pause();
}

static void child(const struct opts *o, int ready)
{
	struct state s = {.fd = -1};
	struct mem m;
	char pcp[32], proactive[32], minfree[32];

	setsid();
	write_pid(o->pid_file);
	/* The holder must outlive the guest's own out-of-memory. */
	if (knob_write("/proc/self/oom_score_adj", "-1000"))
		fprintf(stderr, "fragment: oom_score_adj: refused, going on\n");
	m = mem_read();
	report(o, "before", m);
	if (o->free_kib >= m.free_kib) {
		fprintf(stderr, "fragment: only %lu MiB are free\n",
			m.free_kib / 1024);
		exit(1);
	}
	rng_state = o->seed;
	knob_set(PCP_KNOB, PCP_SMALL, pcp, sizeof(pcp));
	knob_set(PROACTIVE_KNOB, "0", proactive, sizeof(proactive));
	knob_set(MINFREE_KNOB, MINFREE_LOW, minfree, sizeof(minfree));
	state_init(o, &s, m.total_kib * 1024 & ~(PAGE - 1));
	build(o, &s);
	knob_restore(MINFREE_KNOB, MINFREE_LOW, minfree);
	knob_restore(PCP_KNOB, PCP_SMALL, pcp);
	m = mem_read();
	report(o, "after", m);
	knob_restore(PROACTIVE_KNOB, "0", proactive);
	puts("ready");
	fflush(stdout);
	if (write(ready, "r", 1) != 1)
		die("telling the parent");
	close(ready);
	hold();
}

/* Wait until the holder is ready; it then lives on without us. */
static int parent(pid_t pid, int ready)
{
	int status;
	char c;

	if (read(ready, &c, 1) == 1)
		return 0;
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	if (WIFSIGNALED(status))
		fprintf(stderr, "fragment: the holder was killed (signal %d)\n",
			WTERMSIG(status));
	return 1;
}

static int release(const char *path)
{
	FILE *f = fopen(path, "re");
	int pid = 0;

	if (!f || fscanf(f, "%d", &pid) != 1 || pid <= 1)
		die(path);
	fclose(f);
	if (kill(pid, SIGKILL) && errno != ESRCH)
		die("kill");
	while (!kill(pid, 0)) /* its memory is free once it is gone */
		usleep(10000);
	unlink(path);
	return 0;
}

static void usage(void)
{
	fputs("usage: fragment --free-mib N [--kind anon|pagecache] [--seed "
	      "N]\n"
	      "                [--occupancy uniform|random-per-block] "
	      "[--dir DIR]\n"
	      "                [--pid-file FILE]\n"
	      "       fragment --release [--pid-file FILE]\n",
	      stderr);
	exit(2);
}

static unsigned long number(const char *s)
{
	char *end;
	unsigned long n = strtoul(s, &end, 10);

	if (end == s || *end)
		usage();
	return n;
}

static bool pick(const char *s, const char *no, const char *yes)
{
	if (strcmp(s, no) && strcmp(s, yes))
		usage();
	return !strcmp(s, yes);
}

int main(int argc, char **argv)
{
	static const struct option longopts[] = {
		{"free-mib", required_argument, NULL, 'f'},
		{"kind", required_argument, NULL, 'k'},
		{"seed", required_argument, NULL, 's'},
		{"occupancy", required_argument, NULL, 'o'},
		{"dir", required_argument, NULL, 'd'},
		{"pid-file", required_argument, NULL, 'p'},
		{"release", no_argument, NULL, 'r'},
		{NULL, 0, NULL, 0}};
	struct opts o = {
		.seed = 1, .dir = "/mnt/disk", .pid_file = "/run/fragment.pid"};
	bool end = false;
	int c, fds[2];
	pid_t pid;

	while ((c = getopt_long(argc, argv, "", longopts, NULL)) != -1) {
		switch (c) {
		case 'f':
			o.free_kib = number(optarg) * 1024;
			break;
		case 'k':
			o.pagecache = pick(optarg, "anon", "pagecache");
			break;
		case 's':
			o.seed = number(optarg);
			break;
		case 'o':
			o.per_block =
				pick(optarg, "uniform", "random-per-block");
			break;
		case 'd':
			o.dir = optarg;
			break;
		case 'p':
			o.pid_file = optarg;
			break;
		case 'r':
			end = true;
			break;
		default:
			usage();
		}
	}
	if (optind != argc || (!end && !o.free_kib))
		usage();
	if (end)
		return release(o.pid_file);
	if (pipe2(fds, O_CLOEXEC))
		die("pipe");
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		close(fds[0]);
		child(&o, fds[1]);
	}
	close(fds[1]);
	return parent(pid, fds[0]);
}
