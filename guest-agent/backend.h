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

#include "knob.h"
#include "proto.h"

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

struct job {
	int sys_fd;
	struct knobs *knobs;
	uint8_t node, order;
	enum urgency urgency;
	bool all;		/* as many as can be had */
	uint64_t target_blocks; /* free ones of the order, in all */
	uint64_t start_pages;	/* free at the start */
	uint64_t blocks;	/* free now; the action keeps it fresh */
	union {
		struct compact_job compact;
	};
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
};

extern const struct backend_ops backend_compact;

/**
 * backend_get() - the implementation
 *
 * Return: NULL where this build has none.
 */
const struct backend_ops *backend_get(enum backend backend);

/**
 * backend_choose() - which one BACKEND_AUTO stands for
 * @usable: bits of backends that can be used here
 */
enum backend backend_choose(enum backend wanted, uint32_t usable);

#endif
