// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kvm-caps - which capabilities of KVM this host has
 *
 * Prints one line each. Only those without which there is nothing to do for us
 * fail; the others are what a feature has to ask for before it counts on it.
 */
#include "kvm_probe.h"

#ifndef KVM_CAP_PRE_FAULT_MEMORY
#define KVM_CAP_PRE_FAULT_MEMORY 236
#endif
#ifndef KVM_CAP_GUEST_MEMFD
#define KVM_CAP_GUEST_MEMFD 234
#endif

static const struct {
	int cap, needed;
	const char *name, *why;
} caps[] = {
	{KVM_CAP_USER_MEMORY, 1, "user_memory", "slots are our memory"},
	{KVM_CAP_SYNC_MMU, 1, "sync_mmu", "a collapse reaches KVM's tables"},
	{KVM_CAP_NR_MEMSLOTS, 1, "nr_memslots", "at least 32"},
	{KVM_CAP_BINARY_STATS_FD, 0, "binary_stats_fd", "pages_4k/2m/1g"},
	{KVM_CAP_READONLY_MEM, 0, "readonly_mem", "ROM slots in the list"},
	{KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2, 0, "manual_dirty_log",
	 "dirty logging may split lazily"},
	{KVM_CAP_DIRTY_LOG_RING, 0, "dirty_ring", "or use a ring"},
	{KVM_CAP_GUEST_MEMFD, 0, "guest_memfd", "memory that we cannot map"},
	{KVM_CAP_PRE_FAULT_MEMORY, 0, "pre_fault_memory", "6.11 and later"},
};

int main(void)
{
	int bad = 0;
	struct vm vm;

	vm_open(&vm);
	if (ioctl(vm.kvm, KVM_GET_API_VERSION, 0) != KVM_API_VERSION)
		fail("API version is not %d", KVM_API_VERSION);
	for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
		int v = ioctl(vm.kvm, KVM_CHECK_EXTENSION, caps[i].cap);

		printf("%s %d (%s)%s\n", caps[i].name, v, caps[i].why,
		       caps[i].needed && v <= 0 ? " MISSING" : "");
		bad |= caps[i].needed && v <= 0;
		if (caps[i].cap == KVM_CAP_NR_MEMSLOTS && v < 32)
			bad = 1;
	}
	return bad;
}
