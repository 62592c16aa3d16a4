// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "config.h"
#include "frag.h"
#include "log.h"
#include "nodes.h"
#include "procfs.h"
#include "util.h"

#define THP_SIZE_FILE "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"
#define HUGEPAGES_DIR "/sys/kernel/mm/hugepages"
#define DIR_FLAGS     (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

/* x86-64's; for kernels without THP */
#define PMD_ORDER_DEFAULT 9

static unsigned int pmd_order(void)
{
	char text[32];
	uint64_t bytes;
	int r;

	if (read_text_at(AT_FDCWD, THP_SIZE_FILE, text, sizeof(text)) < 0)
		return PMD_ORDER_DEFAULT;
	text[strcspn(text, "\n")] = '\0';
	if (parse_u64(text, UINT64_MAX, &bytes) < 0)
		return PMD_ORDER_DEFAULT;
	r = order_of_kib(bytes / 1024, (uint32_t)sysconf(_SC_PAGESIZE));
	return r < 0 ? PMD_ORDER_DEFAULT : (unsigned int)r;
}

void nodes_open(struct nodes *n, const struct config *cfg)
{
	memset(n, 0, sizeof(*n));
	n->proc_fd = open(cfg->proc_dir, DIR_FLAGS);
	n->node_fd = open(cfg->node_dir, DIR_FLAGS);
	n->mm_fd = open(HUGEPAGES_DIR, DIR_FLAGS);
	n->pmd_order = pmd_order();
	n->trend = calloc(NODES_TREND_POINTS, sizeof(*n->trend));
	if (hostview_topology(&n->view) < 0)
		log_notice("This kernel knows no NUMA: the host is one node");
	if (n->view.truncated)
		log_warn("This host has more than %u nodes; the others are "
			 "not seen",
			 HOSTVIEW_NODES_MAX);
}

void nodes_close(struct nodes *n)
{
	close_fd_ptr(&n->proc_fd);
	close_fd_ptr(&n->node_fd);
	close_fd_ptr(&n->mm_fd);
	free(n->trend);
	n->trend = NULL;
}

static void trend_add(struct nodes *n, uint64_t now_us)
{
	struct nodes_point *p;

	if (!n->trend || (n->trend_us && now_us < n->trend_us))
		return;
	n->trend_us = now_us + NODES_TREND_US;
	p = &n->trend[n->next_point];
	p->at_us = now_us;
	for (uint32_t i = 0; i < n->view.nr_nodes; i++)
		p->blocks[i] = (uint32_t)MIN(
			hostview_blocks(&n->view.node[i], n->pmd_order),
			UINT32_MAX);
	n->next_point = (n->next_point + 1) % NODES_TREND_POINTS;
	n->nr_points = MIN(n->nr_points + 1, NODES_TREND_POINTS);
}

void nodes_tick(struct nodes *n, uint64_t now_us)
{
	int r;

	if (now_us < n->next_us)
		return;
	n->next_us = now_us + NODES_SAMPLE_US;
	r = hostview_read(n->proc_fd, n->node_fd, n->mm_fd, &n->view);
	if (r < 0 && r != n->last_error)
		log_warn_errno(r, "Cannot read the host's nodes, ignoring");
	n->last_error = r;
	if (r < 0)
		return;
	n->at_us = now_us;
	trend_add(n, now_us);
}

bool nodes_trend(const struct nodes *n, uint32_t i, int64_t *ret_per_min)
{
	const struct nodes_point *first, *last;
	int64_t change;
	uint64_t us;

	if (n->nr_points < 2)
		return false;
	last = &n->trend[(n->next_point + NODES_TREND_POINTS - 1) %
			 NODES_TREND_POINTS];
	first = &n->trend[n->nr_points < NODES_TREND_POINTS ? 0
							    : n->next_point];
	us = last->at_us - first->at_us;
	if (!us)
		return false;
	change = (int64_t)last->blocks[i] - first->blocks[i];
	*ret_per_min = change * (int64_t)(60 * SEC_US) / (int64_t)us;
	return true;
}
