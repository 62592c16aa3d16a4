// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * churn - a seeded mix of what ordinary guests do to their memory
 *
 *	churn [--seconds S] [--seed N] [--dir DIR] [--anon-mib N] [--file-mib N]
 *
 * Every operation is drawn at random: map and unmap anonymous memory of mixed
 * sizes, drop 1 to 8 pages somewhere (MADV_DONTNEED, what really fragments),
 * fork a short-lived child, read single pages of a large file at random (page
 * cache, readahead off), create and remove small files. Prints one JSON line
 * with how often each was done. Amounts scale with --anon-mib and --file-mib,
 * by default a quarter and an eighth of the memory that is free. DIR is
 * /mnt/disk/churn where the lab mounted a disk, else /tmp/churn; on a tmpfs the
 * single-page reads allocate nothing, since its holes have no page cache.
 *
 * Big mappings are MADV_DONTFORK: else fork() would measure the copying of page
 * tables.
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE	       4096ul
#define SLOTS	       64 /* anonymous mappings alive at a time */
#define SMALL_FILES    512
#define SMALL_FILE_MAX 32768

enum op { OP_MAP, OP_DROP, OP_FORK, OP_READ, OP_FILE, OP_COUNT };

static const char *const op_name[] = {"map", "drop", "fork", "read", "file"};

_Static_assert(sizeof(op_name) / sizeof(op_name[0]) == OP_COUNT, "op_name[]");

/* Of 100 operations; forks are dear, single-page reads cheap. */
static const int op_share[OP_COUNT] = {15, 35, 2, 40, 8};

struct slot {
	char *p;
	size_t len;
};

struct churn {
	const char *dir;
	unsigned long anon_mib, file_mib;
	struct slot slot[SLOTS];
	int big;
	uint64_t rng;
	unsigned long done[OP_COUNT], failed;
};

static void die(const char *what)
{
	fprintf(stderr, "churn: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t rng(struct churn *c)
{
	uint64_t x = c->rng += 0x9e3779b97f4a7c15ull;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void op_map(struct churn *c)
{
	struct slot *s = &c->slot[rng(c) % SLOTS];
	size_t mean = (c->anon_mib << 20) / SLOTS;

	if (s->p)
		munmap(s->p, s->len);
	s->len = (rng(c) % (2 * mean) + PAGE) & ~(PAGE - 1);
	s->p = mmap(NULL, s->len, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->p == MAP_FAILED) {
		s->p = NULL;
		c->failed++;
		return;
	}
	if (madvise(s->p, s->len, MADV_DONTFORK))
		die("MADV_DONTFORK");
	for (size_t i = 0; i < s->len; i += PAGE)
		s->p[i] = 1;
}

static void op_drop(struct churn *c)
{
	struct slot *s = &c->slot[rng(c) % SLOTS];
	size_t pages, first, n = rng(c) % 8 + 1;

	if (!s->p)
		return;
	pages = s->len / PAGE;
	n = n > pages ? pages : n;
	first = rng(c) % (pages - n + 1);
	if (madvise(s->p + first * PAGE, n * PAGE, MADV_DONTNEED))
		die("MADV_DONTNEED");
}

static void op_fork(struct churn *c)
{
	size_t len = (rng(c) % 256 + 1) * PAGE;
	pid_t pid = fork();

	if (pid == 0) {
		char *p =
			mmap(NULL, len, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

		_exit(p == MAP_FAILED);
	}
	if (pid < 0)
		c->failed++;
	else
		waitpid(pid, NULL, 0);
}

static void op_read(struct churn *c)
{
	uint64_t page = rng(c) % ((c->file_mib << 20) / PAGE);
	char byte;

	if (pread(c->big, &byte, 1, (off_t)(page * PAGE)) != 1)
		c->failed++;
}

static void op_file(struct churn *c)
{
	static const char data[SMALL_FILE_MAX];
	size_t len = rng(c) % SMALL_FILE_MAX;
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/s%d", c->dir,
		 (int)(rng(c) % SMALL_FILES));
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, data, len) != (ssize_t)len)
		c->failed++;
	if (fd >= 0)
		close(fd);
}

static void (*const op_fn[OP_COUNT])(struct churn *) = {
	op_map, op_drop, op_fork, op_read, op_file,
};

static enum op draw(struct churn *c)
{
	int x = (int)(rng(c) % 100), sum = 0;

	for (int i = 0; i < OP_COUNT; i++) {
		sum += op_share[i];
		if (x < sum)
			return i;
	}
	return OP_DROP;
}

static unsigned long free_mib(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	unsigned long kib = 0;
	char line[128];

	if (!f)
		die("/proc/meminfo");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "MemFree: %lu", &kib) == 1)
			break;
	fclose(f);
	return kib / 1024;
}

static void prepare(struct churn *c)
{
	unsigned long mib = free_mib();
	char path[512];

	if (!c->anon_mib)
		c->anon_mib = mib / 4 + 1;
	if (!c->file_mib)
		c->file_mib = mib / 8 + 1;
	if (mkdir(c->dir, 0700) && errno != EEXIST)
		die(c->dir);
	/* A sparse file: its holes fill the page cache, and no disk. */
	snprintf(path, sizeof(path), "%s/big", c->dir);
	c->big = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (c->big < 0 || ftruncate(c->big, (off_t)(c->file_mib << 20)))
		die(path);
	errno = posix_fadvise(c->big, 0, 0, POSIX_FADV_RANDOM);
	if (errno)
		die("POSIX_FADV_RANDOM");
}

static void tidy(struct churn *c)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/big", c->dir);
	unlink(path);
	for (int i = 0; i < SMALL_FILES; i++) {
		snprintf(path, sizeof(path), "%s/s%d", c->dir, i);
		unlink(path);
	}
}

static unsigned long number(const char *s)
{
	char *end;
	unsigned long n = strtoul(s, &end, 10);

	if (end == s || *end) {
		fprintf(stderr, "churn: '%s' is no number\n", s);
		exit(2);
	}
	return n;
}

int main(int argc, char **argv)
{
	static const struct option longopts[] = {
		{"seconds", required_argument, NULL, 's'},
		{"seed", required_argument, NULL, 'r'},
		{"dir", required_argument, NULL, 'd'},
		{"anon-mib", required_argument, NULL, 'a'},
		{"file-mib", required_argument, NULL, 'f'},
		{NULL, 0, NULL, 0}};
	struct churn c = {.rng = 1};
	unsigned long seconds = 10, total = 0;
	uint64_t end;
	int o;

	while ((o = getopt_long(argc, argv, "", longopts, NULL)) != -1) {
		if (o == 's')
			seconds = number(optarg);
		else if (o == 'r')
			c.rng = number(optarg);
		else if (o == 'd')
			c.dir = optarg;
		else if (o == 'a')
			c.anon_mib = number(optarg);
		else if (o == 'f')
			c.file_mib = number(optarg);
		else
			return 2;
	}
	if (!c.dir)
		c.dir = access("/mnt/disk", W_OK) ? "/tmp/churn"
						  : "/mnt/disk/churn";
	prepare(&c);
	end = now_ms() + seconds * 1000;
	while (now_ms() < end) {
		enum op op = draw(&c);

		op_fn[op](&c);
		c.done[op]++;
		total++;
	}
	tidy(&c);
	printf("{\"churn\": %lu, \"seconds\": %lu, \"failed\": %lu", total,
	       seconds, c.failed);
	for (int i = 0; i < OP_COUNT; i++)
		printf(", \"%s\": %lu", op_name[i], c.done[i]);
	puts("}");
	return 0;
}
