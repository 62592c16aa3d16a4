// SPDX-License-Identifier: GPL-2.0-or-later
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hostblocks.h"
#include "procfs.h"
#include "util.h"

/* A line a zone; the first page of pagetypeinfo holds its head. */
#define BUDDYINFO_MAX	 32768
#define PAGETYPEINFO_MAX 4096

/* x86-64's, where the kernel does not say */
#define PAGEBLOCK_ORDER_DEFAULT 9

struct scan {
	struct pbmap_geometry geometry;
	unsigned int window_order;
	uint64_t block_pages; /* of a memory block */
	uint32_t *number;     /* of memory blocks, ascending */
	size_t nr_numbers;
	int flags_fd;
	uint64_t *words;
	struct pageblock *blocks;
};

static void scan_close(struct scan *s)
{
	if (s->flags_fd >= 0)
		close(s->flags_fd);
	free(s->number);
	free(s->words);
	free(s->blocks);
}

static int read_geometry(int proc_fd, struct pbmap_geometry *ret_g)
{
	auto_free char *text = malloc(BUDDYINFO_MAX);
	struct zones z = {0};
	ssize_t n;
	int order;

	if (!text)
		return -ENOMEM;
	n = read_text_at(proc_fd, "buddyinfo", text, BUDDYINFO_MAX);
	if (n < 0)
		return (int)n;
	lines_each(text, (size_t)n, buddyinfo_line, &z);
	if (!z.nr_orders)
		return -EBADMSG;
	ret_g->nr_orders = z.nr_orders;
	ret_g->pageblock_order = PAGEBLOCK_ORDER_DEFAULT;
	n = read_text_at(proc_fd, "pagetypeinfo", text, PAGETYPEINFO_MAX);
	order = n < 0 ? -1 : pageblock_order_parse(text);
	if (order >= 0)
		ret_g->pageblock_order = (unsigned int)order;
	return 0;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Links "memoryN" of the node's folder. */
static int read_numbers(DIR *d, struct scan *s)
{
	size_t room = 0;
	struct dirent *e;

	while ((e = readdir(d))) {
		unsigned int number;
		uint32_t *grown;
		char rest;

		if (sscanf(e->d_name, "memory%u%c", &number, &rest) != 1)
			continue;
		if (s->nr_numbers == room) {
			room = room ? 2 * room : 256;
			grown = reallocarray(s->number, room, sizeof(*grown));
			if (!grown)
				return -ENOMEM;
			s->number = grown;
		}
		s->number[s->nr_numbers++] = number;
	}
	if (!s->nr_numbers)
		return -ENOENT;
	qsort(s->number, s->nr_numbers, sizeof(*s->number), by_number);
	return 0;
}

static int find_memory(int sys_fd, unsigned int node, struct scan *s)
{
	char path[32], text[32];
	uint64_t bytes;
	DIR *d;
	int fd, r;
	ssize_t n;

	n = read_text_at(sys_fd, "memory/block_size_bytes", text, sizeof(text));
	if (n < 0)
		return (int)n;
	/* hexadecimal, without 0x */
	bytes = strtoull(text, NULL, 16);
	s->block_pages = bytes / (uint64_t)sysconf(_SC_PAGESIZE);
	if (!s->block_pages)
		return -EBADMSG;
	snprintf(path, sizeof(path), "node/node%u", node);
	fd = openat(sys_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return -ENOMEM;
	}
	r = read_numbers(d, s);
	closedir(d);
	return r;
}

static int scan_open(int proc_fd, int sys_fd, unsigned int node, struct scan *s)
{
	int r = read_geometry(proc_fd, &s->geometry);

	if (!r)
		r = find_memory(sys_fd, node, s);
	if (r < 0)
		return r;
	s->window_order = pbmap_window_order(&s->geometry);
	s->flags_fd = openat(proc_fd, "kpageflags", O_RDONLY | O_CLOEXEC);
	if (s->flags_fd < 0)
		return -errno;
	s->words = malloc(sizeof(*s->words) << s->window_order);
	s->blocks = malloc(sizeof(*s->blocks)
			   << (s->window_order - s->geometry.pageblock_order));
	return s->words && s->blocks ? 0 : -ENOMEM;
}

static bool has_number(const struct scan *s, uint64_t number)
{
	uint32_t key = (uint32_t)number;

	return number <= UINT32_MAX &&
	       bsearch(&key, s->number, s->nr_numbers, sizeof(key), by_number);
}

/* The first page at or behind @pfn that is the node's; UINT64_MAX: none. */
static uint64_t next_page(const struct scan *s, uint64_t pfn)
{
	for (size_t i = 0; i < s->nr_numbers; i++) {
		uint64_t start = s->number[i] * s->block_pages;

		if (pfn < start)
			return start;
		if (pfn < start + s->block_pages)
			return pfn;
	}
	return UINT64_MAX;
}

/* Return: words read, or -errno. */
static ssize_t read_words(const struct scan *s, uint64_t pfn, size_t nr)
{
	size_t want = nr * sizeof(*s->words), got = 0;

	while (got < want) {
		ssize_t n =
			pread(s->flags_fd, (char *)s->words + got, want - got,
			      (off_t)(pfn * sizeof(*s->words) + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		got += (size_t)n;
	}
	return (ssize_t)(got / sizeof(*s->words));
}

/* A window may reach over memory blocks that are not the node's, or absent. */
static void mark_foreign(struct scan *s, uint64_t pfn, size_t nr)
{
	for (size_t i = 0; i < nr;) {
		uint64_t number = (pfn + i) / s->block_pages;
		uint64_t end = (number + 1) * s->block_pages - pfn;

		end = MIN(end, nr);
		if (!has_number(s, number)) {
			for (size_t k = i; k < end; k++)
				s->words[k] = UINT64_C(1) << KPF_NOPAGE;
		}
		i = (size_t)end;
	}
}

static int scan_window(struct scan *s, uint64_t pfn, struct pageblock_sum *sum,
		       uint64_t *words)
{
	size_t nr = (size_t)1 << s->window_order;
	size_t nr_blocks = nr >> s->geometry.pageblock_order;
	ssize_t n = read_words(s, pfn, nr);

	if (n < 0)
		return (int)n;
	*words += (uint64_t)n;
	mark_foreign(s, pfn, (size_t)n);
	pbmap_window(&s->geometry, s->words, (size_t)n, s->blocks);
	for (size_t i = 0; i < nr_blocks; i++)
		pageblock_add(sum, &s->blocks[i]);
	return 0;
}

int hostblocks_scan(int proc_fd, int sys_fd, unsigned int node, uint64_t *pfn,
		    uint64_t max_words, struct pageblock_sum *sum,
		    uint64_t *ret_words)
{
	struct scan s = {.flags_fd = -1};
	uint64_t words = 0, at;
	int r = scan_open(proc_fd, sys_fd, node, &s);

	at = *pfn;
	while (!r) {
		uint64_t window;

		at = next_page(&s, at);
		if (at == UINT64_MAX) {
			at = 0;
			break;
		}
		if (words && words >= max_words)
			break;
		window = at >> s.window_order << s.window_order;
		r = scan_window(&s, window, sum, &words);
		at = window + (UINT64_C(1) << s.window_order);
	}
	scan_close(&s);
	if (r < 0)
		return r;
	*pfn = at;
	*ret_words = words;
	return 0;
}
