/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory blocks of sysfs: what the kernel takes offline and online as a
 * whole, 128 MiB on x86-64, up to 2 GiB on big guests.
 *
 * The zone trap: a block that goes offline has no zone any more, and where it
 * comes back to is chosen when it does. online_movable is ZONE_MOVABLE;
 * online_kernel is the first kernel zone below Normal whose span still holds
 * it, else Normal. A block at the end of DMA32 shrinks that zone's span by
 * going offline, so it would come back as Normal (and its memory would be
 * lost to 32-bit DMA): memlayout_at_edge() tells.
 */
#ifndef AGENT_MEMBLOCKS_H
#define AGENT_MEMBLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto.h"

enum memblock_state {
	MEMBLOCK_ONLINE,
	MEMBLOCK_OFFLINE,
	MEMBLOCK_MOVING, /* going-offline and the like */
};

struct memblock {
	uint32_t number;
	enum memblock_state state;
	/* bits of enum zone_kind: of an online block its zone; of an offline
	 * one where it could go; none: mixed, or cannot be moved at all */
	uint32_t zones;
	uint16_t first_zone; /* the first that was named, with any at all */
};

#define MEMBLOCK_PATH_MAX 64u

/**
 * memblocks_bytes() - size of each block
 *
 * Return: 0; -ENOENT without CONFIG_MEMORY_HOTPLUG; another -errno.
 */
int memblocks_bytes(int sys_fd, uint64_t *ret_bytes);

/**
 * memblocks_probe() - could blocks be taken offline at all?
 *
 * Return: 0; -ENOENT; -EACCES or -EROFS.
 */
int memblocks_probe(int sys_fd, unsigned int node);

/**
 * memblock_read() - state and zones of one
 *
 * Return: 0; -ENOENT if there is no such block; another -errno.
 */
int memblock_read(int sys_fd, uint32_t number, struct memblock *ret_block);

/**
 * memblock_only_zone() - the zone of an online block
 *
 * Return: enum zone_kind; -EINVAL if it has none, or more than one.
 */
int memblock_only_zone(const struct memblock *b);

/**
 * memblock_state_path() - the file to write to
 */
void memblock_state_path(uint32_t number, char path[MEMBLOCK_PATH_MAX]);

/**
 * memblock_online_word() - what to write to bring a block into a zone
 */
const char *memblock_online_word(enum zone_kind zone);

/**
 * memblock_on_nodes() - which nodes does it touch?
 * @ret_first: the lowest of them
 *
 * Return: how many, or -errno.
 */
int memblock_on_nodes(int sys_fd, uint32_t number, unsigned int *ret_first);

#endif
