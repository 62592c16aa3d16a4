// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "crc32c.h"
#include "journal.h"
#include "proto_codec.h"
#include "util.h"

#define MAGIC_LINE "vmdefrag knob journal 1"
#define TEXT_MAX   2048

static size_t append(char *buf, size_t len, const char *fmt, ...)
	printf_like(3, 4);

static size_t append(char *buf, size_t len, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(buf + len, TEXT_MAX - len, fmt, ap);
	va_end(ap);
	return MIN(len + (size_t)MAX(n, 0), (size_t)TEXT_MAX - 1);
}

static size_t format(const struct journal *j, const struct journal_data *d,
		     char buf[TEXT_MAX])
{
	size_t len = append(buf, 0, "%s\nboot %s\n", MAGIC_LINE, j->boot_id);

	for (unsigned int k = 0; k < KNOB_ALL; k++) {
		const struct journal_entry *e = &d->knob[k];

		if (!e->used)
			continue;
		len = append(buf, len, "knob %s %" PRId64 " %" PRId64 " ",
			     knob_any_name(k), e->original, e->ours);
		len = e->has_prev ? append(buf, len, "%" PRId64 "\n", e->prev)
				  : append(buf, len, "-\n");
	}
	for (unsigned int i = 0; i < JOURNAL_POOLS_MAX; i++) {
		const struct journal_pool *e = &d->pool[i];

		if (e->used)
			len = append(buf, len,
				     "pool %u %" PRIu32 " %" PRIu64 " %" PRIu64
				     "\n",
				     e->node, e->kib, e->original_pages,
				     e->ours_pages);
	}
	for (unsigned int i = 0; i < JOURNAL_BLOCKS_MAX; i++) {
		const struct journal_block *e = &d->block[i];

		if (e->used)
			len = append(buf, len, "block %" PRIu32 " %s\n",
				     e->number, zone_kind_name(e->zone));
	}
	return append(buf, len, "crc %08" PRIx32 "\n", crc32c(buf, len));
}

static int write_whole(int fd, const char *buf, size_t len)
{
	ssize_t n = write(fd, buf, len);

	if (n < 0)
		return -errno;
	/* a full disk may take a part */
	if ((size_t)n != len)
		return -ENOSPC;
	return fsync(fd) < 0 ? -errno : 0;
}

static int write_temp(const struct journal *j, const char *buf, size_t len)
{
	auto_close int fd = openat(
		j->dir_fd, JOURNAL_TEMP_NAME,
		O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : write_whole(fd, buf, len);
}

static bool is_empty(const struct journal_data *d)
{
	bool used = false;

	for (unsigned int k = 0; k < KNOB_ALL; k++)
		used = used || d->knob[k].used;
	for (unsigned int i = 0; i < JOURNAL_POOLS_MAX; i++)
		used = used || d->pool[i].used;
	for (unsigned int i = 0; i < JOURNAL_BLOCKS_MAX; i++)
		used = used || d->block[i].used;
	return !used;
}

int journal_write(const struct journal *j, const struct journal_data *d)
{
	char buf[TEXT_MAX];
	size_t len;
	int r;

	if (is_empty(d))
		return journal_remove(j);
	if (j->dir_fd < 0)
		return -ENOENT;

	len = format(j, d, buf);
	r = write_temp(j, buf, len);
	if (r < 0) {
		(void)unlinkat(j->dir_fd, JOURNAL_TEMP_NAME, 0);
		return r;
	}
	if (renameat(j->dir_fd, JOURNAL_TEMP_NAME, j->dir_fd, JOURNAL_NAME) < 0)
		return -errno;
	return fsync(j->dir_fd) < 0 ? -errno : 0;
}

int journal_remove(const struct journal *j)
{
	if (j->dir_fd < 0)
		return 0;
	if (unlinkat(j->dir_fd, JOURNAL_NAME, 0) < 0)
		return errno == ENOENT ? 0 : -errno;
	return fsync(j->dir_fd) < 0 ? -errno : 0;
}

int journal_set_aside(const struct journal *j)
{
	if (renameat(j->dir_fd, JOURNAL_NAME, j->dir_fd, JOURNAL_ASIDE_NAME) <
	    0)
		return -errno;
	return 0;
}

/* Cuts off the last line and checks it against what stands before. */
static int check_crc(char *text, size_t len)
{
	char want[16];
	char *crc_line;

	if (strlen(text) != len || !len || text[len - 1] != '\n')
		return -EBADMSG;
	text[len - 1] = '\0';
	crc_line = strrchr(text, '\n');
	if (!crc_line)
		return -EBADMSG;
	crc_line++;
	(void)snprintf(want, sizeof(want), "crc %08" PRIx32,
		       crc32c(text, (size_t)(crc_line - text)));
	if (strcmp(crc_line, want))
		return -EBADMSG;
	*crc_line = '\0';
	return 0;
}

static int parse_value(const char *word, int64_t *ret_value)
{
	uint64_t v;

	if (!word || parse_u64(word, INT64_MAX, &v) < 0)
		return -EBADMSG;
	*ret_value = (int64_t)v;
	return 0;
}

/* "NAME ORIGINAL OURS PREV" behind "knob" */
static int parse_knob(char **save, struct journal_data *d)
{
	struct journal_entry e = {.used = true};
	char *word = strtok_r(NULL, " ", save);
	int k = word ? name_lookup(knob_any_name, KNOB_ALL, word) : -ENOENT;

	if (k < 0 || parse_value(strtok_r(NULL, " ", save), &e.original) < 0 ||
	    parse_value(strtok_r(NULL, " ", save), &e.ours) < 0)
		return -EBADMSG;
	word = strtok_r(NULL, " ", save);
	if (!word)
		return -EBADMSG;
	e.has_prev = strcmp(word, "-") != 0;
	if (e.has_prev && parse_value(word, &e.prev) < 0)
		return -EBADMSG;
	d->knob[k] = e;
	return 0;
}

static int parse_number(char **save, uint64_t max, uint64_t *ret_value)
{
	const char *word = strtok_r(NULL, " ", save);

	return word && parse_u64(word, max, ret_value) == 0 ? 0 : -EBADMSG;
}

/* "NODE KIB ORIGINAL OURS" behind "pool" */
static int parse_pool(char **save, struct journal_data *d)
{
	struct journal_pool e = {.used = true};
	uint64_t node, kib;

	if (parse_number(save, UINT8_MAX, &node) < 0 ||
	    parse_number(save, UINT32_MAX, &kib) < 0 ||
	    parse_number(save, UINT64_MAX, &e.original_pages) < 0 ||
	    parse_number(save, UINT64_MAX, &e.ours_pages) < 0 ||
	    e.ours_pages < e.original_pages)
		return -EBADMSG;
	e.node = (uint8_t)node;
	e.kib = (uint32_t)kib;
	for (unsigned int i = 0; i < JOURNAL_POOLS_MAX; i++) {
		if (!d->pool[i].used) {
			d->pool[i] = e;
			return 0;
		}
	}
	return -EBADMSG;
}

/* "NUMBER ZONE" behind "block" */
static int parse_block(char **save, struct journal_data *d)
{
	struct journal_block e = {.used = true};
	uint64_t number;
	const char *word;
	int zone;

	if (parse_number(save, UINT32_MAX, &number) < 0)
		return -EBADMSG;
	word = strtok_r(NULL, " ", save);
	zone = word ? name_lookup(zone_kind_name, ZONE_KIND_COUNT, word)
		    : -ENOENT;
	if (zone < 0)
		return -EBADMSG;
	e.number = (uint32_t)number;
	e.zone = (uint8_t)zone;
	for (unsigned int i = 0; i < JOURNAL_BLOCKS_MAX; i++) {
		if (!d->block[i].used) {
			d->block[i] = e;
			return 0;
		}
	}
	return -EBADMSG;
}

static int parse_entry(char *line, struct journal_data *d)
{
	char *save;
	const char *kind = strtok_r(line, " ", &save);

	if (!kind)
		return -EBADMSG;
	if (!strcmp(kind, "knob"))
		return parse_knob(&save, d);
	if (!strcmp(kind, "pool"))
		return parse_pool(&save, d);
	if (!strcmp(kind, "block"))
		return parse_block(&save, d);
	return -EBADMSG;
}

static int parse(const struct journal *j, char *text,
		 struct journal_data *ret_data)
{
	char *save;
	char *line = strtok_r(text, "\n", &save);

	memset(ret_data, 0, sizeof(*ret_data));
	if (!line || strcmp(line, MAGIC_LINE))
		return -EBADMSG;
	line = strtok_r(NULL, "\n", &save);
	if (!line || strncmp(line, "boot ", 5))
		return -EBADMSG;
	if (strcmp(line + 5, j->boot_id))
		return -ESTALE;
	while ((line = strtok_r(NULL, "\n", &save))) {
		if (parse_entry(line, ret_data) < 0)
			return -EBADMSG;
	}
	return 0;
}

int journal_read(const struct journal *j, struct journal_data *ret_data)
{
	char text[TEXT_MAX];
	ssize_t n;
	int r;

	if (j->dir_fd < 0)
		return -ENOENT;
	n = read_text_at(j->dir_fd, JOURNAL_NAME, text, sizeof(text));
	if (n == -EFBIG)
		return -EBADMSG;
	if (n < 0)
		return (int)n;
	r = check_crc(text, (size_t)n);
	return r < 0 ? r : parse(j, text, ret_data);
}
