// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hint.h"
#include "util.h"

void hint_free(struct hint *h)
{
	free(h->huge);
	free(h->known);
	memset(h, 0, sizeof(*h));
}

static int begin(struct hint *h, uint32_t id, uint64_t nr)
{
	hint_free(h);
	h->huge = calloc(1, nr / 8 + 1);
	h->known = calloc(1, nr / 8 + 1);
	if (!h->huge || !h->known) {
		hint_free(h);
		return -ENOMEM;
	}
	h->id = id;
	h->nr = nr;
	return 0;
}

int hint_take(struct hint *h, const struct msg_backing *b, uint64_t nr_blocks)
{
	if (b->id != h->id || !h->huge || nr_blocks != h->nr) {
		int r = begin(h, b->id, nr_blocks);

		if (r < 0)
			return r;
	}
	for (uint64_t i = 0; i < b->nr && b->first_block + i < h->nr; i++) {
		uint64_t at = b->first_block + i;
		uint8_t bit = (uint8_t)(1u << at % 8);

		h->known[at / 8] |= bit;
		if (b->huge[i / 8] >> i % 8 & 1)
			h->huge[at / 8] |= bit;
		else
			h->huge[at / 8] &= (uint8_t)~bit;
	}
	return 0;
}

int hint_huge(const struct hint *h, uint64_t block)
{
	if (block >= h->nr || !(h->known[block / 8] >> block % 8 & 1))
		return -ENODATA;
	return h->huge[block / 8] >> block % 8 & 1;
}
