// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "frag.h"
#include "knob_info.h"
#include "procfile.h"
#include "proto_codec.h"
#include "sample.h"
#include "util.h"

#define THP_DIR "kernel/mm/transparent_hugepage"

/* a third of the files are settings that people change, if ever */
#define SETTINGS_EVERY 10

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void sampler_close(struct sampler *s)
{
	close_one(&s->vmstat_fd);
	close_one(&s->buddyinfo_fd);
	close_one(&s->zoneinfo_fd);
	close_one(&s->psi_fd);
	close_one(&s->statm_fd);
	close_one(&s->thp_fd);
	close_one(&s->reporting_order_fd);
	for (unsigned int i = 0; i < s->nr_nodes; i++)
		close_one(&s->node[i].meminfo_fd);
	s->nr_nodes = 0;
	for (unsigned int i = 0; i < s->nr_mthp; i++) {
		close_one(&s->mthp[i].enabled_fd);
		close_one(&s->mthp[i].alloc_fd);
		close_one(&s->mthp[i].fallback_fd);
	}
	s->nr_mthp = 0;
}

static int open_nodes(struct sampler *s, int sys_fd)
{
	uint8_t ids[PROTO_NODES_MAX];
	char buf[256], path[64];
	ssize_t r;

	r = read_text_at(sys_fd, "devices/system/node/has_memory", buf,
			 sizeof(buf));
	if (r < 0)
		return (int)r;
	r = id_list_parse(buf, ids, PROTO_NODES_MAX);
	if (r <= 0)
		return -EPROTO;
	for (unsigned int i = 0; i < MIN((unsigned int)r, PROTO_NODES_MAX);
	     i++) {
		(void)snprintf(path, sizeof(path),
			       "devices/system/node/node%u/meminfo", ids[i]);
		s->node[i].id = ids[i];
		s->node[i].meminfo_fd = procfile_open(sys_fd, path);
		s->nr_nodes++;
		if (s->node[i].meminfo_fd < 0)
			return s->node[i].meminfo_fd;
	}
	return 0;
}

static int open_mthp_file(int sys_fd, uint64_t kib, const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof(path), THP_DIR "/hugepages-%llukB/%s",
		       (unsigned long long)kib, name);
	return procfile_open(sys_fd, path);
}

static void open_mthp(struct sampler *s, int sys_fd, uint32_t orders)
{
	for (uint8_t o = 1; o < PROTO_ORDERS_MAX; o++) {
		uint64_t kib = ((uint64_t)s->page_size << o) / 1024;
		struct sample_mthp *m = &s->mthp[s->nr_mthp];

		if (!(orders & 1u << o))
			continue;
		m->order = o;
		m->enabled_fd = open_mthp_file(sys_fd, kib, "enabled");
		m->alloc_fd =
			open_mthp_file(sys_fd, kib, "stats/anon_fault_alloc");
		m->fallback_fd = open_mthp_file(sys_fd, kib,
						"stats/anon_fault_fallback");
		s->nr_mthp++;
	}
}

static int open_required(struct sampler *s, int proc_fd, int sys_fd)
{
	const struct {
		const char *path;
		int *fd;
	} files[] = {
		{"vmstat", &s->vmstat_fd},
		{"buddyinfo", &s->buddyinfo_fd},
		{"zoneinfo", &s->zoneinfo_fd},
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		*files[i].fd = procfile_open(proc_fd, files[i].path);
		if (*files[i].fd < 0)
			return *files[i].fd;
	}
	return open_nodes(s, sys_fd);
}

int sampler_open(struct sampler *s, int proc_fd, int sys_fd,
		 const struct msg_hello *hello)
{
	struct psi_report psi;
	int r;

	memset(s, 0, sizeof(*s));
	s->vmstat_fd = s->buddyinfo_fd = s->zoneinfo_fd = -1;
	s->page_size = hello->page_size;
	s->pmd_order = hello->pmd_order;
	s->nr_orders = hello->nr_orders;
	s->psi_fd = procfile_open(proc_fd, "pressure/memory");
	s->statm_fd = procfile_open(proc_fd, "self/statm");
	s->thp_fd = procfile_open(sys_fd, THP_DIR "/enabled");
	s->reporting_order_fd = procfile_open(
		sys_fd,
		"module/page_reporting/parameters/page_reporting_order");
	open_mthp(s, sys_fd, hello->mthp_orders);

	r = open_required(s, proc_fd, sys_fd);
	if (r < 0) {
		sampler_close(s);
		return r;
	}
	/* with psi=0 the file is there, but reading it fails */
	if (sampler_psi(s, &psi) < 0)
		close_one(&s->psi_fd);
	return 0;
}

int sampler_vmstat(const struct sampler *s, struct vmstat *ret_vmstat)
{
	struct vmstat vs = {0};
	int r = procfile_lines(s->vmstat_fd, vmstat_line, &vs);

	if (r < 0)
		return r;
	if (!vs.valid)
		return -EPROTO;
	*ret_vmstat = vs;
	return 0;
}

int sampler_buddyinfo(const struct sampler *s, struct zones *ret_zones)
{
	int r;

	memset(ret_zones, 0, sizeof(*ret_zones));
	r = procfile_lines(s->buddyinfo_fd, buddyinfo_line, ret_zones);
	if (r < 0)
		return r;
	return ret_zones->nr_orders ? 0 : -EPROTO;
}

int sampler_zones(const struct sampler *s, struct zones *ret_zones)
{
	int r;

	memset(ret_zones, 0, sizeof(*ret_zones));
	r = procfile_lines(s->zoneinfo_fd, zoneinfo_line, ret_zones);
	if (r < 0)
		return r;
	r = procfile_lines(s->buddyinfo_fd, buddyinfo_line, ret_zones);
	if (r < 0)
		return r;
	return ret_zones->nr_orders ? 0 : -EPROTO;
}

int sampler_psi(const struct sampler *s, struct psi_report *ret_psi)
{
	char text[256];
	ssize_t n;

	if (s->psi_fd < 0)
		return -ENOENT;
	n = procfile_text(s->psi_fd, text, sizeof(text));
	return n < 0 ? (int)n : psi_parse(text, ret_psi);
}

static uint8_t read_policy(int fd, uint8_t unknown)
{
	char text[128], word[32];
	int r;

	if (fd < 0 || procfile_text(fd, text, sizeof(text)) < 0 ||
	    bracketed_word(text, word, sizeof(word)) < 0)
		return unknown;
	r = name_lookup(mthp_policy_name, MTHP_POLICY_COUNT, word);
	return r < 0 ? unknown : (uint8_t)r;
}

static uint64_t read_counter(int fd)
{
	uint64_t v;

	return fd >= 0 && procfile_u64(fd, &v) == 0 ? v : 0;
}

static void read_settings(struct sampler *s)
{
	uint64_t order;

	s->thp_enabled = read_policy(s->thp_fd, MTHP_INHERIT);
	for (unsigned int i = 0; i < s->nr_mthp; i++)
		s->mthp[i].policy =
			read_policy(s->mthp[i].enabled_fd, MTHP_NEVER);
	/* -1 and one past the last order mean "not set by anybody yet" */
	s->reporting_order = UINT16_MAX;
	if (s->reporting_order_fd >= 0 &&
	    procfile_u64(s->reporting_order_fd, &order) == 0 &&
	    order < s->nr_orders)
		s->reporting_order = (uint16_t)order;
}

static void report_thp(struct sampler *s, struct msg_report *r)
{
	if (s->samples++ % SETTINGS_EVERY == 0)
		read_settings(s);
	r->thp_enabled = s->thp_enabled;
	r->reporting_order = s->reporting_order;
	r->nr_mthp = (uint8_t)s->nr_mthp;
	for (unsigned int i = 0; i < s->nr_mthp; i++) {
		const struct sample_mthp *m = &s->mthp[i];

		r->mthp[i].order = m->order;
		r->mthp[i].policy = m->policy;
		r->mthp[i].fault_alloc = read_counter(m->alloc_fd);
		r->mthp[i].fault_fallback = read_counter(m->fallback_fd);
	}
}

unsigned int sampler_score_pct(const struct sampler *s, const struct zones *z,
			       unsigned int node)
{
	uint64_t present = 0;
	unsigned int score = 0;

	for (unsigned int i = 0; i < z->nr; i++)
		if (z->zone[i].node == node)
			present += z->zone[i].present_pages;
	for (unsigned int i = 0; i < z->nr; i++) {
		const struct zone_report *zone = &z->zone[i];

		if (zone->node != node)
			continue;
		score += frag_zone_weighted_pct(
			zone->present_pages,
			frag_ext_pct(zone->free_blocks, s->pmd_order), present);
	}
	return score;
}

static int report_node(const struct sampler *s, const struct zones *z,
		       const struct sample_node *node, struct node_report *n)
{
	uint32_t blocks[PROTO_ORDERS_MAX];
	uint32_t page_kib = s->page_size / 1024;
	struct node_mem mem = {0};
	int r = procfile_lines(node->meminfo_fd, node_mem_line, &mem);

	if (r < 0)
		return r;
	memset(n, 0, sizeof(*n));
	n->node = node->id;
	n->total_pages = mem.total_kib / page_kib;
	n->free_pages = mem.free_kib / page_kib;
	n->anon_pages = mem.anon_kib / page_kib;
	n->file_pages = mem.file_kib / page_kib;
	n->anon_huge_pages = mem.anon_huge_kib / page_kib;
	n->slab_pages = mem.slab_kib / page_kib;
	n->unevictable_pages = mem.unevictable_kib / page_kib;

	zones_sum_node(z, node->id, blocks);
	for (unsigned int o = 0; o < PROTO_ORDERS_MAX; o++) {
		n->ext_pct[o] = (uint16_t)frag_ext_pct(blocks, o);
		n->unusable_permille[o] =
			(uint16_t)frag_unusable_permille(blocks, o);
	}
	n->score_pct = (uint16_t)sampler_score_pct(s, z, node->id);
	return 0;
}

static bool node_is_reported(const struct msg_report *r, unsigned int node)
{
	for (unsigned int i = 0; i < r->nr_nodes; i++) {
		if (r->node[i].node == node)
			return true;
	}
	return false;
}

static int report_nodes(const struct sampler *s, struct msg_report *r)
{
	struct zones z;
	int ret = sampler_zones(s, &z);

	if (ret < 0)
		return ret;
	r->nr_nodes = 0;
	for (unsigned int i = 0; i < s->nr_nodes; i++) {
		ret = report_node(s, &z, &s->node[i], &r->node[i]);
		if (ret < 0)
			return ret;
		r->nr_nodes++;
	}
	/* a node that came up after the start belongs to the next session */
	r->nr_zones = 0;
	for (unsigned int i = 0; i < z.nr; i++) {
		if (node_is_reported(r, z.zone[i].node))
			r->zone[r->nr_zones++] = z.zone[i];
	}
	return 0;
}

/* "size resident shared …" in pages */
static uint32_t read_rss_kib(const struct sampler *s)
{
	uint64_t pages = 0;
	char text[128];
	char *resident;

	if (s->statm_fd < 0 ||
	    procfile_text(s->statm_fd, text, sizeof(text)) < 0)
		return 0;
	resident = strchr(text, ' ');
	if (!resident)
		return 0;
	resident++;
	resident[strcspn(resident, " \n")] = '\0';
	if (parse_u64(resident, UINT32_MAX, &pages) < 0)
		return 0;
	return (uint32_t)(pages * (s->page_size / 1024));
}

int sampler_report(struct sampler *s, struct msg_report *r)
{
	struct vmstat vs;
	int ret = sampler_vmstat(s, &vs);

	if (ret < 0)
		return ret;
	r->ctr_valid = vs.valid;
	memcpy(r->ctr, vs.ctr, sizeof(r->ctr));
	r->psi_valid = sampler_psi(s, &r->psi) == 0;
	report_thp(s, r);
	r->agent_rss_kib = read_rss_kib(s);
	return report_nodes(s, r);
}
