// SPDX-License-Identifier: GPL-2.0-or-later
/* "vmdefragctl explain VM": what is seen, what is wrong, what would mend it. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "guestfree.h"
#include "proto_codec.h"
#include "status.h"
#include "util.h"
#include "vm_causes.h"

struct lines {
	json_t *array;
};

static void say(struct lines *l, const char *level, const char *cure,
		const char *fmt, ...) printf_like(4, 5);

static void say(struct lines *l, const char *level, const char *cure,
		const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_array_append_new(l->array,
			      json_pack("{s:s, s:s, s:s}", "level", level,
					"text", text, "cure", cure));
}

#define OK(l, ...)	      say(l, "ok", "", __VA_ARGS__)
#define NOTE(l, cure, ...)    say(l, "note", cure, __VA_ARGS__)
#define PROBLEM(l, cure, ...) say(l, "problem", cure, __VA_ARGS__)

/* "a, b": the names of set bits. */
static void bit_names(char *buf, size_t size, uint32_t bits, unsigned int count,
		      const char *(*name_of)(unsigned int))
{
	size_t n = 0;

	buf[0] = '\0';
	for (unsigned int i = 0; i < count && n < size; i++) {
		if (bits & 1u << i)
			n += (size_t)snprintf(buf + n, size - n, "%s%s",
					      n ? ", " : "", name_of(i));
	}
}

static void explain_mode(struct lines *l, const struct vm *v)
{
	switch (v->cfg.mode) {
	case VM_MODE_OFF:
		NOTE(l, "set Mode= of this VM to observe or an acting mode",
		     "mode off: this VM is not looked at");
		return;
	case VM_MODE_OBSERVE:
		NOTE(l,
		     "set Mode= to balanced, performance or density, once "
		     "'history' shows decisions that you agree with",
		     "mode observe: decides and reports, changes nothing");
		return;
	default:
		OK(l, "mode %s", vm_mode_name(v->cfg.mode));
	}
	if (v->paused || v->m->all_paused)
		NOTE(l,
		     v->m->all_paused ? "vmdefragctl resume --all"
				      : "vmdefragctl resume VM",
		     "paused: knobs are put back and nothing is started");
}

static const char *channel_cure(int error)
{
	switch (-error) {
	case ENOENT:
		return "start the VM, or correct channel= (the path of the "
		       "virtio-serial socket on this host)";
	case ECONNREFUSED:
		return "the socket is a leftover: is the VM running?";
	case EACCES:
		return "the helper may not open it: check the security label "
		       "and owner of the socket and its directories";
	case EAGAIN:
		return "another program is connected to this channel: QEMU "
		       "serves one at a time";
	default:
		return "look into the journal of vmdefragd";
	}
}

static void explain_session(struct lines *l, const struct vm *v,
			    uint64_t now_us)
{
	uint64_t age_ms = (now_us - v->report_us) / MSEC_US;

	if (v->peer.up) {
		if (v->have_report &&
		    age_ms > 5 * (uint64_t)v->peer.interval_ms)
			PROBLEM(l, "is the VM stopped, or its host overloaded?",
				"telemetry is stale: last report %" PRIu64
				" ms ago",
				age_ms);
		else
			OK(l, "session with agent %s on Linux %s",
			   v->hello.agent_version, v->hello.kernel_release);
		return;
	}
	if (v->peer.penalty_until_us > now_us)
		PROBLEM(l,
			"the guest sends what no agent sends: look at its "
			"agent; it is listened to again by itself",
			"session ended: %s; not listened to for %" PRIu64
			" ms more",
			v->down_why,
			(v->peer.penalty_until_us - now_us) / MSEC_US);
	else if (v->peer.fd < 0)
		PROBLEM(l, channel_cure(v->channel.last_error),
			"channel %s is not open%s%s", v->cfg.channel,
			v->channel.last_error ? ": " : "",
			v->channel.last_error ? strerror(-v->channel.last_error)
					      : "");
	else
		PROBLEM(l, "install vmdefrag-agent in the guest, and start it",
			"the channel is open, but no agent answers%s%s",
			v->down_why[0] ? "; the last session ended: " : "",
			v->down_why);
}

static void explain_guest(struct lines *l, const struct vm *v)
{
	const struct msg_hello *h = &v->hello;
	char text[256];

	bit_names(text, sizeof(text), h->knobs_missing, KNOB_COUNT, knob_name);
	if (h->knobs_missing)
		NOTE(l, "", "this guest's kernel has no %s", text);
	bit_names(text, sizeof(text), h->knobs_denied, KNOB_COUNT, knob_name);
	if (h->knobs_denied)
		NOTE(l, "AllowKnobs= in the guest's agent.conf",
		     "the guest's administrator does not allow %s", text);
	bit_names(text, sizeof(text), h->backends_missing, BACKEND_COUNT,
		  backend_name);
	if (h->backends_missing)
		NOTE(l, "", "ways this guest does not have: %s", text);
	bit_names(text, sizeof(text), h->backends_denied, BACKEND_COUNT,
		  backend_name);
	if (h->backends_denied)
		NOTE(l, "AllowBackends= in the guest's agent.conf",
		     "the guest's administrator does not allow %s", text);
	if (h->features & 1u << FEATURE_OBSERVE)
		NOTE(l, "start the agent without --observe",
		     "the agent observes only");
	if (!(h->features & 1u << FEATURE_PSI))
		NOTE(l, "boot the guest with psi=1",
		     "no pressure stall information in this guest: guarded by "
		     "allocation stalls, direct reclaim and refaults instead");
	if (h->features & 1u << FEATURE_ISOLCPUS)
		NOTE(l, "",
		     "the guest isolates CPUs: real-time guests are "
		     "best left in mode observe");
	if (v->have_report && v->report.knob_foreign) {
		bit_names(text, sizeof(text), v->report.knob_foreign,
			  KNOB_COUNT, knob_name);
		NOTE(l, "",
		     "changed by somebody else since we set it, and "
		     "left alone: %s",
		     text);
	}
}

static void explain_memory(struct lines *l, const struct vm *v)
{
	const struct msg_report *r = &v->report;

	for (size_t i = 0; v->have_report && i < r->nr_nodes; i++) {
		struct guest_free f;

		guest_free_sum(&v->hello, r, r->node[i].node, &f);
		OK(l,
		   "guest node %u: %" PRIu64 " MiB free, %u %% of it in "
		   "blocks of order %u or larger",
		   r->node[i].node,
		   f.pages * (v->hello.page_size / 1024) / 1024,
		   f.pages ? (unsigned int)(MIN(f.pages_in_blocks, f.pages) *
					    100 / f.pages)
			   : 0,
		   v->hello.pmd_order);
		if (r->node[i].held_pages)
			OK(l,
			   "guest node %u: %" PRIu64 " MiB more in blocks that "
			   "the agent holds until somebody needs them",
			   r->node[i].node,
			   r->node[i].held_pages * (v->hello.page_size / 1024) /
				   1024);
	}
}

/* Whether what becomes free goes back to the host, and in which pieces. */
static void explain_reporting(struct lines *l, const struct vm *v)
{
	unsigned int order = v->report.reporting_order;

	if (!v->have_report)
		return;
	if (!(v->hello.features & 1u << FEATURE_REPORTING))
		NOTE(l,
		     "a balloon with free-page-reporting=on in the VM's "
		     "definition, where its free memory should go back",
		     "no free-page reporting: what becomes free stays with "
		     "QEMU");
	else if (order == UINT16_MAX)
		OK(l, "free-page reporting is on, from an order that this "
		      "guest does not show");
	else if (order < v->hello.pmd_order)
		NOTE(l, "page_reporting.page_reporting_order=9 in the guest",
		     "free-page reporting is on from order %u: it splits the "
		     "host's huge pages",
		     order);
	else
		OK(l,
		   "free-page reporting is on, from order %u: free blocks go "
		   "back to the host within seconds",
		   order);
}

static void explain_host(struct lines *l, const struct vm *v)
{
	const struct vm_proc *p = &v->proc;

	if (p->valid && p->rss_kib)
		OK(l,
		   "host: QEMU (pid %d) holds %" PRIu64 " MiB, %u %% of "
		   "it mapped by huge pages",
		   p->pid, p->rss_kib / 1024,
		   (unsigned int)((p->anon_huge_kib + p->shmem_huge_kib +
				   p->hugetlb_kib) *
				  100 / p->rss_kib));
	else if (p->last_error)
		PROBLEM(l, "check pid= of this VM",
			"host: process %d cannot be sampled: %s", p->pid,
			strerror(-p->last_error));
}

static void explain_alignment(struct lines *l, const struct vm *v)
{
	const struct alignment *a = &v->map.alignment;

	for (unsigned int i = 0; v->map.host_us && i < a->nr_nodes; i++) {
		const struct alignment_node *n = &a->node[i];

		OK(l,
		   "guest node %u: %u.%u %% of its huge pages (%" PRIu64
		   " MiB) lie on huge pages of the host; free: %" PRIu64
		   " MiB backed by the host, %" PRIu64 " MiB not",
		   n->node, alignment_score_permille(n) / 10,
		   alignment_score_permille(n) % 10,
		   alignment_guest_huge(n) * 2, n->free_backed_kib / 1024,
		   n->free_unbacked_kib / 1024);
	}
	if (v->map.host_us)
		NOTE(l, "", "collapse=%s: %s",
		     collapse_mode_name(v->cfg.collapse),
		     collapse_hold_text(v->collapse_hold));
}

/* What is wrong with what backs the VM, the main cause first. */
static void explain_causes(struct lines *l, const struct vm *v, uint64_t now_us)
{
	enum cause found[CAUSE_COUNT];
	struct cause_facts f;
	unsigned int n;

	if (!v->map.host_us && !v->map.last_error)
		return;
	vm_cause_facts(v, now_us, &f);
	n = causes_find(&f, found);
	for (unsigned int i = 0; i < n; i++) {
		say(l, cause_is_problem(found[i]) ? "problem" : "note",
		    cause_cure(found[i]), "%s%s", cause_text(found[i]),
		    i ? "" : " (main cause)");
		json_object_set_new(
			json_array_get(l->array, json_array_size(l->array) - 1),
			"cause", json_string(cause_name(found[i])));
	}
}

static void explain_kvm(struct lines *l, const struct vm *v)
{
	const struct kvm_pages *p = &v->kvm.pages;

	if (v->kvm.valid)
		OK(l,
		   "KVM maps %" PRIu64 " pages of 4 KiB, %" PRIu64
		   " of 2 MiB and %" PRIu64 " of 1 GiB",
		   p->pages_4k, p->pages_2m, p->pages_1g);
}

static void explain_decision(struct lines *l, const struct vm *v)
{
	uint64_t oldest = history_oldest(&v->history);

	for (uint64_t seq = v->history.next_seq; seq > oldest; seq--) {
		const struct history_entry *e =
			history_get(&v->history, seq - 1);

		if (!e || e->kind != HISTORY_DECISION)
			continue;
		NOTE(l, "", "last decision: %s, %s%s: %s",
		     decision_kind_name(e->decision.kind),
		     decision_reason_name(e->decision.reason),
		     e->carried_out ? "" : " (observed only)",
		     decision_reason_text(e->decision.reason));
		return;
	}
}

json_t *explain_vm(const struct vm *v, uint64_t now_us)
{
	struct lines l = {json_array()};
	struct policy_snapshot s = vm_snapshot(v, now_us);

	explain_mode(&l, v);
	if (v->cfg.mode == VM_MODE_OFF)
		return l.array;
	explain_session(&l, v, now_us);
	if (s.vm_stopped)
		NOTE(&l, "", "QEMU has stopped this VM");
	if (s.vm_migrating)
		NOTE(&l, "",
		     "the VM is being migrated or saved: each moved "
		     "page would be sent again");
	if (v->have_hello)
		explain_guest(&l, v);
	explain_memory(&l, v);
	explain_reporting(&l, v);
	explain_host(&l, v);
	explain_alignment(&l, v);
	explain_causes(&l, v, now_us);
	explain_kvm(&l, v);
	explain_decision(&l, v);
	return l.array;
}
