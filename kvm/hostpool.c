// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostpool.h"
#include "util.h"

/* 5 zones a node, about 110 bytes each: 100 nodes */
#define BUDDYINFO_MAX 65536

void hostpool_path(char *buf, unsigned int node, uint64_t page_kib,
		   const char *file)
{
	snprintf(buf, HOSTPOOL_PATH_MAX,
		 "node%u/hugepages/hugepages-%" PRIu64 "kB/%s", node, page_kib,
		 file);
}

static int read_number(int node_fd, unsigned int node, uint64_t page_kib,
		       const char *file, uint64_t *ret)
{
	char path[HOSTPOOL_PATH_MAX], text[32];
	ssize_t n;

	hostpool_path(path, node, page_kib, file);
	n = read_text_at(node_fd, path, text, sizeof(text));
	if (n < 0)
		return (int)n;
	text[strcspn(text, "\n")] = '\0';
	return parse_u64(text, UINT64_MAX, ret) < 0 ? -EBADMSG : 0;
}

int hostpool_read(int node_fd, unsigned int node, uint64_t page_kib,
		  struct hostpool *ret)
{
	struct hostpool p;
	int r;

	r = read_number(node_fd, node, page_kib, "nr_hugepages", &p.nr);
	if (!r)
		r = read_number(node_fd, node, page_kib, "free_hugepages",
				&p.free);
	if (!r)
		r = read_number(node_fd, node, page_kib, "surplus_hugepages",
				&p.surplus);
	if (!r)
		*ret = p;
	return r;
}

uint64_t hostpool_persistent(const struct hostpool *p)
{
	/* three reads are no snapshot */
	return p->nr > p->surplus ? p->nr - p->surplus : 0;
}

/* The columns of one line: blocks of @order, larger ones included. */
static int sum_columns(const char *s, unsigned int order, uint64_t *ret_sum)
{
	unsigned int column = 0;
	uint64_t sum = 0;

	for (;; column++) {
		unsigned long long n;
		char *end;

		s += strspn(s, " ");
		if (!*s || *s == '\n')
			break;
		errno = 0;
		n = strtoull(s, &end, 10);
		if (end == s || *s == '-' || errno || column >= 64)
			return -EBADMSG;
		s = end;
		if (column < order)
			continue;
		if (n > UINT64_MAX >> (column - order))
			return -EBADMSG;
		sum = sum_sat_u64(sum, (uint64_t)n << (column - order));
	}
	if (order >= column)
		return -ERANGE;
	*ret_sum = sum;
	return 0;
}

int hostpool_parse_buddyinfo(const char *text, unsigned int node,
			     unsigned int order, uint64_t *ret_blocks)
{
	uint64_t blocks = 0;
	bool found = false;

	while (*text) {
		unsigned int line_node;
		int at = 0, r;
		uint64_t sum;

		/* "Node 0, zone   Normal    535    499 …" */
		if (sscanf(text, "Node %u, zone %*31s%n", &line_node, &at) <
			    1 ||
		    !at)
			return -EBADMSG;
		if (line_node == node) {
			r = sum_columns(text + at, order, &sum);
			if (r < 0)
				return r;
			blocks = sum_sat_u64(blocks, sum);
			found = true;
		}
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	if (!found)
		return -ENOENT;
	*ret_blocks = blocks;
	return 0;
}

int hostpool_free_blocks(int proc_fd, unsigned int node, unsigned int order,
			 uint64_t *ret_blocks)
{
	auto_free char *text = malloc(BUDDYINFO_MAX);
	ssize_t n;

	if (!text)
		return -ENOMEM;
	n = read_text_at(proc_fd, "buddyinfo", text, BUDDYINFO_MAX);
	if (n < 0)
		return (int)n;
	return hostpool_parse_buddyinfo(text, node, order, ret_blocks);
}
