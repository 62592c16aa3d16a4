/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host's memory per NUMA node, from files that anybody may read: tier 0,
 * each second. Never logs, never writes.
 */
#ifndef VMDEFRAG_HOSTVIEW_H
#define VMDEFRAG_HOSTVIEW_H

#include "hostpool.h"
#include "proto.h"

/* Hosts of more nodes are seen up to here, which hostview.truncated says. */
#define HOSTVIEW_NODES_MAX 64u
#define HOSTVIEW_POOLS_MAX 4u /* x86-64 has two sizes, aarch64 four */

struct hostview_node {
	uint32_t id;
	uint64_t total_kib, free_kib, anon_kib, anon_huge_kib, file_kib;
	uint32_t free_blocks[PROTO_ORDERS_MAX]; /* without per-CPU lists */
	uint16_t unusable_permille[PROTO_ORDERS_MAX];
	struct hostpool pool[HOSTVIEW_POOLS_MAX];
	uint32_t distance[HOSTVIEW_NODES_MAX]; /* to node[i]; 10 is itself */
};

struct hostview {
	bool truncated;
	uint32_t nr_nodes, nr_orders, nr_pools;
	struct hostview_node node[HOSTVIEW_NODES_MAX];
	uint64_t pool_kib[HOSTVIEW_POOLS_MAX]; /* page sizes, ascending */
	/* promised to mappings, not taken yet; the kernel has it for the
	 * whole host only, so what one node can give is at least
	 * free - reserved and at most free */
	uint64_t pool_reserved[HOSTVIEW_POOLS_MAX];
};

/**
 * hostview_topology() - nodes with memory and their distances, by libnuma
 *
 * Return: 0; -ENOSYS where the kernel has no NUMA calls: one node 0 then.
 */
int hostview_topology(struct hostview *v);

/**
 * hostview_read() - fill in all but the topology
 * @proc_fd: /proc
 * @node_fd: /sys/devices/system/node
 * @mm_fd:   /sys/kernel/mm/hugepages, or -1
 *
 * Return: 0; -ENOENT if a node went away; -EBADMSG; another -errno. @v is
 * written in part on failure.
 */
int hostview_read(int proc_fd, int node_fd, int mm_fd, struct hostview *v);

/* Free blocks of at least @order, counted in blocks of @order. */
uint64_t hostview_blocks(const struct hostview_node *n, unsigned int order);

/* Position of a node with this id, or -ENOENT. */
int hostview_find(const struct hostview *v, uint32_t id);

#endif
