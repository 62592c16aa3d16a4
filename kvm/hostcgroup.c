// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "hostcgroup.h"
#include "util.h"

#define CGROUP_PATH_MAX 512
/* 35 lines of up to 64 nodes with 20 digits each */
#define NUMA_STAT_MAX 65536
#define PROCS_MAX     4096

int hostcgroup_parse_path(const char *text, char *path, size_t size)
{
	const char *at = text;
	size_t len;

	/* "0::/machine.slice/…": hierarchy 0 is cgroup2, cgroups(7) */
	while (at && strncmp(at, "0::/", 4)) {
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
	}
	if (!at)
		return -ENODATA;
	at += 4;
	len = strcspn(at, "\n");
	if (len >= size)
		return -ENAMETOOLONG;
	memcpy(path, at, len);
	path[len] = '\0';
	return 0;
}

static uint64_t *field(struct hostcgroup_numa *n, unsigned int node,
		       const char *key)
{
	if (!strcmp(key, "anon"))
		return &n->node[node].anon_kib;
	if (!strcmp(key, "anon_thp"))
		return &n->node[node].anon_thp_kib;
	if (!strcmp(key, "file"))
		return &n->node[node].file_kib;
	if (!strcmp(key, "shmem"))
		return &n->node[node].shmem_kib;
	if (!strcmp(key, "file_thp"))
		return &n->node[node].file_thp_kib;
	if (!strcmp(key, "shmem_thp"))
		return &n->node[node].shmem_thp_kib;
	return NULL;
}

/* "N12=4096" */
static int parse_entry(struct hostcgroup_numa *n, const char *key, char *word)
{
	char *value = strchr(word, '=');
	uint64_t node, bytes;
	uint64_t *at;

	if (word[0] != 'N' || !value)
		return -EBADMSG;
	*value++ = '\0';
	if (parse_u64(word + 1, UINT32_MAX, &node) < 0 ||
	    parse_u64(value, UINT64_MAX, &bytes) < 0)
		return -EBADMSG;
	if (node >= HOSTCGROUP_NODES_MAX)
		return 0; /* beyond what is viewed */
	at = field(n, (unsigned int)node, key);
	if (!at)
		return 0;
	*at = bytes / 1024;
	n->nr_nodes = MAX(n->nr_nodes, (uint32_t)node + 1);
	return 0;
}

int hostcgroup_parse_numa_stat(char *text, struct hostcgroup_numa *ret)
{
	char *save_line = NULL;

	memset(ret, 0, sizeof(*ret));
	for (char *line = strtok_r(text, "\n", &save_line); line;
	     line = strtok_r(NULL, "\n", &save_line)) {
		char *save = NULL, *key = strtok_r(line, " ", &save);

		for (char *w = strtok_r(NULL, " ", &save); key && w;
		     w = strtok_r(NULL, " ", &save)) {
			if (parse_entry(ret, key, w) < 0)
				return -EBADMSG;
		}
	}
	return ret->nr_nodes ? 0 : -EBADMSG;
}

/*
 * Is @pid the only process in @path? Return: 1; 0 for others beside it;
 * -EOPNOTSUPP for a threaded group, which lists no processes: look above.
 */
static int is_alone(int cgroup_fd, const char *path, pid_t pid)
{
	char file[CGROUP_PATH_MAX + 32], text[PROCS_MAX];
	uint64_t found;
	ssize_t n;

	snprintf(file, sizeof(file), "%s%scgroup.procs", path,
		 *path ? "/" : "");
	n = read_text_at(cgroup_fd, file, text, sizeof(text));
	if (n == -EFBIG)
		return 0;
	if (n < 0)
		return (int)n;
	if (!n)
		return -EOPNOTSUPP;
	text[strcspn(text, "\n")] = '\0';
	if (strlen(text) + 1 != (size_t)n)
		return 0; /* more than one line */
	return !parse_u64(text, INT32_MAX, &found) && (pid_t)found == pid;
}

/* Take the last component off. Return: false at the top. */
static bool path_up(char *path)
{
	char *slash = strrchr(path, '/');

	if (!*path)
		return false;
	if (slash)
		*slash = '\0';
	else
		*path = '\0';
	return true;
}

int hostcgroup_sample(int proc_fd, int cgroup_fd, pid_t pid,
		      struct hostcgroup_numa *ret)
{
	char path[CGROUP_PATH_MAX], file[CGROUP_PATH_MAX + 32];
	char text[NUMA_STAT_MAX];
	ssize_t n;
	int r;

	snprintf(file, sizeof(file), "%d/cgroup", pid);
	n = read_text_at(proc_fd, file, text, sizeof(text));
	if (n < 0)
		return n == -ENOENT ? -ESRCH : (int)n;
	r = hostcgroup_parse_path(text, path, sizeof(path));
	if (r < 0)
		return r;
	for (; *path; path_up(path)) {
		r = is_alone(cgroup_fd, path, pid);
		if (!r || (r < 0 && r != -EOPNOTSUPP))
			return -ENODATA;
		snprintf(file, sizeof(file), "%s/memory.numa_stat", path);
		n = read_text_at(cgroup_fd, file, text, sizeof(text));
		/* a threaded group has no memory controller: above it is */
		if (r == 1 && n > 0)
			return hostcgroup_parse_numa_stat(text, ret);
	}
	return -ENODATA;
}

/* A limit or "max", or the use, of one group. */
static uint64_t bytes_of(int cgroup_fd, const char *path, const char *name)
{
	char file[CGROUP_PATH_MAX + 32], text[32];
	uint64_t bytes;

	snprintf(file, sizeof(file), "%s/%s", path, name);
	if (read_text_at(cgroup_fd, file, text, sizeof(text)) <= 0)
		return UINT64_MAX;
	text[strcspn(text, "\n")] = '\0';
	return parse_u64(text, UINT64_MAX, &bytes) < 0 ? UINT64_MAX : bytes;
}

int hostcgroup_room(int proc_fd, int cgroup_fd, pid_t pid, uint64_t *ret_kib)
{
	char path[CGROUP_PATH_MAX], file[32], text[NUMA_STAT_MAX];
	uint64_t room = UINT64_MAX;
	ssize_t n;

	snprintf(file, sizeof(file), "%d/cgroup", pid);
	n = read_text_at(proc_fd, file, text, sizeof(text));
	if (n < 0)
		return n == -ENOENT ? -ESRCH : (int)n;
	*ret_kib = UINT64_MAX;
	if (cgroup_fd < 0 || hostcgroup_parse_path(text, path, sizeof(path)))
		return 0;
	for (; *path; path_up(path)) {
		uint64_t used = bytes_of(cgroup_fd, path, "memory.current");
		uint64_t limit = MIN(bytes_of(cgroup_fd, path, "memory.high"),
				     bytes_of(cgroup_fd, path, "memory.max"));

		if (used != UINT64_MAX && limit != UINT64_MAX)
			room = MIN(room, limit > used ? limit - used : 0);
	}
	if (room != UINT64_MAX)
		*ret_kib = room / 1024;
	return 0;
}
