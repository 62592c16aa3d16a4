/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What /proc says of a QEMU process. Never logs. May block for as long as
 * somebody holds the process's mmap_lock: for the mm helper only.
 */
#ifndef VMDEFRAG_HOSTPROC_H
#define VMDEFRAG_HOSTPROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct hostproc_sample {
	uint64_t start_time; /* ticks since boot, proc(5) field 22 */
	uint64_t cpu_us;     /* user and system */
	uint64_t rss_kib;    /* without hugetlb, as the kernel counts */
	uint64_t hugetlb_kib, swap_kib;
	bool huge_valid;	 /* smaps_rollup could be read */
	uint64_t anon_huge_kib;	 /* PMD-mapped */
	uint64_t shmem_huge_kib; /* PMD-mapped, files included */
	bool locked_valid;	 /* status has VmLck and VmPin */
	uint64_t locked_kib, pinned_kib;
};

/**
 * hostproc_sample() - sample one process
 * @proc_fd:    /proc, or a test's likeness
 * @start_time: what it must have been started at, or 0 for any: a pid may
 *              have been given to another process since
 *
 * smaps_rollup is what counts; where it is refused, status gives RSS, hugetlb
 * and swap.
 *
 * Return: 0; -ESRCH if the process is gone, or is another; another -errno.
 */
int hostproc_sample(int proc_fd, pid_t pid, uint64_t start_time,
		    struct hostproc_sample *ret);

/**
 * hostproc_parse_stat() - start time and CPU time from /proc/PID/stat. Pure.
 * @ticks_per_sec: sysconf(_SC_CLK_TCK)
 *
 * Return: 0, or -EBADMSG.
 */
int hostproc_parse_stat(const char *text, uint64_t ticks_per_sec,
			uint64_t *ret_start_time, uint64_t *ret_cpu_us);

/**
 * hostproc_parse_rollup() - sizes from smaps_rollup. Pure.
 *
 * Lines that a kernel lacks count as 0, but for Rss.
 * Return: 0, or -EBADMSG.
 */
int hostproc_parse_rollup(const char *text, struct hostproc_sample *s);

/**
 * hostproc_parse_status() - VmLck and VmPin from status; RSS, hugetlb and
 *                           swap too unless s->huge_valid. Pure.
 *
 * A kernel thread or a zombie has no Vm lines.
 * Return: 0, or -EBADMSG.
 */
int hostproc_parse_status(const char *text, struct hostproc_sample *s);

#endif
