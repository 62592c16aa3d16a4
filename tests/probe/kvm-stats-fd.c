// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kvm-stats-fd - the binary format of KVM_GET_STATS_FD
 *
 * Header, descriptors, data: every offset inside the file, every name ended,
 * pages_4k, pages_2m and pages_1g present for the VM, instantaneous, one value
 * of 8 bytes each, and 0 while no vCPU has run.
 */
#include "kvm_probe.h"

#define NAME_MAX_ 256

static const char *const wanted[] = {"pages_4k", "pages_2m", "pages_1g"};

static int index_of(const char *name)
{
	for (int i = 0; i < 3; i++)
		if (!strcmp(name, wanted[i]))
			return i;
	return -1;
}

static void check_page_count(struct vm *vm, const struct kvm_stats_desc *d,
			     const char *name)
{
	if ((d->flags & KVM_STATS_TYPE_MASK) != KVM_STATS_TYPE_INSTANT)
		fail("%s is not instantaneous: flags 0x%x", name, d->flags);
	if ((d->flags & KVM_STATS_UNIT_MASK) != KVM_STATS_UNIT_NONE)
		fail("%s has a unit: flags 0x%x", name, d->flags);
	if (d->size != 1)
		fail("%s has %u values", name, d->size);
	if (vm_stat(vm, name))
		fail("%s is not 0 in a VM that never ran", name);
}

int main(void)
{
	char name[NAME_MAX_], id[NAME_MAX_ + 1] = "";
	struct kvm_stats_desc d;
	unsigned seen = 0;
	struct vm vm;

	vm_open(&vm);
	vm_open_stats(&vm);
	if (vm.head.name_size > NAME_MAX_ || vm.head.num_desc > STATS_MAX)
		fail("name_size %u, num_desc %u: beyond what we take",
		     vm.head.name_size, vm.head.num_desc);
	if (pread(vm.stats, id, vm.head.name_size, vm.head.id_offset) !=
	    (ssize_t)vm.head.name_size)
		fail("no id");
	printf("id %s, %u statistics, names of %u, descriptors at %u, data at "
	       "%u\n",
	       id, vm.head.num_desc, vm.head.name_size, vm.head.desc_offset,
	       vm.head.data_offset);
	for (unsigned i = 0; i < vm.head.num_desc; i++) {
		vm_stat_desc(&vm, i, &d, name);
		if (!memchr(name, 0, vm.head.name_size))
			fail("name %u is not ended", i);
		if (d.offset % 8)
			fail("%s at offset %u", name, d.offset);
		if (index_of(name) >= 0) {
			seen |= 1u << index_of(name);
			check_page_count(&vm, &d, name);
		}
	}
	if (seen != 7)
		fail("pages_4k, pages_2m, pages_1g are not all there: 0x%x",
		     seen);
	puts("pages_4k, pages_2m, pages_1g: instantaneous, one value each");
	return 0;
}
