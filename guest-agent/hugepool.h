/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One node's pool of huge pages of one size, in sysfs.
 *
 * A pool's size here is that of its persistent pages. What nr_hugepages shows
 * has surplus pages on top (overcommitted ones, or those still in use when
 * the pool was made smaller), which the kernel frees with their last user;
 * what is written to it does not.
 */
#ifndef AGENT_HUGEPOOL_H
#define AGENT_HUGEPOOL_H

#include <stddef.h>
#include <stdint.h>

#define HUGEPOOL_PATH_MAX 96u

struct hugepool {
	unsigned int node;
	uint32_t kib; /* of a page */
};

struct hugepool_size {
	uint64_t pages;		/* persistent */
	uint64_t surplus_pages; /* on top */
	uint64_t free_pages;	/* of both */
};

/**
 * hugepool_read() - its size now
 *
 * Return: 0; -ENOENT if the kernel has none of this size; another -errno.
 */
int hugepool_read(int sys_fd, const struct hugepool *p,
		  struct hugepool_size *ret_size);

/**
 * hugepool_size_path() - the file whose writing resizes it
 */
void hugepool_size_path(const struct hugepool *p, char path[HUGEPOOL_PATH_MAX]);

/**
 * hugepool_write() - resize it, in this process
 *
 * Pages in use stay with their users, as surplus ones.
 *
 * Return: 0, or -errno. 0 does not tell that it got that size.
 */
int hugepool_write(int sys_fd, const struct hugepool *p, uint64_t pages);

/**
 * hugepool_probe() - may any pool of the node be resized?
 *
 * Return: 0; -ENOENT if the kernel has none; -EACCES or -EROFS.
 */
int hugepool_probe(int sys_fd, unsigned int node);

#endif
