// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * compact-killed - does SIGKILL end a write to nodeN/compact, and how soon?
 *
 * The compact backend has no other way to stop at a target. Run as root in a
 * guest with fragmented memory, else the write ends before the signal.
 *
 *	compact-killed [NODE [AFTER_MS]]
 *
 * Prints one line of JSON. Exit: 0 it was ended by the signal within a second;
 * 1 it was not; 77 there is no such file, or the write ended by itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXIT_SKIP	 77
#define AFTER_MS_DEFAULT 20
#define DEATH_MAX_US	 1000000 /* measured: 1 to 20 ms emulated */

static uint64_t clock_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static int verdict(int status, uint64_t death_us)
{
	int killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;

	printf("{\"killed\": %s, \"death_us\": %llu}\n",
	       killed ? "true" : "false", (unsigned long long)death_us);
	if (!killed)
		return EXIT_SKIP;
	return death_us <= DEATH_MAX_US ? 0 : 1;
}

int main(int argc, char **argv)
{
	const char *node = argc > 1 ? argv[1] : "0";
	int after_ms = argc > 2 ? atoi(argv[2]) : AFTER_MS_DEFAULT;
	char path[128];
	uint64_t killed_us;
	int fd, status;
	pid_t pid;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%s/compact",
		 node);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0) {
		printf("{\"error\": \"%s: %s\"}\n", path, strerror(errno));
		return EXIT_SKIP;
	}
	pid = fork();
	if (pid < 0)
		return 1;
	if (!pid)
		_exit(write(fd, "1", 1) < 0 ? 1 : 0);

	usleep((useconds_t)after_ms * 1000);
	killed_us = clock_us();
	kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) < 0)
		return 1;
	return verdict(status, clock_us() - killed_us);
}
