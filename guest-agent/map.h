/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One full pass over the guest's memory, for people and tests: what its
 * pageblocks hold, by zone.
 */
#ifndef AGENT_MAP_H
#define AGENT_MAP_H

#include <stdio.h>

#include "proto.h"
#include "sample.h"

/**
 * map_print() - read kpageflags once, and print the sums as JSON
 *
 * The free blocks that buddyinfo has at the end stand beside those that the
 * flags gave; what the guest did meanwhile is the difference.
 *
 * Return: 0, or -errno.
 */
int map_print(int proc_fd, int sys_fd, const struct msg_hello *caps,
	      const struct sampler *sampler, FILE *f);

#endif
