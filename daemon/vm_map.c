// SPDX-License-Identifier: GPL-2.0-or-later
/* Asking both sides for the map of a VM, in time and within a budget. */
#include <errno.h>
#include <string.h>

#include "log.h"
#include "manager.h"
#include "util.h"

/*
 * Of each side a pass as often. A pass over 1 GiB costs the helper 0.05 ms
 * (huge) to 3 ms (base pages): 0.03 % of a CPU at worst.
 */
#define MAP_PERIOD_US (10 * SEC_US)
/* A part is 32 GiB: at most 0.1 s in base pages, 128 KiB of answer. */
#define MAP_PART_BLOCKS 16384u
#define MAP_PAUSE_US	(200 * MSEC_US)
#define MAP_DEADLINE_US (2 * SEC_US)
#define MAP_RETRY_US	(5 * SEC_US)
/*
 * kpageflags costs the guest 60 to 90 ns a word. A pass at this rate takes
 * under a tenth of a CPU, and passes come so seldom that it is 1 % over time.
 */
#define GUEST_WORDS_PER_SEC 1000000u
#define GUEST_US_PER_WORD   8u
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
	v->map.next_us = now + (r ? MAP_PERIOD_US : MAP_PAUSE_US);
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
	v->map.guest_next_us =
		now_us + MAX(MAP_PERIOD_US, words * GUEST_US_PER_WORD);
}

void vm_map_message(struct vm *v, const struct msg_map *p, uint64_t now_us)
{
	if (vmmap_guest_part(&v->map, p, now_us))
		vmmap_count(&v->map, now_us);
}

void vm_map_tick(struct vm *v, uint64_t now_us)
{
	scan(v, now_us);
	ask_guest(v, now_us);
}
