// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "status_map.h"
#include "util.h"

#define J(v) ((json_int_t)(v))

uint64_t status_used_kib(const struct vm *v, uint8_t node)
{
	uint64_t used = 0;

	for (size_t i = 0; v->have_report && i < v->report.nr_nodes; i++) {
		const struct node_report *n = &v->report.node[i];
		uint64_t rest =
			sum_sat_u64(sum_sat_u64(n->free_pages, n->file_pages),
				    n->slab_pages);

		if (node != ALIGNMENT_NODE_ALL && n->node != node)
			continue;
		if (n->total_pages > rest)
			used += n->total_pages - rest;
	}
	return used * (v->hello.page_size / 1024);
}

static json_t *node_json(const struct vm *v, const struct alignment_node *n)
{
	json_t *o = json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
		"huge_on_huge", J(n->huge_huge), "guest_only", J(n->guest_only),
		"host_only", J(n->host_only), "neither", J(n->neither), "free",
		J(n->free_blocks), "other", J(n->other), "free_backed_kib",
		J(n->free_backed_kib), "free_unbacked_kib",
		J(n->free_unbacked_kib), "collapsible", J(n->collapsible),
		"swapped", J(n->swapped), "shared", J(n->shared), "absent",
		J(n->absent));
	uint64_t used_kib = status_used_kib(v, n->node);

	if (!o)
		return NULL;
	if (n->node != ALIGNMENT_NODE_ALL)
		json_object_set_new(o, "node", json_integer(n->node));
	json_object_set_new(o, "host_kib", json_integer(J(n->host_kib)));
	json_object_set_new(o, "host_huge", json_integer(J(n->host_huge)));
	if (!v->map.alignment.guest_known)
		return o;
	json_object_set_new(o, "score_permille",
			    json_integer(alignment_score_permille(n)));
	json_object_set_new(o, "guest_used_kib", json_integer(J(used_kib)));
	json_object_set_new(o, "huge_on_huge_of_used_permille",
			    json_integer(alignment_used_permille(n, used_kib)));
	return o;
}

static json_t *fact_names_json(uint32_t facts)
{
	json_t *a = json_array();

	for (unsigned int i = 0; i < LAYOUT_FACT_COUNT; i++) {
		if (facts & 1u << i)
			json_array_append_new(a,
					      json_string(layout_fact_name(i)));
	}
	return a;
}

static json_t *collapse_json(const struct vm *v)
{
	const struct collapse_state *c = &v->collapse;

	return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
			 "s:I}",
			 "mode", collapse_mode_name(v->cfg.collapse), "state",
			 collapse_hold_name(v->collapse_hold), "text",
			 collapse_hold_text(v->collapse_hold), "asked",
			 J(c->asked), "done", J(c->done), "busy", J(c->busy),
			 "no_memory", J(c->no_memory), "memcg", J(c->memcg),
			 "refused", J(c->refused), "skipped", J(c->skipped),
			 "cpu_us", J(c->cpu_us));
}

json_t *status_alignment(const struct vm *v, uint64_t now_us)
{
	const struct vmmap *m = &v->map;
	json_t *nodes = json_array(), *o;

	for (unsigned int i = 0; i < m->alignment.nr_nodes; i++)
		json_array_append_new(nodes,
				      node_json(v, &m->alignment.node[i]));
	o = json_pack("{s:o, s:o, s:b, s:I, s:I, s:I, s:I, s:o}", "all",
		      node_json(v, &m->alignment.all), "nodes", nodes,
		      "guest_known", m->alignment.guest_known, "passes",
		      J(m->passes), "scan_cpu_us", J(m->host_cpu_us),
		      "layout_cpu_us", J(m->layout_us), "guest_words",
		      J(m->guest_words), "facts", fact_names_json(m->facts));
	if (!o)
		return NULL;
	if (m->host_us)
		json_object_set_new(
			o, "host_age_ms",
			json_integer(J((now_us - m->host_us) / MSEC_US)));
	if (m->guest_us)
		json_object_set_new(
			o, "guest_age_ms",
			json_integer(J((now_us - m->guest_us) / MSEC_US)));
	json_object_set_new(o, "collapse", collapse_json(v));
	if (m->last_error)
		json_object_set_new(o, "error",
				    json_string(strerror(-m->last_error)));
	return o;
}

/* --- drawing ----------------------------------------------------------------
 */

static char host_char(const struct backing_block *b)
{
	if (!(b->flags & BACKING_KNOWN))
		return '?';
	if (b->flags & BACKING_HUGE)
		return 'H';
	if (b->flags & BACKING_SWAPPED)
		return 'w';
	if (b->present == 512)
		return 'b';
	return b->present ? 'p' : '.';
}

static char guest_char(uint8_t g)
{
	if (g >= GUEST_BLOCK_BASE && g < GUEST_BLOCK_BASE_FULL)
		return 'p';
	switch (g) {
	case GUEST_BLOCK_FREE:
		return '.';
	case GUEST_BLOCK_FOLIO:
	case GUEST_BLOCK_HUGETLB:
		return 'H';
	case GUEST_BLOCK_BASE_FULL:
		return 'b';
	case GUEST_BLOCK_OFFLINE:
		return 'o';
	default:
		return '?';
	}
}

static char fit_char(char guest, char host)
{
	if (guest == '?' || guest == 'o')
		return ' ';
	if (guest == '.')
		return host == '.' ? ' ' : '_';
	if (guest == 'H')
		return host == 'H' ? '#' : 'g';
	return host == 'H' ? 'h' : '-';
}

/* What most of the @n blocks of a cell are. */
static char cell_char(const unsigned int count[128])
{
	int best = '?';

	for (int c = 0; c < 128; c++) {
		if (count[c] > count[best])
			best = c;
	}
	return (char)best;
}

static void draw(const struct vmmap *m, uint32_t from, uint32_t nr,
		 uint32_t per_cell, char *guest, char *host, char *fit)
{
	for (uint32_t at = 0; at < nr; at += per_cell) {
		unsigned int g[128] = {0}, h[128] = {0}, f[128] = {0};
		uint32_t end = MIN(at + per_cell, nr);

		for (uint32_t i = from + at; i < from + end; i++) {
			char gc = guest_char(m->guest[i]);
			char hc = host_char(&m->host[i]);

			g[(int)gc]++;
			h[(int)hc]++;
			f[(int)fit_char(gc, hc)]++;
		}
		*guest++ = cell_char(g);
		*host++ = cell_char(h);
		*fit++ = cell_char(f);
	}
	*guest = *host = *fit = '\0';
}

static json_t *range_json(const struct vmmap *m, uint32_t slot, uint32_t from,
			  uint32_t per_cell)
{
	const struct memslot *s = &m->slots.slot[slot];
	char guest[STATUS_MAP_CELLS + MEMSLOTS_MAX + 1];
	char host[sizeof(guest)], fit[sizeof(guest)];
	uint64_t first;
	uint32_t nr = memslot_blocks(s, &first);

	draw(m, from, nr, per_cell, guest, host, fit);
	return json_pack("{s:I, s:I, s:s, s:b, s:b, s:s, s:s, s:s}", "gpa",
			 J(first << MEMSLOT_BLOCK_SHIFT), "blocks", J(nr),
			 "kind", memslot_kind_name(s->kind), "congruent",
			 memslot_congruent(s, MEMSLOT_BLOCK_BYTES) &&
				 memslot_file_congruent(s, MEMSLOT_BLOCK_BYTES),
			 "doubtful", s->doubtful, "guest", guest, "host", host,
			 "fit", fit);
}

json_t *status_map(const struct vm *v, uint64_t now_us)
{
	const struct vmmap *m = &v->map;
	uint32_t per_cell = 1, from = 0;
	json_t *ranges = json_array();

	while (m->nr / per_cell > STATUS_MAP_CELLS)
		per_cell *= 2;
	for (uint32_t i = 0; m->host && i < m->slots.nr; i++) {
		uint64_t first;

		json_array_append_new(ranges, range_json(m, i, from, per_cell));
		from += memslot_blocks(&m->slots.slot[i], &first);
	}
	return json_pack("{s:s, s:I, s:o, s:o}", "vm", v->cfg.name,
			 "blocks_per_cell", J(per_cell), "ranges", ranges,
			 "alignment", status_alignment(v, now_us));
}
