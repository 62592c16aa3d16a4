// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "proctitle.h"

extern char **environ;

static char *title_at;
static size_t title_size;

/*
 * argv's strings and the environment's lie behind each other. The kernel shows
 * what is at argv's place, and if its last byte is not NUL, goes on into the
 * environment's: proc_pid_cmdline_read().
 */
static char *strings_end(int argc, char **argv)
{
	char *end = argv[0];

	for (int i = 0; i < argc; i++) {
		if (argv[i] == end)
			end += strlen(end) + 1;
	}
	for (char **e = environ; *e; e++) {
		if (*e == end)
			end += strlen(end) + 1;
	}
	return end;
}

void proctitle_init(int argc, char **argv)
{
	size_t nr = 0;
	char *end, **copy;

	if (argc < 1)
		return;
	end = strings_end(argc, argv);
	while (environ[nr])
		nr++;
	copy = calloc(nr + 1, sizeof(*copy));
	for (size_t i = 0; copy && i < nr; i++) {
		copy[i] = strdup(environ[i]);
		if (!copy[i])
			return; /* no titles, then; the old environ is whole */
	}
	if (!copy)
		return;
	environ = copy;
	title_at = argv[0];
	title_size = (size_t)(end - argv[0]);
}

void proctitle_set(const char *role)
{
	char comm[16];

	snprintf(comm, sizeof(comm), "vmdefrag-%s", role);
	(void)prctl(PR_SET_NAME, comm, 0, 0, 0);
	if (!title_size)
		return;
	memset(title_at, 0, title_size);
	snprintf(title_at, title_size, "vmdefragd: %s", role);
}
