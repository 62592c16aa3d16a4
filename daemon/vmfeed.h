/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What one end must be told so that it knows the VMs that exist: the
 * difference between what it was told and what is wanted, message by message,
 * however often what is wanted changes meanwhile. No I/O: the caller sends,
 * where the VMs come from (configuration, later libvirt) is not its business.
 */
#ifndef VMDEFRAG_VMFEED_H
#define VMDEFRAG_VMFEED_H

#include "config.h"

struct vmfeed {
	size_t nr_told;
	struct ipc_vm *told; /* CONFIG_VMS_MAX of them */
	bool synced;	     /* IPC_VM_SYNCED was sent since vmfeed_reset() */
};

/**
 * vmfeed_init() - Return: 0, or -ENOMEM.
 */
int vmfeed_init(struct vmfeed *f);

void vmfeed_free(struct vmfeed *f);

/**
 * vmfeed_reset() - a new listener, who knows nothing yet
 */
void vmfeed_reset(struct vmfeed *f);

/**
 * vmfeed_next() - the next message on the way to @want
 *
 * Removals first, so that a VM can be renamed and keep its channel.
 * Return: true with @ret_m; false if nothing is left to say.
 */
bool vmfeed_next(const struct vmfeed *f, const struct ipc_vm *want,
		 size_t nr_want, struct ipc_msg *ret_m);

/**
 * vmfeed_sent() - @m, from vmfeed_next(), is on its way
 */
void vmfeed_sent(struct vmfeed *f, const struct ipc_msg *m);

#endif
