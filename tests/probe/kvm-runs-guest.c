// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kvm-runs-guest - can KVM really run a guest here, or does it only open?
 *
 * There are machines where /dev/kvm opens and virtual machines and vCPUs can be
 * created, but an ordinary kernel hangs in early boot. Their processors show
 * neither vmx nor svm, so that is asked first; then a few instructions are run:
 * real mode, paging off, one write to a port, and a halt, within a deadline.
 *
 * Prints one line with the reason. Exit: 0 runs, 77 does not, 1 trouble with
 * the probe itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXIT_SKIP  77
#define DEADLINE_S 5 /* a working KVM needs milliseconds */
#define PORT	   0xf1
#define VALUE	   0x4b

static void no(const char *why)
{
	printf("no KVM: %s\n", why);
	fflush(stdout);
	_exit(EXIT_SKIP);
}

static void no_errno(const char *what)
{
	char text[128];

	snprintf(text, sizeof(text), "%s: %s", what, strerror(errno));
	no(text);
}

static void on_alarm(int sig)
{
	static const char text[] = "no KVM: the guest hangs\n";

	(void)sig;
	if (write(1, text, sizeof(text) - 1) < 0)
		_exit(1);
	_exit(EXIT_SKIP);
}

/* The flags line of the first processor is enough: they are all alike. */
static int cpu_has_virt(void)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char *line = NULL;
	size_t size = 0;
	int found = 0;

	if (!f)
		return 0;
	while (!found && getline(&line, &size, f) > 0) {
		if (strncmp(line, "flags", 5))
			continue;
		for (char *t = strtok(line, " \t\n"); t;
		     t = strtok(NULL, " \n"))
			if (!strcmp(t, "vmx") || !strcmp(t, "svm"))
				found = 1;
		break;
	}
	free(line);
	fclose(f);
	return found;
}

static void run(int vcpu, struct kvm_run *run)
{
	for (;;) {
		if (ioctl(vcpu, KVM_RUN, 0) < 0)
			no_errno("KVM_RUN");
		switch (run->exit_reason) {
		case KVM_EXIT_IO:
			if (run->io.port != PORT ||
			    ((uint8_t *)run)[run->io.data_offset] != VALUE)
				no("the guest computed something else");
			break;
		case KVM_EXIT_HLT:
			return;
		default:
			no("the guest stopped with an unexpected exit");
		}
	}
}

static void run_guest(int kvm)
{
	/* mov $VALUE,%al; out %al,$PORT; hlt */
	static const uint8_t code[] = {0xb0, VALUE, 0xe6, PORT, 0xf4};
	struct kvm_userspace_memory_region mem = {.memory_size = 0x1000,
						  .guest_phys_addr = 0x1000};
	struct kvm_regs regs = {.rip = 0x1000, .rflags = 2};
	struct kvm_sregs sregs;
	struct kvm_run *shared;
	void *page;
	int vm, vcpu, size;

	vm = ioctl(kvm, KVM_CREATE_VM, 0);
	if (vm < 0)
		no_errno("KVM_CREATE_VM");
	page = mmap(NULL, 0x1000, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		no_errno("mmap");
	memcpy(page, code, sizeof(code));
	mem.userspace_addr = (uintptr_t)page;
	if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &mem))
		no_errno("KVM_SET_USER_MEMORY_REGION");
	vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	if (vcpu < 0)
		no_errno("KVM_CREATE_VCPU");
	size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	if (size < 0 || shared == MAP_FAILED)
		no_errno("mapping the vCPU");
	if (ioctl(vcpu, KVM_GET_SREGS, &sregs))
		no_errno("KVM_GET_SREGS");
	sregs.cs.base = 0;
	sregs.cs.selector = 0;
	if (ioctl(vcpu, KVM_SET_SREGS, &sregs) ||
	    ioctl(vcpu, KVM_SET_REGS, &regs))
		no_errno("setting registers");
	run(vcpu, shared);
}

int main(void)
{
	int kvm;

	signal(SIGALRM, on_alarm);
	if (!cpu_has_virt())
		no("the processor shows neither vmx nor svm");
	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		no_errno("/dev/kvm");
	if (ioctl(kvm, KVM_GET_API_VERSION, 0) != KVM_API_VERSION)
		no("unknown KVM API version");
	alarm(DEADLINE_S);
	run_guest(kvm);
	puts("KVM runs a guest");
	return 0;
}
