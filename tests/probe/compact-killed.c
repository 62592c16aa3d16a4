// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * compact-killed - does SIGKILL end a write to nodeN/compact, and how soon?
 *
 * The compact backend has no other way to stop at a target. A child writes over
 * and over and is killed after a while, so that the signal meets a compaction
 * wherever there is one. What it proves depends on what there is to compact: a
 * write that is over within microseconds cannot be cut short. So the first
 * write's end is shown too: in a guest whose memory is scattered it must not
 * come before the signal, which tests/e2e looks at.
 *
 *	compact-killed [NODE [AFTER_MS]]
 *
 * Prints one line of JSON; "writes" are those that ended by themselves. Exit: 0
 * the child was dead within a second of the signal; 1 it was not; 77 there is
 * no such file, or it cannot be opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

static void write_until_killed(int fd, volatile uint64_t *writes)
{
	for (;;) {
		if (write(fd, "1", 1) < 0)
			_exit(1);
		++*writes;
	}
}

static int verdict(int status, uint64_t death_us, uint64_t writes)
{
	int killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;

	printf("{\"killed\": %s, \"death_us\": %llu, \"writes\": %llu}\n",
	       killed ? "true" : "false", (unsigned long long)death_us,
	       (unsigned long long)writes);
	return killed && death_us <= DEATH_MAX_US ? 0 : 1;
}

int main(int argc, char **argv)
{
	const char *node = argc > 1 ? argv[1] : "0";
	int after_ms = argc > 2 ? atoi(argv[2]) : AFTER_MS_DEFAULT;
	volatile uint64_t *writes;
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
	writes = mmap(NULL, sizeof(*writes), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (writes == MAP_FAILED)
		return 1;
	pid = fork();
	if (pid < 0)
		return 1;
	if (!pid)
		write_until_killed(fd, writes);

	usleep((useconds_t)after_ms * 1000);
	killed_us = clock_us();
	kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) < 0)
		return 1;
	return verdict(status, clock_us() - killed_us, *writes);
}
