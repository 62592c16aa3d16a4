/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What this guest is and can do: probed, never guessed from a version.
 */
#ifndef AGENT_CAPS_H
#define AGENT_CAPS_H

#include "config.h"
#include "proto.h"

/**
 * caps_probe() - fill a handshake, all but its nonce
 * @proc_fd, @sys_fd: /proc and /sys, or directories that look like them
 * @ret_boot_id:      as the kernel writes it, BOOT_ID_TEXT_SIZE bytes
 * @what:             CONF_WHAT_MAX bytes; what is missing, on failure
 *
 * Return: 0, or -errno if this kernel lacks what the agent cannot do without.
 */
int caps_probe(const struct config *cfg, bool observe, int proc_fd, int sys_fd,
	       struct msg_hello *ret_hello, char *ret_boot_id, char *what);

/**
 * caps_has_swap() - is any swap on just now?
 */
bool caps_has_swap(int proc_fd);

#endif
