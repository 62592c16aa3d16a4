// SPDX-License-Identifier: GPL-2.0-or-later
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "memslot.h"
#include "util.h"

#define PAGE_BYTES UINT64_C(4096)

static const char *const kind_names[] = {
	[MEMSLOT_ANON] = "anonymous",
	[MEMSLOT_SHMEM] = "shmem",
	[MEMSLOT_HUGETLB] = "hugetlb",
	[MEMSLOT_FILE] = "file",
};
static_assert(ARRAY_SIZE(kind_names) == MEMSLOT_KIND_COUNT,
	      "kind_names[] matches enum memslot_kind");

const char *memslot_kind_name(unsigned int kind)
{
	return kind < MEMSLOT_KIND_COUNT ? kind_names[kind] : "?";
}

static bool range_ok(uint64_t start, uint64_t len, uint64_t max)
{
	return len && !(start % PAGE_BYTES) && !(len % PAGE_BYTES) &&
	       start < max && len <= max - start;
}

static bool slot_ok(const struct memslot *s)
{
	/* host addresses have 57 bits at most */
	return range_ok(s->gpa, s->len, MEMSLOT_GPA_MAX) &&
	       range_ok(s->hva, s->len, UINT64_C(1) << 57) &&
	       s->kind < MEMSLOT_KIND_COUNT;
}

int memslots_check(const struct memslots *ms)
{
	uint64_t end = 0, blocks = 0;

	if (ms->nr > MEMSLOTS_MAX)
		return -EPROTO;
	for (uint32_t i = 0; i < ms->nr; i++) {
		const struct memslot *s = &ms->slot[i];

		if (!slot_ok(s) || s->gpa < end)
			return -EPROTO;
		end = s->gpa + s->len;
		blocks += s->len >> MEMSLOT_BLOCK_SHIFT;
	}
	return blocks <= MEMSLOT_BLOCKS_MAX ? 0 : -EPROTO;
}

int memslots_add(struct memslots *ms, const struct memslot *slot)
{
	uint32_t at = 0;

	if (!slot_ok(slot))
		return -EINVAL;
	if (ms->nr == MEMSLOTS_MAX ||
	    memslots_blocks(ms) + (slot->len >> MEMSLOT_BLOCK_SHIFT) >
		    MEMSLOT_BLOCKS_MAX)
		return -ENOSPC;
	while (at < ms->nr && ms->slot[at].gpa < slot->gpa)
		at++;
	if (at && ms->slot[at - 1].gpa + ms->slot[at - 1].len > slot->gpa)
		return -EEXIST;
	if (at < ms->nr && slot->gpa + slot->len > ms->slot[at].gpa)
		return -EEXIST;
	memmove(&ms->slot[at + 1], &ms->slot[at],
		(ms->nr - at) * sizeof(*ms->slot));
	ms->slot[at] = *slot;
	ms->nr++;
	return 0;
}

int memslot_find(const struct memslots *ms, uint64_t gpa)
{
	for (uint32_t i = 0; i < ms->nr; i++) {
		const struct memslot *s = &ms->slot[i];

		if (gpa >= s->gpa && gpa - s->gpa < s->len)
			return (int)i;
	}
	return -ENOENT;
}

int memslot_to_hva(const struct memslots *ms, struct gpa_range gpa,
		   struct hva_range *ret_hva)
{
	int i = memslot_find(ms, gpa.start);
	const struct memslot *s;

	if (i < 0)
		return i;
	s = &ms->slot[i];
	if (gpa.len > s->len - (gpa.start - s->gpa))
		return -ENOENT;
	*ret_hva = (struct hva_range){s->hva + (gpa.start - s->gpa), gpa.len};
	return 0;
}

int memslot_to_gpa(const struct memslots *ms, struct hva_range hva,
		   struct gpa_range *ret_gpa)
{
	for (uint32_t i = 0; i < ms->nr; i++) {
		const struct memslot *s = &ms->slot[i];

		if (hva.start < s->hva || hva.start - s->hva >= s->len)
			continue;
		if (hva.len > s->len - (hva.start - s->hva))
			return -ENOENT;
		*ret_gpa = (struct gpa_range){s->gpa + (hva.start - s->hva),
					      hva.len};
		return 0;
	}
	return -ENOENT;
}

bool memslot_congruent(const struct memslot *s, uint64_t page_bytes)
{
	return !((s->gpa ^ s->hva) & (page_bytes - 1));
}

bool memslot_file_congruent(const struct memslot *s, uint64_t page_bytes)
{
	return s->kind == MEMSLOT_ANON ||
	       !((s->offset ^ s->hva) & (page_bytes - 1));
}

uint32_t memslot_blocks(const struct memslot *s, uint64_t *ret_first)
{
	uint64_t first =
		(s->gpa + MEMSLOT_BLOCK_BYTES - 1) >> MEMSLOT_BLOCK_SHIFT;
	uint64_t end = (s->gpa + s->len) >> MEMSLOT_BLOCK_SHIFT;

	*ret_first = first;
	return end > first ? (uint32_t)(end - first) : 0;
}

uint32_t memslots_blocks(const struct memslots *ms)
{
	uint32_t n = 0;
	uint64_t first;

	for (uint32_t i = 0; i < ms->nr; i++)
		n += memslot_blocks(&ms->slot[i], &first);
	return n;
}

int32_t memslots_index(const struct memslots *ms, uint64_t block)
{
	uint32_t base = 0;

	for (uint32_t i = 0; i < ms->nr; i++) {
		uint64_t first;
		uint32_t n = memslot_blocks(&ms->slot[i], &first);

		if (block >= first && block - first < n)
			return (int32_t)(base + (uint32_t)(block - first));
		base += n;
	}
	return -ENOENT;
}

uint64_t memslots_block(const struct memslots *ms, uint32_t index,
			uint32_t *ret_slot)
{
	for (uint32_t i = 0; i < ms->nr; i++) {
		uint64_t first;
		uint32_t n = memslot_blocks(&ms->slot[i], &first);

		if (index < n) {
			if (ret_slot)
				*ret_slot = i;
			return first + index;
		}
		index -= n;
	}
	return UINT64_MAX;
}

bool memslots_same(const struct memslots *a, const struct memslots *b)
{
	if (a->nr != b->nr)
		return false;
	for (uint32_t i = 0; i < a->nr; i++) {
		const struct memslot *x = &a->slot[i], *y = &b->slot[i];

		if (x->gpa != y->gpa || x->hva != y->hva || x->len != y->len)
			return false;
	}
	return true;
}
