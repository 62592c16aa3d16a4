/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What each process may do. All of them: no_new_privs, no supplementary
 * groups, nothing inheritable or ambient, and a bounding set that is no wider
 * than what they have.
 *
 *	core	configured user, nothing
 *	broker	configured user, nothing: its VMs come from the configuration,
 *		which arrives by fd. (libvirt's socket will want more.)
 *	helper	uid 0 with CAP_SYS_PTRACE (smaps_rollup of QEMU), CAP_SYS_NICE
 *		(process_madvise), CAP_DAC_READ_SEARCH (/proc/PID is 0500 of
 *		QEMU's user), CAP_DAC_OVERRIDE (to connect to its sockets)
 *	knobs	uid 0, nothing: owning sysfs' files is enough to write them
 *
 * The supervisor keeps what it takes to make these again, to signal them and
 * to put its own directories in order, no more.
 */
#ifndef VMDEFRAG_PRIVS_H
#define VMDEFRAG_PRIVS_H

#include <stdbool.h>
#include <sys/types.h>

#include "ipc.h"

struct identity {
	bool split; /* false: not root, all processes run as what we are */
	uid_t uid;  /* of core and broker */
	gid_t gid;
	gid_t socket_gid; /* of the control socket */
};

/**
 * privs_identity() - who core and broker will be
 * @group: of the control socket; "": primary group of @user
 * @what:  CONF_WHAT_MAX bytes
 *
 * Return: 0; -ENOENT with @what if there is no such user or group.
 */
int privs_identity(const char *user, const char *group, struct identity *ret_id,
		   char *what);

/**
 * privs_supervisor() - drop what the supervisor does not need
 *
 * Return: 0, or -errno.
 */
int privs_supervisor(const struct identity *id);

/**
 * privs_drop() - become what @role is, for good
 *
 * Capabilities that the daemon was started without are named in the log; the
 * role goes on without them.
 *
 * Return: 0, or -errno: the process must not go on.
 */
int privs_drop(enum role role, const struct identity *id);

#endif
