// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "policy_collapse.h"
#include "util.h"

/* Older maps describe another guest; passes come each 10 s, for very large
 * guests each few minutes. */
#define MAP_AGE_MAX_US (600 * SEC_US)
/* A block counts as there with at most a quarter of holes; see the helper. */
#define PRESENT_MIN (512u * 3 / 4)
/* What a host node must keep for its own huge faults: 64 MiB. */
#define FREE_BLOCKS_MIN 32u

#define BACKOFF_MIN_US	(10 * SEC_US)
#define BACKOFF_MAX_US	(600 * SEC_US)
/* What takes an administrator to mend. */
#define REFUSED_US (600 * SEC_US)

static const char *const mode_names[] = {
	[COLLAPSE_OFF] = "off",
	[COLLAPSE_ON] = "on",
	[COLLAPSE_ALL] = "all",
};
static_assert(ARRAY_SIZE(mode_names) == COLLAPSE_MODE_COUNT,
	      "mode_names[] matches enum collapse_mode");

static const struct {
	const char *name, *text;
} holds[] = {
	[COLLAPSE_GO] = {"go", "blocks are collapsed, a budget at a time"},
	[COLLAPSE_HOLD_OFF] = {"off", "collapse is switched off for this VM"},
	[COLLAPSE_HOLD_PAUSED] = {"paused", "paused by vmdefragctl"},
	[COLLAPSE_HOLD_STOPPED] = {"stopped", "QEMU has stopped this VM"},
	[COLLAPSE_HOLD_MIGRATING] = {"migrating",
				     "a migration or snapshot is under way"},
	[COLLAPSE_HOLD_CONFIDENTIAL] = {"confidential",
					"the guest's memory is out of reach"},
	[COLLAPSE_HOLD_PINNED] =
		{"pinned", "device assignment or locking pins the memory"},
	[COLLAPSE_HOLD_THP_DISABLED] = {"thp-disabled",
					"QEMU runs with PR_SET_THP_DISABLE"},
	[COLLAPSE_HOLD_NO_MAP] =
		{"no-map", "where the memory lies is not known, or too old"},
	[COLLAPSE_HOLD_NO_AGENT] = {"no-agent",
				    "nobody tells what the guest uses"},
	[COLLAPSE_HOLD_HUGETLB] = {"hugetlb",
				   "the memory is hugetlb: huge already"},
	[COLLAPSE_HOLD_MISALIGNED] =
		{"misaligned",
		 "guest and host addresses disagree modulo 2 MiB"},
	[COLLAPSE_HOLD_REFUSED] =
		{"refused", "the kernel refuses huge pages in this mapping"},
	[COLLAPSE_HOLD_MEMCG] = {"memcg", "the VM's memory cgroup has no room"},
	[COLLAPSE_HOLD_NO_BLOCK] = {"no-block",
				    "the host node has no free 2 MiB blocks"},
	[COLLAPSE_HOLD_PRESSURE] = {"pressure",
				    "the host is under memory pressure"},
	[COLLAPSE_HOLD_DONE] = {"done", "nothing is left to collapse"},
};
static_assert(ARRAY_SIZE(holds) == COLLAPSE_HOLD_COUNT,
	      "holds[] matches enum collapse_hold");

const char *collapse_mode_name(unsigned int mode)
{
	return mode < COLLAPSE_MODE_COUNT ? mode_names[mode] : "?";
}

const char *collapse_hold_name(unsigned int hold)
{
	return hold < COLLAPSE_HOLD_COUNT ? holds[hold].name : "?";
}

const char *collapse_hold_text(unsigned int hold)
{
	return hold < COLLAPSE_HOLD_COUNT ? holds[hold].text : "?";
}

bool collapse_hold_lasts(enum collapse_hold hold)
{
	switch (hold) {
	case COLLAPSE_HOLD_OFF:
	case COLLAPSE_HOLD_PINNED:
	case COLLAPSE_HOLD_THP_DISABLED:
	case COLLAPSE_HOLD_MISALIGNED:
	case COLLAPSE_HOLD_REFUSED:
	case COLLAPSE_HOLD_MEMCG:
	case COLLAPSE_HOLD_NO_BLOCK:
		return true;
	default:
		return false;
	}
}

/* What speaks against all of the VM, before any block is looked at. */
static enum collapse_hold hold_of(const struct collapse_input *in,
				  const struct collapse_state *st,
				  uint64_t now_us)
{
	if (in->mode == COLLAPSE_OFF)
		return COLLAPSE_HOLD_OFF;
	if (in->paused)
		return COLLAPSE_HOLD_PAUSED;
	if (in->stopped)
		return COLLAPSE_HOLD_STOPPED;
	if (in->migrating)
		return COLLAPSE_HOLD_MIGRATING;
	if (in->facts & 1u << LAYOUT_CONFIDENTIAL)
		return COLLAPSE_HOLD_CONFIDENTIAL;
	if (in->pinned || in->facts & (1u << LAYOUT_VFIO | 1u << LAYOUT_LOCKED))
		return COLLAPSE_HOLD_PINNED;
	if (in->thp_disabled)
		return COLLAPSE_HOLD_THP_DISABLED;
	if (!in->host_known || !in->nr || in->host_age_us > MAP_AGE_MAX_US)
		return COLLAPSE_HOLD_NO_MAP;
	if (in->mode != COLLAPSE_ALL &&
	    (!in->guest_known || in->guest_age_us > MAP_AGE_MAX_US))
		return COLLAPSE_HOLD_NO_AGENT;
	if (now_us < st->backoff_until_us)
		return st->refusal;
	if (in->psi_valid && in->psi_abort_centi &&
	    in->psi_some_centi >= in->psi_abort_centi)
		return COLLAPSE_HOLD_PRESSURE;
	return COLLAPSE_GO;
}

/* Does the slot take huge pages at all? */
static enum collapse_hold slot_hold(const struct memslot *s)
{
	if (s->kind == MEMSLOT_HUGETLB)
		return COLLAPSE_HOLD_HUGETLB;
	if (s->doubtful)
		return COLLAPSE_HOLD_NO_MAP;
	if (s->kind == MEMSLOT_FILE ||
	    !memslot_congruent(s, MEMSLOT_BLOCK_BYTES) ||
	    !memslot_file_congruent(s, MEMSLOT_BLOCK_BYTES))
		return COLLAPSE_HOLD_MISALIGNED;
	return COLLAPSE_GO;
}

static bool guest_wants(const struct collapse_input *in, uint32_t i)
{
	uint8_t g = in->guest_known ? in->guest[i] : GUEST_BLOCK_NONE;

	if (g == GUEST_BLOCK_FOLIO || g == GUEST_BLOCK_HUGETLB ||
	    g == GUEST_BLOCK_BASE_FULL)
		return true;
	/* an agent that says nothing of a block knows nothing of it */
	return g == GUEST_BLOCK_NONE && !in->guest_known &&
	       in->mode == COLLAPSE_ALL && in->host[i].present == 512;
}

static bool host_can(const struct backing_block *b, const struct memslot *s)
{
	return b->flags & BACKING_KNOWN &&
	       !(b->flags &
		 (BACKING_HUGE | BACKING_SWAPPED | BACKING_SHARED)) &&
	       b->present >= PRESENT_MIN &&
	       /* pages on another node than bound are on their way there */
	       (!s->host_nodes || b->node >= 64 ||
		s->host_nodes >> b->node & 1);
}

static bool node_has_block(const struct collapse_input *in,
			   const struct backing_block *b, uint32_t planned)
{
	uint64_t free = UINT64_MAX;

	if (b->node < COLLAPSE_NODES_MAX) {
		free = in->free_blocks[b->node];
	} else {
		/* not asked for: all nodes together, or the only one */
		for (unsigned int i = 0; i < COLLAPSE_NODES_MAX; i++)
			free = i ? MAX(free, in->free_blocks[i])
				 : in->free_blocks[i];
	}
	return free == UINT64_MAX || free >= FREE_BLOCKS_MIN + planned;
}

void policy_collapse(const struct collapse_input *in, struct collapse_state *st,
		     uint64_t now_us, struct collapse_plan *ret_plan)
{
	enum collapse_hold seen = COLLAPSE_HOLD_DONE;
	uint32_t slot = 0, from = 0, nr_slot = 0, at;

	ret_plan->nr = 0;
	ret_plan->hold = hold_of(in, st, now_us);
	if (ret_plan->hold != COLLAPSE_GO)
		return;
	if (st->cursor >= in->nr)
		st->cursor = 0;
	for (at = st->cursor; at < in->nr && ret_plan->nr < COLLAPSE_PLAN_MAX;
	     at++) {
		const struct backing_block *b = &in->host[at];
		enum collapse_hold hold;

		if (at >= from + nr_slot || at == st->cursor) {
			uint64_t first, n;

			n = memslots_block(in->slots, at, &slot);
			if (n == UINT64_MAX)
				break;
			nr_slot =
				memslot_blocks(&in->slots->slot[slot], &first);
			from = at - (uint32_t)(n - first);
		}
		if (!guest_wants(in, at) ||
		    !host_can(b, &in->slots->slot[slot]))
			continue;
		hold = slot_hold(&in->slots->slot[slot]);
		if (hold == COLLAPSE_GO && !node_has_block(in, b, ret_plan->nr))
			hold = COLLAPSE_HOLD_NO_BLOCK;
		if (hold == COLLAPSE_GO)
			ret_plan->index[ret_plan->nr++] = at;
		else
			seen = hold;
	}
	st->cursor = at >= in->nr ? 0 : at;
	if (!ret_plan->nr)
		ret_plan->hold = seen;
}

static void hold_for(struct collapse_state *st, enum collapse_hold why,
		     uint64_t us, uint64_t now_us)
{
	st->refusal = (uint8_t)why;
	st->backoff_until_us = sum_sat_u64(now_us, us);
}

static void back_off(struct collapse_state *st, enum collapse_hold why,
		     uint64_t now_us)
{
	st->backoff_us =
		CLAMP(2 * st->backoff_us, BACKOFF_MIN_US, BACKOFF_MAX_US);
	hold_for(st, why, st->backoff_us, now_us);
}

void policy_collapse_result(struct collapse_state *st, const int16_t *result,
			    uint32_t nr, uint64_t now_us)
{
	uint32_t done = 0, refused = 0;
	enum collapse_hold why = COLLAPSE_GO;

	st->asked += nr;
	for (uint32_t i = 0; i < nr; i++) {
		switch (-result[i]) {
		case 0:
			done++;
			break;
		case ENOMEM:
			st->no_memory++;
			why = COLLAPSE_HOLD_NO_BLOCK;
			break;
		case EBUSY:
			st->memcg++;
			why = COLLAPSE_HOLD_MEMCG;
			break;
		case EINVAL:
		case EPERM:
		case ENOSYS:
		case EACCES:
			refused++;
			break;
		case EAGAIN:
			st->busy++;
			break;
		default:
			/* changed since it was looked at */
			st->skipped++;
		}
	}
	st->done += done;
	st->refused += refused;
	if (done)
		st->backoff_us = 0;
	/* single blocks may be odd; all of them are the mapping */
	if (refused && refused == nr)
		hold_for(st, COLLAPSE_HOLD_REFUSED, REFUSED_US, now_us);
	else if (why != COLLAPSE_GO)
		back_off(st, why, now_us);
}
