/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the guest's memory looks like: reads each source once and fills the
 * memory part of a report. Its files stay open.
 */
#ifndef AGENT_SAMPLE_H
#define AGENT_SAMPLE_H

#include "procfs.h"
#include "proto.h"

struct sample_node {
	uint8_t id;
	int meminfo_fd;
};

struct sample_mthp {
	uint8_t order;
	int enabled_fd, alloc_fd, fallback_fd;
	uint8_t policy; /* enum mthp_policy, as last read */
};

struct sampler {
	uint32_t page_size;
	unsigned int pmd_order, nr_orders;
	int vmstat_fd, buddyinfo_fd, zoneinfo_fd;
	int psi_fd;   /* -1: a kernel without, or psi=0 */
	int statm_fd; /* -1: no /proc/self, in tests */
	int thp_fd, reporting_order_fd;
	/* settings that only people change: read at times */
	unsigned int samples;
	uint8_t thp_enabled;
	uint16_t reporting_order;
	unsigned int nr_nodes;
	struct sample_node node[PROTO_NODES_MAX];
	unsigned int nr_mthp;
	struct sample_mthp mthp[PROTO_ORDERS_MAX];
};

/**
 * sampler_open() - open the sources
 * @proc_fd: /proc, or a directory that looks like it
 * @sys_fd:  /sys, likewise
 * @hello:   the guest's page size, PMD order and mTHP orders
 *
 * Return: 0, or -errno if a source that every kernel has is not there. What
 * was opened is then closed again.
 */
int sampler_open(struct sampler *s, int proc_fd, int sys_fd,
		 const struct msg_hello *hello);

/**
 * sampler_close() - also of one that is all zero but for the fds being -1
 */
void sampler_close(struct sampler *s);

/**
 * sampler_report() - fill the memory part of a report
 *
 * Fields that the sampler knows nothing of (knobs, ids, the agent's own
 * figures but for its RSS) are not touched.
 *
 * Return: 0, or -errno.
 */
int sampler_report(struct sampler *s, struct msg_report *r);

/**
 * sampler_score_pct() - a node's fragmentation as kcompactd sees it
 */
unsigned int sampler_score_pct(const struct sampler *s, const struct zones *z,
			       unsigned int node);

/* Single sources, for watching an action. Return: 0, or -errno. */
int sampler_vmstat(const struct sampler *s, struct vmstat *ret_vmstat);
int sampler_buddyinfo(const struct sampler *s, struct zones *ret_zones);
int sampler_zones(const struct sampler *s, struct zones *ret_zones);
int sampler_psi(const struct sampler *s, struct psi_report *ret_psi);

#endif
