// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <jansson.h>

#include "frag.h"
#include "once.h"
#include "proto_codec.h"
#include "util.h"

static json_t *number(uint64_t v)
{
	return json_integer((json_int_t)v);
}

static json_t *names_of_bits(uint32_t bits, unsigned int count,
			     const char *(*name_of)(unsigned int))
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < count; i++) {
		if (bits >> i & 1)
			json_array_append_new(list, json_string(name_of(i)));
	}
	return list;
}

static json_t *usability(uint32_t usable, uint32_t missing, uint32_t denied,
			 unsigned int count,
			 const char *(*name_of)(unsigned int))
{
	return json_pack("{s:o, s:o, s:o}", "usable",
			 names_of_bits(usable, count, name_of), "missing",
			 names_of_bits(missing, count, name_of), "denied",
			 names_of_bits(denied, count, name_of));
}

static json_t *guest_json(const struct msg_hello *h)
{
	return json_pack(
		"{s:s, s:s, s:I, s:i, s:i, s:i, s:i, s:I, s:I, s:o}",
		"agent_version", h->agent_version, "kernel_release",
		h->kernel_release, "page_size_bytes", (json_int_t)h->page_size,
		"orders", h->nr_orders, "pmd_order", h->pmd_order,
		"pageblock_order", h->pageblock_order, "nodes", h->nr_nodes,
		"cpus", (json_int_t)h->nr_cpus, "managed_pages",
		(json_int_t)h->mem_pages, "features",
		names_of_bits(h->features, FEATURE_COUNT, feature_name));
}

static json_t *counters_json(const struct msg_report *r)
{
	json_t *o = json_object();

	for (unsigned int c = 0; c < CTR_COUNT; c++) {
		json_object_set_new(o, vmstat_ctr_name(c),
				    r->ctr_valid >> c & 1 ? number(r->ctr[c])
							  : json_null());
	}
	return o;
}

static json_t *knobs_json(const struct msg_report *r)
{
	json_t *o = json_object();

	for (unsigned int k = 0; k < KNOB_COUNT; k++) {
		json_t *v = json_null();

		if (r->knob_valid >> k & 1)
			v = k == KNOB_THP_DEFRAG
				    ? json_string(thp_defrag_name(
					      (unsigned int)r->knob[k]))
				    : json_integer(r->knob[k]);
		json_object_set_new(o, knob_name(k), v);
	}
	return o;
}

static json_t *psi_json(const struct msg_report *r)
{
	if (!r->psi_valid)
		return json_null();
	return json_pack("{s:f, s:f, s:I, s:I}", "some_avg10_pct",
			 r->psi.some_avg10_centi / 100.0, "full_avg10_pct",
			 r->psi.full_avg10_centi / 100.0, "some_total_us",
			 (json_int_t)r->psi.some_total_us, "full_total_us",
			 (json_int_t)r->psi.full_total_us);
}

static json_t *mthp_json(const struct msg_report *r)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < r->nr_mthp; i++) {
		const struct mthp_report *m = &r->mthp[i];

		json_array_append_new(
			list,
			json_pack("{s:i, s:s, s:I, s:I}", "order", m->order,
				  "policy", mthp_policy_name(m->policy),
				  "fault_alloc", (json_int_t)m->fault_alloc,
				  "fault_fallback",
				  (json_int_t)m->fault_fallback));
	}
	return list;
}

static json_t *u16_list(const uint16_t *v, unsigned int n)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < n; i++)
		json_array_append_new(list, json_integer(v[i]));
	return list;
}

static json_t *blocks_json(const struct zone_report *z, unsigned int nr_orders)
{
	json_t *list = json_array();

	for (unsigned int o = 0; o < nr_orders; o++)
		json_array_append_new(list, number(z->free_blocks[o]));
	return list;
}

static json_t *scores_json(const uint32_t *blocks, unsigned int nr_orders)
{
	json_t *ext = json_array(), *unusable = json_array();
	json_t *index = json_array();

	for (unsigned int o = 0; o < nr_orders; o++) {
		json_array_append_new(ext,
				      json_integer(frag_ext_pct(blocks, o)));
		json_array_append_new(
			unusable,
			json_integer(frag_unusable_permille(blocks, o)));
		json_array_append_new(
			index, json_integer(frag_index_permille(blocks, o)));
	}
	return json_pack("{s:o, s:o, s:o}", "ext_pct", ext, "unusable_permille",
			 unusable, "index_permille", index);
}

static json_t *zone_json(const struct zone_report *z, unsigned int nr_orders)
{
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}",
			 "zone", zone_kind_name(z->kind), "present_pages",
			 (json_int_t)z->present_pages, "managed_pages",
			 (json_int_t)z->managed_pages, "free_pages",
			 (json_int_t)z->free_pages, "min_pages",
			 (json_int_t)z->min_pages, "low_pages",
			 (json_int_t)z->low_pages, "high_pages",
			 (json_int_t)z->high_pages, "free_blocks",
			 blocks_json(z, nr_orders), "scores",
			 scores_json(z->free_blocks, nr_orders));
}

static json_t *zones_json(const struct msg_report *r, unsigned int node,
			  unsigned int nr_orders)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < r->nr_zones; i++) {
		if (r->zone[i].node == node)
			json_array_append_new(
				list, zone_json(&r->zone[i], nr_orders));
	}
	return list;
}

static json_t *node_json(const struct msg_report *r,
			 const struct node_report *n, unsigned int nr_orders)
{
	return json_pack(
		"{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:o, s:o, s:o}",
		"node", n->node, "total_pages", (json_int_t)n->total_pages,
		"free_pages", (json_int_t)n->free_pages, "anon_pages",
		(json_int_t)n->anon_pages, "file_pages",
		(json_int_t)n->file_pages, "anon_huge_pages",
		(json_int_t)n->anon_huge_pages, "slab_pages",
		(json_int_t)n->slab_pages, "unevictable_pages",
		(json_int_t)n->unevictable_pages, "score_pct", n->score_pct,
		"ext_pct", u16_list(n->ext_pct, nr_orders), "unusable_permille",
		u16_list(n->unusable_permille, nr_orders), "zones",
		zones_json(r, n->node, nr_orders));
}

static json_t *agent_json(const struct msg_report *r)
{
	return json_pack("{s:I, s:I, s:I}", "cpu_us",
			 (json_int_t)r->agent_cpu_us, "sample_cpu_us",
			 (json_int_t)r->sample_cpu_us, "rss_kib",
			 (json_int_t)r->agent_rss_kib);
}

static json_t *whole_json(const struct msg_hello *h, const struct msg_report *r)
{
	json_t *nodes = json_array();

	for (unsigned int i = 0; i < r->nr_nodes; i++)
		json_array_append_new(nodes,
				      node_json(r, &r->node[i], h->nr_orders));
	return json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o}",
		"guest", guest_json(h), "knobs",
		usability(h->knobs, h->knobs_missing, h->knobs_denied,
			  KNOB_COUNT, knob_name),
		"backends",
		usability(h->backends, h->backends_missing, h->backends_denied,
			  BACKEND_COUNT, backend_name),
		"knob_values", knobs_json(r), "counters", counters_json(r),
		"psi", psi_json(r), "thp_enabled",
		mthp_policy_name(r->thp_enabled), "reporting_order",
		r->reporting_order == UINT16_MAX
			? json_null()
			: json_integer(r->reporting_order),
		"mthp", mthp_json(r), "nodes", nodes, "agent", agent_json(r));
}

int once_print(const struct msg_hello *caps, const struct msg_report *report,
	       FILE *f)
{
	json_t *root = whole_json(caps, report);
	int r;

	if (!root)
		return -ENOMEM;
	r = json_dumpf(root, f, JSON_INDENT(2));
	json_decref(root);
	if (r < 0 || fputc('\n', f) == EOF || fflush(f) == EOF)
		return -EIO;
	return 0;
}
