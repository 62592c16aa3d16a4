// SPDX-License-Identifier: GPL-2.0-or-later
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kvmstats.h"
#include "util.h"

static const struct {
	const char *name;
	size_t offset;
} fields[] = {
	{"pages_4k", offsetof(struct kvm_pages, pages_4k)},
	{"pages_2m", offsetof(struct kvm_pages, pages_2m)},
	{"pages_1g", offsetof(struct kvm_pages, pages_1g)},
};
#define ALL_FIELDS ((1u << ARRAY_SIZE(fields)) - 1)

static uint64_t *field(struct kvm_pages *p, size_t i)
{
	return (uint64_t *)((char *)p + fields[i].offset);
}

json_t *kvmstats_args(void)
{
	return json_pack("{s:s, s:[{s:s, s:[s, s, s]}]}", "target", "vm",
			 "providers", "provider", "kvm", "names",
			 fields[0].name, fields[1].name, fields[2].name);
}

static void take_stat(const json_t *stat, struct kvm_pages *p,
		      unsigned int *have)
{
	const char *name = json_string_value(json_object_get(stat, "name"));
	const json_t *value = json_object_get(stat, "value");

	for (size_t i = 0; name && i < ARRAY_SIZE(fields); i++) {
		if (strcmp(name, fields[i].name) || !json_is_integer(value) ||
		    json_integer_value(value) < 0)
			continue;
		*field(p, i) = (uint64_t)json_integer_value(value);
		*have |= 1u << i;
	}
}

int kvmstats_parse(const json_t *answer, struct kvm_pages *ret)
{
	struct kvm_pages p = {0};
	unsigned int have = 0;
	const json_t *one, *stat;
	size_t i, k;

	if (!json_is_array(answer))
		return -EPROTO;
	json_array_foreach(answer, i, one)
		json_array_foreach(json_object_get(one, "stats"), k, stat)
			take_stat(stat, &p, &have);
	if (!have)
		return -ENODATA;
	if (have != ALL_FIELDS)
		return -EPROTO;
	*ret = p;
	return 0;
}

/* These files don't seek, so pread(2) fails. */
static ssize_t read_text(int dir_fd, const char *path, char *buf, size_t size)
{
	auto_close int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	do
		n = read(fd, buf, size - 1);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return n;
}

static int read_dir(int kvm_fd, const char *dir, struct kvm_pages *sum)
{
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		char path[300], text[32];
		uint64_t n;
		ssize_t r;

		snprintf(path, sizeof(path), "%s/%s", dir, fields[i].name);
		r = read_text(kvm_fd, path, text, sizeof(text));
		if (r < 0)
			return (int)r;
		text[strcspn(text, "\n")] = '\0';
		if (parse_u64(text, UINT64_MAX, &n) < 0)
			return -EBADMSG;
		*field(sum, i) = sum_sat_u64(*field(sum, i), n);
	}
	return 0;
}

int kvmstats_debugfs(int kvm_fd, pid_t pid, struct kvm_pages *ret)
{
	struct kvm_pages sum = {0};
	bool found = false;
	char prefix[24];
	struct dirent *e;
	int fd, r = 0;
	DIR *d;

	/* another open file: readdir(3) moves the position of its own */
	fd = openat(kvm_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	d = fdopendir(fd);
	if (!d) {
		close(fd);
		return -ENOMEM;
	}
	/* PID-FD, a folder a VM */
	snprintf(prefix, sizeof(prefix), "%d-", pid);
	while (!r && (e = readdir(d))) {
		if (strncmp(e->d_name, prefix, strlen(prefix)))
			continue;
		found = true;
		r = read_dir(kvm_fd, e->d_name, &sum);
	}
	closedir(d);
	if (r < 0)
		return r;
	if (!found)
		return -ENODATA;
	*ret = sum;
	return 0;
}
