/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One write(2) to a kernel file, in a process of its own: writing to
 * nr_hugepages or nodeN/compact takes as long as the kernel works, and any
 * signal ends that work where it stands.
 */
#ifndef VMDEFRAG_WORKER_H
#define VMDEFRAG_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct worker {
	pid_t pid; /* 0: none */
	int pidfd; /* readable when it has ended */
};

/**
 * worker_start() - write @text to @path
 * @dir_fd: that @path is relative to
 *
 * Return: 0; -errno, also if @path cannot be opened.
 */
int worker_start(int dir_fd, const char *path, const char *text,
		 struct worker *ret);

/**
 * worker_kill() - SIGKILL; it still is to be reaped
 */
void worker_kill(const struct worker *w);

/**
 * worker_reap() - has it ended?
 * @ret_result: of the write: 0, -errno, or -ECANCELED if it was killed
 * @ret_cpu_us: that it took
 *
 * Return: true, and @w is none again; false while it runs.
 */
bool worker_reap(struct worker *w, int *ret_result, uint64_t *ret_cpu_us);

/**
 * worker_run() - start, wait, and reap
 * @max_us: killed after this
 *
 * Return: 0; -errno of the write; -ETIMEDOUT if it was killed; -EBUSY if it
 * does not even end then and was left behind.
 */
int worker_run(int dir_fd, const char *path, const char *text, uint64_t max_us);

/**
 * worker_end() - kill and reap
 * @max_us: waits no longer
 *
 * Return: as worker_reap().
 */
bool worker_end(struct worker *w, uint64_t max_us, int *ret_result,
		uint64_t *ret_cpu_us);

#endif
