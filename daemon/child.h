/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From the supervisor to one of its processes: fork, and shed everything that
 * is not its own.
 */
#ifndef VMDEFRAG_CHILD_H
#define VMDEFRAG_CHILD_H

#include "config.h"
#include "privs.h"
#include "roles.h"

struct child_spec {
	enum role role;
	role_main_fn main;
	const struct config *cfg;
	const struct identity *id;
	int listen_fd; /* -1 but for the core */
};

/**
 * child_start() - fork; the child never returns from this
 * @ret_fd: the supervisor's end of the link
 *
 * Return: the pid, or -errno.
 */
pid_t child_start(const struct child_spec *spec, int *ret_fd);

/**
 * child_close_others() - close all fds above stderr but those in @keep
 * @keep: -1 is skipped; gets sorted
 */
void child_close_others(int *keep, size_t nr);

#endif
