// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * kvm-slot-alignment - where KVM maps 2 MiB at once, and where it cannot
 *
 * The claim: ((gfn ^ (hva >> 12)) & 511) == 0 for the slot, and the whole
 * aligned 2 MiB inside it. The same huge page is given to slots that hold to
 * it and to slots that do not; the guest touches it; pages_2m and pages_4k
 * tell what KVM did.
 *
 * Those that hold also show the round trip that this project is about: a
 * MADV_DONTNEED of 4 KiB takes the 2 MiB entry away, MADV_COLLAPSE and a touch
 * bring it back.
 */
#include "kvm_probe.h"

#define MADV_COLLAPSE_ 25
#define SLOT	       1
#define GPA	       (1ull << 30)

static const struct {
	const char *what;
	uint64_t hva_off, gpa_off, size;
	int want_2m;
} cases[] = {
	{"congruent", 0, 0, 2 * HUGE, 1},
	{"both 4 KiB past a multiple", PAGE, PAGE, 2 * HUGE, 1},
	{"gpa 4 KiB off", 0, PAGE, 2 * HUGE, 0},
	{"hva 4 KiB off", PAGE, 0, 2 * HUGE, 0},
	{"hva 1 MiB off", HUGE / 2, 0, 2 * HUGE, 0},
	{"2 MiB less a page", 0, 0, HUGE - PAGE, 0},
};

/* The guest-physical address of the first whole huge page of the memory. */
static uint64_t first_huge(uint64_t hva_off, uint64_t gpa_off)
{
	return GPA + gpa_off + (hva_off ? HUGE - hva_off : 0);
}

static char *huge_memory(uint64_t off, uint64_t size)
{
	char *p = memory_at(off, size);
	char *whole = p - off + (off ? HUGE : 0);

	madvise(p - off, 2 * HUGE + HUGE, MADV_HUGEPAGE);
	memset(p, 1, size);
	/* faults give huge pages only while the host has them ready */
	(void)madvise(whole, HUGE, MADV_COLLAPSE_);
	if (size >= HUGE && !is_huge(whole))
		skip("this host gives no huge page");
	return p;
}

static void run_case(size_t i)
{
	uint64_t k, m, gpa = first_huge(cases[i].hva_off, cases[i].gpa_off);
	char *p = huge_memory(cases[i].hva_off, cases[i].size);
	struct vm vm;
	int r;

	vm_open(&vm);
	r = vm_slot(&vm, SLOT, GPA + cases[i].gpa_off, p, cases[i].size);
	if (r)
		fail("%s: slot refused: %s", cases[i].what, strerror(-r));
	vm_touch(&vm, gpa, 16);
	k = vm_stat(&vm, "pages_4k");
	m = vm_stat(&vm, "pages_2m");
	printf("%s: pages_4k %llu, pages_2m %llu\n", cases[i].what,
	       (unsigned long long)k, (unsigned long long)m);
	/* one of the small ones is the code page's */
	if (cases[i].want_2m ? m != 1 || k > 1 : m || k < 16)
		fail("%s: expected %d entries of 2 MiB", cases[i].what,
		     cases[i].want_2m);
	close(vm.stats);
	close(vm.vcpu);
	close(vm.fd);
	close(vm.kvm);
}

static void round_trip(void)
{
	char *p = huge_memory(0, 2 * HUGE);
	uint64_t before, broken, back;
	struct vm vm;

	vm_open(&vm);
	if (vm_slot(&vm, SLOT, GPA, p, 2 * HUGE))
		fail("slot refused");
	vm_touch(&vm, GPA, 512);
	before = vm_stat(&vm, "pages_2m");
	madvise(p + 5 * PAGE, PAGE, MADV_DONTNEED);
	vm_touch(&vm, GPA, 512);
	broken = vm_stat(&vm, "pages_2m");
	if (madvise(p, HUGE, MADV_COLLAPSE_))
		skip("MADV_COLLAPSE: %s", strerror(errno));
	vm_touch(&vm, GPA, 512);
	back = vm_stat(&vm, "pages_2m");
	printf("whole %llu, 4 KiB discarded %llu, collapsed and touched %llu\n",
	       (unsigned long long)before, (unsigned long long)broken,
	       (unsigned long long)back);
	if (before != 1 || broken != 0 || back != 1)
		fail("expected 1, 0, 1");
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		run_case(i);
	round_trip();
	return 0;
}
