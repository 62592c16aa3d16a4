// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "procfile.h"
#include "util.h"

/* seq_file hands out a page at a time, so more would not save a call. */
#define CHUNK 4096

int procfile_open(int dir_fd, const char *path)
{
	int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static ssize_t pread_retry(int fd, char *buf, size_t size, off_t at)
{
	ssize_t n;

	do
		n = pread(fd, buf, size, at);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* Whole lines of buf[0..len); the rest moves to the front. Return: its length.
 */
static size_t cut_lines(char *buf, size_t len, line_fn fn, void *ctx)
{
	char *last = memrchr(buf, '\n', len);
	size_t whole, rest;

	if (!last)
		return len;
	whole = (size_t)(last - buf) + 1;
	rest = len - whole;
	lines_each(buf, whole, fn, ctx);
	memmove(buf, last + 1, rest);
	return rest;
}

int procfile_lines(int fd, line_fn fn, void *ctx)
{
	char buf[2 * CHUNK];
	size_t len = 0;
	off_t at = 0;

	for (;;) {
		ssize_t n = pread_retry(fd, buf + len, sizeof(buf) - len, at);

		if (n < 0)
			return (int)n;
		if (!n)
			break;
		at += n;
		len = cut_lines(buf, len + (size_t)n, fn, ctx);
		if (len == sizeof(buf))
			len = 0;
	}
	lines_each(buf, len, fn, ctx);
	return 0;
}

ssize_t procfile_text(int fd, char *buf, size_t size)
{
	ssize_t n = pread_retry(fd, buf, size - 1, 0);

	if (n >= 0)
		buf[n] = '\0';
	return n;
}

int procfile_u64(int fd, uint64_t *ret_val)
{
	char text[32];
	ssize_t n = procfile_text(fd, text, sizeof(text));

	if (n < 0)
		return (int)n;
	text[strcspn(text, "\n")] = '\0';
	return parse_u64(text, UINT64_MAX, ret_val) < 0 ? -EPROTO : 0;
}
