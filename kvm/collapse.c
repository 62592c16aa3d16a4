// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "collapse.h"
#include "util.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define BLOCK_PAGES  512u
#define PM_EXCLUSIVE (UINT64_C(1) << 56)
#define PM_SWAPPED   (UINT64_C(1) << 62)
#define PM_PRESENT   (UINT64_C(1) << 63)

int collapse_look(const uint64_t *word, uint32_t min_present)
{
	uint32_t present = 0;

	for (uint32_t i = 0; i < BLOCK_PAGES; i++) {
		if (word[i] & PM_SWAPPED)
			return -EUCLEAN;
		if (!(word[i] & PM_PRESENT))
			continue;
		present++;
		if (!(word[i] & PM_EXCLUSIVE))
			return -EMLINK;
	}
	return present < min_present ? -ENODATA : 0;
}

static int collapse_at(int pidfd, uint64_t hva)
{
	struct iovec iov = {(void *)(uintptr_t)hva, MEMSLOT_BLOCK_BYTES};

	if (syscall(SYS_process_madvise, pidfd, &iov, 1, MADV_COLLAPSE, 0) ==
	    (long)MEMSLOT_BLOCK_BYTES)
		return 0;
	return errno ? -errno : -EAGAIN;
}

int collapse_block(const struct qemuproc *p, int pagemap_fd,
		   const struct memslots *ms, uint64_t block,
		   uint32_t min_present)
{
	struct gpa_range gpa = {block << MEMSLOT_BLOCK_SHIFT,
				MEMSLOT_BLOCK_BYTES};
	uint64_t word[BLOCK_PAGES];
	const struct memslot *s;
	struct hva_range hva;
	ssize_t n;
	int r;

	r = memslot_to_hva(ms, gpa, &hva);
	if (r < 0)
		return r;
	s = &ms->slot[memslot_find(ms, gpa.start)];
	if (!memslot_congruent(s, MEMSLOT_BLOCK_BYTES))
		return -EXDEV;
	if (s->doubtful || s->kind == MEMSLOT_HUGETLB)
		return -EINVAL;
	n = pread(pagemap_fd, word, sizeof(word),
		  (off_t)(hva.start / 4096 * sizeof(word[0])));
	if (n < 0)
		return -errno;
	if (n != sizeof(word))
		return -ENOENT;
	/* shmem is shared by its nature, and fills no holes */
	r = s->kind == MEMSLOT_ANON ? collapse_look(word, min_present) : 0;
	if (r < 0)
		return r;
	errno = 0;
	return collapse_at(p->pidfd, hva.start);
}
