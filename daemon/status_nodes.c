// SPDX-License-Identifier: GPL-2.0-or-later
/* The host's nodes in JSON. */
#include <errno.h>
#include <string.h>

#include "status.h"
#include "util.h"

#define J(v) ((json_int_t)(v))

static json_t *pools_json(const struct hostview *v,
			  const struct hostview_node *n)
{
	json_t *a = json_array();

	for (uint32_t p = 0; p < v->nr_pools; p++) {
		const struct hostpool *pool = &n->pool[p];

		json_array_append_new(
			a, json_pack("{s:I, s:I, s:I, s:I}", "page_kib",
				     J(v->pool_kib[p]), "pages", J(pool->nr),
				     "free", J(pool->free), "surplus",
				     J(pool->surplus)));
	}
	return a;
}

static json_t *blocks_json(const struct nodeblocks_node *b, uint64_t now_us)
{
	const struct pageblock_sum *s = &b->sum;
	uint64_t hugetlb =
		s->blocks -
		MIN(s->blocks, s->blocks_clean + s->blocks_unmovable);
	json_t *pages = json_object();

	if (!b->valid) {
		json_decref(pages);
		return json_pack("{s:s}", "error", strerror(-b->error));
	}
	for (unsigned int c = 0; c < PAGE_CLASS_COUNT; c++)
		json_object_set_new(pages, page_class_name(c),
				    json_integer(J(s->pages[c])));
	return json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:b, s:I}",
		"pageblocks", J(s->blocks), "free", J(s->blocks_free),
		"movable",
		J(s->blocks_clean - MIN(s->blocks_clean, s->blocks_free)),
		"hugetlb", J(hugetlb), "unmovable", J(s->blocks_unmovable),
		"pages", pages, "thp_pages", J(s->thp_pages), "words",
		J(b->words), "whole", b->whole, "age_ms",
		J((now_us - b->at_us) / MSEC_US));
}

static json_t *node_json(const struct nodes *ns, uint32_t i)
{
	const struct hostview *v = &ns->view;
	const struct hostview_node *n = &v->node[i];
	json_t *by_order = json_array(), *unusable = json_array();
	json_t *distance = json_array(), *o;
	int64_t trend;

	for (uint32_t k = 0; k < v->nr_orders; k++) {
		json_array_append_new(by_order,
				      json_integer(J(n->free_blocks[k])));
		json_array_append_new(unusable,
				      json_integer(n->unusable_permille[k]));
	}
	for (uint32_t k = 0; k < v->nr_nodes; k++)
		json_array_append_new(distance,
				      json_integer(J(n->distance[k])));
	o = json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}",
		"node", J(n->id), "total_kib", J(n->total_kib), "free_kib",
		J(n->free_kib), "anon_kib", J(n->anon_kib), "anon_huge_kib",
		J(n->anon_huge_kib), "file_kib", J(n->file_kib), "free_blocks",
		J(hostview_blocks(n, ns->pmd_order)), "free_blocks_by_order",
		by_order, "unusable_permille", unusable, "pools",
		pools_json(v, n), "distance", distance);
	if (o && nodes_trend(ns, i, &trend))
		json_object_set_new(o, "trend_blocks_per_min",
				    json_integer(J(trend)));
	return o;
}

/*
 * Pages that are promised are the whole host's: usable is free - reserved
 * there, and no node can say more than how much of it is free.
 */
static json_t *totals_json(const struct hostview *v)
{
	json_t *a = json_array();

	for (uint32_t p = 0; p < v->nr_pools; p++) {
		uint64_t nr = 0, free_pages = 0, surplus = 0;
		uint64_t reserved = v->pool_reserved[p];

		for (uint32_t i = 0; i < v->nr_nodes; i++) {
			nr += v->node[i].pool[p].nr;
			free_pages += v->node[i].pool[p].free;
			surplus += v->node[i].pool[p].surplus;
		}
		json_array_append_new(
			a,
			json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "page_kib",
				  J(v->pool_kib[p]), "pages", J(nr), "free",
				  J(free_pages), "reserved", J(reserved),
				  "surplus", J(surplus), "usable",
				  J(free_pages - MIN(reserved, free_pages))));
	}
	return a;
}

/*
 * Which pages are pinned cannot be seen: VmLck and VmPin, and a VFIO device,
 * make it likely, and are shown under that name.
 */
static void add_pins(json_t *o, const struct vm_proc *p)
{
	if (!p->valid || !p->locked_valid)
		return;
	json_object_set_new(o, "pins_inferred",
			    json_pack("{s:I, s:I}", "locked_kib",
				      J(p->locked_kib), "pinned_kib",
				      J(p->pinned_kib)));
}

static const char *why_unknown(const struct vm_numa *n)
{
	if (n->last_error == -ENODATA)
		return "no control group of its own";
	return n->last_error ? strerror(-n->last_error) : "not sampled yet";
}

json_t *status_vm_backing(const struct vm *v, uint64_t now_us)
{
	const struct vm_numa *n = &v->numa;
	json_t *o = json_pack("{s:s}", "name", v->cfg.name);
	json_t *nodes;

	if (!o)
		return NULL;
	add_pins(o, &v->proc);
	if (!n->valid) {
		json_object_set_new(o, "unknown", json_string(why_unknown(n)));
		return o;
	}
	nodes = json_array();
	for (uint32_t i = 0; i < n->nr_nodes; i++)
		json_array_append_new(
			nodes, json_pack("{s:i, s:I, s:I}", "node", (int)i,
					 "kib", J(n->node[i].kib), "huge_kib",
					 J(n->node[i].huge_kib)));
	json_object_set_new(o, "nodes", nodes);
	json_object_set_new(o, "age_ms",
			    json_integer(J((now_us - n->at_us) / MSEC_US)));
	return o;
}

json_t *status_nodes(const struct manager *m, uint64_t now_us)
{
	const struct nodes *ns = &m->nodes;
	json_t *nodes = json_array(), *vms = json_array(), *o;

	for (uint32_t i = 0; ns->at_us && i < ns->view.nr_nodes; i++) {
		const struct nodeblocks_node *b = &m->nodeblocks.node[i];

		o = node_json(ns, i);
		if (o && (b->valid || b->error))
			json_object_set_new(o, "blocks",
					    blocks_json(b, now_us));
		json_array_append_new(nodes, o);
	}
	for (const struct vm *v = m->vms; v; v = v->next)
		json_array_append_new(vms, status_vm_backing(v, now_us));
	o = json_pack("{s:i, s:o, s:o, s:o, s:b}", "pmd_order", ns->pmd_order,
		      "nodes", nodes, "pools", totals_json(&ns->view), "vms",
		      vms, "truncated", ns->view.truncated);
	if (o && ns->at_us)
		json_object_set_new(
			o, "age_ms",
			json_integer(J((now_us - ns->at_us) / MSEC_US)));
	if (o && ns->last_error)
		json_object_set_new(o, "error",
				    json_string(strerror(-ns->last_error)));
	return o;
}
