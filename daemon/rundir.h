/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The daemon's places in the file system: run directory with lock and control
 * socket, state directory.
 */
#ifndef VMDEFRAG_RUNDIR_H
#define VMDEFRAG_RUNDIR_H

#include "config.h"
#include "privs.h"

/**
 * rundir_open() - make the run directory if need be, and lock it
 * @ret_lock_fd: holds the lock for as long as it is open
 * @what:        CONF_WHAT_MAX bytes
 *
 * Return: 0; -EBUSY if another daemon has it; another -errno; all with @what.
 */
int rundir_open(const char *path, int *ret_lock_fd, char *what);

/**
 * rundir_state() - make the state directory, owned by core's user
 */
int rundir_state(const char *path, const struct identity *id, char *what);

/**
 * rundir_listen() - the control socket: systemd's, or a new one
 * @ret_own: true if it is ours to unlink
 */
int rundir_listen(const struct config *cfg, const struct identity *id,
		  int *ret_fd, bool *ret_own, char *what);

#endif
