/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The helper's requests about a guest's memory; for helper.c. */
#ifndef VMDEFRAG_HELPER_MAP_H
#define VMDEFRAG_HELPER_MAP_H

#include "ipc.h"

/**
 * helper_map_scan() - IPC_MAP_SCAN
 *
 * Return: the fd to answer with, or -errno.
 */
int helper_map_scan(int proc_fd, struct ipc_msg *req);

/**
 * helper_map_collapse() - IPC_COLLAPSE; @m becomes its own answer
 *
 * Return: 0, or -errno.
 */
int helper_map_collapse(int proc_fd, int cgroup_fd, struct ipc_msg *m);

#endif
