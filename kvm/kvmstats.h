/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How KVM maps a VM: entries of its page tables by size, which are gauges of
 * this moment. The statistics descriptor belongs to QEMU, so they are asked of
 * QEMU (query-stats, 7.1 and later), or read from debugfs.
 */
#ifndef VMDEFRAG_KVMSTATS_H
#define VMDEFRAG_KVMSTATS_H

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

struct kvm_pages {
	uint64_t pages_4k, pages_2m, pages_1g;
};

/**
 * kvmstats_args() - arguments of query-stats for these three
 *
 * Return: a new reference, or NULL without memory.
 */
json_t *kvmstats_args(void);

/**
 * kvmstats_parse() - query-stats' answer. Pure.
 *
 * Return: 0; -ENODATA where QEMU has none (emulation); -EPROTO.
 */
int kvmstats_parse(const json_t *answer, struct kvm_pages *ret);

/**
 * kvmstats_debugfs() - from the folder of the process's VM
 * @kvm_fd: /sys/kernel/debug/kvm
 *
 * A process with several VMs has the sum of them.
 *
 * Return: 0; -ENODATA if the process has no VM there; another -errno.
 */
int kvmstats_debugfs(int kvm_fd, pid_t pid, struct kvm_pages *ret);

#endif
