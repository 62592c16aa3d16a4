/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: why a VM's memory is not what it could be, and what would mend it. PURE.
 *
 * All that is known of a VM and its host, as figures and bits; out of that a
 * list of causes, the one that matters most first: what makes every other
 * moot (memory out of reach), then what forbids huge pages, then what breaks
 * them, then what merely is short of them. Each has its words and its cure.
 */
#ifndef VMDEFRAG_CAUSES_H
#define VMDEFRAG_CAUSES_H

#include "alignment.h"
#include "layout.h"
#include "policy_collapse.h"

/* By rank: a lower one comes first. */
enum cause {
	CAUSE_CONFIDENTIAL,
	CAUSE_NO_LAYOUT,
	CAUSE_STALE,
	CAUSE_MIGRATING,
	CAUSE_HUGETLB,
	CAUSE_SLOT_MISALIGNED,
	CAUSE_MEMFD_MISALIGNED,
	CAUSE_THP_PROCESS_OFF,
	CAUSE_SHMEM_OFF,
	CAUSE_THP_OFF,
	CAUSE_REFUSED,
	CAUSE_VFIO,
	CAUSE_LOCKED,
	CAUSE_SWAPPED,
	CAUSE_KSM,
	CAUSE_MEMCG,
	CAUSE_NO_HOST_BLOCKS,
	CAUSE_NUMATUNE,
	CAUSE_NX,
	CAUSE_VIRTIO_MEM,
	CAUSE_BALLOON,
	CAUSE_REPORTING_ORDER,
	CAUSE_MIGRATED_IN,
	CAUSE_BASE, /* base pages, and nothing to blame */
	CAUSE_COLLAPSE_OFF,
	CAUSE_GUEST_THP_OFF,
	CAUSE_HOST_ONLY, /* host huge, guest uses base pages */
	CAUSE_NO_AGENT,
	CAUSE_RIVAL,
	CAUSE_COUNT
};

/* Programs that work at the same memory, by their process names. */
enum rival {
	RIVAL_KSMTUNED,
	RIVAL_NUMAD,
	RIVAL_TUNED,
	RIVAL_BALLOOND, /* memory overcommit managers */
	RIVAL_COUNT
};

const char *rival_name(unsigned int rival);

/* /sys/kernel/mm/transparent_hugepage/{enabled,shmem_enabled} */
enum host_thp {
	HOST_THP_UNKNOWN,
	HOST_THP_NEVER,
	HOST_THP_ADVISE,
	HOST_THP_ALWAYS,
};

struct cause_facts {
	bool host_known, guest_known;
	uint64_t stale_ms; /* age of a map that fails to be renewed; 0: fresh */
	int scan_error;	   /* -errno of the newest try */
	uint32_t layout;   /* bits of enum layout_fact */
	bool thp_disabled; /* PR_SET_THP_DISABLE */
	bool migrating, came_by_migration;
	uint64_t ballooned_kib; /* now, or it was and came back */
	bool ksm;
	uint8_t thp, shmem_thp; /* enum host_thp */
	bool nx_huge_pages;
	uint32_t rivals;	  /* bits of enum rival */
	uint16_t reporting_order; /* of the guest; UINT16_MAX: not known */
	bool guest_thp_never;
	uint64_t locked_kib, rss_kib;
	uint64_t off_node_blocks; /* not on the nodes they are bound to */
	enum collapse_hold hold;
	uint8_t collapse_mode;
	bool acts; /* the VM's mode changes anything at all */
	const struct memslots *slots;
	struct alignment_node all;
};

/**
 * causes_find() - what holds, in order
 * @ret: CAUSE_COUNT of them at most
 *
 * Return: how many.
 */
unsigned int causes_find(const struct cause_facts *f, enum cause *ret);

const char *cause_name(unsigned int cause);
const char *cause_text(unsigned int cause);
const char *cause_cure(unsigned int cause);
/* Is it a fault, or only to be known? */
bool cause_is_problem(unsigned int cause);

#endif
