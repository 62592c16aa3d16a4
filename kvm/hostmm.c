// SPDX-License-Identifier: GPL-2.0-or-later
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hostmm.h"
#include "util.h"

bool hostmm_choice(const char *text, const char *word)
{
	const char *open = strchr(text, '[');
	size_t len = strlen(word);

	return open && !strncmp(open + 1, word, len) && open[len + 1] == ']';
}

int hostmm_read_choice(const char *path, char *word, size_t size)
{
	char text[256];
	ssize_t n = read_text_at(AT_FDCWD, path, text, sizeof(text));
	const char *open, *close;

	if (n < 0)
		return (int)n;
	open = strchr(text, '[');
	close = open ? strchr(open, ']') : NULL;
	if (!close || (size_t)(close - open) > size)
		return -ENODATA;
	memcpy(word, open + 1, (size_t)(close - open - 1));
	word[close - open - 1] = '\0';
	return 0;
}

/* comm keeps the first 15 characters */
#define COMM_MAX 15

static uint32_t match(int proc_fd, const char *pid, const char *const *names,
		      unsigned int nr)
{
	char path[300], comm[32];

	(void)snprintf(path, sizeof(path), "%s/comm", pid);
	if (read_text_at(proc_fd, path, comm, sizeof(comm)) <= 0)
		return 0;
	comm[strcspn(comm, "\n")] = '\0';
	for (unsigned int i = 0; i < nr; i++) {
		if (!strncmp(comm, names[i], COMM_MAX))
			return 1u << i;
	}
	return 0;
}

uint32_t hostmm_programs(int proc_fd, const char *const *names, unsigned int nr)
{
	int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	uint32_t found = 0;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	while ((e = readdir(dir))) {
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			found |= match(proc_fd, e->d_name, names, nr);
	}
	closedir(dir);
	return found;
}
