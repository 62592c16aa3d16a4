/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: the wire between vmdefragd and vmdefrag-agent
 *
 * A byte stream (virtio-serial port "org.vmdefrag.agent.0", or a unix stream
 * socket) carries frames: a fixed header and a body of at most
 * PROTO_BODY_MAX bytes, all integers little endian. This file is the only
 * definition of what they hold; common/proto_codec.c is the only place that
 * turns them into bytes and back, by one field list a message that serves
 * both directions.
 *
 * Session. Neither side can know what the other's buffers hold after a
 * restart, so a session is made by four steps and everything outside it is
 * ignored:
 *
 *	host  -> SYNC		"who is there?", on each (re)connection
 *	agent -> HELLO		what it is, which versions it speaks, a nonce;
 *				also unasked at start, and again with back-off
 *	host  -> WELCOME	chosen version, session id, limits, same nonce;
 *				repeated for a HELLO that crossed it
 *	both  -> the rest	with that session id and a sequence number that
 *				grows by at least one each frame and direction
 *
 * A frame with a wrong session id or nonce is stale: dropped and counted, no
 * answer. A sequence number that does not grow, a body that does not decode
 * and a broken checksum are violations: they cost the sender its session (BYE
 * with the reason), after which only HELLO is listened to. A frame of an
 * unknown type is skipped. Bytes that are no frame are skipped up to the next
 * PROTO_MAGIC whose header checksum is right.
 *
 * Growth. HELLO keeps its layout for ever, so that two sides without a common
 * version can tell each other so. A message may grow at its tail, and each
 * record of an array too (the array says how long its records are): a decoder
 * ignores what it does not know. Anything else is a new major version. The
 * daemon speaks the current major and the one before.
 */
#ifndef VMDEFRAG_PROTO_H
#define VMDEFRAG_PROTO_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROTO_MAGIC UINT32_C(0x46444d56) /* "VMDF" in memory */

#define PROTO_MAJOR 1
/* the one before, once there is one */
#define PROTO_MAJOR_MIN (PROTO_MAJOR > 1 ? PROTO_MAJOR - 1 : 1)

#define PROTO_PORT_NAME "org.vmdefrag.agent.0"

/*
 * Bounds. A full REPORT (16 nodes with 4 zones each) is below 24 KiB, which
 * proto_codec's unit test checks; a guest of two nodes sends under 2 KiB.
 */
#define PROTO_BODY_MAX	 32768u
#define PROTO_NODES_MAX	 16u
#define PROTO_ZONES_MAX	 64u /* in all: DMA, DMA32, Normal, Movable a node */
#define PROTO_ORDERS_MAX 16u /* buddy orders 0..15; x86-64 has 11 */
#define PROTO_CURVE_MAX	 8u  /* points of a cost curve */
#define PROTO_TEXT_MAX	 64u /* bytes of a string, printable ASCII */

struct wire_hdr {
	uint32_t magic;
	uint16_t type;	   /* enum msg_type */
	uint16_t flags;	   /* 0, ignored on receipt */
	uint32_t len;	   /* of the body, bytes */
	uint32_t seq;	   /* from 1 */
	uint64_t session;  /* 0 in SYNC, HELLO, and in BYE without a session */
	uint32_t body_crc; /* CRC-32C of the body; of nothing: 0 */
	uint32_t hdr_crc;  /* CRC-32C of the bytes above */
};
#define PROTO_HDR_SIZE 32u
static_assert(sizeof(struct wire_hdr) == PROTO_HDR_SIZE, "wire size");
static_assert(offsetof(struct wire_hdr, session) == 16, "wire layout");
static_assert(offsetof(struct wire_hdr, hdr_crc) == 28, "wire layout");

#define PROTO_FRAME_MAX (PROTO_HDR_SIZE + PROTO_BODY_MAX)

enum msg_type {
	MSG_SYNC = 1,	   /* host -> agent, no body */
	MSG_HELLO = 2,	   /* agent -> host */
	MSG_WELCOME = 3,   /* host -> agent */
	MSG_BYE = 4,	   /* either way */
	MSG_REPORT = 5,	   /* agent -> host */
	MSG_DIRECTIVE = 6, /* host -> agent; renews the lease */
	MSG_ACTION = 7,	   /* host -> agent: do one piece of work */
	MSG_CANCEL = 8,	   /* host -> agent: stop it */
	MSG_RESULT = 9,	   /* agent -> host: how an action ended */
	MSG_MAP_ASK = 10,  /* host -> agent, to those with FEATURE_MAP only */
	MSG_MAP = 11,	   /* agent -> host: a part of what was asked for */
	MSG_BACKING = 12,  /* host -> agent, to those with FEATURE_MAP only */
	MSG_TYPE_END
};

/* Why a session ends, in BYE. */
enum bye_reason {
	BYE_EXIT = 1,	   /* the sender ends, orderly */
	BYE_VERSION = 2,   /* no common version; text says the ranges */
	BYE_VIOLATION = 3, /* the receiver broke the protocol; text says how */
	BYE_RATE = 4,	   /* the receiver sent more than its share */
	BYE_REFUSED = 5,   /* not served here: text says why */
	BYE_END
};

/* What a guest kernel can be told. knob_info[] in common/knob_info.c. */
enum knob {
	KNOB_COMPACTION_PROACTIVENESS = 0,
	KNOB_WATERMARK_SCALE_FACTOR = 1,
	KNOB_WATERMARK_BOOST_FACTOR = 2,
	KNOB_THP_DEFRAG = 3, /* value: enum thp_defrag */
	KNOB_PCP_HIGH_FRACTION = 4,
	KNOB_COUNT
};

/* /sys/kernel/mm/transparent_hugepage/defrag */
enum thp_defrag {
	THP_DEFRAG_ALWAYS = 0,
	THP_DEFRAG_DEFER = 1,
	THP_DEFRAG_DEFER_MADVISE = 2,
	THP_DEFRAG_MADVISE = 3,
	THP_DEFRAG_NEVER = 4,
	THP_DEFRAG_COUNT
};

/* Ways to make free blocks: DESIGN "What the agent can do". */
enum backend {
	BACKEND_AUTO = 0,
	BACKEND_COMPACT = 1,
	BACKEND_FAULT = 2,
	BACKEND_HUGETLB = 3,
	BACKEND_MEMBLOCK = 4,
	BACKEND_PROACTIVE = 5,
	BACKEND_KMOD = 6,
	BACKEND_COUNT
};

/* Probed facts about a guest, bits of msg_hello.features. */
enum feature {
	FEATURE_PSI = 0,	/* /proc/pressure/memory reads */
	FEATURE_KPAGEFLAGS = 1, /* /proc/kpageflags opens */
	FEATURE_MTHP = 2,	/* hugepages-*kB directories */
	FEATURE_REPORTING = 3,	/* a balloon with free-page reporting */
	FEATURE_SWAP = 4,	/* some swap is on */
	FEATURE_OBSERVE = 5,	/* the agent was started with --observe */
	FEATURE_VIRTIO_MEM = 6, /* a virtio-mem device */
	FEATURE_ISOLCPUS = 7,	/* isolated or nohz_full CPUs */
	FEATURE_MAP = 8,	/* answers MSG_MAP_ASK, takes MSG_BACKING */
	FEATURE_COUNT
};

enum zone_kind {
	ZONE_KIND_DMA = 0,
	ZONE_KIND_DMA32 = 1,
	ZONE_KIND_NORMAL = 2,
	ZONE_KIND_MOVABLE = 3,
	ZONE_KIND_COUNT
};

/*
 * Counters of /proc/vmstat, cumulative since the guest's boot. Sums where
 * the kernel splits by zone or type: vmstat_ctr_info[] in common/procfs.c.
 */
enum vmstat_ctr {
	CTR_COMPACT_STALL = 0,
	CTR_COMPACT_FAIL,
	CTR_COMPACT_SUCCESS,
	CTR_COMPACT_MIGRATE_SCANNED,
	CTR_COMPACT_FREE_SCANNED,
	CTR_COMPACT_ISOLATED,
	CTR_COMPACT_DAEMON_WAKE,
	CTR_COMPACT_DAEMON_MIGRATE_SCANNED,
	CTR_COMPACT_DAEMON_FREE_SCANNED,
	CTR_PGMIGRATE_SUCCESS,
	CTR_PGMIGRATE_FAIL,
	CTR_THP_FAULT_ALLOC,
	CTR_THP_FAULT_FALLBACK,
	CTR_THP_COLLAPSE_ALLOC,
	CTR_ALLOCSTALL,
	CTR_PGSCAN_DIRECT,
	CTR_PGSCAN_KSWAPD,
	CTR_PGSTEAL_DIRECT,
	CTR_PGSTEAL_KSWAPD,
	CTR_PSWPIN,
	CTR_PSWPOUT,
	CTR_WORKINGSET_REFAULT,
	CTR_OOM_KILL,
	CTR_PGFAULT,
	CTR_COUNT
};

struct msg_hello {
	uint16_t ver_min, ver_max;
	uint64_t nonce; /* random, one a process start */
	uint8_t boot_id[16];
	uint32_t page_size; /* bytes */
	uint8_t nr_orders;  /* columns of buddyinfo; 11 on x86-64 */
	uint8_t pmd_order;  /* order of a PMD-sized huge page; 9 */
	uint8_t pageblock_order;
	uint8_t nr_nodes; /* with memory */
	uint32_t nr_cpus;
	uint64_t mem_pages;	   /* managed, all nodes */
	uint32_t knobs;		   /* bits: usable */
	uint32_t knobs_missing;	   /* bits: this kernel lacks them */
	uint32_t knobs_denied;	   /* bits: the guest's admin forbids them */
	uint32_t backends;	   /* bits: usable */
	uint32_t backends_missing; /* bits: kernel or build lacks them */
	uint32_t backends_denied;  /* bits: the guest's admin forbids them */
	uint32_t features;	   /* bits of enum feature */
	uint32_t mthp_orders;	   /* bit o: hugepages of order o exist */
	char agent_version[PROTO_TEXT_MAX + 1];
	char kernel_release[PROTO_TEXT_MAX + 1];
};

struct msg_welcome {
	uint16_t version;
	uint64_t nonce;	      /* of the HELLO that it answers */
	uint32_t interval_ms; /* between reports */
	uint32_t lease_ms;    /* silence after which knobs are put back */
};

struct msg_bye {
	uint32_t reason; /* enum bye_reason */
	char text[PROTO_TEXT_MAX + 1];
};

struct zone_report {
	uint8_t node;
	uint8_t kind; /* enum zone_kind */
	uint64_t present_pages, managed_pages, free_pages;
	uint64_t min_pages, low_pages, high_pages; /* watermarks, no boost */
	uint32_t free_blocks[PROTO_ORDERS_MAX];	   /* buddyinfo */
};

/*
 * moves[i] page moves buy blocks[i] more free blocks of the PMD order; both
 * grow with i. nr_points is 0 where no planner has looked.
 */
struct cost_curve {
	uint8_t nr_points;
	uint32_t age_ms;
	struct {
		uint32_t blocks;
		uint64_t moves;
	} point[PROTO_CURVE_MAX];
};

struct node_report {
	uint8_t node;
	uint64_t total_pages, free_pages;
	uint64_t anon_pages, file_pages, anon_huge_pages;
	uint64_t slab_pages, unevictable_pages;
	/* of the whole node; common/frag.h has the formulas */
	uint16_t ext_pct[PROTO_ORDERS_MAX];	      /* 0..100 */
	uint16_t unusable_permille[PROTO_ORDERS_MAX]; /* 0..1000 */
	uint16_t score_pct; /* kernel's own, of order 9: present-weighted */
	struct cost_curve curve;
	uint64_t held_pages; /* in blocks that the agent holds for a while */
};

struct mthp_report {
	uint8_t order;
	uint8_t policy; /* enum mthp_policy */
	uint64_t fault_alloc, fault_fallback;
};

enum mthp_policy {
	MTHP_NEVER = 0,
	MTHP_MADVISE = 1,
	MTHP_INHERIT = 2,
	MTHP_ALWAYS = 3,
	MTHP_POLICY_COUNT
};

struct psi_report {
	uint16_t some_avg10_centi, full_avg10_centi; /* 0..10000 */
	uint64_t some_total_us, full_total_us;
};

struct msg_report {
	uint64_t guest_us;     /* guest's CLOCK_MONOTONIC */
	uint64_t directive_id; /* the newest one in force; 0: none */
	uint64_t action_id;    /* the one that runs; 0: none */
	uint8_t psi_valid;
	struct psi_report psi;
	uint64_t ctr_valid; /* bit c: ctr[c] exists on this kernel */
	uint64_t ctr[CTR_COUNT];
	uint32_t knob_valid;   /* bit k: knob[k] could be read */
	uint32_t knob_managed; /* bit k: set by us, journalled */
	uint32_t knob_foreign; /* bit k: changed by others since; left alone */
	int64_t knob[KNOB_COUNT];
	uint64_t agent_cpu_us;	/* agent and its children, since its start */
	uint64_t sample_cpu_us; /* of the newest sample */
	uint32_t agent_rss_kib;
	uint64_t kpageflags_words; /* read since start */
	uint64_t bad_frames;	   /* from the host, since start */
	uint8_t thp_enabled;	   /* enum mthp_policy; inherit: unknown */
	uint16_t reporting_order;  /* page_reporting_order; 0xffff: unknown */
	uint8_t nr_mthp;
	struct mthp_report mthp[PROTO_ORDERS_MAX];
	uint8_t nr_nodes;
	struct node_report node[PROTO_NODES_MAX];
	uint8_t nr_zones;
	struct zone_report zone[PROTO_ZONES_MAX];
};

/*
 * In a directive and an action a budget or limit of 0 means "not given": the
 * agent's own, set by the guest's admin, holds in every case.
 */
struct msg_directive {
	uint64_t id;	    /* grows */
	uint32_t lease_ms;  /* from receipt */
	uint8_t quiet;	    /* 1: start nothing, cancel what runs */
	uint32_t knob_mask; /* bit k: hold knob[k]; others: put back */
	int64_t knob[KNOB_COUNT];
	uint32_t cpu_budget_ppm;  /* of one CPU, for actions, long-term */
	uint16_t psi_abort_centi; /* PSI memory some avg10 that ends actions */
	char reason[PROTO_TEXT_MAX + 1];
};

#define ACTION_BLOCKS_ALL UINT32_MAX

enum urgency {
	URGENCY_BACKGROUND = 0,
	URGENCY_NORMAL = 1,
	URGENCY_URGENT = 2,
	URGENCY_COUNT
};

struct msg_action {
	uint64_t id; /* grows */
	uint8_t node;
	uint8_t backend; /* enum backend */
	uint8_t order;	 /* of the blocks wanted */
	uint8_t urgency;
	uint32_t blocks;    /* further free ones wanted, or ACTION_BLOCKS_ALL */
	uint64_t max_pages; /* moved */
	uint64_t max_cpu_us; /* of the guest's CPUs */
	uint64_t max_time_us;
	char reason[PROTO_TEXT_MAX + 1];
	/* keep what was made for so long, or until somebody needs it; 0: leave
	 * it free. Only BACKEND_FAULT can. */
	uint32_t hold_ms;
};

#define ACTION_HOLD_MAX_MS 3600000u

struct msg_cancel {
	uint64_t id; /* 0: whatever runs */
};

enum result_status {
	RESULT_DONE = 0,    /* target reached, or all that could be had */
	RESULT_STOPPED = 1, /* a limit came first: why */
	RESULT_REFUSED = 2, /* not started: why */
	RESULT_FAILED = 3,  /* could not: why, text */
	RESULT_STATUS_COUNT
};

/* Why an action ended where it did. */
enum stop_why {
	WHY_TARGET = 0,	    /* enough blocks */
	WHY_EXHAUSTED = 1,  /* the backend has no more to give */
	WHY_CPU = 2,	    /* max_cpu_us, or the long-term CPU budget */
	WHY_PAGES = 3,	    /* max_pages */
	WHY_TIME = 4,	    /* max_time_us */
	WHY_PRESSURE = 5,   /* PSI */
	WHY_CANCELLED = 6,  /* by the host */
	WHY_QUIET = 7,	    /* a directive said quiet, or the guest's admin */
	WHY_LOW_MEMORY = 8, /* too little free memory to begin */
	WHY_DENIED = 9,	    /* not allowed by the guest's admin */
	WHY_MISSING = 10,   /* this guest does not have it */
	WHY_OBSERVE = 11,   /* agent in --observe */
	WHY_BUSY = 12,	    /* another action runs */
	WHY_ERROR = 13,	    /* text says what */
	WHY_SESSION = 14,   /* the session ended meanwhile */
	WHY_RECLAIM = 15,   /* reclaim or swap rose */
	WHY_COUNT
};

struct msg_result {
	uint64_t id;
	uint8_t status;	 /* enum result_status */
	uint8_t why;	 /* enum stop_why */
	uint8_t backend; /* the one that was used */
	uint8_t node;
	uint8_t order;
	uint32_t asked;
	uint32_t blocks_before, blocks_after; /* free, of at least order */
	uint64_t free_pages_before, free_pages_after;
	/* guest-wide counter deltas over the action */
	uint64_t migrated, migrate_failed, reclaimed;
	uint64_t migrate_scanned, free_scanned;
	uint64_t allocstall, pgscan_direct, swapped_out, refaults;
	uint64_t kpageflags_words;
	uint64_t cpu_us, elapsed_us;
	char text[PROTO_TEXT_MAX + 1];
};

/*
 * What a guest's kernel keeps in each 2 MiB of guest-physical memory, numbered
 * by address / 2 MiB. By /proc/kpageflags, which shows folios, not mappings: a
 * block of order 9 may be mapped by 4 KiB entries all the same.
 */
enum guest_block {
	GUEST_BLOCK_NONE = 0, /* not all memory, or not known */
	GUEST_BLOCK_FREE = 1,
	GUEST_BLOCK_FOLIO = 2,	 /* one folio of that size or larger */
	GUEST_BLOCK_HUGETLB = 3, /* of a pool, in use or not */
	/* in use in smaller pages: 4 + tenths that are, 13 from 90 % on */
	GUEST_BLOCK_BASE = 4,
	GUEST_BLOCK_BASE_FULL = 13,
	GUEST_BLOCK_OFFLINE = 14, /* a balloon, virtio-mem: some of it is */
	GUEST_BLOCK_COUNT
};

#define PROTO_MAP_BLOCKS     4096u  /* a part: 8 GiB, 2 KiB of body */
#define PROTO_BACKING_BLOCKS 16384u /* 32 GiB, 2 KiB of body */
/* 52 bits of physical address */
#define PROTO_MAP_BLOCK_MAX (UINT64_C(1) << 31)

/* One pass over all memory; another while one runs takes its place. */
struct msg_map_ask {
	uint32_t id;		/* grows; echoed */
	uint32_t words_per_sec; /* of kpageflags, 8 bytes each; 60 to 90 ns */
};

struct msg_map {
	uint32_t id;
	uint64_t first_block;
	uint16_t nr; /* may be 0 */
	uint8_t node;
	uint8_t last;			 /* 1: the pass is complete */
	uint64_t words;			 /* read, by the whole pass so far */
	uint8_t block[PROTO_MAP_BLOCKS]; /* enum guest_block; 4 bits each */
};

/*
 * A hint: which blocks the host maps by huge pages. Replaces what was said of
 * these blocks before; nothing is known of others. With a new id all that was
 * said before is void.
 */
struct msg_backing {
	uint32_t id;
	uint64_t first_block;
	uint16_t nr;
	uint8_t huge[PROTO_BACKING_BLOCKS / 8]; /* bit i: first_block + i */
};

/* A decoded message: the member that type names. */
struct msg {
	uint16_t type; /* enum msg_type */
	uint32_t seq;
	uint64_t session;
	union {
		struct msg_hello hello;
		struct msg_welcome welcome;
		struct msg_bye bye;
		struct msg_report report;
		struct msg_directive directive;
		struct msg_action action;
		struct msg_cancel cancel;
		struct msg_result result;
		struct msg_map_ask map_ask;
		struct msg_map map;
		struct msg_backing backing;
	};
};

#endif
