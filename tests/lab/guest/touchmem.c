// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * touchmem - have this machine's processor access its memory
 *
 *	touchmem --mib N	allocate N MiB, write to each page, free it
 *	touchmem --all		read from each page of RAM, free or not
 *
 * --all goes through /proc/kcore, whose segments are the kernel's own mapping
 * of all RAM. A hypervisor's page tables are rebuilt where they were gone.
 * Prints "pages N".
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE	4096ul
#define RAM_MAX (1ull << 46) /* above are no segments of RAM */

static void die(const char *what)
{
	fprintf(stderr, "touchmem: %s: %s\n", what, strerror(errno));
	exit(1);
}

static unsigned long write_new(unsigned long mib)
{
	size_t len = mib << 20;
	volatile char *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("mmap");
	for (size_t i = 0; i < len; i += PAGE)
		p[i] = 1;
	return len / PAGE;
}

static unsigned long read_segment(int fd, const Elf64_Phdr *ph)
{
	static char buf[64 * PAGE];
	unsigned long pages = 0;
	uint64_t at = 0;

	while (at < ph->p_filesz) {
		size_t want = ph->p_filesz - at < sizeof(buf)
				      ? ph->p_filesz - at
				      : sizeof(buf);
		ssize_t n = pread(fd, buf, want, ph->p_offset + at);

		if (n <= 0)
			break; /* a hole behind the end of RAM */
		at += n;
		pages += n / PAGE;
	}
	return pages;
}

static unsigned long read_all(void)
{
	int fd = open("/proc/kcore", O_RDONLY);
	unsigned long pages = 0;
	Elf64_Phdr *ph;
	Elf64_Ehdr eh;

	if (fd < 0 || pread(fd, &eh, sizeof(eh), 0) != sizeof(eh))
		die("/proc/kcore");
	ph = calloc(eh.e_phnum, sizeof(*ph));
	if (!ph || pread(fd, ph, eh.e_phnum * sizeof(*ph), eh.e_phoff) !=
			   (ssize_t)(eh.e_phnum * sizeof(*ph)))
		die("/proc/kcore's headers");
	for (int i = 0; i < eh.e_phnum; i++) {
		/* The direct map has physical addresses; vmalloc's is -1, the
		 * kernel image is in the direct map as well. */
		if (ph[i].p_type != PT_LOAD || ph[i].p_paddr >= RAM_MAX ||
		    ph[i].p_vaddr >= 0xffffffff80000000ull ||
		    ph[i].p_filesz >= RAM_MAX)
			continue;
		pages += read_segment(fd, &ph[i]);
	}
	return pages;
}

int main(int argc, char **argv)
{
	unsigned long pages;

	if (argc == 3 && !strcmp(argv[1], "--mib"))
		pages = write_new(strtoul(argv[2], NULL, 10));
	else if (argc == 2 && !strcmp(argv[1], "--all"))
		pages = read_all();
	else {
		fprintf(stderr, "usage: touchmem --mib N | --all\n");
		return 2;
	}
	printf("pages %lu\n", pages);
	return pages ? 0 : 1;
}
