/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A directory of a test's own, with files in it.
 */
#ifndef VMDEFRAG_TESTDIR_H
#define VMDEFRAG_TESTDIR_H

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util.h"

struct testdir {
	char path[64];
	int fd;
};

static inline int testdir_make(struct testdir *d)
{
	strcpy(d->path, "/tmp/vmdefrag-test-XXXXXX");
	d->fd = -1;
	if (!mkdtemp(d->path))
		return -1;
	d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return d->fd < 0 ? -1 : chmod(d->path, 0755);
}

static inline int testdir_unlink(const char *path, const struct stat *st,
				 int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline void testdir_remove(struct testdir *d)
{
	close_fd_ptr(&d->fd);
	(void)nftw(d->path, testdir_unlink, 8, FTW_DEPTH | FTW_PHYS);
}

/* "a/b/c": makes a and a/b */
static inline void testdir_parents(const struct testdir *d, const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s", name);
	for (char *p = strchr(path, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		(void)mkdirat(d->fd, path, 0755);
		*p = '/';
	}
}

static inline int testdir_write(const struct testdir *d, const char *name,
				const char *text)
{
	int fd, r;

	testdir_parents(d, name);
	fd = openat(d->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
		    0644);
	if (fd < 0)
		return -1;
	r = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
	close(fd);
	return r;
}

static inline const char *testdir_path(const struct testdir *d,
				       const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", d->path, name);
	return path;
}

/* The first line of a file, "" if there is none. */
static inline const char *testdir_read(const struct testdir *d,
				       const char *name)
{
	static char text[8192];

	if (read_text_at(d->fd, name, text, sizeof(text)) < 0)
		return "";
	text[strcspn(text, "\n")] = '\0';
	return text;
}

#endif
