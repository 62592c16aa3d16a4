/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: which of a guest's blocks the host should collapse. PURE.
 *
 * A huge page of the host pays where the guest keeps one too, or uses all but
 * a tenth of the block. It never pays under memory that the guest has free:
 * that only takes memory from the host. So: both sides of the map must be
 * known and recent, a block must be there as a whole in base pages, neither
 * swapped nor shared, on the node that the VM is bound to, at addresses that
 * agree; and nothing may speak against touching this VM at all.
 *
 * What the kernel answers is taken for what it means: no memory and no room in
 * the cgroup hold the VM for a while that doubles; a mapping that takes no
 * huge pages, or a right that we lack, for long; a block that is busy is tried
 * again by the next pass.
 */
#ifndef VMDEFRAG_POLICY_COLLAPSE_H
#define VMDEFRAG_POLICY_COLLAPSE_H

#include "alignment.h"
#include "layout.h"
#include "policy.h"

enum collapse_mode {
	COLLAPSE_OFF,
	COLLAPSE_ON,  /* where the guest is known to use it */
	COLLAPSE_ALL, /* also guests without an agent: all that is there */
	COLLAPSE_MODE_COUNT
};

const char *collapse_mode_name(unsigned int mode);

/* Why nothing is collapsed; the order is that of the checks. */
enum collapse_hold {
	COLLAPSE_GO, /* there is something to do, and it may be done */
	COLLAPSE_HOLD_OFF,
	COLLAPSE_HOLD_PAUSED,
	COLLAPSE_HOLD_STOPPED,
	COLLAPSE_HOLD_MIGRATING,
	COLLAPSE_HOLD_CONFIDENTIAL,
	COLLAPSE_HOLD_PINNED,	    /* VFIO, locked memory */
	COLLAPSE_HOLD_THP_DISABLED, /* PR_SET_THP_DISABLE on QEMU */
	COLLAPSE_HOLD_NO_MAP,	    /* layout or map not known, or old */
	COLLAPSE_HOLD_NO_AGENT,	    /* guest's side not known */
	COLLAPSE_HOLD_HUGETLB,	    /* huge for good */
	COLLAPSE_HOLD_MISALIGNED,
	COLLAPSE_HOLD_REFUSED,	/* the kernel said EINVAL, EPERM, ENOSYS */
	COLLAPSE_HOLD_MEMCG,	/* memory.high or memory.max is near */
	COLLAPSE_HOLD_NO_BLOCK, /* no free 2 MiB block on the node */
	COLLAPSE_HOLD_PRESSURE, /* PSI of the host */
	COLLAPSE_HOLD_DONE,	/* nothing left to do */
	COLLAPSE_HOLD_COUNT
};

const char *collapse_hold_name(unsigned int hold);
const char *collapse_hold_text(unsigned int hold);

#define COLLAPSE_NODES_MAX 64u
#define COLLAPSE_PLAN_MAX  64u

/* What stands between two plans. All zeroes is a valid start. */
struct collapse_state {
	uint32_t cursor;
	uint8_t refusal; /* enum collapse_hold: of the newest answers */
	uint64_t backoff_us, backoff_until_us;
	/* ever */
	uint64_t asked, done, busy, no_memory, memcg, refused, skipped;
	uint64_t cpu_us;
};

struct collapse_input {
	uint8_t mode; /* enum collapse_mode */
	bool paused, stopped, migrating, pinned, thp_disabled;
	uint32_t facts; /* bits of enum layout_fact */
	bool host_known, guest_known;
	uint64_t host_age_us, guest_age_us;
	bool psi_valid;
	uint16_t psi_some_centi, psi_abort_centi; /* of the host */
	/* free 2 MiB blocks of the host's nodes; UINT64_MAX: not known */
	uint64_t free_blocks[COLLAPSE_NODES_MAX];
	const struct memslots *slots;
	const struct backing_block *host;
	const uint8_t *guest; /* enum guest_block */
	uint32_t nr;
};

struct collapse_plan {
	enum collapse_hold hold;
	uint32_t nr;
	uint32_t index[COLLAPSE_PLAN_MAX]; /* memslot.h */
};

/**
 * policy_collapse() - what to collapse next
 */
void policy_collapse(const struct collapse_input *in, struct collapse_state *st,
		     uint64_t now_us, struct collapse_plan *ret_plan);

/**
 * policy_collapse_result() - what became of it
 * @result: of each block: 0 or -errno of collapse_block()
 */
void policy_collapse_result(struct collapse_state *st, const int16_t *result,
			    uint32_t nr, uint64_t now_us);

/**
 * collapse_hold_lasts() - will the host's base pages stay what they are?
 *
 * Then huge pages in the guest gain little, and making them is only work.
 */
bool collapse_hold_lasts(enum collapse_hold hold);

#endif
