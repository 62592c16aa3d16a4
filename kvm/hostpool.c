// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frag.h"
#include "hostpool.h"
#include "procfs.h"
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

struct node_sum {
	unsigned int node, nr_orders;
	bool found, any;
	uint32_t blocks[PROTO_ORDERS_MAX];
};

/* A host has more zones than struct zones: one line after the other. */
static void add_zone(void *ctx, const char *line, size_t len)
{
	struct node_sum *s = ctx;
	struct zones one = {0};

	buddyinfo_line(&one, line, len);
	if (!one.nr)
		return;
	s->any = true;
	if (one.zone[0].node != s->node)
		return;
	s->found = true;
	s->nr_orders = MAX(s->nr_orders, one.nr_orders);
	frag_add(s->blocks, one.zone[0].free_blocks);
}

int hostpool_parse_buddyinfo(const char *text, unsigned int node,
			     unsigned int order, uint64_t *ret_blocks)
{
	struct node_sum s = {.node = node};

	lines_each(text, strlen(text), add_zone, &s);
	if (!s.any)
		return *text ? -EBADMSG : -ENOENT;
	if (!s.found)
		return -ENOENT;
	if (!s.nr_orders)
		return -EBADMSG;
	if (order >= s.nr_orders)
		return -ERANGE;
	*ret_blocks = frag_suitable_blocks(s.blocks, order);
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
