// SPDX-License-Identifier: GPL-2.0-or-later
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "memblocks.h"
#include "procfile.h"
#include "proto_codec.h"
#include "util.h"

#define DIR_PATH "devices/system/memory"

static int read_word(int sys_fd, const char *path, char *buf, size_t size)
{
	auto_close int fd = procfile_open(sys_fd, path);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = procfile_text(fd, buf, size);
	if (n < 0)
		return (int)n;
	buf[strcspn(buf, "\n")] = '\0';
	return 0;
}

int memblocks_bytes(int sys_fd, uint64_t *ret_bytes)
{
	char text[32], *end;
	unsigned long long v;
	int r = read_word(sys_fd, DIR_PATH "/block_size_bytes", text,
			  sizeof(text));

	if (r < 0)
		return r;
	errno = 0;
	v = strtoull(text, &end, 16);
	if (errno || *end || end == text || !v || v & (v - 1))
		return -EPROTO;
	*ret_bytes = v;
	return 0;
}

/* Any block of the node will do: all have the same mode. */
int memblocks_probe(int sys_fd, unsigned int node)
{
	char path[MEMBLOCK_PATH_MAX];
	struct dirent *d;
	int r = -ENOENT;
	DIR *dir;
	int fd;

	(void)snprintf(path, sizeof(path), "devices/system/node/node%u", node);
	fd = openat(sys_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	while (r == -ENOENT && (d = readdir(dir))) {
		if (strncmp(d->d_name, "memory", 6) || d->d_name[6] < '0' ||
		    d->d_name[6] > '9')
			continue;
		(void)snprintf(path, sizeof(path), "%.30s/valid_zones",
			       d->d_name);
		if (faccessat(fd, path, R_OK, 0) < 0)
			continue; /* no CONFIG_MEMORY_HOTREMOVE */
		(void)snprintf(path, sizeof(path), "%.30s/state", d->d_name);
		r = faccessat(fd, path, W_OK, 0) < 0 ? -errno : 0;
	}
	closedir(dir);
	return r;
}

static enum memblock_state state_of(const char *word)
{
	if (!strcmp(word, "online"))
		return MEMBLOCK_ONLINE;
	return !strcmp(word, "offline") ? MEMBLOCK_OFFLINE : MEMBLOCK_MOVING;
}

/* "Normal Movable", "DMA32", "none" */
static void parse_zones(char *text, struct memblock *b)
{
	char *save;

	b->first_zone = ZONE_KIND_COUNT;
	for (const char *word = strtok_r(text, " ", &save); word;
	     word = strtok_r(NULL, " ", &save)) {
		int zone = name_lookup(zone_kind_name, ZONE_KIND_COUNT, word);

		if (zone < 0)
			continue;
		if (!b->zones)
			b->first_zone = (uint16_t)zone;
		b->zones |= 1u << zone;
	}
}

int memblock_read(int sys_fd, uint32_t number, struct memblock *ret_block)
{
	struct memblock b = {.number = number};
	char path[MEMBLOCK_PATH_MAX], text[64];
	int r;

	memblock_state_path(number, path);
	r = read_word(sys_fd, path, text, sizeof(text));
	if (r < 0)
		return r;
	b.state = state_of(text);
	(void)snprintf(path, sizeof(path),
		       DIR_PATH "/memory%" PRIu32 "/valid_zones", number);
	r = read_word(sys_fd, path, text, sizeof(text));
	if (r < 0)
		return r;
	parse_zones(text, &b);
	*ret_block = b;
	return 0;
}

int memblock_only_zone(const struct memblock *b)
{
	if (b->state != MEMBLOCK_ONLINE || !b->zones ||
	    b->zones & (b->zones - 1))
		return -EINVAL;
	return b->first_zone;
}

void memblock_state_path(uint32_t number, char path[MEMBLOCK_PATH_MAX])
{
	(void)snprintf(path, MEMBLOCK_PATH_MAX,
		       DIR_PATH "/memory%" PRIu32 "/state", number);
}

const char *memblock_online_word(enum zone_kind zone)
{
	return zone == ZONE_KIND_MOVABLE ? "online_movable" : "online_kernel";
}

int memblock_on_nodes(int sys_fd, uint32_t number, unsigned int *ret_first)
{
	char path[MEMBLOCK_PATH_MAX];
	unsigned int first = UINT32_MAX;
	struct dirent *d;
	int fd, n = 0;
	DIR *dir;

	(void)snprintf(path, sizeof(path), DIR_PATH "/memory%" PRIu32, number);
	fd = openat(sys_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	while ((d = readdir(dir))) {
		uint64_t node;

		if (strncmp(d->d_name, "node", 4) ||
		    parse_u64(d->d_name + 4, 1 << 20, &node) < 0)
			continue;
		first = MIN(first, (unsigned int)node);
		n++;
	}
	closedir(dir);
	if (n)
		*ret_first = first;
	return n;
}
