/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which 2 MiB of this guest the host maps by huge pages, as the host says: a
 * hint, for choosing among blocks that are equally cheap. Never more memory
 * than a bit for each block of the guest, whatever the host sends.
 */
#ifndef AGENT_HINT_H
#define AGENT_HINT_H

#include "proto.h"

struct hint {
	uint32_t id; /* of what is held; 0: nothing */
	uint64_t nr; /* blocks that there is room for */
	uint8_t *huge, *known;
};

/**
 * hint_take() - what the host said
 * @nr_blocks: of the guest, to the end of its memory; others are left out
 *
 * Return: 0, or -ENOMEM.
 */
int hint_take(struct hint *h, const struct msg_backing *b, uint64_t nr_blocks);

/**
 * hint_huge() - Return: 1: huge on the host; 0: not; -ENODATA: not known.
 */
int hint_huge(const struct hint *h, uint64_t block);

/**
 * hint_free() - also of one that is all zero
 */
void hint_free(struct hint *h);

#endif
