// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>
#include <sys/resource.h>

#include "guestfree.h"
#include "proto_codec.h"
#include "status.h"
#include "status_map.h"
#include "util.h"

#define J(v) ((json_int_t)(v))

/* Names of the bits that are set. */
static json_t *names(uint32_t bits, unsigned int count,
		     const char *(*name_of)(unsigned int))
{
	json_t *a = json_array();

	for (unsigned int i = 0; i < count; i++) {
		if (bits & 1u << i)
			json_array_append_new(a, json_string(name_of(i)));
	}
	return a;
}

/* --- guest -------------------------------------------------------------------
 */

static uint64_t page_kib(const struct vm *v, uint64_t pages)
{
	return pages * (v->hello.page_size / 1024);
}

static json_t *node_json(const struct vm *v, const struct node_report *n)
{
	json_t *by_order = json_array(), *unusable = json_array();
	struct guest_free f;

	guest_free_sum(&v->hello, &v->report, n->node, &f);
	for (unsigned int o = 0; o < v->hello.nr_orders; o++) {
		json_array_append_new(by_order,
				      json_integer(J(f.blocks_by_order[o])));
		json_array_append_new(unusable,
				      json_integer(n->unusable_permille[o]));
	}
	return json_pack(
		"{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:o, s:o}",
		"node", n->node, "total_kib", J(page_kib(v, n->total_pages)),
		"free_kib", J(page_kib(v, n->free_pages)), "free_blocks",
		J(f.pmd_blocks), "free_in_blocks_kib",
		J(page_kib(v, f.pages_in_blocks)), "held_kib",
		J(page_kib(v, n->held_pages)), "anon_kib",
		J(page_kib(v, n->anon_pages)), "anon_huge_kib",
		J(page_kib(v, n->anon_huge_pages)), "file_kib",
		J(page_kib(v, n->file_pages)), "score_pct", n->score_pct,
		"free_blocks_by_order", by_order, "unusable_permille",
		unusable);
}

static json_t *counters_json(const struct msg_report *r)
{
	json_t *o = json_object();

	for (unsigned int c = 0; c < CTR_COUNT; c++) {
		if (r->ctr_valid & UINT64_C(1) << c)
			json_object_set_new(o, vmstat_ctr_name(c),
					    json_integer(J(r->ctr[c])));
	}
	return o;
}

static json_t *knob_value(unsigned int k, int64_t value)
{
	if (k == KNOB_THP_DEFRAG)
		return json_string(thp_defrag_name((unsigned int)value));
	return json_integer(J(value));
}

static json_t *knobs_json(const struct msg_report *r)
{
	json_t *all = json_object();

	for (unsigned int k = 0; k < KNOB_COUNT; k++) {
		const char *owner = "guest";

		if (!(r->knob_valid & 1u << k))
			continue;
		if (r->knob_managed & 1u << k)
			owner = "vmdefrag";
		if (r->knob_foreign & 1u << k)
			owner = "changed by others, left alone";
		json_object_set_new(all, knob_name(k),
				    json_pack("{s:o, s:s}", "value",
					      knob_value(k, r->knob[k]),
					      "owner", owner));
	}
	return all;
}

static json_t *mthp_json(const struct msg_report *r)
{
	json_t *a = json_array();

	for (size_t i = 0; i < r->nr_mthp; i++) {
		const struct mthp_report *t = &r->mthp[i];

		json_array_append_new(
			a, json_pack("{s:i, s:s, s:I, s:I}", "order", t->order,
				     "policy", mthp_policy_name(t->policy),
				     "fault_alloc", J(t->fault_alloc),
				     "fault_fallback", J(t->fault_fallback)));
	}
	return a;
}

static json_t *report_json(const struct vm *v)
{
	const struct msg_report *r = &v->report;
	json_t *nodes = json_array(), *o;

	for (size_t i = 0; i < r->nr_nodes; i++)
		json_array_append_new(nodes, node_json(v, &r->node[i]));
	o = json_pack("{s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I}", "nodes",
		      nodes, "counters", counters_json(r), "knobs",
		      knobs_json(r), "mthp", mthp_json(r), "agent_cpu_us",
		      J(r->agent_cpu_us), "sample_cpu_us", J(r->sample_cpu_us),
		      "agent_rss_kib", J(r->agent_rss_kib), "kpageflags_words",
		      J(r->kpageflags_words));
	if (o && r->psi_valid)
		json_object_set_new(o, "psi_some_avg10_pct",
				    json_real(r->psi.some_avg10_centi / 100.0));
	if (o && r->reporting_order != UINT16_MAX)
		json_object_set_new(o, "free_page_reporting_order",
				    json_integer(r->reporting_order));
	return o;
}

static json_t *hello_json(const struct msg_hello *h)
{
	return json_pack(
		"{s:s, s:s, s:I, s:i, s:i, s:i, s:i, s:I,"
		" s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		"agent_version", h->agent_version, "kernel", h->kernel_release,
		"page_size", J(h->page_size), "pmd_order", h->pmd_order,
		"pageblock_order", h->pageblock_order, "nodes", h->nr_nodes,
		"orders", h->nr_orders, "cpus", J(h->nr_cpus), "knobs",
		names(h->knobs, KNOB_COUNT, knob_name), "knobs_missing",
		names(h->knobs_missing, KNOB_COUNT, knob_name), "knobs_denied",
		names(h->knobs_denied, KNOB_COUNT, knob_name), "backends",
		names(h->backends, BACKEND_COUNT, backend_name),
		"backends_missing",
		names(h->backends_missing, BACKEND_COUNT, backend_name),
		"backends_denied",
		names(h->backends_denied, BACKEND_COUNT, backend_name),
		"features", names(h->features, FEATURE_COUNT, feature_name));
}

/* --- history
 * ------------------------------------------------------------------- */

static json_t *entry_json(const struct history_entry *e)
{
	static const char *const kinds[] = {
		[HISTORY_DECISION] = "decision",
		[HISTORY_RESULT] = "result",
		[HISTORY_EVENT] = "event",
	};
	char when[32];
	struct tm tm;
	json_t *o;

	switch ((enum history_kind)e->kind) {
	case HISTORY_DECISION:
		o = status_decision(&e->decision);
		break;
	case HISTORY_RESULT:
		o = status_result(&e->result);
		break;
	default:
		o = json_pack("{s:s}", "text", e->text);
	}
	if (!o)
		return NULL;
	gmtime_r(&e->wall.tv_sec, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_object_set_new(o, "seq", json_integer(J(e->seq)));
	json_object_set_new(o, "time", json_string(when));
	json_object_set_new(o, "kind", json_string(kinds[e->kind]));
	json_object_set_new(o, "carried_out", json_boolean(e->carried_out));
	return o;
}

json_t *status_history(const struct vm *v)
{
	json_t *a = json_array();

	for (uint64_t seq = history_oldest(&v->history);
	     seq < v->history.next_seq; seq++)
		json_array_append_new(
			a, entry_json(history_get(&v->history, seq)));
	return a;
}

/* The newest decision that history kept, or null. */
static json_t *last_decision(const struct vm *v)
{
	uint64_t oldest = history_oldest(&v->history);

	for (uint64_t seq = v->history.next_seq; seq > oldest; seq--) {
		const struct history_entry *e =
			history_get(&v->history, seq - 1);

		if (e && e->kind == HISTORY_DECISION)
			return entry_json(e);
	}
	return json_null();
}

/* --- VM and daemon
 * ---------------------------------------------------------------- */

static json_t *host_json(const struct vm *v, uint64_t now_us)
{
	const struct vm_proc *p = &v->proc;
	json_t *o;

	o = json_pack("{s:i}", "pid", p->pid);
	if (!p->valid) {
		if (p->last_error)
			json_object_set_new(
				o, "error",
				json_string(strerror(-p->last_error)));
		return o;
	}
	json_object_set_new(o, "age_ms",
			    json_integer(J((now_us - p->at_us) / MSEC_US)));
	json_object_set_new(o, "rss_kib", json_integer(J(p->rss_kib)));
	json_object_set_new(o, "anon_huge_kib",
			    json_integer(J(p->anon_huge_kib)));
	json_object_set_new(o, "shmem_huge_kib",
			    json_integer(J(p->shmem_huge_kib)));
	json_object_set_new(o, "hugetlb_kib", json_integer(J(p->hugetlb_kib)));
	json_object_set_new(o, "swap_kib", json_integer(J(p->swap_kib)));
	return o;
}

static json_t *kvm_json(const struct vm_kvm *k, uint64_t now_us)
{
	return json_pack("{s:I, s:I, s:I, s:s, s:I}", "pages_4k",
			 J(k->pages.pages_4k), "pages_2m", J(k->pages.pages_2m),
			 "pages_1g", J(k->pages.pages_1g), "source",
			 k->by_qmp ? "query-stats" : "debugfs", "age_ms",
			 J((now_us - k->at_us) / MSEC_US));
}

static json_t *channel_json(const struct peer_stats *s)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "frames",
			 J(s->frames), "bytes", J(s->bytes), "sessions",
			 J(s->sessions), "stale_frames", J(s->stale),
			 "unknown_frames", J(s->unknown), "violations",
			 J(s->violations), "rate_limited", J(s->rate_limited),
			 "garbage_bytes", J(s->garbage_bytes));
}

json_t *status_vm(const struct vm *v, uint64_t now_us)
{
	json_t *o = json_pack(
		"{s:s, s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:s}", "name",
		v->cfg.name, "uuid", v->cfg.uuid, "mode",
		vm_mode_name(v->cfg.mode), "session",
		vm_session_name(v, now_us), "paused",
		v->paused || v->m->all_paused, "host", host_json(v, now_us),
		"channel", channel_json(&v->peer.stats), "decision",
		last_decision(v), "qemu", vm_qmp_state_name(v, now_us));

	if (!o)
		return NULL;
	if (v->map.host_us || v->map.last_error)
		json_object_set_new(o, "alignment",
				    status_alignment(v, now_us));
	if (!v->peer.up)
		json_object_set_new(o, "session_ended",
				    json_string(v->down_why));
	if (v->have_hello)
		json_object_set_new(o, "guest", hello_json(&v->hello));
	if (v->have_report) {
		json_object_set_new(
			o, "report_age_ms",
			json_integer(J((now_us - v->report_us) / MSEC_US)));
		json_object_set_new(o, "report", report_json(v));
	}
	if (v->kvm.valid)
		json_object_set_new(o, "kvm", kvm_json(&v->kvm, now_us));
	else if (v->kvm.last_error)
		json_object_set_new(o, "kvm_error",
				    json_string(strerror(-v->kvm.last_error)));
	if (v->action.id)
		json_object_set_new(o, "action",
				    json_pack("{s:I, s:i, s:s}", "id",
					      J(v->action.id), "node",
					      v->action.action.node, "reason",
					      v->action.action.reason));
	return o;
}

static json_t *daemon_json(struct manager *m, uint64_t now_us)
{
	struct loop_stats st;
	struct rusage ru;
	uint64_t cpu_us;

	loop_stats(m->loop, &st);
	getrusage(RUSAGE_SELF, &ru);
	cpu_us = (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * SEC_US +
		 (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
	return json_pack(
		"{s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:b, s:b}", "version",
		VMDEFRAG_VERSION, "loop", loop_kind_name(loop_kind(m->loop)),
		"all_paused", m->all_paused, "uptime_ms",
		J((now_us - m->started_us) / MSEC_US), "core_cpu_us", J(cpu_us),
		"core_syscalls", J(st.syscalls), "core_max_rss_kib",
		J(ru.ru_maxrss), "helper_up", m->link[ROLE_HELPER].fd >= 0,
		"broker_up", m->link[ROLE_BROKER].fd >= 0);
}

json_t *status_all(struct manager *m, uint64_t now_us)
{
	json_t *vms = json_array();

	for (struct vm *v = m->vms; v; v = v->next)
		json_array_append_new(vms, status_vm(v, now_us));
	return json_pack("{s:o, s:o}", "daemon", daemon_json(m, now_us), "vms",
			 vms);
}
