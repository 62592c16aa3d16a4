/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: the record of what we changed, kept for whoever comes after us
 *
 * A small text file in the run directory, written before a knob is, and
 * replaced as a whole (temporary file, fsync, rename, fsync of the directory),
 * so that at each instant it is the old or the new one. It names the boot that
 * it belongs to: values of another boot mean nothing. The last line is a
 * checksum of the rest.
 *
 *	vmdefrag knob journal 1
 *	boot 0d3c9a52-…
 *	knob watermark_scale_factor 10 150 -
 *	pool 0 2048 3 103
 *	block 9 Normal
 *	crc 89ab12cd
 *
 * A knob line says: the value we found; the one that we write; and the one
 * that we wrote before, if a crash may have left that one in place.
 *
 * A pool line says: node, KiB of a huge page, the pool's size as we found it
 * and as we may have made it. The kernel grows a pool page by page and any
 * signal ends that, so each size from the one to the other may be ours.
 *
 * A block line says: number of a memory block that we took offline, and the
 * zone that it must come back to.
 */
#ifndef AGENT_JOURNAL_H
#define AGENT_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "mthp.h"
#include "proto.h"

#define BOOT_ID_TEXT_SIZE 37

struct journal_entry {
	bool used;
	int64_t original, ours;
	bool has_prev;
	int64_t prev;
};

struct journal_pool {
	bool used;
	uint8_t node;
	uint32_t kib; /* of a huge page */
	uint64_t original_pages, ours_pages;
};

struct journal_block {
	bool used;
	uint32_t number;
	uint8_t zone; /* enum zone_kind */
};

/* One action runs at a time; more are only there where some could not be put
 * back yet. */
#define JOURNAL_POOLS_MAX  4u
#define JOURNAL_BLOCKS_MAX 4u

struct journal_data {
	struct journal_entry knob[KNOB_ALL];
	struct journal_pool pool[JOURNAL_POOLS_MAX];
	struct journal_block block[JOURNAL_BLOCKS_MAX];
};

struct journal {
	int dir_fd; /* -1: there is none, nothing can be journalled */
	char boot_id[BOOT_ID_TEXT_SIZE];
};

/**
 * journal_write() - make @d what the next start will find
 *
 * With no entry in use the file is removed.
 *
 * Return: 0; -errno, and the old journal is still there.
 */
int journal_write(const struct journal *j, const struct journal_data *d);

/**
 * journal_read() - what the last one left
 *
 * Return: 0; -ENOENT if there is none; -ESTALE if it is of another boot;
 * -EBADMSG if it cannot be trusted; another -errno.
 */
int journal_read(const struct journal *j, struct journal_data *ret_data);

/**
 * journal_remove() - forget it
 */
int journal_remove(const struct journal *j);

/**
 * journal_set_aside() - keep a broken one for people to look at
 */
int journal_set_aside(const struct journal *j);

#define JOURNAL_NAME	   "knobs"
#define JOURNAL_TEMP_NAME  "knobs.new"
#define JOURNAL_ASIDE_NAME "knobs.broken"

#endif
