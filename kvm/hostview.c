// SPDX-License-Identifier: GPL-2.0-or-later
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <numa.h>
#include <string.h>

#include "frag.h"
#include "hostview.h"
#include "procfs.h"
#include "util.h"

/* A node's meminfo has 40 lines of 45 bytes; buddyinfo a line a zone. */
#define MEMINFO_MAX   8192
#define BUDDYINFO_MAX 32768

int hostview_topology(struct hostview *v)
{
	int last;

	memset(v, 0, sizeof(*v));
	if (numa_available() < 0) {
		v->nr_nodes = 1;
		v->node[0].distance[0] = 10;
		return -ENOSYS;
	}
	last = numa_max_node();
	for (int n = 0; n <= last; n++) {
		/* a node without memory has nothing to view */
		if (numa_node_size64(n, NULL) <= 0)
			continue;
		if (v->nr_nodes == HOSTVIEW_NODES_MAX) {
			v->truncated = true;
			break;
		}
		v->node[v->nr_nodes++].id = (uint32_t)n;
	}
	for (uint32_t i = 0; i < v->nr_nodes; i++) {
		for (uint32_t k = 0; k < v->nr_nodes; k++)
			v->node[i].distance[k] = (uint32_t)numa_distance(
				(int)v->node[i].id, (int)v->node[k].id);
	}
	return 0;
}

int hostview_find(const struct hostview *v, uint32_t id)
{
	for (uint32_t i = 0; i < v->nr_nodes; i++) {
		if (v->node[i].id == id)
			return (int)i;
	}
	return -ENOENT;
}

uint64_t hostview_blocks(const struct hostview_node *n, unsigned int order)
{
	return frag_suitable_blocks(n->free_blocks, order);
}

static int read_meminfo(int node_fd, struct hostview_node *n)
{
	char path[32], text[MEMINFO_MAX];
	struct node_mem mem = {};
	ssize_t len;

	snprintf(path, sizeof(path), "node%u/meminfo", n->id);
	len = read_text_at(node_fd, path, text, sizeof(text));
	if (len < 0)
		return (int)len;
	lines_each(text, (size_t)len, node_mem_line, &mem);
	if (!mem.total_kib)
		return -EBADMSG;
	n->total_kib = mem.total_kib;
	n->free_kib = mem.free_kib;
	n->anon_kib = mem.anon_kib;
	n->anon_huge_kib = mem.anon_huge_kib;
	n->file_kib = mem.file_kib;
	return 0;
}

/* One zone's line, added to its node: a host has more zones than a report. */
static void add_zone(void *ctx, const char *line, size_t len)
{
	struct hostview *v = ctx;
	struct zones one = {};
	int i;

	buddyinfo_line(&one, line, len);
	if (!one.nr)
		return;
	i = hostview_find(v, one.zone[0].node);
	if (i < 0)
		return;
	frag_add(v->node[i].free_blocks, one.zone[0].free_blocks);
	v->nr_orders = MAX(v->nr_orders, one.nr_orders);
}

static int read_buddyinfo(int proc_fd, struct hostview *v)
{
	char text[BUDDYINFO_MAX];
	ssize_t len = read_text_at(proc_fd, "buddyinfo", text, sizeof(text));

	if (len < 0)
		return (int)len;
	for (uint32_t i = 0; i < v->nr_nodes; i++)
		memset(v->node[i].free_blocks, 0,
		       sizeof(v->node[i].free_blocks));
	v->nr_orders = 0;
	lines_each(text, (size_t)len, add_zone, v);
	if (!v->nr_orders)
		return -EBADMSG;
	for (uint32_t i = 0; i < v->nr_nodes; i++) {
		struct hostview_node *n = &v->node[i];

		for (unsigned int o = 0; o < v->nr_orders; o++)
			n->unusable_permille[o] =
				(uint16_t)frag_unusable_permille(n->free_blocks,
								 o);
	}
	return 0;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Which page sizes have pools: looked up once, they don't change. */
static int find_pools(int node_fd, struct hostview *v)
{
	char path[64];
	struct dirent *e;
	DIR *d;
	int fd;

	snprintf(path, sizeof(path), "node%u/hugepages", v->node[0].id);
	fd = openat(node_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return -ENOMEM;
	}
	while ((e = readdir(d)) && v->nr_pools < HOSTVIEW_POOLS_MAX) {
		unsigned long long kib;

		if (sscanf(e->d_name, "hugepages-%llukB", &kib) == 1)
			v->pool_kib[v->nr_pools++] = kib;
	}
	closedir(d);
	qsort(v->pool_kib, v->nr_pools, sizeof(v->pool_kib[0]), by_size);
	return 0;
}

static void read_reserved(int mm_fd, struct hostview *v)
{
	for (uint32_t p = 0; p < v->nr_pools; p++) {
		char path[64], text[32];

		snprintf(path, sizeof(path), "hugepages-%llukB/resv_hugepages",
			 (unsigned long long)v->pool_kib[p]);
		v->pool_reserved[p] = 0;
		if (mm_fd < 0 ||
		    read_text_at(mm_fd, path, text, sizeof(text)) < 0)
			continue;
		text[strcspn(text, "\n")] = '\0';
		(void)parse_u64(text, UINT64_MAX, &v->pool_reserved[p]);
	}
}

static int read_pools(int node_fd, struct hostview *v)
{
	for (uint32_t i = 0; i < v->nr_nodes; i++) {
		for (uint32_t p = 0; p < v->nr_pools; p++) {
			int r = hostpool_read(node_fd, v->node[i].id,
					      v->pool_kib[p],
					      &v->node[i].pool[p]);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

int hostview_read(int proc_fd, int node_fd, int mm_fd, struct hostview *v)
{
	int r = 0;

	if (!v->nr_pools)
		r = find_pools(node_fd, v);
	for (uint32_t i = 0; !r && i < v->nr_nodes; i++)
		r = read_meminfo(node_fd, &v->node[i]);
	if (!r)
		r = read_buddyinfo(proc_fd, v);
	if (!r)
		r = read_pools(node_fd, v);
	read_reserved(mm_fd, v);
	return r;
}
