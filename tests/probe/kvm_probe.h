/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the KVM probes share: a VM of their own, its statistics, and a guest of
 * a few instructions that writes one byte each 4 KiB of a range.
 *
 * A probe prints lines of what it found. Exit: 0 as expected, 77 cannot be
 * asked here (the last line says why), 1 not as expected.
 */
#ifndef TESTS_PROBE_KVM_PROBE_H
#define TESTS_PROBE_KVM_PROBE_H

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXIT_SKIP  77
#define PAGE	   4096ull
#define HUGE	   (2ull << 20)
#define DEADLINE_S 20 /* emulated hosts need about one */
#define CODE_GPA   0x1000ull
#define STATS_MAX  512

struct vm {
	int kvm, fd, vcpu, stats;
	struct kvm_run *run;
	struct kvm_stats_header head;
};

static inline void __attribute__((noreturn, format(printf, 2, 3)))
leave(int status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
	_exit(status);
}

#define skip(...) leave(EXIT_SKIP, __VA_ARGS__)
#define fail(...) leave(1, __VA_ARGS__)

static inline void on_deadline(int sig)
{
	static const char text[] = "KVM opens, but its guests hang\n";

	(void)sig;
	if (write(1, text, sizeof(text) - 1) < 0)
		_exit(1);
	_exit(EXIT_SKIP);
}

/* The VM without vCPU: enough for slots and statistics. */
static inline void vm_open(struct vm *vm)
{
	memset(vm, 0, sizeof(*vm));
	vm->vcpu = vm->stats = -1;
	vm->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (vm->kvm < 0)
		skip("/dev/kvm: %s", strerror(errno));
	vm->fd = ioctl(vm->kvm, KVM_CREATE_VM, 0);
	if (vm->fd < 0)
		skip("KVM_CREATE_VM: %s", strerror(errno));
}

static inline void vm_open_stats(struct vm *vm)
{
	vm->stats = ioctl(vm->fd, KVM_GET_STATS_FD, NULL);
	if (vm->stats < 0)
		skip("KVM_GET_STATS_FD: %s", strerror(errno));
	if (pread(vm->stats, &vm->head, sizeof(vm->head), 0) !=
	    sizeof(vm->head))
		fail("the statistics have no header");
}

/* Descriptor `i`; `name` must have room for name_size bytes. */
static inline void vm_stat_desc(struct vm *vm, unsigned i,
				struct kvm_stats_desc *d, char *name)
{
	size_t len = sizeof(*d) + vm->head.name_size;
	off_t at = vm->head.desc_offset + (off_t)i * len;

	if (pread(vm->stats, d, sizeof(*d), at) != sizeof(*d) ||
	    pread(vm->stats, name, vm->head.name_size, at + sizeof(*d)) !=
		    (ssize_t)vm->head.name_size)
		fail("descriptor %u is cut off", i);
}

static inline uint64_t vm_stat(struct vm *vm, const char *wanted)
{
	struct kvm_stats_desc d;
	char name[256];
	uint64_t value;

	if (vm->stats < 0)
		vm_open_stats(vm);
	for (unsigned i = 0; i < vm->head.num_desc; i++) {
		vm_stat_desc(vm, i, &d, name);
		if (strcmp(name, wanted))
			continue;
		if (pread(vm->stats, &value, 8,
			  vm->head.data_offset + d.offset) != 8)
			fail("%s: no value", wanted);
		return value;
	}
	skip("this KVM has no statistic %s", wanted);
}

static inline int vm_slot(struct vm *vm, uint32_t slot, uint64_t gpa, void *hva,
			  uint64_t size)
{
	struct kvm_userspace_memory_region m = {
		.slot = slot,
		.guest_phys_addr = gpa,
		.memory_size = size,
		.userspace_addr = (uintptr_t)hva,
	};

	return ioctl(vm->fd, KVM_SET_USER_MEMORY_REGION, &m) ? -errno : 0;
}

/* Anonymous memory at an address that is `off` past a multiple of 2 MiB. */
static inline char *memory_at(uint64_t off, uint64_t size)
{
	char *p = mmap(NULL, size + 2 * HUGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	return (char *)(((uintptr_t)p + HUGE - 1) / HUGE * HUGE) + off;
}

/* Is the 2 MiB block at `p` one huge mapping? From our own smaps. */
static inline int is_huge(const void *p)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long long start = 0, end = 0;
	unsigned long kib = 0, found = 0;
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long long s, e;

		if (sscanf(line, "%llx-%llx ", &s, &e) == 2) {
			start = s;
			end = e;
		} else if (sscanf(line, "AnonHugePages: %lu", &kib) == 1 &&
			   (uintptr_t)p >= start && (uintptr_t)p < end) {
			found = kib;
		}
	}
	if (f)
		fclose(f);
	return found >= HUGE / 1024;
}

/* A vCPU in flat 32-bit mode, and the code page that it runs. */
static inline void vm_open_vcpu(struct vm *vm)
{
	/* 1: mov %al,(%ebx); add $4096,%ebx; dec %ecx; jnz 1b; hlt */
	static const uint8_t code[] = {0x88, 0x03, 0x81, 0xc3, 0x00, 0x10,
				       0x00, 0x00, 0x49, 0x75, 0xf5, 0xf4};
	char *page = memory_at(0, PAGE);
	struct kvm_sregs s;
	int size;

	memcpy(page, code, sizeof(code));
	if (vm_slot(vm, 0, CODE_GPA, page, PAGE))
		fail("no slot for the code");
	vm->vcpu = ioctl(vm->fd, KVM_CREATE_VCPU, 0);
	if (vm->vcpu < 0)
		skip("KVM_CREATE_VCPU: %s", strerror(errno));
	size = ioctl(vm->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	vm->run = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, vm->vcpu,
		       0);
	if (size < 0 || vm->run == MAP_FAILED)
		fail("the vCPU cannot be mapped");
	if (ioctl(vm->vcpu, KVM_GET_SREGS, &s))
		fail("KVM_GET_SREGS: %s", strerror(errno));
	s.cr0 |= 1;
	s.cs = (struct kvm_segment){.limit = ~0u,
				    .selector = 8,
				    .type = 11,
				    .present = 1,
				    .db = 1,
				    .s = 1,
				    .g = 1};
	s.ds = s.es = s.fs = s.gs = s.ss = s.cs;
	s.ds.type = s.es.type = s.fs.type = s.gs.type = s.ss.type = 3;
	s.ds.selector = s.es.selector = s.ss.selector = 16;
	if (ioctl(vm->vcpu, KVM_SET_SREGS, &s))
		fail("KVM_SET_SREGS: %s", strerror(errno));
	signal(SIGALRM, on_deadline);
	alarm(DEADLINE_S);
}

/* Have the guest write one byte to each of `pages` pages from `gpa` on. */
static inline void vm_touch(struct vm *vm, uint64_t gpa, uint32_t pages)
{
	struct kvm_regs r = {.rip = CODE_GPA,
			     .rflags = 2,
			     .rax = 1,
			     .rbx = gpa,
			     .rcx = pages};

	if (vm->vcpu < 0)
		vm_open_vcpu(vm);
	if (ioctl(vm->vcpu, KVM_SET_REGS, &r))
		fail("KVM_SET_REGS: %s", strerror(errno));
	if (ioctl(vm->vcpu, KVM_RUN, 0))
		skip("KVM_RUN: %s", strerror(errno));
	if (vm->run->exit_reason != KVM_EXIT_HLT)
		skip("KVM opens, but its guests stop with exit %u",
		     vm->run->exit_reason);
}

#endif
