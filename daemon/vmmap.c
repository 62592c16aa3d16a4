// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "util.h"
#include "vmmap.h"

void vmmap_free(struct vmmap *m)
{
	free(m->host);
	free(m->guest);
	free(m->guest_node);
	memset(m, 0, sizeof(*m));
}

void vmmap_guest_lost(struct vmmap *m)
{
	m->guest_us = 0;
	m->guest_next_us = 0;
	m->hint_us = 0;
	m->hint_next = m->nr;
	m->ask_id = 0;
	if (m->guest)
		memset(m->guest, GUEST_BLOCK_NONE, m->nr);
}

/* The guest's memory lies elsewhere now: what was known is of no use. */
static int layout_take(struct vmmap *m, const struct mapfile *f)
{
	struct backing_block *host = calloc(f->total + 1, sizeof(*host));
	uint8_t *guest = calloc(1, f->total + 1);
	uint8_t *node = calloc(1, f->total + 1);

	if (!host || !guest || !node) {
		free(host);
		free(guest);
		free(node);
		return -ENOMEM;
	}
	free(m->host);
	free(m->guest);
	free(m->guest_node);
	m->host = host;
	m->guest = guest;
	m->guest_node = node;
	m->nr = f->total;
	m->host_us = 0;
	vmmap_guest_lost(m);
	return 0;
}

int vmmap_host_part(struct vmmap *m, const struct mapfile *f, uint64_t now_us)
{
	int r = 0;

	if (!m->host || !memslots_same(&m->slots, &f->slots))
		r = layout_take(m, f);
	if (r < 0)
		return r;
	m->slots = f->slots;
	m->facts = f->facts;
	m->thp_disabled = f->thp_disabled;
	m->ksm = f->ksm;
	m->by_pagemap = f->by_pagemap;
	m->layout_us = f->layout_us;
	if (!f->index)
		m->pass_cpu_us = 0;
	m->pass_cpu_us += f->cpu_us;
	memcpy(m->host + f->index, f->block, f->nr * sizeof(*m->host));
	m->next_index = f->index + f->nr;
	if (m->next_index < m->nr)
		return 0;
	m->next_index = 0;
	m->host_cpu_us = m->pass_cpu_us;
	m->host_us = now_us;
	m->passes++;
	return 1;
}

int vmmap_guest_part(struct vmmap *m, const struct msg_map *p, uint64_t now_us)
{
	if (!m->ask_id || p->id != m->ask_id) {
		m->guest_strays++;
		return 0;
	}
	for (uint32_t i = 0; i < p->nr; i++) {
		int32_t at = memslots_index(&m->slots, p->first_block + i);

		if (at < 0)
			continue;
		m->guest[at] = p->block[i];
		m->guest_node[at] = p->node;
		m->guest_marked++;
	}
	m->guest_words = p->words;
	if (!p->last)
		return 0;
	m->ask_id = 0;
	/* an agent that cannot look says "all done" at once */
	if (m->guest_marked)
		m->guest_us = now_us;
	return m->guest_marked != 0;
}

void vmmap_count(struct vmmap *m, uint64_t now_us)
{
	if (!m->host_us)
		return;
	alignment_count(m->host, m->guest_us ? m->guest : NULL, m->guest_node,
			m->nr, &m->alignment);
	m->count_us = now_us;
}
