// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "mapfile.h"
#include "util.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

static int write_all(int fd, const char *p, size_t len)
{
	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int mapfile_write(const struct mapfile *m)
{
	auto_close int fd =
		memfd_create("backing-map", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return -errno;
	r = write_all(fd, (const char *)m, mapfile_size(m->nr));
	if (r < 0)
		return r;
	if (fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		return -errno;
	return take_fd(&fd);
}

static int check(const struct mapfile *m, size_t size)
{
	if (m->nr > MEMSLOT_BLOCKS_MAX || size != mapfile_size(m->nr) ||
	    memslots_check(&m->slots) < 0 ||
	    m->total != memslots_blocks(&m->slots) || m->nr > m->total ||
	    m->index > m->total - m->nr)
		return -EPROTO;
	for (uint32_t i = 0; i < m->nr; i++) {
		if (m->block[i].present > 512)
			return -EPROTO;
	}
	return 0;
}

int mapfile_read(int fd, struct mapfile **ret_map)
{
	auto_free struct mapfile *m = NULL;
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	size_t size, got = 0;

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0 ||
	    st.st_size < (off_t)sizeof(*m) ||
	    (size_t)st.st_size > mapfile_size(MEMSLOT_BLOCKS_MAX))
		return -EPROTO;
	size = (size_t)st.st_size;
	m = malloc(size);
	if (!m)
		return -ENOMEM;
	while (got < size) {
		ssize_t n = pread(fd, (char *)m + got, size - got, (off_t)got);

		if (n <= 0)
			return -EPROTO;
		got += (size_t)n;
	}
	if (check(m, size) < 0)
		return -EPROTO;
	*ret_map = m;
	m = NULL;
	return 0;
}
