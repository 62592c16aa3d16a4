/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The supervisor: makes the directories and the control socket, keeps the four
 * processes running, and ends them in order.
 */
#ifndef VMDEFRAG_SUPERVISOR_H
#define VMDEFRAG_SUPERVISOR_H

#include "config.h"
#include "options.h"
#include "roles.h"

struct supervisor_args {
	const struct options *options; /* to read the configuration again */
	struct config *cfg;	       /* taken over */
	role_main_fn main[ROLE_COUNT];
};

/**
 * supervisor_run() - the daemon, from directories to orderly end
 *
 * Return: exit status, see options.h.
 */
int supervisor_run(const struct supervisor_args *args);

#endif
