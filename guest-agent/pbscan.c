// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pbscan.h"
#include "procfile.h"
#include "util.h"

int pbscan_open(struct pbscan *s, int proc_fd, const struct msg_hello *caps,
		const struct memlayout *layout, uint64_t max_words)
{
	unsigned int window_order;

	*s = (struct pbscan){
		.geometry = {.pageblock_order = caps->pageblock_order,
			     .nr_orders = caps->nr_orders},
		.layout = layout,
		.end_pfn = memlayout_end_pfn(layout),
		.max_words = max_words ? max_words : UINT64_MAX,
	};
	window_order = pbmap_window_order(&s->geometry);
	s->fd = procfile_open(proc_fd, "kpageflags");
	if (s->fd < 0)
		return s->fd;
	s->window = malloc(sizeof(*s->window) << window_order);
	s->blocks = malloc(sizeof(*s->blocks)
			   << (window_order - s->geometry.pageblock_order));
	if (!s->window || !s->blocks) {
		pbscan_close(s);
		return -ENOMEM;
	}
	return 0;
}

void pbscan_close(struct pbscan *s)
{
	if (s->fd >= 0)
		close(s->fd);
	free(s->window);
	free(s->blocks);
	s->fd = -1;
	s->window = NULL;
	s->blocks = NULL;
}

/* Return: words that there are, or -errno. */
static ssize_t read_window(struct pbscan *s, size_t nr_words)
{
	size_t want = nr_words * sizeof(*s->window), got = 0;

	while (got < want) {
		ssize_t n =
			pread(s->fd, (char *)s->window + got, want - got,
			      (off_t)(s->next_pfn * sizeof(*s->window) + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break; /* the end of what the kernel knows */
		got += (size_t)n;
	}
	return (ssize_t)(got / sizeof(*s->window));
}

/* Kernels differ in what they say of no memory at all. */
static void mark_holes(struct pbscan *s, size_t nr_words)
{
	if (memlayout_ram_pages(s->layout, s->next_pfn, s->next_pfn + nr_words,
				false) == nr_words)
		return;
	for (size_t i = 0; i < nr_words; i++) {
		if (!memlayout_ram_pages(s->layout, s->next_pfn + i,
					 s->next_pfn + i + 1, false))
			s->window[i] = UINT64_C(1) << KPF_NOPAGE;
	}
}

static void hand_out(struct pbscan *s, size_t nr_blocks, pbscan_fn fn,
		     void *ctx)
{
	unsigned int order = s->geometry.pageblock_order;

	for (size_t i = 0; i < nr_blocks; i++) {
		uint64_t pfn = s->next_pfn + ((uint64_t)i << order);

		if (s->blocks[i].pages[PAGE_HOLE] < UINT32_C(1) << order)
			fn(ctx, pfn, &s->blocks[i]);
	}
}

/* Return: 0, or -errno. */
static int scan_window(struct pbscan *s, unsigned int window_order,
		       pbscan_fn fn, void *ctx)
{
	size_t nr_words = (size_t)1 << window_order;
	ssize_t n;

	if (s->words + nr_words > s->max_words)
		return -EDQUOT;
	n = read_window(s, nr_words);
	if (n < 0)
		return (int)n;
	s->words += (uint64_t)n;
	mark_holes(s, (size_t)n);
	pbmap_window(&s->geometry, s->window, (size_t)n, s->blocks);
	hand_out(s, nr_words >> s->geometry.pageblock_order, fn, ctx);
	return 0;
}

int pbscan_step(struct pbscan *s, uint64_t max_words, pbscan_fn fn, void *ctx)
{
	unsigned int window_order = pbmap_window_order(&s->geometry);
	uint64_t window = UINT64_C(1) << window_order;
	uint64_t begun = s->words;

	while (s->next_pfn < s->end_pfn) {
		int r = 0;

		/* holes can be as large as the address space */
		if (memlayout_ram_pages(s->layout, s->next_pfn,
					s->next_pfn + window, false))
			r = scan_window(s, window_order, fn, ctx);
		if (r < 0)
			return r;
		s->next_pfn += window;
		if (s->words - begun >= max_words)
			break;
	}
	return s->next_pfn >= s->end_pfn;
}
