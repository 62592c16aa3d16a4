/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: a backing map on its way from the mm helper to the core
 *
 * 4 bytes for each 2 MiB of a guest are 2 MiB for 1 TiB: too much for the
 * fixed-size messages, and cut into hundreds of them it would need state on
 * both sides for what is lost half-way. So the answer brings a sealed memfd:
 * whole or not at all, copied once, and nothing to clean up when a helper is
 * killed. The seals are what lets the core read it without a SIGBUS; sizes,
 * slots and counts are checked all the same.
 */
#ifndef VMDEFRAG_MAPFILE_H
#define VMDEFRAG_MAPFILE_H

#include "backing.h"
#include "layout.h"

struct mapfile {
	uint32_t facts;		   /* bits of enum layout_fact */
	uint32_t index, nr, total; /* blocks that follow, and of the guest */
	uint64_t start_time, layout_us, cpu_us;
	uint8_t thp_disabled, ksm, by_pagemap, pad[5];
	struct memslots slots;
	struct backing_block block[];
};

static inline size_t mapfile_size(uint32_t nr)
{
	return sizeof(struct mapfile) + nr * sizeof(struct backing_block);
}

/**
 * mapfile_write() - Return: a sealed memfd, the caller's, or -errno.
 */
int mapfile_write(const struct mapfile *m);

/**
 * mapfile_read() - take it all over
 * @ret_map: the caller's to free
 *
 * Return: 0; -EPROTO for what mapfile_write() would not have made; -errno.
 */
int mapfile_read(int fd, struct mapfile **ret_map);

#endif
