/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One write(2) to a kernel file that may take its time, done by a child.
 * Signals end most of these early, and an agent that dies takes its child
 * along.
 */
#ifndef AGENT_WRITER_H
#define AGENT_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct writer {
	pid_t pid; /* 0: none runs */
	bool killed;
	uint64_t reaped_cpu_us; /* of those before */
};

/**
 * writer_start() - have @text written by a child
 * @path:       relative to @dir_fd
 * @background: at a low priority
 *
 * The writer must not be running. What it used so far goes on counting.
 *
 * Return: 0, or -errno.
 */
int writer_start(struct writer *w, int dir_fd, const char *path,
		 const char *text, bool background);

/**
 * writer_step() - how is it?
 *
 * Return: 0 while it runs; 1 once the kernel has taken the text; -ECANCELED
 * if writer_kill() ended it first; the -errno of write(2); -EINTR if somebody
 * else killed it; -ENOENT if none runs.
 */
int writer_step(struct writer *w);

/**
 * writer_kill() - end it soon; writer_step() then says when
 */
void writer_kill(struct writer *w);

/**
 * writer_cpu_us() - CPU time of all its children so far
 */
uint64_t writer_cpu_us(const struct writer *w);

#endif
