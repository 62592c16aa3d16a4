/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host's own nodes: sampled each second, with a trend, and compacted on
 * request by the knob writer.
 */
#ifndef VMDEFRAG_NODES_H
#define VMDEFRAG_NODES_H

#include "hostview.h"
#include "link.h"

#define NODES_SAMPLE_US (1 * SEC_US)
/* Trend over ten minutes, a point each ten seconds: short enough to show a
 * VM that starts, long enough to see through its bursts. */
#define NODES_TREND_US	   (10 * SEC_US)
#define NODES_TREND_POINTS 60

struct config;

struct nodes_point {
	uint64_t at_us;
	uint32_t blocks[HOSTVIEW_NODES_MAX]; /* free, of the PMD order */
};

struct nodes {
	int proc_fd, node_fd, mm_fd;
	struct hostview view;
	uint64_t at_us, next_us; /* of view; 0: never */
	int last_error;
	unsigned int pmd_order;
	struct nodes_point *trend; /* NODES_TREND_POINTS */
	unsigned int nr_points, next_point;
	uint64_t trend_us;
};

/**
 * nodes_open() - topology, and the files; a host that has none of it shows
 * its error in last_error
 */
void nodes_open(struct nodes *n, const struct config *cfg);
void nodes_close(struct nodes *n);

void nodes_tick(struct nodes *n, uint64_t now_us);

/**
 * nodes_trend() - change of a node's free blocks of the PMD order
 * @i:       position in view.node
 * @ret_min: blocks a minute, negative where they get fewer
 *
 * Return: true; false before there are two points.
 */
bool nodes_trend(const struct nodes *n, uint32_t i, int64_t *ret_per_min);

#endif
