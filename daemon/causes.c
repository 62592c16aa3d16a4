// SPDX-License-Identifier: GPL-2.0-or-later
#include <assert.h>

#include "causes.h"
#include "util.h"

static const struct {
	const char *name, *text, *cure;
	bool note; /* nobody's fault */
} causes[] = {
	[CAUSE_CONFIDENTIAL] =
		{"confidential",
		 "confidential guest (SEV, SNP, TDX): the host can neither see "
		 "nor move its memory",
		 "none: alignment is the firmware's and the kernel's own",
		 true},
	[CAUSE_NO_LAYOUT] =
		{"no-layout",
		 "where the guest's memory lies in QEMU was not found",
		 "pid= must be QEMU's, started by its options and not by a "
		 "configuration file; give its Qmp= socket for DIMMs",
		 false},
	[CAUSE_STALE] = {"stale",
			 "the map is old: QEMU cannot be looked at just now",
			 "is QEMU stuck in the kernel, or did it end?", false},
	[CAUSE_MIGRATING] =
		{"migrating",
		 "migration or snapshot: dirty logging maps 4 KiB at a time "
		 "until it ends",
		 "wait; collapse goes on by itself afterwards", true},
	[CAUSE_HUGETLB] = {"hugetlb",
			   "hugetlb memory: huge on the host for good", "",
			   true},
	[CAUSE_SLOT_MISALIGNED] =
		{"slot-misaligned",
		 "guest-physical and host addresses of a memory slot disagree "
		 "modulo 2 MiB: KVM cannot map it by huge pages",
		 "start the VM with memory backends whose sizes are whole 2 "
		 "MiB",
		 false},
	[CAUSE_MEMFD_MISALIGNED] =
		{"memfd-misaligned",
		 "memfd or file memory whose address and file offset disagree "
		 "modulo 2 MiB: no huge page is possible",
		 "use memory-backend-file with share=on,align=2M and mem-path "
		 "in /dev/shm, memfd with hugetlb=on, or anonymous memory",
		 false},
	[CAUSE_THP_PROCESS_OFF] =
		{"thp-process-off",
		 "THP is off for the QEMU process (PR_SET_THP_DISABLE)",
		 "start QEMU without it: it also forbids collapse", false},
	[CAUSE_SHMEM_OFF] =
		{"shmem-thp-off",
		 "memfd or shared memory without huge pages: shmem_enabled is "
		 "never",
		 "echo advise >/sys/kernel/mm/transparent_hugepage/"
		 "shmem_enabled, or memfd with hugetlb=on",
		 false},
	[CAUSE_THP_OFF] =
		{"thp-off",
		 "transparent huge pages are off on the host (enabled=never)",
		 "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled; "
		 "until then only collapse gives huge pages",
		 false},
	[CAUSE_REFUSED] =
		{"refused",
		 "the kernel refuses huge pages in this mapping (NOHUGEPAGE, "
		 "or a right is missing)",
		 "check madvise options of QEMU, and that the helper has "
		 "CAP_SYS_NICE and CAP_SYS_PTRACE",
		 false},
	[CAUSE_VFIO] = {"vfio",
			"device assignment pins the memory: it is never moved, "
			"so never collapsed",
			"have THP on when the VM starts, or use hugetlb",
			false},
	[CAUSE_LOCKED] = {"locked", "the memory is locked: it is left alone",
			  "have THP on when the VM starts, or use hugetlb",
			  false},
	[CAUSE_SWAPPED] = {"swapped",
			   "parts of the guest are in the host's swap",
			   "give the host memory, or the guest less", false},
	[CAUSE_KSM] = {"ksm",
		       "KSM merges pages of this guest, which breaks huge "
		       "pages",
		       "mem-merge=off for this VM, or stop ksm and ksmtuned",
		       false},
	[CAUSE_MEMCG] = {"memcg",
			 "the memory cgroup of QEMU has no room for a collapse",
			 "raise memory.high or memory.max of its group", false},
	[CAUSE_NO_HOST_BLOCKS] =
		{"no-host-blocks", "the host node has no free blocks of 2 MiB",
		 "vmdefragctl compact-node NODE, or free memory there", false},
	[CAUSE_NUMATUNE] =
		{"numatune",
		 "memory lies on other nodes than it is bound to: it is left "
		 "alone",
		 "migratepages PID FROM TO, or start the VM anew", false},
	[CAUSE_NX] = {"nx-huge-pages",
		      "KVM splits executable huge pages (nx_huge_pages)",
		      "only where the CPUs allow it: kvm.nx_huge_pages=off",
		      true},
	[CAUSE_VIRTIO_MEM] =
		{"virtio-mem",
		 "virtio-mem plugs and unplugs parts of this memory",
		 "use its block-size of 2 MiB or more", true},
	[CAUSE_BALLOON] =
		{"balloon",
		 "a balloon took the memory page by page: what comes back "
		 "comes as base pages",
		 "deflate it, and collapse=on; use free-page reporting or "
		 "virtio-mem in its place",
		 false},
	[CAUSE_REPORTING_ORDER] =
		{"reporting-order",
		 "free-page reporting below 2 MiB splits the host's huge pages",
		 "page_reporting.page_reporting_order=9 in the guest", false},
	[CAUSE_MIGRATED_IN] =
		{"migrated-in",
		 "the VM came by migration, which fills memory by base pages",
		 "collapse=on mends it", false},
	[CAUSE_BASE] = {"base-pages",
			"the host backs the guest's huge pages by base pages",
			"collapse=on mends it, in an acting mode", false},
	[CAUSE_COLLAPSE_OFF] = {"collapse-off", "collapse is off for this VM",
				"collapse=on", true},
	[CAUSE_GUEST_THP_OFF] =
		{"guest-thp-off",
		 "the guest does not use huge pages (enabled=never in it)",
		 "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled in "
		 "the guest",
		 false},
	[CAUSE_HOST_ONLY] = {"host-only",
			     "the host is huge where the guest uses base pages",
			     "", true},
	[CAUSE_NO_AGENT] =
		{"no-agent",
		 "no agent tells of the guest's huge pages: only the host's "
		 "side is known",
		 "install vmdefrag-agent, or collapse=all", true},
	[CAUSE_RIVAL] = {"rival", "another program works at the same memory",
			 "let one of them do it: ksmtuned, numad, tuned and "
			 "balloon managers undo each other's work",
			 true},
};
static_assert(ARRAY_SIZE(causes) == CAUSE_COUNT, "causes[] matches enum cause");

static const char *const rival_names[] = {
	[RIVAL_KSMTUNED] = "ksmtuned",
	[RIVAL_NUMAD] = "numad",
	[RIVAL_TUNED] = "tuned",
	[RIVAL_BALLOOND] = "mom",
};
static_assert(ARRAY_SIZE(rival_names) == RIVAL_COUNT,
	      "rival_names[] matches enum rival");

const char *rival_name(unsigned int rival)
{
	return rival < RIVAL_COUNT ? rival_names[rival] : "?";
}

const char *cause_name(unsigned int c)
{
	return c < CAUSE_COUNT ? causes[c].name : "?";
}

const char *cause_text(unsigned int c)
{
	return c < CAUSE_COUNT ? causes[c].text : "?";
}

const char *cause_cure(unsigned int c)
{
	return c < CAUSE_COUNT ? causes[c].cure : "";
}

bool cause_is_problem(unsigned int c)
{
	return c < CAUSE_COUNT && !causes[c].note;
}

static bool fact(const struct cause_facts *f, enum layout_fact bit)
{
	return f->layout >> bit & 1;
}

static bool any_kind(const struct cause_facts *f, enum memslot_kind kind)
{
	for (uint32_t i = 0; f->slots && i < f->slots->nr; i++) {
		if (f->slots->slot[i].kind == kind)
			return true;
	}
	return false;
}

static bool any_misaligned(const struct cause_facts *f, bool file)
{
	for (uint32_t i = 0; f->slots && i < f->slots->nr; i++) {
		const struct memslot *s = &f->slots->slot[i];
		bool gpa = memslot_congruent(s, MEMSLOT_BLOCK_BYTES);

		if (s->kind == MEMSLOT_HUGETLB)
			continue;
		if (file ? !memslot_file_congruent(s, MEMSLOT_BLOCK_BYTES)
			 : !gpa && s->kind == MEMSLOT_ANON)
			return true;
	}
	return false;
}

/* More than noise: over a twentieth of what should be huge is not. */
static bool short_of_huge(const struct cause_facts *f)
{
	const struct alignment_node *n = &f->all;

	if (!f->host_known)
		return false;
	if (!f->guest_known)
		return n->host_huge * 2048 * 20 < n->host_kib * 19;
	return n->guest_only * 20 > alignment_guest_huge(n);
}

static bool holds(const struct cause_facts *f, enum cause c)
{
	const struct alignment_node *n = &f->all;
	bool lacks = short_of_huge(f);

	switch (c) {
	case CAUSE_CONFIDENTIAL:
		return fact(f, LAYOUT_CONFIDENTIAL);
	case CAUSE_NO_LAYOUT:
		return f->layout &
		       (1u << LAYOUT_NOT_QEMU | 1u << LAYOUT_MACHINE_UNKNOWN |
			1u << LAYOUT_BACKEND_UNKNOWN |
			1u << LAYOUT_AREA_MISSING | 1u << LAYOUT_DIMM_UNPLACED);
	case CAUSE_STALE:
		return f->stale_ms != 0;
	case CAUSE_MIGRATING:
		return f->migrating;
	case CAUSE_HUGETLB:
		return any_kind(f, MEMSLOT_HUGETLB);
	case CAUSE_SLOT_MISALIGNED:
		return any_misaligned(f, false);
	case CAUSE_MEMFD_MISALIGNED:
		return any_misaligned(f, true);
	case CAUSE_THP_PROCESS_OFF:
		return f->thp_disabled;
	case CAUSE_SHMEM_OFF:
		return any_kind(f, MEMSLOT_SHMEM) &&
		       f->shmem_thp == HOST_THP_NEVER && lacks;
	case CAUSE_THP_OFF:
		return f->thp == HOST_THP_NEVER && (lacks || !f->host_known) &&
		       (!f->slots || any_kind(f, MEMSLOT_ANON));
	case CAUSE_REFUSED:
		return f->hold == COLLAPSE_HOLD_REFUSED;
	case CAUSE_VFIO:
		return fact(f, LAYOUT_VFIO);
	case CAUSE_LOCKED:
		return fact(f, LAYOUT_LOCKED) ||
		       f->hold == COLLAPSE_HOLD_PINNED;
	case CAUSE_SWAPPED:
		return n->swapped != 0;
	case CAUSE_KSM:
		return f->ksm || n->shared;
	case CAUSE_MEMCG:
		return f->hold == COLLAPSE_HOLD_MEMCG;
	case CAUSE_NO_HOST_BLOCKS:
		return f->hold == COLLAPSE_HOLD_NO_BLOCK;
	case CAUSE_NUMATUNE:
		return fact(f, LAYOUT_NUMATUNE) && f->off_node_blocks;
	case CAUSE_NX:
		return f->nx_huge_pages && fact(f, LAYOUT_KVM);
	case CAUSE_VIRTIO_MEM:
		return fact(f, LAYOUT_VIRTIO_MEM) && lacks;
	case CAUSE_BALLOON:
		return f->ballooned_kib && lacks;
	case CAUSE_REPORTING_ORDER:
		return fact(f, LAYOUT_REPORTING) && f->reporting_order < 9;
	case CAUSE_MIGRATED_IN:
		return f->came_by_migration && lacks;
	case CAUSE_BASE:
		return lacks;
	case CAUSE_COLLAPSE_OFF:
		return f->collapse_mode == COLLAPSE_OFF;
	case CAUSE_GUEST_THP_OFF:
		return f->guest_known && f->guest_thp_never;
	case CAUSE_HOST_ONLY:
		return f->guest_known && n->host_only > n->huge_huge;
	case CAUSE_NO_AGENT:
		return f->host_known && !f->guest_known;
	case CAUSE_RIVAL:
		return f->rivals != 0;
	default:
		return false;
	}
}

unsigned int causes_find(const struct cause_facts *f, enum cause *ret)
{
	unsigned int n = 0;

	for (unsigned int c = 0; c < CAUSE_COUNT; c++) {
		/* "and nothing to blame" */
		if (c == CAUSE_BASE && n && cause_is_problem(ret[0]))
			continue;
		if (holds(f, c))
			ret[n++] = c;
	}
	return n;
}
