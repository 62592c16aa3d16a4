/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The core: guest bytes, policy, control socket.
 */
#ifndef VMDEFRAG_CORE_H
#define VMDEFRAG_CORE_H

struct config;

/**
 * core_main() - the core process, from its fork to its end
 * @cfg:       as validated; lives as long as the process
 * @sup_fd:    link to the supervisor; the others come by IPC_LINK
 * @listen_fd: control socket, listening, non-blocking
 *
 * Runs with its privileges dropped, SIGTERM blocked, and SIGINT, SIGHUP and
 * SIGPIPE ignored: it ends on IPC_STOP or at the end of @sup_fd, which are the
 * same to it. SIGTERM comes as well when the supervisor dies; a core that
 * wants to be ended by hand takes it from a signalfd.
 *
 * Return: exit status of the process.
 */
int core_main(const struct config *cfg, int sup_fd, int listen_fd);

#endif
