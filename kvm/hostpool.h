/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host's hugetlb pools and free blocks, per node. Never logs, never
 * writes: writing can take long and is the knob writer's.
 */
#ifndef VMDEFRAG_HOSTPOOL_H
#define VMDEFRAG_HOSTPOOL_H

#include <stddef.h>
#include <stdint.h>

struct hostpool {
	uint64_t nr; /* as nr_hugepages reads: surplus included */
	uint64_t free, surplus;
};

#define HOSTPOOL_PATH_MAX 96

/**
 * hostpool_path() - "node1/hugepages/hugepages-2048kB/@file"
 * @buf: HOSTPOOL_PATH_MAX bytes; relative to /sys/devices/system/node
 */
void hostpool_path(char *buf, unsigned int node, uint64_t page_kib,
		   const char *file);

/**
 * hostpool_read() - the pool of one node and page size
 * @node_fd: /sys/devices/system/node, or a test's likeness
 *
 * Return: 0; -ENOENT if the host has no such node or page size; -EBADMSG;
 * another -errno.
 */
int hostpool_read(int node_fd, unsigned int node, uint64_t page_kib,
		  struct hostpool *ret);

/**
 * hostpool_persistent() - what nr_hugepages was asked to be
 *
 * Writing a smaller number than what is in use turns the difference into
 * surplus, which goes as it is freed.
 */
uint64_t hostpool_persistent(const struct hostpool *p);

/**
 * hostpool_parse_buddyinfo() - free blocks of @order on @node. Pure.
 *
 * Larger blocks count as often as @order fits into them; per-CPU lists are not
 * in it. Return: 0; -ENOENT for no such node; -ERANGE for an order that the
 * kernel has not; -EBADMSG.
 */
int hostpool_parse_buddyinfo(const char *text, unsigned int node,
			     unsigned int order, uint64_t *ret_blocks);

/**
 * hostpool_free_blocks() - the same from @proc_fd's buddyinfo
 */
int hostpool_free_blocks(int proc_fd, unsigned int node, unsigned int order,
			 uint64_t *ret_blocks);

#endif
