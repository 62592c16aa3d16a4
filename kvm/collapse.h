/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: turning 2 MiB of a guest's base pages into one huge page
 *
 * process_madvise(MADV_COLLAPSE), one aligned 2 MiB a call: a call over more
 * stops at its first hole, and may take seconds. It ignores the host's THP
 * settings, but neither NOHUGEPAGE nor PR_SET_THP_DISABLE. It would also swap
 * in what is swapped, take apart what KSM merged, and fill holes: so pagemap
 * is looked at first, and such blocks are left alone. Pins cannot be seen
 * there; the kernel refuses those.
 */
#ifndef VMDEFRAG_COLLAPSE_H
#define VMDEFRAG_COLLAPSE_H

#include "memslot.h"
#include "qemuproc.h"

/**
 * collapse_block() - one block
 * @pagemap_fd: of the process
 * @min_present: pages that must be there already: the others become memory
 *		 of the host that was not used before
 *
 * Return: 0, also if it was huge before; what is wrong as an -errno:
 * -ENOENT	no such block in the guest's memory, or gone since
 * -EXDEV	the two addresses do not agree modulo 2 MiB
 * -EUCLEAN	swapped pages in it
 * -EMLINK	pages that others have, too: KSM, or a fork
 * -ENODATA	fewer pages than @min_present
 * and of the kernel:
 * -EINVAL	the mapping takes no huge pages: NOHUGEPAGE, PR_SET_THP_DISABLE,
 *		a file at a wrong offset
 * -ENOMEM	no free 2 MiB block on the node
 * -EBUSY	the memory cgroup has no room for it
 * -EAGAIN	pinned, locked or off the LRU just now
 * -ESRCH	the process is gone
 * -EPERM	we may not
 * -ENOSYS	the kernel cannot (before 6.1)
 */
int collapse_block(const struct qemuproc *p, int pagemap_fd,
		   const struct memslots *ms, uint64_t block,
		   uint32_t min_present);

/**
 * collapse_look() - may a block be collapsed, by its pagemap words? Pure.
 * @word: 512 of them
 *
 * Return: 0 or one of our own -errno above.
 */
int collapse_look(const uint64_t *word, uint32_t min_present);

#endif
