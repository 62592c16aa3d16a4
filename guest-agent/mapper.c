// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "mapper.h"
#include "util.h"

#define BLOCK_BYTES (UINT64_C(2) << 20)
#define BLOCK_PAGES 512u

bool mapper_possible(const struct msg_hello *caps)
{
	return caps->features & 1u << FEATURE_KPAGEFLAGS &&
	       caps->pageblock_order == caps->pmd_order &&
	       (uint64_t)caps->page_size << caps->pmd_order == BLOCK_BYTES;
}

enum guest_block mapper_block(const struct pageblock *b)
{
	uint32_t pages = 0, used;

	if (b->pages[PAGE_HOLE])
		return GUEST_BLOCK_NONE;
	for (unsigned int o = 9; o < PROTO_ORDERS_MAX; o++) {
		if (b->folios[o])
			return GUEST_BLOCK_FOLIO;
	}
	if (b->pages[PAGE_HUGETLB] == BLOCK_PAGES)
		return GUEST_BLOCK_HUGETLB;
	if (b->pages[PAGE_FREE] == BLOCK_PAGES)
		return GUEST_BLOCK_FREE;
	/* a balloon's pages are the host's */
	if (b->pages[PAGE_OFFLINE])
		return GUEST_BLOCK_OFFLINE;
	for (unsigned int c = 0; c < PAGE_CLASS_COUNT; c++)
		pages += b->pages[c];
	used = pages - b->pages[PAGE_FREE];
	return (enum guest_block)MIN(GUEST_BLOCK_BASE + used * 10 / BLOCK_PAGES,
				     GUEST_BLOCK_BASE_FULL);
}

static void part_send(struct mapper *m)
{
	if (!m->part.nr && !m->part.last)
		return;
	m->part.words = m->scan.words;
	if (!m->error)
		m->error = m->ops->send(m->ops->ctx, &m->part);
	m->part.nr = 0;
}

static uint8_t node_of(const struct mapper *m, uint64_t pfn)
{
	struct zone_span span = {.node = 0};

	/* a zone may begin amid its first block: DMA does, at page 1 */
	if (!memlayout_zone_of(&m->layout, pfn, &span))
		(void)memlayout_zone_of(&m->layout, pfn + BLOCK_PAGES - 1,
					&span);
	return span.node;
}

static void take(void *ctx, uint64_t pfn, const struct pageblock *b)
{
	struct mapper *m = ctx;
	struct msg_map *part = &m->part;
	uint64_t number = pfn / BLOCK_PAGES;
	uint8_t node = node_of(m, pfn);

	if (part->nr == PROTO_MAP_BLOCKS || part->node != node ||
	    part->first_block + part->nr != number)
		part_send(m);
	if (!part->nr) {
		part->first_block = number;
		part->node = node;
	}
	part->block[part->nr++] = (uint8_t)mapper_block(b);
}

int mapper_start(struct mapper *m, const struct mapper_ops *ops, int proc_fd,
		 const struct msg_hello *caps, const struct msg_map_ask *ask,
		 uint64_t now_us)
{
	int r;

	mapper_stop(m);
	if (!mapper_possible(caps))
		return -EOPNOTSUPP;
	r = memlayout_read(proc_fd, caps->page_size, &m->layout);
	if (r < 0)
		return r;
	r = pbscan_open(&m->scan, proc_fd, caps, &m->layout, 0);
	if (r < 0)
		return r;
	memset(&m->part, 0, sizeof(m->part));
	m->part.id = ask->id;
	m->ops = ops;
	m->error = 0;
	m->words_per_sec = MIN(ask->words_per_sec, MAPPER_WORDS_PER_SEC_MAX);
	m->next_us = now_us;
	m->running = true;
	return 0;
}

void mapper_stop(struct mapper *m)
{
	if (!m->running)
		return;
	m->running = false;
	pbscan_close(&m->scan);
}

void mapper_tick(struct mapper *m, uint64_t now_us)
{
	uint64_t before, words;
	int r;

	if (!m->running || now_us < m->next_us)
		return;
	before = m->scan.words;
	r = pbscan_step(&m->scan, MIN(PBSCAN_SLICE_WORDS, m->words_per_sec),
			take, m);
	words = m->scan.words - before;
	m->words += words;
	m->next_us = now_us + words * SEC_US / m->words_per_sec;
	if (r > 0) {
		m->part.last = 1;
		part_send(m);
	}
	if (r || m->error)
		mapper_stop(m);
}

uint64_t mapper_deadline_us(const struct mapper *m)
{
	return m->running ? m->next_us : UINT64_MAX;
}
