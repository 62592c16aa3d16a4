// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "pooljournal.h"
#include "util.h"

#define NEW_NAME POOLJOURNAL_NAME ".new"
#define HEADER	 "vmdefrag-pools 1"
#define FOOTER	 "end"
#define TEXT_MAX (POOLJOURNAL_MAX * 160 + 256)

struct pool_entry *pooljournal_find(struct pooljournal *j, uint32_t node,
				    uint64_t page_kib)
{
	for (size_t i = 0; i < j->nr; i++) {
		struct pool_entry *e = &j->entry[i];

		if (e->node == node && e->page_kib == page_kib)
			return e;
	}
	return NULL;
}

struct pool_entry *pooljournal_add(struct pooljournal *j, uint32_t node,
				   uint64_t page_kib, uint64_t original)
{
	struct pool_entry *e;

	if (j->nr == POOLJOURNAL_MAX)
		return NULL;
	e = &j->entry[j->nr++];
	*e = (struct pool_entry){
		.node = node,
		.page_kib = page_kib,
		.original = original,
		.before = original,
		.set = original,
	};
	return e;
}

void pooljournal_remove(struct pooljournal *j, struct pool_entry *e)
{
	*e = j->entry[--j->nr];
}

bool pool_entry_owns(const struct pool_entry *e, uint64_t size)
{
	if (e->foreign)
		return false;
	if (!e->pending)
		return size == e->set;
	return size >= MIN(e->before, e->set) && size <= MAX(e->before, e->set);
}

static int parse_entry(struct pooljournal *j, const char *line)
{
	uint64_t page_kib, original, before, set;
	struct pool_entry *e;
	unsigned int node;
	char state[8];
	int end = 0;

	if (sscanf(line,
		   "pool %u %" SCNu64 " original %" SCNu64 " before %" SCNu64
		   " set %" SCNu64 " %7s%n",
		   &node, &page_kib, &original, &before, &set, state,
		   &end) != 6 ||
	    line[end])
		return -EBADMSG;
	if (strcmp(state, "pending") && strcmp(state, "done"))
		return -EBADMSG;
	if (pooljournal_find(j, node, page_kib))
		return -EBADMSG;
	e = pooljournal_add(j, node, page_kib, original);
	if (!e)
		return -EBADMSG;
	e->before = before;
	e->set = set;
	e->pending = !strcmp(state, "pending");
	return 0;
}

static int parse_lines(struct pooljournal *j, char *text)
{
	char *save = NULL, *line = strtok_r(text, "\n", &save);

	if (!line || strcmp(line, HEADER))
		return -EBADMSG;
	line = strtok_r(NULL, "\n", &save);
	if (!line || strncmp(line, "boot ", 5))
		return -EBADMSG;
	if (strcmp(line + 5, j->boot_id))
		return -ESTALE;
	while ((line = strtok_r(NULL, "\n", &save))) {
		if (!strcmp(line, FOOTER))
			return strtok_r(NULL, "\n", &save) ? -EBADMSG : 0;
		if (parse_entry(j, line) < 0)
			return -EBADMSG;
	}
	return -EBADMSG;
}

int pooljournal_parse(struct pooljournal *j, const char *text)
{
	auto_free char *copy = strdup(text);
	int r;

	if (!copy)
		return -ENOMEM;
	j->nr = 0;
	r = parse_lines(j, copy);
	if (r < 0)
		j->nr = 0;
	return r;
}

int pooljournal_load(struct pooljournal *j, int dir_fd, const char *boot_id)
{
	char text[TEXT_MAX];
	ssize_t n;

	memset(j, 0, sizeof(*j));
	j->dir_fd = dir_fd;
	snprintf(j->boot_id, sizeof(j->boot_id), "%s", boot_id);
	n = read_text_at(dir_fd, POOLJOURNAL_NAME, text, sizeof(text));
	if (n == -ENOENT)
		return 0;
	if (n < 0)
		return n == -EFBIG ? -EBADMSG : (int)n;
	return pooljournal_parse(j, text);
}

static void print_journal(const struct pooljournal *j, FILE *f)
{
	fprintf(f, HEADER "\nboot %s\n", j->boot_id);
	for (size_t i = 0; i < j->nr; i++) {
		const struct pool_entry *e = &j->entry[i];

		if (e->foreign)
			continue;
		fprintf(f,
			"pool %u %" PRIu64 " original %" PRIu64
			" before %" PRIu64 " set %" PRIu64 " %s\n",
			e->node, e->page_kib, e->original, e->before, e->set,
			e->pending ? "pending" : "done");
	}
	fputs(FOOTER "\n", f);
}

static bool nothing_to_keep(const struct pooljournal *j)
{
	for (size_t i = 0; i < j->nr; i++) {
		if (!j->entry[i].foreign)
			return false;
	}
	return true;
}

int pooljournal_save(const struct pooljournal *j)
{
	auto_fclose FILE *f = NULL;
	int fd;

	if (nothing_to_keep(j)) {
		if (unlinkat(j->dir_fd, POOLJOURNAL_NAME, 0) < 0 &&
		    errno != ENOENT)
			return -errno;
		return 0;
	}
	fd = openat(j->dir_fd, NEW_NAME,
		    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
		    0600);
	if (fd < 0)
		return -errno;
	f = fdopen(fd, "w");
	if (!f) {
		close(fd);
		return -ENOMEM;
	}
	print_journal(j, f);
	if (fflush(f) || ferror(f))
		return errno ? -errno : -EIO;
	/* a run directory need not be a tmpfs */
	if (fsync(fd) < 0)
		return -errno;
	if (renameat(j->dir_fd, NEW_NAME, j->dir_fd, POOLJOURNAL_NAME) < 0)
		return -errno;
	return 0;
}
