// SPDX-License-Identifier: GPL-2.0-or-later
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hugepool.h"
#include "procfile.h"
#include "util.h"

static void pool_path(const struct hugepool *p, const char *file,
		      char path[HUGEPOOL_PATH_MAX])
{
	(void)snprintf(path, HUGEPOOL_PATH_MAX,
		       "devices/system/node/node%u/hugepages/"
		       "hugepages-%" PRIu32 "kB/%s",
		       p->node, p->kib, file);
}

static int read_figure(int sys_fd, const struct hugepool *p, const char *file,
		       uint64_t *ret_val)
{
	char path[HUGEPOOL_PATH_MAX];
	auto_close int fd = -1;

	pool_path(p, file, path);
	fd = procfile_open(sys_fd, path);
	return fd < 0 ? fd : procfile_u64(fd, ret_val);
}

int hugepool_read(int sys_fd, const struct hugepool *p,
		  struct hugepool_size *ret_size)
{
	uint64_t total, surplus, free_pages;
	int r = read_figure(sys_fd, p, "nr_hugepages", &total);

	if (!r)
		r = read_figure(sys_fd, p, "surplus_hugepages", &surplus);
	if (!r)
		r = read_figure(sys_fd, p, "free_hugepages", &free_pages);
	if (r < 0)
		return r;
	/* read one by one, so they need not match */
	*ret_size = (struct hugepool_size){
		.pages = total - MIN(total, surplus),
		.surplus_pages = surplus,
		.free_pages = free_pages,
	};
	return 0;
}

void hugepool_size_path(const struct hugepool *p, char path[HUGEPOOL_PATH_MAX])
{
	pool_path(p, "nr_hugepages", path);
}

int hugepool_write(int sys_fd, const struct hugepool *p, uint64_t pages)
{
	char path[HUGEPOOL_PATH_MAX], text[32];

	hugepool_size_path(p, path);
	(void)snprintf(text, sizeof(text), "%" PRIu64, pages);
	return write_text_at(sys_fd, path, text);
}

int hugepool_probe(int sys_fd, unsigned int node)
{
	char path[HUGEPOOL_PATH_MAX];
	struct dirent *d;
	int r = -ENOENT;
	DIR *dir;
	int fd;

	(void)snprintf(path, sizeof(path),
		       "devices/system/node/node%u/hugepages", node);
	fd = openat(sys_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	while (r && (d = readdir(dir))) {
		if (strncmp(d->d_name, "hugepages-", 10))
			continue;
		(void)snprintf(path, sizeof(path), "%.60s/nr_hugepages",
			       d->d_name);
		r = faccessat(fd, path, W_OK, 0) < 0 ? -errno : 0;
	}
	closedir(dir);
	return r;
}
