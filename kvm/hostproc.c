// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hostproc.h"
#include "util.h"

/* status grows with the groups and CPUs of a process; 3 KiB is usual */
#define TEXT_MAX 16384

/*
 * The number behind "NAME:" at the start of a line. "kB" is the only unit
 * that these files have.
 */
static bool find_kib(const char *text, const char *name, uint64_t *ret_kib)
{
	size_t len = strlen(name);

	while (*text) {
		if (!strncmp(text, name, len) && text[len] == ':')
			return sscanf(text + len + 1, "%" SCNu64, ret_kib) == 1;
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	return false;
}

int hostproc_parse_stat(const char *text, uint64_t ticks_per_sec,
			uint64_t *ret_start_time, uint64_t *ret_cpu_us)
{
	/* comm, field 2, may hold blanks and parentheses */
	const char *p = strrchr(text, ')');
	uint64_t utime, stime, start;

	if (!p || !ticks_per_sec)
		return -EBADMSG;
	/* fields 3 to 13, then 14 utime, 15 stime, 16 to 21, 22 starttime */
	if (sscanf(p + 1,
		   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64
		   " %" SCNu64 " %*d %*d %*d %*d %*d %*d %" SCNu64,
		   &utime, &stime, &start) != 3)
		return -EBADMSG;
	if (utime > UINT64_MAX / SEC_US / 2 || stime > UINT64_MAX / SEC_US / 2)
		return -EBADMSG;
	*ret_start_time = start;
	*ret_cpu_us = (utime + stime) * SEC_US / ticks_per_sec;
	return 0;
}

int hostproc_parse_rollup(const char *text, struct hostproc_sample *s)
{
	uint64_t rss, anon = 0, shmem = 0, file = 0, swap = 0;
	uint64_t shared = 0, private = 0;

	if (!find_kib(text, "Rss", &rss))
		return -EBADMSG;
	(void)find_kib(text, "AnonHugePages", &anon);
	(void)find_kib(text, "ShmemPmdMapped", &shmem);
	(void)find_kib(text, "FilePmdMapped", &file);
	(void)find_kib(text, "Shared_Hugetlb", &shared);
	(void)find_kib(text, "Private_Hugetlb", &private);
	(void)find_kib(text, "Swap", &swap);
	s->rss_kib = rss;
	s->anon_huge_kib = anon;
	s->shmem_huge_kib = sum_sat_u64(shmem, file);
	s->hugetlb_kib = sum_sat_u64(shared, private);
	s->swap_kib = swap;
	s->huge_valid = true;
	return 0;
}

int hostproc_parse_status(const char *text, struct hostproc_sample *s)
{
	uint64_t locked = 0, pinned = 0, value;

	if (strncmp(text, "Name:", 5))
		return -EBADMSG;
	s->locked_valid = find_kib(text, "VmLck", &locked) &&
			  find_kib(text, "VmPin", &pinned);
	s->locked_kib = locked;
	s->pinned_kib = pinned;
	if (s->huge_valid)
		return 0;
	s->rss_kib = find_kib(text, "VmRSS", &value) ? value : 0;
	s->hugetlb_kib = find_kib(text, "HugetlbPages", &value) ? value : 0;
	s->swap_kib = find_kib(text, "VmSwap", &value) ? value : 0;
	return 0;
}

/* A process that ended meanwhile answers by these. */
static int gone(ssize_t r)
{
	return r == -ENOENT || r == -ESRCH ? -ESRCH : (int)r;
}

static int read_stat(int dir_fd, struct hostproc_sample *s)
{
	long ticks = sysconf(_SC_CLK_TCK);
	char text[1024];
	ssize_t n = read_text_at(dir_fd, "stat", text, sizeof(text));

	if (n < 0)
		return gone(n);
	return hostproc_parse_stat(text, ticks > 0 ? (uint64_t)ticks : 0,
				   &s->start_time, &s->cpu_us);
}

static int read_rollup(int dir_fd, struct hostproc_sample *s)
{
	char text[TEXT_MAX];
	ssize_t n = read_text_at(dir_fd, "smaps_rollup", text, sizeof(text));

	/* refused, or not there: status has to do. What is gone shows there */
	if (n < 0)
		return 0;
	/* the process ends, its memory is gone already */
	if (!n)
		return -ESRCH;
	return hostproc_parse_rollup(text, s);
}

static int read_status(int dir_fd, struct hostproc_sample *s)
{
	char text[TEXT_MAX];
	ssize_t n = read_text_at(dir_fd, "status", text, sizeof(text));

	if (n < 0)
		return gone(n);
	return hostproc_parse_status(text, s);
}

int hostproc_sample(int proc_fd, pid_t pid, uint64_t start_time,
		    struct hostproc_sample *ret)
{
	struct hostproc_sample s = {};
	auto_close int dir_fd = -1;
	char name[16];
	int r;

	if (pid <= 0)
		return -ESRCH;
	snprintf(name, sizeof(name), "%d", pid);
	/* stays that process's: what is opened in it is not a later one's */
	dir_fd = openat(proc_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return gone(-errno);
	r = read_stat(dir_fd, &s);
	if (r < 0)
		return r;
	if (start_time && s.start_time != start_time)
		return -ESRCH;
	r = read_rollup(dir_fd, &s);
	if (r < 0)
		return r;
	r = read_status(dir_fd, &s);
	if (r < 0)
		return r;
	*ret = s;
	return 0;
}
