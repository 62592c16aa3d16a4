// SPDX-License-Identifier: GPL-2.0-or-later
/* Asking both sides for the map of a VM, in time and within a budget. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "act.h"
#include "hostview.h"
#include "log.h"
#include "manager.h"
#include "util.h"

/* A part is 32 GiB: at most 0.1 s in base pages, 128 KiB of answer. */
#define MAP_PART_BLOCKS 16384u
#define MAP_PAUSE_US	(200 * MSEC_US)
#define MAP_DEADLINE_US (2 * SEC_US)
#define MAP_RETRY_US	(5 * SEC_US)
/*
 * kpageflags costs the guest 60 to 90 ns a word. A pass at this rate takes
 * under a tenth of a CPU, and passes come so seldom that it is 4 % at most,
 * with a short MapInterval, and less than 1 % as shipped in guests below 10
 * GiB.
 */
#define GUEST_WORDS_PER_SEC 1000000u
#define GUEST_US_PER_WORD   2u
/* An agent that does not finish a pass in twice its time and this is asked
 * anew. */
#define GUEST_PASS_GRACE_US (30 * SEC_US)

static void scanned(void *ctx, uint64_t cookie, int result,
		    const struct ipc_msg *m, int fd)
{
	struct vm *v = manager_vm_by_serial(ctx, cookie);
	auto_free struct mapfile *f = NULL;
	auto_close int file_fd = fd;
	uint64_t now = now_us();
	int r = result;

	(void)m;
	if (!v)
		return;
	v->map.asked = false;
	if (r == -ECONNRESET)
		return; /* the helper is another: asked again at once */
	if (!r)
		r = mapfile_read(file_fd, &f);
	if (!r)
		r = vmmap_host_part(&v->map, f, now);
	v->map.last_error = MIN(r, 0);
	if (r < 0) {
		/* what was seen stays, and grows old */
		v->map.next_index = 0;
		v->map.next_us = now + MAP_RETRY_US;
		return;
	}
	v->map.next_us = now + (r ? v->pcfg.map_interval_us : MAP_PAUSE_US);
	if (r)
		vmmap_count(&v->map, now);
}

void vm_map_guest(const struct vm *v, struct ipc_guest *ret_guest)
{
	memset(ret_guest, 0, sizeof(*ret_guest));
	ret_guest->pid = v->proc.pid;
	ret_guest->start_time = v->proc.start_time;
	ret_guest->nr_dimms = v->nr_dimms;
	memcpy(ret_guest->dimm, v->dimm, sizeof(ret_guest->dimm));
}

static void scan(struct vm *v, uint64_t now_us)
{
	struct ipc_msg m = {.op = IPC_MAP_SCAN};

	if (v->proc.pid <= 0 || v->map.asked || now_us < v->map.next_us)
		return;
	vm_map_guest(v, &m.map.guest);
	m.map.index = v->map.next_index;
	m.map.max_blocks = MAP_PART_BLOCKS;
	m.map.nodes = v->m->nodes.view.nr_nodes > 1;
	v->map.next_us = now_us + MAP_PAUSE_US;
	if (!link_call(&v->m->link[ROLE_HELPER], &m, now_us + MAP_DEADLINE_US,
		       scanned, v->m, v->serial))
		v->map.asked = true;
}

static uint64_t guest_words(const struct vm *v)
{
	return (uint64_t)v->map.nr * 512;
}

/*
 * A pass of the guest costs most of all here, so it rests while nothing moves:
 * each that finds what the last one found doubles the pause, up to 32 times
 * MapInterval. It comes at once again when the host's side or the guest's own
 * count of huge pages (in its reports, at no cost) has moved by 2 %, or a
 * collapse is under way.
 */
#define GUEST_REST_MAX 5
/* well below what policy_collapse.c takes for too old */
#define GUEST_REST_MAX_US (300 * SEC_US)

static bool moved(uint64_t now, uint64_t before)
{
	return (now > before ? now - before : before - now) * 50 >
	       MAX(now, before);
}

static uint64_t reported_huge_pages(const struct vm *v)
{
	uint64_t pages = 0;

	for (unsigned int i = 0; v->have_report && i < v->report.nr_nodes; i++)
		pages = sum_sat_u64(pages, v->report.node[i].anon_huge_pages);
	return pages;
}

static uint64_t guest_interval_us(const struct vm *v)
{
	uint64_t base = MAX(v->pcfg.map_interval_us,
			    guest_words(v) * GUEST_US_PER_WORD);

	return MAX(base, MIN(base << v->map.guest_rest, GUEST_REST_MAX_US));
}

/* Has anything moved since the pass that counted last? */
static bool guest_moved(const struct vm *v)
{
	const struct alignment_node *n = &v->map.alignment.all;
	const struct vmmap *m = &v->map;

	return moved(n->huge_huge, m->seen_huge) ||
	       moved(n->guest_only, m->seen_only) ||
	       moved(reported_huge_pages(v), m->seen_huge_pages) ||
	       (v->collapse_hold == COLLAPSE_GO && vm_is_active(v));
}

static void guest_rest(struct vm *v)
{
	struct vmmap *m = &v->map;
	bool again = guest_moved(v);

	if (!m->guest_us)
		return; /* a first pass is under way */
	if (again) {
		m->guest_rest = 0;
		m->guest_next_us =
			MIN(m->guest_next_us, m->ask_us + guest_interval_us(v));
	}
	if (m->guest_us == m->guest_rested_us)
		return;
	if (!again) {
		m->guest_rest = MIN(m->guest_rest + 1, GUEST_REST_MAX);
		m->guest_next_us = m->ask_us + guest_interval_us(v);
	}
	m->guest_rested_us = m->guest_us;
	m->seen_huge = m->alignment.all.huge_huge;
	m->seen_only = m->alignment.all.guest_only;
	m->seen_huge_pages = reported_huge_pages(v);
}

static void ask_guest(struct vm *v, uint64_t now_us)
{
	struct msg m = {.type = MSG_MAP_ASK};
	uint64_t words = guest_words(v);
	uint64_t pass_us = words * SEC_US / GUEST_WORDS_PER_SEC;

	if (!v->peer.up || !(v->hello.features & 1u << FEATURE_MAP) ||
	    !v->map.host || now_us < v->map.guest_next_us)
		return;
	if (v->map.ask_id &&
	    now_us - v->map.ask_us < 2 * pass_us + GUEST_PASS_GRACE_US)
		return;
	m.map_ask.id = ++v->m->next_map_id;
	m.map_ask.words_per_sec = GUEST_WORDS_PER_SEC;
	if (peer_send(&v->peer, &m) < 0)
		return;
	v->map.ask_id = m.map_ask.id;
	v->map.ask_us = now_us;
	v->map.guest_marked = 0;
	v->map.guest_next_us = now_us + guest_interval_us(v);
}

/* --- collapse ---------------------------------------------------------------
 */

/* 64 blocks each 250 ms: 512 MiB/s at most, 10 to 60 ms of work. */
#define COLLAPSE_PAUSE_US (250 * MSEC_US)
/* where there is nothing to do, until the map says otherwise */
#define COLLAPSE_IDLE_US (2 * SEC_US)
/* after a helper that had to be replaced: whatever held it may still be so */
#define COLLAPSE_STUCK_US (30 * SEC_US)

/* "some avg10=1.23 avg60=..." */
static bool host_psi(uint16_t *ret_centi)
{
	char text[256];
	unsigned int whole, part;

	if (read_text_at(AT_FDCWD, "/proc/pressure/memory", text,
			 sizeof(text)) <= 0 ||
	    sscanf(text, "some avg10=%u.%2u", &whole, &part) != 2)
		return false;
	*ret_centi = (uint16_t)MIN(whole * 100 + part, 10000u);
	return true;
}

static void host_free_blocks(const struct vm *v, uint64_t *free)
{
	const struct hostview *h = &v->m->nodes.view;

	for (unsigned int i = 0; i < COLLAPSE_NODES_MAX; i++)
		free[i] = UINT64_MAX;
	for (uint32_t i = 0; i < h->nr_nodes; i++) {
		if (h->node[i].id < COLLAPSE_NODES_MAX)
			free[h->node[i].id] = hostview_blocks(&h->node[i], 9);
	}
	/* nodes that are not there have nothing */
	for (unsigned int i = 0; i < COLLAPSE_NODES_MAX && h->nr_nodes; i++) {
		if (free[i] == UINT64_MAX)
			free[i] = 0;
	}
}

static void collapse_input(const struct vm *v, uint64_t now_us,
			   struct collapse_input *in)
{
	struct policy_snapshot s = vm_snapshot(v, now_us);
	const struct vmmap *m = &v->map;

	memset(in, 0, sizeof(*in));
	in->mode = v->cfg.collapse;
	in->paused = s.user_paused;
	in->stopped = s.vm_stopped;
	in->migrating = s.vm_migrating;
	/* QEMU itself keeps a few pages locked or pinned at most */
	in->pinned =
		v->proc.valid && v->proc.locked_valid &&
		v->proc.locked_kib + v->proc.pinned_kib > v->proc.rss_kib / 4;
	in->thp_disabled = m->thp_disabled;
	in->facts = m->facts;
	in->host_known = m->host_us != 0;
	in->guest_known = m->guest_us != 0 && v->peer.up;
	in->host_age_us = now_us - m->host_us;
	in->guest_age_us = now_us - m->guest_us;
	in->psi_valid = host_psi(&in->psi_some_centi);
	in->psi_abort_centi = (uint16_t)(v->pcfg.psi_abort_pct * 100);
	host_free_blocks(v, in->free_blocks);
	in->slots = &m->slots;
	in->host = m->host;
	in->guest = m->guest;
	in->nr = m->nr;
}

void vm_map_collapsed(void *ctx, uint64_t cookie, int result,
		      const struct ipc_msg *m, int fd)
{
	struct vm *v = manager_vm_by_serial(ctx, cookie);
	uint64_t now = now_us();
	uint32_t nr;

	if (fd >= 0)
		close(fd);
	if (!v)
		return;
	v->collapsing = false;
	if (result < 0) {
		v->collapse_next_us =
			now + (result == -ETIMEDOUT ? COLLAPSE_STUCK_US
						    : COLLAPSE_IDLE_US);
		if (result == -ETIMEDOUT)
			history_event(&v->history,
				      "collapse: the kernel did not come back "
				      "in time");
		return;
	}
	nr = MIN(m->collapsed.nr, v->collapse_plan.nr);
	policy_collapse_result(&v->collapse, m->collapsed.result, nr, now);
	v->collapse.cpu_us += m->collapsed.cpu_us;
	for (uint32_t i = 0; i < nr; i++) {
		uint32_t at = v->collapse_plan.index[i];

		if (m->collapsed.result[i] || at >= v->map.nr)
			continue;
		v->map.host[at].flags |= BACKING_HUGE;
		v->map.host[at].present = 512;
	}
	vmmap_count(&v->map, now);
}

static void collapse_tick(struct vm *v, uint64_t now_us)
{
	struct collapse_input in;
	int r;

	if (v->collapsing || now_us < v->collapse_next_us)
		return;
	/* nothing was left in this very map */
	if (v->collapse_hold == COLLAPSE_HOLD_DONE &&
	    v->collapse_count_us == v->map.count_us)
		return;
	v->collapse_count_us = v->map.count_us;
	collapse_input(v, now_us, &in);
	policy_collapse(&in, &v->collapse, now_us, &v->collapse_plan);
	if (v->collapse_plan.hold != v->collapse_hold) {
		v->collapse_hold = v->collapse_plan.hold;
		history_event(&v->history, "collapse: %s%s: %s",
			      collapse_hold_name(v->collapse_hold),
			      vm_is_active(v) ? "" : " (observed only)",
			      collapse_hold_text(v->collapse_hold));
	}
	v->collapse_next_us = now_us + COLLAPSE_IDLE_US;
	if (v->collapse_hold != COLLAPSE_GO)
		return;
	r = act_collapse(v, &v->collapse_plan, now_us);
	if (!r)
		v->collapse_next_us = now_us + COLLAPSE_PAUSE_US;
}

bool vm_map_host_base(const struct vm *v)
{
	const struct alignment_node *n = &v->map.alignment.all;

	/* a tenth that is huge may grow; of nothing, nothing is known */
	return v->map.host_us && n->host_kib &&
	       n->host_huge * 2048 * 10 < n->host_kib &&
	       collapse_hold_lasts(v->collapse_hold);
}

void vm_map_again(struct vm *v, uint64_t now_us)
{
	v->map.next_us = MIN(v->map.next_us, now_us + SEC_US);
	v->map.guest_next_us = MIN(v->map.guest_next_us, now_us + SEC_US);
}

void vm_map_message(struct vm *v, const struct msg_map *p, uint64_t now_us)
{
	if (vmmap_guest_part(&v->map, p, now_us))
		vmmap_count(&v->map, now_us);
}

/* Blocks rarely change sides; a part a tick keeps the agent's socket free. */
#define HINT_PERIOD_US (60 * SEC_US)

static void hint_tick(struct vm *v, uint64_t now_us)
{
	struct vmmap *m = &v->map;

	/* after a first pass of its own the agent knows its memory's end */
	if (!v->cfg.hint || !m->guest_us || !m->host_us || !v->peer.up)
		return;
	if (m->hint_next < m->nr) {
		m->hint_next = act_hint(v, m->hint_id, m->hint_next);
		return;
	}
	if (m->hint_us && now_us - m->hint_us < HINT_PERIOD_US)
		return;
	m->hint_us = now_us;
	m->hint_id = ++v->m->next_map_id;
	m->hint_next = 0;
}

void vm_map_tick(struct vm *v, uint64_t now_us)
{
	scan(v, now_us);
	guest_rest(v);
	ask_guest(v, now_us);
	collapse_tick(v, now_us);
	hint_tick(v, now_us);
}
