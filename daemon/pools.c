// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "hostpool.h"
#include "log.h"
#include "pools.h"
#include "util.h"

static int read_size(const struct pools *p, uint32_t node, uint64_t page_kib,
		     uint64_t *ret_size)
{
	struct hostpool hp;
	int r = hostpool_read(p->node_fd, node, page_kib, &hp);

	if (!r)
		*ret_size = hostpool_persistent(&hp);
	return r;
}

static void size_text(char *buf, size_t size, uint64_t nr)
{
	snprintf(buf, size, "%" PRIu64 "\n", nr);
}

static void say_foreign(const struct pool_entry *e, uint64_t size)
{
	log_notice("Pool of %" PRIu64 " kB pages on node %u was changed by "
		   "somebody else, to %" PRIu64 ": left as it is",
		   e->page_kib, e->node, size);
}

/* The entry to write under: found, or new. NULL if there is no room. */
static struct pool_entry *open_entry(struct pools *p, uint32_t node,
				     uint64_t page_kib, uint64_t size)
{
	struct pool_entry *e = pooljournal_find(&p->journal, node, page_kib);

	return e ? e : pooljournal_add(&p->journal, node, page_kib, size);
}

/* Nothing is being written any more, and the pool has @size. */
static int settle(struct pools *p, struct pool_entry *e, uint64_t size)
{
	e->pending = false;
	e->before = size;
	e->set = size;
	if (size == e->original)
		pooljournal_remove(&p->journal, e);
	return pooljournal_save(&p->journal);
}

static int announce(struct pools *p, struct pool_entry *e, uint64_t size,
		    uint64_t nr)
{
	e->before = size;
	e->set = nr;
	e->pending = true;
	return pooljournal_save(&p->journal);
}

int pools_set_begin(struct pools *p, uint32_t node, uint64_t page_kib,
		    uint64_t nr, struct worker *ret_w)
{
	char path[HOSTPOOL_PATH_MAX], text[32];
	struct pool_entry *e;
	uint64_t size = 0;
	int r;

	r = read_size(p, node, page_kib, &size);
	if (r < 0)
		return r;
	e = pooljournal_find(&p->journal, node, page_kib);
	if (e && !pool_entry_owns(e, size)) {
		if (!e->foreign)
			say_foreign(e, size);
		e->foreign = true;
		(void)pooljournal_save(&p->journal);
		return -ESTALE;
	}
	if (size == nr)
		return 0;
	e = open_entry(p, node, page_kib, size);
	if (!e)
		return -ENOSPC;
	r = announce(p, e, size, nr);
	if (!r) {
		hostpool_path(path, node, page_kib, "nr_hugepages");
		size_text(text, sizeof(text), nr);
		r = worker_start(p->node_fd, path, text, ret_w);
	}
	if (r < 0) {
		(void)settle(p, e, size);
		return r;
	}
	return 1;
}

int pools_set_end(struct pools *p, uint32_t node, uint64_t page_kib)
{
	struct pool_entry *e = pooljournal_find(&p->journal, node, page_kib);
	uint64_t size = 0;
	int r;

	if (!e)
		return 0;
	r = read_size(p, node, page_kib, &size);
	/* stays "pending": all that it can be is ours */
	if (r < 0)
		return r;
	return settle(p, e, size);
}

/* Write the original size. Return: 0 with what came out, or -errno. */
static int write_back(struct pools *p, struct pool_entry *e, uint64_t size,
		      uint64_t max_us, uint64_t *ret_size)
{
	char path[HOSTPOOL_PATH_MAX], text[32];
	int r;

	r = announce(p, e, size, e->original);
	if (r < 0)
		log_warn_errno(r, "Cannot write the pools' journal, putting "
				  "back all the same");
	hostpool_path(path, e->node, e->page_kib, "nr_hugepages");
	size_text(text, sizeof(text), e->original);
	r = worker_run(p->node_fd, path, text, max_us);
	/* it may still be written: must stay "pending" */
	if (r == -EBUSY)
		return r;
	return read_size(p, e->node, e->page_kib, ret_size);
}

/* Return: 0 if @e is settled and gone; -EAGAIN if it has to stay. */
static int restore_entry(struct pools *p, struct pool_entry *e, uint64_t max_us)
{
	struct pool_entry was = *e;
	uint64_t size = 0;
	int r;

	r = read_size(p, e->node, e->page_kib, &size);
	if (r == -ENOENT || (!r && !pool_entry_owns(e, size))) {
		if (!r && !e->foreign)
			say_foreign(e, size);
		pooljournal_remove(&p->journal, e);
		return 0;
	}
	if (!r && size != e->original)
		r = write_back(p, e, size, max_us, &size);
	if (r < 0) {
		(void)log_err_errno(r,
				    "Cannot put back the pool of %" PRIu64
				    " kB pages on node %u",
				    was.page_kib, was.node);
		return -EAGAIN;
	}
	if (settle(p, e, size) < 0)
		log_warn("Cannot write the pools' journal");
	if (size == was.original) {
		log_info("Pool of %" PRIu64 " kB pages on node %u is back at "
			 "%" PRIu64,
			 was.page_kib, was.node, size);
		return 0;
	}
	log_warn("Pool of %" PRIu64 " kB pages on node %u could be brought to "
		 "%" PRIu64 " only, it was %" PRIu64,
		 was.page_kib, was.node, size, was.original);
	return -EAGAIN;
}

int pools_restore(struct pools *p, uint64_t max_us)
{
	uint64_t end_us = now_us() + max_us;
	int result = 0, r;

	/* from the end: the last entry takes the place of a removed one */
	for (size_t i = p->journal.nr; i-- > 0;) {
		uint64_t now = now_us();

		r = restore_entry(p, &p->journal.entry[i],
				  now < end_us ? end_us - now : 1);
		if (r < 0)
			result = r;
	}
	r = pooljournal_save(&p->journal);
	if (r < 0)
		log_err_errno(r, "Cannot write the pools' journal");
	return result;
}

int pools_open(struct pools *p, int node_fd, int run_fd, const char *boot_id,
	       uint64_t max_us)
{
	int r;

	p->node_fd = node_fd;
	r = pooljournal_load(&p->journal, run_fd, boot_id);
	if (r == -ESTALE)
		log_info("Journal of pools is of an earlier boot: dropped");
	else if (r == -EBADMSG)
		log_err("Journal of pools is damaged: pools stay as they are");
	else if (r < 0)
		return r;
	if (p->journal.nr)
		log_notice("Putting back %zu pools that an earlier run changed",
			   p->journal.nr);
	(void)pools_restore(p, max_us);
	return 0;
}
