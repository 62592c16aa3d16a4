/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a VM's control group tells at next to no cost: how much of its memory
 * lies on which node, and how much of that in huge pages. Only where the group
 * is the VM's own; may block like anything about a process.
 */
#ifndef VMDEFRAG_HOSTCGROUP_H
#define VMDEFRAG_HOSTCGROUP_H

#include <stdint.h>
#include <sys/types.h>

#define HOSTCGROUP_NODES_MAX 64u

struct hostcgroup_numa {
	uint32_t nr_nodes; /* entries used: the highest node seen, plus one */
	struct {
		uint64_t anon_kib, anon_thp_kib, file_kib, shmem_kib;
		uint64_t file_thp_kib, shmem_thp_kib;
	} node[HOSTCGROUP_NODES_MAX];
};

/**
 * hostcgroup_sample() - memory.numa_stat of the group that @pid is alone in
 * @proc_fd:   /proc
 * @cgroup_fd: where cgroup2 is mounted
 *
 * Return: 0; -ENODATA if the process shares its group with others, or no
 * group of its own has the memory controller; -ESRCH; -EBADMSG.
 */
int hostcgroup_sample(int proc_fd, int cgroup_fd, pid_t pid,
		      struct hostcgroup_numa *ret);

/**
 * hostcgroup_room() - how much more memory the process may take
 * @ret_kib: to the nearest memory.high or memory.max of its group and those
 *	     above it; UINT64_MAX: nothing limits it
 *
 * Return: 0, also without cgroup2; -ESRCH.
 */
int hostcgroup_room(int proc_fd, int cgroup_fd, pid_t pid, uint64_t *ret_kib);

/**
 * hostcgroup_parse_path() - the cgroup2 line of /proc/PID/cgroup. Pure.
 * @path: takes it, without its leading '/'
 *
 * Return: 0; -ENODATA without one; -ENAMETOOLONG.
 */
int hostcgroup_parse_path(const char *text, char *path, size_t size);

/**
 * hostcgroup_parse_numa_stat() - "anon N0=4096 N1=0" lines. Pure.
 *
 * Return: 0, or -EBADMSG.
 */
int hostcgroup_parse_numa_stat(char *text, struct hostcgroup_numa *ret);

#endif
