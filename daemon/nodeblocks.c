// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "log.h"
#include "manager.h"
#include "util.h"

/* Emulated, a slice takes half a second; a helper in D state takes for ever. */
#define SLICE_DEADLINE_US (10 * SEC_US)

static void next_slice(struct manager *m);

static void node_end(struct manager *m, int error)
{
	struct nodeblocks *b = &m->nodeblocks;

	b->cur.error = error;
	b->cur.valid = !error;
	b->cur.at_us = now_us();
	if (error)
		log_warn_errno(error,
			       "Cannot look at the pageblocks of host node %u, "
			       "ignoring",
			       m->nodes.view.node[b->at].id);
	b->node[b->at] = b->cur;
	memset(&b->cur, 0, sizeof(b->cur));
	b->at++;
}

static void add_slice(struct nodeblocks_node *n, const struct ipc_msg *m)
{
	n->words += m->blocks.words;
	n->pfn = m->blocks.pfn;
	n->sum.blocks += m->blocks.blocks;
	n->sum.blocks_free += m->blocks.blocks_free;
	n->sum.blocks_clean += m->blocks.blocks_clean;
	n->sum.blocks_unmovable += m->blocks.blocks_unmovable;
	n->sum.thp_pages += m->blocks.thp_pages;
	for (unsigned int c = 0; c < PAGE_CLASS_COUNT; c++)
		n->sum.pages[c] += m->blocks.pages[c];
}

static void sliced(void *ctx, uint64_t cookie, int result,
		   const struct ipc_msg *m, int fd)
{
	struct manager *mgr = ctx;
	struct nodeblocks *b = &mgr->nodeblocks;

	(void)cookie;
	if (fd >= 0)
		close(fd);
	if (!b->running)
		return;
	if (result < 0) {
		node_end(mgr, result);
		next_slice(mgr);
		return;
	}
	add_slice(&b->cur, m);
	b->words_left -= MIN(b->words_left, m->blocks.words);
	b->cur.whole = !m->blocks.pfn;
	if (b->cur.whole || !b->words_left)
		node_end(mgr, 0);
	next_slice(mgr);
}

static void next_slice(struct manager *m)
{
	struct nodeblocks *b = &m->nodeblocks;
	int r = 0;

	while (b->at < m->nodes.view.nr_nodes) {
		struct ipc_msg q = {.op = IPC_NODE_BLOCKS};

		if (!b->words_left) {
			node_end(m, -EDQUOT);
			continue;
		}
		q.blocks.node = m->nodes.view.node[b->at].id;
		q.blocks.pfn = b->cur.pfn;
		q.blocks.max_words = MIN(b->words_left, NODEBLOCKS_SLICE_WORDS);
		r = link_call(&m->link[ROLE_HELPER], &q,
			      now_us() + SLICE_DEADLINE_US, sliced, m, 0);
		if (!r)
			return;
		node_end(m, r);
	}
	b->running = false;
	if (b->done)
		b->done(m);
}

void nodeblocks_start(struct manager *m, uint64_t max_words)
{
	struct nodeblocks *b = &m->nodeblocks;

	if (b->running)
		return;
	b->running = true;
	b->at = 0;
	b->words_left = max_words;
	memset(&b->cur, 0, sizeof(b->cur));
	next_slice(m);
}
