// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "act.h"
#include "log.h"
#include "manager.h"
#include "recording.h"
#include "util.h"

/* A QEMU that starts makes its sockets within a second; one that is gone
 * should not be asked for more than every half minute. */
#define DIAL_RETRY_MIN_US (200 * MSEC_US)
#define DIAL_RETRY_MAX_US (30 * SEC_US)
/* The helper gives a connect one second; three of these may queue up. */
#define DIAL_DEADLINE_US (4 * SEC_US)

#define PROC_SAMPLE_US	 (10 * SEC_US)
#define NUMA_SAMPLE_US	 (5 * SEC_US)
#define KVM_SAMPLE_US	 (10 * SEC_US)
/* smaps_rollup of 64 GiB in base pages takes about 0.7 s; see FACTS 10 ms a
 * GiB. A QEMU in D state takes for ever. */
#define PROC_DEADLINE_US (5 * SEC_US)

/* A report is used for decisions while younger than this many intervals. */
#define REPORT_FRESH_INTERVALS 5

static struct vm *vm_of_peer(struct peer *p)
{
	return container_of(p, struct vm, peer);
}

static void dial_failed(struct dial *d, int error, uint64_t now_us)
{
	d->opening = false;
	d->last_error = error;
	d->retry_us =
		CLAMP(2 * d->retry_us, DIAL_RETRY_MIN_US, DIAL_RETRY_MAX_US);
	d->retry_at_us = now_us + d->retry_us;
}

static void dial_done(struct dial *d)
{
	d->opening = false;
	d->last_error = 0;
	d->retry_us = 0;
}

/* --- recording ------------------------------------------------------------
 */

static void record_msg(struct vm *v, const struct msg *m, uint64_t now_us)
{
	if (v->nr_recorders)
		v->m->record(v->m, v, recording_frame(now_us, m));
}

static void record_hello(struct vm *v, uint64_t now_us)
{
	struct msg m = {.type = MSG_HELLO, .hello = v->hello};

	record_msg(v, &m, now_us);
}

void vm_record_begin(struct vm *v, uint64_t now_us)
{
	struct msg m = {.type = MSG_REPORT, .report = v->report};

	/* one time for both: the report may be older, and is not "late" */
	if (v->have_hello)
		record_hello(v, now_us);
	if (v->have_report)
		record_msg(v, &m, now_us);
}

/* --- the session with the agent ------------------------------------------ */

static const char *peer_up(struct peer *p, const struct msg_hello *hello)
{
	struct vm *v = vm_of_peer(p);

	v->hello = *hello;
	v->have_hello = true;
	v->have_report = false;
	vmmap_guest_lost(&v->map);
	v->directive_us = 0;
	record_hello(v, p->now_us);
	dial_done(&v->channel);
	history_event(&v->history, "session up: agent %s on Linux %s",
		      hello->agent_version, hello->kernel_release);
	log_info("%s: session up: agent %s, Linux %s, %u node(s)", v->cfg.name,
		 hello->agent_version, hello->kernel_release, hello->nr_nodes);
	return NULL;
}

static void peer_down(struct peer *p, const char *why)
{
	struct vm *v = vm_of_peer(p);

	text_copy_printable(v->down_why, sizeof(v->down_why), why);
	history_event(&v->history, "session down: %s", why);
	log_info("%s: session down: %s", v->cfg.name, why);
	v->directive_us = 0;
	memset(&v->action, 0, sizeof(v->action));
	if (v->job)
		job_session_down(v->job, "the session with the agent ended");
}

static void peer_closed(struct peer *p, int error)
{
	struct vm *v = vm_of_peer(p);

	dial_failed(&v->channel, error ? error : -ECONNRESET, p->now_us);
}

static void log_result(const struct vm *v, const struct msg_result *r)
{
	log_info("%s: %s %s (%s): asked %lld, blocks %u -> %u, migrated %llu, "
		 "CPU %llu us%s%s",
		 v->cfg.name, backend_name(r->backend),
		 result_status_name(r->status), stop_why_name(r->why),
		 r->asked == ACTION_BLOCKS_ALL ? -1LL : (long long)r->asked,
		 r->blocks_before, r->blocks_after,
		 (unsigned long long)r->migrated, (unsigned long long)r->cpu_us,
		 r->text[0] ? ": " : "", r->text);
}

static void result_received(struct vm *v, const struct msg *m, uint64_t now_us)
{
	const struct msg_result *r = &m->result;

	if (v->report.action_id == r->id)
		v->report.action_id = 0; /* this is newer */
	/* an answer to what was never asked teaches nothing */
	if (!v->action.id || r->id != v->action.id)
		return;
	memset(&v->action, 0, sizeof(v->action));
	record_msg(v, m, now_us);
	history_result(&v->history, r);
	log_result(v, r);
	policy_result(&v->pcfg, &v->pst, r, now_us);
	if (v->job)
		job_result(v->job, r, now_us);
}

static void peer_message(struct peer *p, const struct msg *m)
{
	struct vm *v = vm_of_peer(p);

	if (m->type == MSG_MAP) {
		vm_map_message(v, &m->map, p->now_us);
		return;
	}
	if (m->type == MSG_RESULT) {
		result_received(v, m, p->now_us);
		return;
	}
	v->report = m->report;
	v->report_us = p->now_us;
	v->report_count++;
	v->have_report = true;
	record_msg(v, m, p->now_us);
	if (v->job)
		job_report(v->job, p->now_us);
	vm_decide(v, p->now_us);
}

static const struct peer_ops vm_peer_ops = {
	.up = peer_up,
	.message = peer_message,
	.down = peer_down,
	.closed = peer_closed,
};

const char *vm_session_name(const struct vm *v, uint64_t now_us)
{
	if (v->peer.up)
		return "up";
	if (v->peer.penalty_until_us > now_us)
		return "penalty";
	return v->peer.fd < 0 ? "closed" : "down";
}

/* --- policy ----------------------------------------------------------------
 */

struct policy_snapshot vm_snapshot(const struct vm *v, uint64_t now_us)
{
	struct policy_snapshot s = {
		.hello = v->have_hello ? &v->hello : NULL,
		.report = v->have_report ? &v->report : NULL,
		.report_age_us = v->have_report ? now_us - v->report_us : 0,
		.user_paused = v->paused || v->m->all_paused,
		.action_running = v->action.id != 0,
		.host_base = vm_map_host_base(v),
	};

	vm_qmp_state(v, &s, now_us);
	return s;
}

void vm_decide(struct vm *v, uint64_t now_us)
{
	struct policy_snapshot s = vm_snapshot(v, now_us);
	struct policy_plan plan;

	if (!s.hello)
		return; /* nothing is known of the guest */
	policy_decide(&v->pcfg, &v->pst, &s, now_us, &plan);
	if (v->nr_recorders)
		v->m->record(v->m, v, recording_decide(now_us, &s, &plan));
	if (plan.directive.quiet && !v->job)
		act_cancel(v);
	if (v->job && (s.user_paused || s.vm_stopped || s.vm_migrating))
		act_cancel(v);
	act_plan(v, &plan, now_us);
}

void vm_set_paused(struct vm *v, bool paused, uint64_t now_us)
{
	if (v->paused == paused)
		return;
	v->paused = paused;
	history_event(&v->history, paused ? "paused" : "resumed");
	vm_decide(v, now_us);
}

/* --- connections ------------------------------------------------------------
 */

static void channel_opened(void *ctx, uint64_t cookie, int result,
			   const struct ipc_msg *m, int fd)
{
	struct vm *v = manager_vm_by_serial(ctx, cookie);
	uint64_t now = now_us();

	if (!v || v->peer.fd >= 0) {
		if (fd >= 0)
			close(fd);
		return;
	}
	if (result < 0 || fd < 0) {
		dial_failed(&v->channel, result < 0 ? result : -EPROTO, now);
		return;
	}
	v->channel.opening = false;
	v->channel.last_error = 0;
	if (!v->cfg.pid && m->opened.peer_pid > 0) {
		v->proc.pid = m->opened.peer_pid;
		v->proc.start_time = 0;
	}
	if (peer_open(&v->peer, fd, now) < 0)
		dial_failed(&v->channel, -EIO, now);
}

/* Ask the helper to connect, if it is time. */
static void dial(struct vm *v, struct dial *d, const char *path,
		 link_answer_fn *answer, uint64_t now_us)
{
	struct ipc_msg m = {.op = IPC_OPEN_SOCKET};
	int r;

	if (d->opening || now_us < d->retry_at_us)
		return;
	memcpy(m.open.path, path, sizeof(m.open.path));
	r = link_call(&v->m->link[ROLE_HELPER], &m, now_us + DIAL_DEADLINE_US,
		      answer, v->m, v->serial);
	if (r < 0)
		return; /* no helper just now: the next tick asks again */
	d->opening = true;
}

static void proc_sampled(void *ctx, uint64_t cookie, int result,
			 const struct ipc_msg *m, int fd)
{
	struct vm *v = manager_vm_by_serial(ctx, cookie);

	if (fd >= 0)
		close(fd);
	if (!v)
		return;
	v->proc.asked = false;
	if (result == -ECONNRESET) {
		v->proc.next_us = 0; /* the helper is another: at once */
		return;
	}
	v->proc.last_error = result;
	if (result < 0) {
		/* start_time stays: another program under QEMU's number is
		 * refused until a new channel tells a new pid */
		v->proc.valid = false;
		return;
	}
	v->proc.valid = true;
	v->proc.at_us = now_us();
	v->proc.start_time = m->proc_sample.start_time;
	v->proc.rss_kib = m->proc_sample.rss_kib;
	v->proc.anon_huge_kib = m->proc_sample.anon_huge_kib;
	v->proc.shmem_huge_kib = m->proc_sample.shmem_huge_kib;
	v->proc.hugetlb_kib = m->proc_sample.hugetlb_kib;
	v->proc.swap_kib = m->proc_sample.swap_kib;
	v->proc.locked_valid = m->proc_sample.locked_kib_valid;
	v->proc.locked_kib = m->proc_sample.locked_kib;
	v->proc.pinned_kib = m->proc_sample.pinned_kib;
}

static void numa_sampled(void *ctx, uint64_t cookie, int result,
			 const struct ipc_msg *m, int fd)
{
	struct vm *v = manager_vm_by_serial(ctx, cookie);

	if (fd >= 0)
		close(fd);
	if (!v)
		return;
	v->numa.asked = false;
	if (result == -ECONNRESET) {
		v->numa.next_us = 0;
		return;
	}
	v->numa.last_error = result;
	v->numa.valid = !result;
	if (result < 0)
		return;
	v->numa.at_us = now_us();
	v->numa.nr_nodes = MIN(m->numa.nr_nodes, IPC_NUMA_MAX);
	for (uint32_t i = 0; i < v->numa.nr_nodes; i++) {
		v->numa.node[i].kib = m->numa.node[i].kib;
		v->numa.node[i].huge_kib = m->numa.node[i].huge_kib;
	}
}

/* Cheaper than smaps_rollup, and by node. */
static void sample_numa(struct vm *v, uint64_t now_us)
{
	struct ipc_msg m = {.op = IPC_SAMPLE_CGROUP};

	if (v->proc.pid <= 0 || v->numa.asked || now_us < v->numa.next_us)
		return;
	v->numa.next_us = now_us + NUMA_SAMPLE_US;
	m.proc.pid = v->proc.pid;
	if (!link_call(&v->m->link[ROLE_HELPER], &m, now_us + PROC_DEADLINE_US,
		       numa_sampled, v->m, v->serial))
		v->numa.asked = true;
}

static void kvm_sampled(void *ctx, uint64_t cookie, int result,
			const struct ipc_msg *m, int fd)
{
	struct vm *v = manager_vm_by_serial(ctx, cookie);

	if (fd >= 0)
		close(fd);
	if (!v)
		return;
	v->kvm.asked = false;
	v->kvm.last_error = result;
	v->kvm.valid = !result;
	if (result < 0)
		return;
	v->kvm.by_qmp = false;
	v->kvm.at_us = now_us();
	v->kvm.pages = (struct kvm_pages){
		.pages_4k = m->kvm.pages_4k,
		.pages_2m = m->kvm.pages_2m,
		.pages_1g = m->kvm.pages_1g,
	};
}

/* Of QEMU, which has them at next to no cost; else of debugfs. */
static void sample_kvm(struct vm *v, uint64_t now_us)
{
	struct ipc_msg m = {.op = IPC_SAMPLE_KVM};
	bool silent = v->kvm.asked; /* a period ago, by a QEMU that is stuck */

	if (now_us < v->kvm.next_us)
		return;
	v->kvm.next_us = now_us + KVM_SAMPLE_US;
	v->kvm.asked = false;
	if (!silent && !vm_qmp_ask_kvm(v)) {
		v->kvm.asked = true;
		return;
	}
	if (v->proc.pid <= 0)
		return;
	m.proc.pid = v->proc.pid;
	if (!link_call(&v->m->link[ROLE_HELPER], &m, now_us + PROC_DEADLINE_US,
		       kvm_sampled, v->m, v->serial))
		v->kvm.asked = true;
}

static void sample_proc(struct vm *v, uint64_t now_us)
{
	struct ipc_msg m = {.op = IPC_SAMPLE_PROC};

	if (v->proc.pid <= 0 || v->proc.asked || now_us < v->proc.next_us)
		return;
	v->proc.next_us = now_us + PROC_SAMPLE_US;
	m.proc.pid = v->proc.pid;
	m.proc.start_time = v->proc.start_time;
	if (!link_call(&v->m->link[ROLE_HELPER], &m, now_us + PROC_DEADLINE_US,
		       proc_sampled, v->m, v->serial))
		v->proc.asked = true;
}

static void action_tick(struct vm *v, uint64_t now_us)
{
	if (v->job)
		job_tick(v->job, now_us);
	if (!v->action.id || now_us < v->action.deadline_us)
		return;
	log_warn("%s: the agent did not report the end of action %llu in time",
		 v->cfg.name, (unsigned long long)v->action.id);
	act_cancel(v);
	memset(&v->action, 0, sizeof(v->action));
}

void vm_tick(struct vm *v, uint64_t now_us)
{
	uint64_t fresh_us =
		v->peer.interval_ms * MSEC_US * REPORT_FRESH_INTERVALS;

	if (v->cfg.mode == VM_MODE_OFF)
		return;
	peer_tick(&v->peer, now_us);
	if (v->peer.fd < 0)
		dial(v, &v->channel, v->cfg.channel, channel_opened, now_us);
	if (v->cfg.qmp[0])
		vm_qmp_tick(v, now_us);
	sample_proc(v, now_us);
	sample_numa(v, now_us);
	vm_map_tick(v, now_us);
	sample_kvm(v, now_us);
	action_tick(v, now_us);
	/* reports drive decisions; without them, only that they are missing */
	if (v->peer.up && now_us - v->report_us > fresh_us)
		vm_decide(v, now_us);
}

/* --- making and changing -----------------------------------------------------
 */

static void configure(struct vm *v, const struct ipc_vm *cfg)
{
	v->cfg = *cfg;
	v->pcfg = v->m->cfg->policy;
	v->pcfg.mode = cfg->mode;
	if (cfg->pid != v->proc.pid && cfg->pid) {
		memset(&v->proc, 0, sizeof(v->proc));
		v->proc.pid = cfg->pid;
	}
}

struct vm *vm_new(struct manager *m, const struct ipc_vm *cfg, uint64_t now_us)
{
	struct vm *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->m = m;
	v->serial = ++m->next_serial;
	v->qmp_fd = -1;
	/* spread the slow samples of many VMs over their period */
	v->proc.next_us = now_us + v->serial * 37 * MSEC_US % PROC_SAMPLE_US;
	v->map.next_us = now_us + v->serial * 43 * MSEC_US % SEC_US;
	v->kvm.next_us = now_us + v->serial * 43 * MSEC_US % KVM_SAMPLE_US;
	v->numa.next_us = now_us + v->serial * 41 * MSEC_US % NUMA_SAMPLE_US;
	peer_init(&v->peer, m->loop, &vm_peer_ops,
		  (uint32_t)(m->cfg->report_interval_us / MSEC_US),
		  (uint32_t)(m->cfg->policy.lease_us / MSEC_US));
	configure(v, cfg);
	return v;
}

void vm_update(struct vm *v, const struct ipc_vm *cfg, uint64_t now_us)
{
	bool moved = strcmp(v->cfg.channel, cfg->channel) != 0;
	bool mode_changed = v->cfg.mode != cfg->mode;

	if (moved || cfg->mode == VM_MODE_OFF) {
		act_release(v);
		peer_close(&v->peer, BYE_EXIT, "configuration changed");
	}
	if (strcmp(v->cfg.qmp, cfg->qmp) != 0 || cfg->mode == VM_MODE_OFF)
		vm_qmp_close(v);
	configure(v, cfg);
	if (!mode_changed)
		return;
	history_event(&v->history, "mode %s", vm_mode_name(cfg->mode));
	if (!vm_is_active(v))
		act_cancel(v);
	vm_decide(v, now_us);
}

void vm_free(struct vm *v)
{
	if (!v)
		return;
	job_abandon(v->job);
	if (v->nr_recorders)
		v->m->record(v->m, v, NULL);
	act_release(v);
	peer_close(&v->peer, BYE_EXIT, "this VM is served no more");
	vm_qmp_close(v);
	history_free(&v->history);
	vmmap_free(&v->map);
	free(v);
}
