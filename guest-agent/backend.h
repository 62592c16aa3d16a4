/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ways to make free blocks, behind one interface. An action drives one job at
 * a time through it: start, step until it says that it has ended, finish.
 * Nothing in here blocks: what takes long runs in a child.
 */
#ifndef AGENT_BACKEND_H
#define AGENT_BACKEND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "hold.h"
#include "knob.h"
#include "limits.h"
#include "loan.h"
#include "proto.h"
#include "writer.h"

/* What the compact backend keeps in a job. */
struct compact_job {
	int fd;	   /* nodeN/compact */
	pid_t pid; /* the child that writes to it; 0: none */
	unsigned int passes;
	uint64_t pass_blocks; /* free blocks when this pass began */
	uint64_t reaped_cpu_us;
	bool holds_knob;
	bool killed;
};

/* What the fault backend keeps in a job. */
struct fault_job {
	struct fault_share *share; /* with the child */
	pid_t pid;		   /* 0: none */
	unsigned int passes;
	uint64_t pass_until_us; /* switches must be set by then */
	uint64_t reaped_cpu_us;
	/* of the passes that ended */
	uint64_t stalls, stall_us;
	bool collapse; /* by MADV_COLLAPSE, which asks no switch */
	bool killed;
};

/* What the proactive backend keeps in a job. */
struct proactive_job {
	pid_t kcompactd;
	uint64_t base_cpu_us; /* its CPU time at the start */
	uint64_t busy_cpu_us; /* and when it was last seen at work */
	uint64_t busy_us;
	bool below_start; /* starts only where the kernel has no floor */
	bool cancelled;
	uint64_t cancelled_us;
};

enum hugetlb_stage {
	HUGETLB_GROW,
	HUGETLB_PUT_BACK,
};

/* What the hugetlb backend keeps in a job. All figures are huge pages. */
struct hugetlb_job {
	struct writer writer;
	enum hugetlb_stage stage;
	uint32_t kib;		 /* of a huge page */
	uint64_t original, ours; /* sizes: as found, as last asked for */
	uint64_t now;		 /* as last seen */
	bool holds_knob;
	bool idle; /* between two writes */
	bool ending, foreign;
	int error; /* of a write, to be told once all is back */
	struct verdict verdict;
};

enum memblock_stage {
	MEMBLOCK_SCAN,	 /* reading kpageflags */
	MEMBLOCK_CHOOSE, /* with fresh figures */
	MEMBLOCK_TAKE,	 /* the child takes a block offline */
	MEMBLOCK_RETURN, /* the child brings it back */
};

struct memblock_map; /* backend_memblock.c */

/* What the memblock backend keeps in a job. */
struct memblock_job {
	struct writer writer;
	enum memblock_stage stage;
	struct memblock_map *map;
	uint32_t number; /* the block in hand */
	uint8_t zone;	 /* that it came from */
	uint64_t taken_us;
	uint64_t scan_cpu_us;
	unsigned int failures;
	bool holds_knob, ending;
	struct verdict verdict;
};

/* What backends learn about the kernel; the agent keeps it. */
struct backend_memory {
	/* no proactive run starts at this score or below, seen so */
	uint8_t proactive_floor_pct;
};

struct job {
	int proc_fd, sys_fd;
	struct knobs *knobs;
	struct loans *loans;
	const struct msg_hello *caps;
	struct backend_memory *memory;
	struct holds *holds;
	uint64_t action_id;
	uint64_t hold_us; /* keep what is made; 0: leave it free */
	uint64_t now_us;  /* of this step */
	uint8_t node, order;
	enum urgency urgency;
	bool all;		/* as many as can be had */
	uint64_t target_blocks; /* free ones of the order, in all */
	uint64_t start_pages;	/* free at the start */
	uint64_t start_blocks;	/* free ones of the order, at the start */
	uint64_t floor_pages;	/* below that no free memory may be taken */
	unsigned int score_pct; /* of the node, at the start */
	/* now; the action keeps both fresh */
	uint64_t blocks;     /* free */
	uint64_t free_pages; /* of the node */
	/* by the backend */
	bool look_soon;		   /* there is something to do at once */
	uint64_t kpageflags_words; /* read so far */
	union {
		struct compact_job compact;
		struct fault_job fault;
		struct proactive_job proactive;
		struct hugetlb_job hugetlb;
		struct memblock_job memblock;
	};
};

/* What a backend did itself, of what guest-wide figures show. */
struct job_own {
	uint64_t held_blocks; /* of the order: free as soon as it ends */
	uint64_t allocstall;
	uint64_t stall_us; /* that PSI counts */
};

struct backend_ops {
	/*
	 * Can it be used here? Return: 0; -ENOENT if the kernel lacks it;
	 * -EACCES or -EROFS if it may not be used.
	 */
	int (*probe)(int sys_fd, unsigned int node);
	/* Return: 0 if it runs; -errno if not, and nothing needs finishing. */
	int (*start)(struct job *j, uint64_t now_us);
	/* Return: 0 while it runs; 1 when it ended by itself; -errno. */
	int (*step)(struct job *j);
	/* Make it end soon; step then says when. */
	void (*cancel)(struct job *j);
	/* Put back what start changed. After the end, or a failed step. */
	void (*finish)(struct job *j, uint64_t now_us);
	/* CPU time so far. */
	uint64_t (*cpu_us)(const struct job *j);

	/* The rest is optional. */

	/* Why it cannot do this job, if so; before start. */
	struct verdict (*admit)(const struct job *j);
	/* A limit of its own that is reached, if any. */
	struct verdict (*check)(const struct job *j, const struct progress *p);
	void (*own)(const struct job *j, struct job_own *ret_own);
};

extern const struct backend_ops backend_compact;
extern const struct backend_ops backend_fault;
extern const struct backend_ops backend_hugetlb;
extern const struct backend_ops backend_memblock;
extern const struct backend_ops backend_proactive;

/**
 * backend_get() - the implementation
 *
 * Return: NULL where this build has none.
 */
const struct backend_ops *backend_get(enum backend backend);

#endif
