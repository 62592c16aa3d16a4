/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: how pools are put back
 *
 * Before a pool is changed for the first time, its size goes into a journal in
 * the run directory; before each write, what is about to be written does too.
 * So whoever reads the journal later, after a crash at any point, knows which
 * sizes can be ours: what was written last, or, of a write that may have been
 * cut short ("pending"), anything between the two. Any other size is somebody
 * else's, and stays.
 *
 * The file is replaced by rename(2), carries the boot id (another boot: of no
 * use), and ends in a line that says so. Sizes are without surplus:
 * hostpool_persistent().
 */
#ifndef VMDEFRAG_POOLJOURNAL_H
#define VMDEFRAG_POOLJOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POOLJOURNAL_NAME "pools.journal"
/* Eight nodes of two page sizes are a large host; 32 nodes are in here. */
#define POOLJOURNAL_MAX		 64
#define POOLJOURNAL_BOOT_ID_SIZE 37

struct pool_entry {
	uint32_t node;
	uint64_t page_kib;
	uint64_t original; /* to be put back */
	uint64_t before;   /* the newest write, if pending: from here … */
	uint64_t set;	   /* … to here */
	bool pending;
	bool foreign; /* changed by somebody else: theirs. Not in the file */
};

struct pooljournal {
	int dir_fd; /* run directory; borrowed */
	char boot_id[POOLJOURNAL_BOOT_ID_SIZE];
	size_t nr;
	struct pool_entry entry[POOLJOURNAL_MAX];
};

/**
 * pooljournal_load() - what an earlier process left
 *
 * Return: 0, also without a file; -ESTALE: of another boot, and -EBADMSG: not
 * a whole journal, both with no entries; another -errno.
 */
int pooljournal_load(struct pooljournal *j, int dir_fd, const char *boot_id);

/**
 * pooljournal_save() - on disk, whole, before this returns
 *
 * The file goes when there are no entries. Return: 0, or -errno.
 */
int pooljournal_save(const struct pooljournal *j);

/**
 * pooljournal_parse() - the text of a file. Pure.
 *
 * Return: 0; -ESTALE; -EBADMSG; see pooljournal_load().
 */
int pooljournal_parse(struct pooljournal *j, const char *text);

struct pool_entry *pooljournal_find(struct pooljournal *j, uint32_t node,
				    uint64_t page_kib);

/**
 * pooljournal_add() - Return: the new entry, or NULL if the journal is full.
 */
struct pool_entry *pooljournal_add(struct pooljournal *j, uint32_t node,
				   uint64_t page_kib, uint64_t original);

void pooljournal_remove(struct pooljournal *j, struct pool_entry *e);

/**
 * pool_entry_owns() - is a pool of this size the way we left it? Pure.
 */
bool pool_entry_owns(const struct pool_entry *e, uint64_t size);

#endif
