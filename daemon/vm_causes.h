/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef VMDEFRAG_VM_CAUSES_H
#define VMDEFRAG_VM_CAUSES_H

#include "causes.h"
#include "vm.h"

/**
 * vm_cause_facts() - what is known of a VM now, for causes_find()
 *
 * Reads settings of the host; not for each tick.
 */
void vm_cause_facts(const struct vm *v, uint64_t now_us,
		    struct cause_facts *ret_facts);

#endif
