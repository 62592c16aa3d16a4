/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The host's pageblocks by what they hold, from /proc/kpageflags: what could be
 * emptied, and what keeps the rest. Expensive (60 to 90 ns a page), so it is
 * done on demand, in slices.
 *
 * Where a node has memory is asked of its memory blocks: /proc/iomem shows its
 * addresses to CAP_SYS_ADMIN only, which the helper is not to have. A memory
 * block that two nodes share counts for both.
 */
#ifndef VMDEFRAG_HOSTBLOCKS_H
#define VMDEFRAG_HOSTBLOCKS_H

#include "pbmap.h"

/**
 * hostblocks_scan() - one slice of a node
 * @proc_fd:   /proc
 * @sys_fd:    /sys/devices/system
 * @pfn:       where to go on; 0 at first. After the call where the next slice
 *	       begins; 0: all is done
 * @max_words: to be read, about; one window (512 to 32768 words) at least
 * @sum:       what was found is added
 * @ret_words: read now
 *
 * Memory that comes or goes between two slices is met or not.
 *
 * Return: 0; -ENOENT without kpageflags or without memory blocks; -EACCES;
 * another -errno. @sum is void then.
 */
int hostblocks_scan(int proc_fd, int sys_fd, unsigned int node, uint64_t *pfn,
		    uint64_t max_words, struct pageblock_sum *sum,
		    uint64_t *ret_words);

#endif
