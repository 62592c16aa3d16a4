/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The main functions of the processes, core_main() (core.h) aside. As it,
 * they run from fork to exit with their privileges dropped, end on IPC_STOP or
 * at the end of @sup_fd, and return the exit status. @listen_fd is -1.
 */
#ifndef VMDEFRAG_ROLES_H
#define VMDEFRAG_ROLES_H

struct config;

typedef int (*role_main_fn)(const struct config *cfg, int sup_fd,
			    int listen_fd);

int broker_main(const struct config *cfg, int sup_fd, int listen_fd);
int helper_main(const struct config *cfg, int sup_fd, int listen_fd);
int knobs_main(const struct config *cfg, int sup_fd, int listen_fd);

#endif
