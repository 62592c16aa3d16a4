/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A QEMU process as /proc shows it, held by a directory that stays its own:
 * what is opened in it is never a later process's with the same number. Never
 * logs. Reading may block for as long as somebody holds the process's
 * mmap_lock: for the mm helper only.
 */
#ifndef VMDEFRAG_QEMUPROC_H
#define VMDEFRAG_QEMUPROC_H

#include <sys/types.h>

#include "layout.h"

struct qemuproc {
	pid_t pid;
	int dir_fd, pidfd; /* -1: closed */
	uint64_t start_time;
	bool thp_disabled; /* PR_SET_THP_DISABLE: collapse is refused, too */
	bool ksm;	   /* KSM holds pages of it */
};

/**
 * qemuproc_open() - hold a process
 * @start_time: what it must have been started at, or 0 for any
 *
 * Return: 0; -ESRCH if it is gone, or is another; another -errno.
 */
int qemuproc_open(struct qemuproc *p, int proc_fd, pid_t pid,
		  uint64_t start_time);

/**
 * qemuproc_close() - also of one that is all zero but for its fds of -1
 */
void qemuproc_close(struct qemuproc *p);

/**
 * qemuproc_layout() - where its guest's memory lies
 *
 * Return: 0, whatever was found; -ESRCH; -EFBIG for files beyond reason;
 * another -errno.
 */
int qemuproc_layout(const struct qemuproc *p, const struct layout_hint *hints,
		    unsigned int nr_hints, struct layout *ret_layout);

#endif
