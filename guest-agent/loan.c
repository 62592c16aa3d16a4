// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "hugepool.h"
#include "loan.h"
#include "memblocks.h"
#include "proto_codec.h"
#include "util.h"

/* what could not be put back may take memory that others hold just now */
#define RETRY_US (5 * SEC_US)

static void instant(const struct loans *l, enum loan_instant i)
{
	if (l->at_instant)
		l->at_instant(i, l->at_ctx);
}

void loans_init(struct loans *l, int sys_fd, const struct journal *journal,
		struct journal_data *data, bool observe)
{
	*l = (struct loans){
		.sys_fd = sys_fd,
		.observe = observe,
		.journal = journal,
		.data = data,
		.trouble = {.interval_us = 60 * SEC_US, .burst = 5},
	};
}

static int save(struct loans *l)
{
	int r;

	instant(l, LOAN_BEFORE_JOURNAL);
	r = journal_write(l->journal, l->data);
	if (!r)
		instant(l, LOAN_AFTER_JOURNAL);
	return r;
}

/* Where that fails, the entry does no harm. */
static void forget(struct loans *l)
{
	int r = journal_write(l->journal, l->data);

	if (r < 0)
		(void)log_err_errno(r, "Failed to update the journal");
	instant(l, LOAN_AFTER_FORGET);
}

static struct journal_pool *find_pool(struct loans *l, unsigned int node,
				      uint32_t kib)
{
	for (unsigned int i = 0; i < JOURNAL_POOLS_MAX; i++) {
		struct journal_pool *e = &l->data->pool[i];

		if (e->used && e->node == node && e->kib == kib)
			return e;
	}
	return NULL;
}

static struct journal_pool *free_pool(struct loans *l)
{
	for (unsigned int i = 0; i < JOURNAL_POOLS_MAX; i++) {
		if (!l->data->pool[i].used)
			return &l->data->pool[i];
	}
	return NULL;
}

int loans_take_pool(struct loans *l, unsigned int node, uint32_t kib,
		    uint64_t original_pages, uint64_t ours_pages)
{
	struct journal_pool *e = find_pool(l, node, kib);
	struct journal_pool saved;
	int r;

	if (l->observe)
		return -EROFS;
	if (e && e->original_pages != original_pages)
		return -EAGAIN;
	if (!e)
		e = free_pool(l);
	if (!e)
		return -ENOSPC;
	saved = *e;
	*e = (struct journal_pool){
		.used = true,
		.node = (uint8_t)node,
		.kib = kib,
		.original_pages = original_pages,
		.ours_pages = saved.used ? MAX(saved.ours_pages, ours_pages)
					 : ours_pages,
	};
	r = save(l);
	if (r < 0)
		*e = saved;
	return r;
}

void loans_end_pool(struct loans *l, unsigned int node, uint32_t kib)
{
	struct journal_pool *e = find_pool(l, node, kib);

	if (!e)
		return;
	memset(e, 0, sizeof(*e));
	forget(l);
}

static struct journal_block *find_block(struct loans *l, uint32_t number)
{
	for (unsigned int i = 0; i < JOURNAL_BLOCKS_MAX; i++) {
		struct journal_block *e = &l->data->block[i];

		if (e->used && e->number == number)
			return e;
	}
	return NULL;
}

int loans_take_block(struct loans *l, uint32_t number, enum zone_kind zone)
{
	struct journal_block *e = NULL;
	int r;

	if (l->observe)
		return -EROFS;
	if (find_block(l, number))
		return -EAGAIN;
	for (unsigned int i = 0; i < JOURNAL_BLOCKS_MAX && !e; i++) {
		if (!l->data->block[i].used)
			e = &l->data->block[i];
	}
	if (!e)
		return -ENOSPC;
	*e = (struct journal_block){
		.used = true, .number = number, .zone = (uint8_t)zone};
	r = save(l);
	if (r < 0)
		memset(e, 0, sizeof(*e));
	return r;
}

void loans_end_block(struct loans *l, uint32_t number)
{
	struct journal_block *e = find_block(l, number);

	if (!e)
		return;
	memset(e, 0, sizeof(*e));
	forget(l);
}

bool loans_any(const struct loans *l)
{
	bool any = false;

	for (unsigned int i = 0; i < JOURNAL_POOLS_MAX; i++)
		any = any || l->data->pool[i].used;
	for (unsigned int i = 0; i < JOURNAL_BLOCKS_MAX; i++)
		any = any || l->data->block[i].used;
	return any;
}

/* Return: 0 if it needs nothing any more, or -errno. */
static int restore_pool(struct loans *l, const struct journal_pool *e)
{
	struct hugepool p = {.node = e->node, .kib = e->kib};
	struct hugepool_size now;
	int r = hugepool_read(l->sys_fd, &p, &now);

	if (r == -ENOENT) {
		log_warn("Pool of %" PRIu32 " KiB pages on node %u is gone",
			 e->kib, e->node);
		return 0;
	}
	if (r < 0)
		return r;
	if (now.pages < e->original_pages || now.pages > e->ours_pages) {
		log_notice("Pool of %" PRIu32
			   " KiB pages on node %u has %" PRIu64
			   ", neither ours nor as found: left alone",
			   e->kib, e->node, now.pages);
		return 0;
	}
	instant(l, LOAN_BEFORE_PUT_BACK);
	r = hugepool_write(l->sys_fd, &p, e->original_pages);
	if (!r)
		r = hugepool_read(l->sys_fd, &p, &now);
	if (!r && now.pages > e->original_pages)
		r = -EBUSY;
	if (r < 0)
		return r;
	instant(l, LOAN_AFTER_PUT_BACK);
	log_info("Pool of %" PRIu32
		 " KiB pages on node %u put back to %" PRIu64,
		 e->kib, e->node, e->original_pages);
	return 0;
}

/* The word that brings it into its zone; a wrong zone beats lost memory. */
static const char *online_word(const struct journal_block *e,
			       const struct memblock *b)
{
	if (b->zones & 1u << e->zone)
		return memblock_online_word(e->zone);
	log_err("Memory block %" PRIu32 " cannot come back to zone %s: it is "
		"brought online where the kernel wants it",
		e->number, zone_kind_name(e->zone));
	return "online";
}

/* Return: as restore_pool(). */
static int restore_block(struct loans *l, const struct journal_block *e)
{
	char path[MEMBLOCK_PATH_MAX];
	struct memblock b;
	int r = memblock_read(l->sys_fd, e->number, &b);

	if (r == -ENOENT) {
		log_warn("Memory block %" PRIu32 " is gone", e->number);
		return 0;
	}
	if (r < 0 || b.state == MEMBLOCK_ONLINE)
		return r;
	instant(l, LOAN_BEFORE_PUT_BACK);
	memblock_state_path(e->number, path);
	r = write_text_at(l->sys_fd, path,
			  b.state == MEMBLOCK_OFFLINE
				  ? online_word(e, &b)
				  : memblock_online_word(e->zone));
	/* EINVAL: online already, as when going offline came to nothing */
	if (r < 0 && r != -EINVAL)
		return r;
	r = memblock_read(l->sys_fd, e->number, &b);
	if (r < 0)
		return r;
	if (b.state != MEMBLOCK_ONLINE)
		return -EBUSY;
	instant(l, LOAN_AFTER_PUT_BACK);
	log_info("Memory block %" PRIu32 " is online again, in zone %s",
		 e->number,
		 b.zones ? zone_kind_name(b.first_zone) : "none of its own");
	return 0;
}

static void say_trouble(struct loans *l, const char *what, unsigned int which,
			int r, uint64_t now_us)
{
	unsigned int suppressed;

	if (log_limit_pass(&l->trouble, now_us, &suppressed))
		(void)log_err_errno(r,
				    "Failed to put back %s %u; will try "
				    "again",
				    what, which);
}

int loans_restore_all(struct loans *l, uint64_t now_us)
{
	bool news = false;
	int first = 0;

	if (l->observe)
		return 0;
	for (unsigned int i = 0; i < JOURNAL_BLOCKS_MAX; i++) {
		struct journal_block *e = &l->data->block[i];
		int r = e->used ? restore_block(l, e) : -ENODATA;

		if (!r) {
			memset(e, 0, sizeof(*e));
			news = true;
		} else if (e->used) {
			say_trouble(l, "memory block", e->number, r, now_us);
			first = first ? first : r;
		}
	}
	for (unsigned int i = 0; i < JOURNAL_POOLS_MAX; i++) {
		struct journal_pool *e = &l->data->pool[i];
		int r = e->used ? restore_pool(l, e) : -ENODATA;

		if (!r) {
			memset(e, 0, sizeof(*e));
			news = true;
		} else if (e->used) {
			say_trouble(l, "the huge page pool of node", e->node, r,
				    now_us);
			first = first ? first : r;
		}
	}
	if (news)
		forget(l);
	return first;
}

int loans_recover(struct loans *l, uint64_t now_us)
{
	if (!loans_any(l))
		return 0;
	log_notice("An agent before this one left a pool or memory blocks");
	return loans_restore_all(l, now_us);
}

void loans_tick(struct loans *l, uint64_t now_us)
{
	if (!loans_any(l) || now_us < l->retry_us)
		return;
	l->retry_us = now_us + RETRY_US;
	(void)loans_restore_all(l, now_us); /* logs; the next one tries again */
}
