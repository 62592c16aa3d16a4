// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "proto_codec.h"
#include "util.h"

#define NAME_FUNCTION(fn, table, count)                                        \
	static_assert(ARRAY_SIZE(table) == (count), #table " is complete");    \
	const char *fn(unsigned int value)                                     \
	{                                                                      \
		return value < (count) && table[value] ? table[value] : "?";   \
	}

static const char *const msg_type_names[] = {
	[MSG_SYNC] = "sync",	   [MSG_HELLO] = "hello",
	[MSG_WELCOME] = "welcome", [MSG_BYE] = "bye",
	[MSG_REPORT] = "report",   [MSG_DIRECTIVE] = "directive",
	[MSG_ACTION] = "action",   [MSG_CANCEL] = "cancel",
	[MSG_RESULT] = "result",   [MSG_MAP_ASK] = "map-ask",
	[MSG_MAP] = "map",	   [MSG_BACKING] = "backing",
};
NAME_FUNCTION(msg_type_name, msg_type_names, MSG_TYPE_END)

static const char *const bye_reason_names[] = {
	[BYE_EXIT] = "exit",	       [BYE_VERSION] = "version",
	[BYE_VIOLATION] = "violation", [BYE_RATE] = "rate",
	[BYE_REFUSED] = "refused",
};
NAME_FUNCTION(bye_reason_name, bye_reason_names, BYE_END)

static const char *const knob_names[] = {
	[KNOB_COMPACTION_PROACTIVENESS] = "compaction_proactiveness",
	[KNOB_WATERMARK_SCALE_FACTOR] = "watermark_scale_factor",
	[KNOB_WATERMARK_BOOST_FACTOR] = "watermark_boost_factor",
	[KNOB_THP_DEFRAG] = "thp_defrag",
	[KNOB_PCP_HIGH_FRACTION] = "percpu_pagelist_high_fraction",
};
NAME_FUNCTION(knob_name, knob_names, KNOB_COUNT)

static const char *const backend_names[] = {
	[BACKEND_AUTO] = "auto",	 [BACKEND_COMPACT] = "compact",
	[BACKEND_FAULT] = "fault",	 [BACKEND_HUGETLB] = "hugetlb",
	[BACKEND_MEMBLOCK] = "memblock", [BACKEND_PROACTIVE] = "proactive",
	[BACKEND_KMOD] = "kmod",
};
NAME_FUNCTION(backend_name, backend_names, BACKEND_COUNT)

static const char *const feature_names[] = {
	[FEATURE_PSI] = "psi",
	[FEATURE_KPAGEFLAGS] = "kpageflags",
	[FEATURE_MTHP] = "mthp",
	[FEATURE_REPORTING] = "free_page_reporting",
	[FEATURE_SWAP] = "swap",
	[FEATURE_OBSERVE] = "observe",
	[FEATURE_VIRTIO_MEM] = "virtio_mem",
	[FEATURE_ISOLCPUS] = "isolated_cpus",
	[FEATURE_MAP] = "map",
};
NAME_FUNCTION(feature_name, feature_names, FEATURE_COUNT)

static const char *const zone_kind_names[] = {
	[ZONE_KIND_DMA] = "DMA",
	[ZONE_KIND_DMA32] = "DMA32",
	[ZONE_KIND_NORMAL] = "Normal",
	[ZONE_KIND_MOVABLE] = "Movable",
};
NAME_FUNCTION(zone_kind_name, zone_kind_names, ZONE_KIND_COUNT)

static const char *const vmstat_ctr_names[] = {
	[CTR_COMPACT_STALL] = "compact_stall",
	[CTR_COMPACT_FAIL] = "compact_fail",
	[CTR_COMPACT_SUCCESS] = "compact_success",
	[CTR_COMPACT_MIGRATE_SCANNED] = "compact_migrate_scanned",
	[CTR_COMPACT_FREE_SCANNED] = "compact_free_scanned",
	[CTR_COMPACT_ISOLATED] = "compact_isolated",
	[CTR_COMPACT_DAEMON_WAKE] = "compact_daemon_wake",
	[CTR_COMPACT_DAEMON_MIGRATE_SCANNED] = "compact_daemon_migrate_scanned",
	[CTR_COMPACT_DAEMON_FREE_SCANNED] = "compact_daemon_free_scanned",
	[CTR_PGMIGRATE_SUCCESS] = "pgmigrate_success",
	[CTR_PGMIGRATE_FAIL] = "pgmigrate_fail",
	[CTR_THP_FAULT_ALLOC] = "thp_fault_alloc",
	[CTR_THP_FAULT_FALLBACK] = "thp_fault_fallback",
	[CTR_THP_COLLAPSE_ALLOC] = "thp_collapse_alloc",
	[CTR_ALLOCSTALL] = "allocstall",
	[CTR_PGSCAN_DIRECT] = "pgscan_direct",
	[CTR_PGSCAN_KSWAPD] = "pgscan_kswapd",
	[CTR_PGSTEAL_DIRECT] = "pgsteal_direct",
	[CTR_PGSTEAL_KSWAPD] = "pgsteal_kswapd",
	[CTR_PSWPIN] = "pswpin",
	[CTR_PSWPOUT] = "pswpout",
	[CTR_WORKINGSET_REFAULT] = "workingset_refault",
	[CTR_OOM_KILL] = "oom_kill",
	[CTR_PGFAULT] = "pgfault",
};
NAME_FUNCTION(vmstat_ctr_name, vmstat_ctr_names, CTR_COUNT)

static const char *const thp_defrag_names[] = {
	[THP_DEFRAG_ALWAYS] = "always",
	[THP_DEFRAG_DEFER] = "defer",
	[THP_DEFRAG_DEFER_MADVISE] = "defer+madvise",
	[THP_DEFRAG_MADVISE] = "madvise",
	[THP_DEFRAG_NEVER] = "never",
};
NAME_FUNCTION(thp_defrag_name, thp_defrag_names, THP_DEFRAG_COUNT)

static const char *const mthp_policy_names[] = {
	[MTHP_NEVER] = "never",
	[MTHP_MADVISE] = "madvise",
	[MTHP_INHERIT] = "inherit",
	[MTHP_ALWAYS] = "always",
};
NAME_FUNCTION(mthp_policy_name, mthp_policy_names, MTHP_POLICY_COUNT)

static const char *const result_status_names[] = {
	[RESULT_DONE] = "done",
	[RESULT_STOPPED] = "stopped",
	[RESULT_REFUSED] = "refused",
	[RESULT_FAILED] = "failed",
};
NAME_FUNCTION(result_status_name, result_status_names, RESULT_STATUS_COUNT)

static const char *const stop_why_names[] = {
	[WHY_TARGET] = "target",
	[WHY_EXHAUSTED] = "exhausted",
	[WHY_CPU] = "cpu-budget",
	[WHY_PAGES] = "page-budget",
	[WHY_TIME] = "time-budget",
	[WHY_PRESSURE] = "pressure",
	[WHY_CANCELLED] = "cancelled",
	[WHY_QUIET] = "quiet",
	[WHY_LOW_MEMORY] = "low-memory",
	[WHY_DENIED] = "denied",
	[WHY_MISSING] = "missing",
	[WHY_OBSERVE] = "observe",
	[WHY_BUSY] = "busy",
	[WHY_ERROR] = "error",
	[WHY_SESSION] = "session-ended",
	[WHY_RECLAIM] = "reclaim",
};
NAME_FUNCTION(stop_why_name, stop_why_names, WHY_COUNT)

static const char *const urgency_names[] = {
	[URGENCY_BACKGROUND] = "background",
	[URGENCY_NORMAL] = "normal",
	[URGENCY_URGENT] = "urgent",
};
NAME_FUNCTION(urgency_name, urgency_names, URGENCY_COUNT)

int name_lookup(const char *(*name_of)(unsigned int), unsigned int count,
		const char *name)
{
	for (unsigned int i = 0; i < count; i++) {
		if (!strcmp(name_of(i), name) && name[0] != '?')
			return (int)i;
	}
	return -ENOENT;
}
