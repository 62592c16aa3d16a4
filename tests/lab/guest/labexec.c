// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * labexec - run commands in a lab guest for the host side of the lab
 *
 * DOC: Theory of Operation
 *
 * One process, one poll(2) loop, on the virtserialport org.vmdefrag.lab.0. The
 * host sends requests, each with a number; answers carry that number, so that
 * many may run at once and a stuck command blocks nobody but itself.
 *
 * Frame, both ways, little endian, 24 bytes and then `len` bytes of payload:
 *
 *	u8 magic[8]  "\x7fVMLAB1\n"    u32 type   u32 seq   u32 arg   u32 len
 *
 *	SYNC   ->  payload echoed; the host discards all that comes before it
 *	RUN    ->  payload is a shell command; arg 1: in the background
 *	KILL   ->  SIGKILL to the process group of request `seq`
 *	PUT    ->  payload "path\0data"; arg is the mode, or'ed with PUT_APPEND
 *	GET    ->  payload is a path
 *	OUT    <-  some output of `seq` (command or file)
 *	EXIT   <-  `seq` is over; arg: exit status, 128 + signal, or -errno
 *
 * What can be lost: the host may go away in mid-frame (a lab that was killed),
 * and so may we (guest reset). read() gives 0 while no host is attached: the
 * parser then starts afresh. A frame that stalls for STALL_MS is dropped too,
 * since a quick host may be back before we saw it gone. The host resends SYNC
 * until it is answered, less often than STALL_MS. Bytes that are no header are
 * skipped one by one.
 *
 * With no host attached poll(2) returns POLLHUP at once: sleep, don't spin.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PORT_NAME   "org.vmdefrag.lab.0"
#define PAYLOAD_MAX (1u << 20) /* the host cuts files into 256 KiB */
#define CHUNK	    32768      /* the driver's own buffer size */
#define JOBS_MAX    32
#define NO_HOST_US  20000
#define STALL_MS    1000
#define PUT_APPEND  0x10000u

enum { T_SYNC = 1, T_RUN, T_KILL, T_PUT, T_GET, T_OUT, T_EXIT };

struct hdr {
	uint8_t magic[8];
	uint32_t type, seq, arg, len;
};

_Static_assert(sizeof(struct hdr) == 24, "wire size");

struct job {
	pid_t pid; /* 0: slot is free */
	uint32_t seq;
	int out; /* read end of its stdout and stderr */
};

static const uint8_t magic[8] = {0x7f, 'V', 'M', 'L', 'A', 'B', '1', '\n'};

static int port = -1;
static struct job jobs[JOBS_MAX];
static sigset_t old_mask;

static uint8_t in[sizeof(struct hdr) + PAYLOAD_MAX];
static size_t in_len;
static uint64_t in_ms; /* when the last byte came */

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Path of the port's device, found by the name that QEMU gave it. */
static int port_open(void)
{
	char path[PATH_MAX], name[64];
	struct dirent *e;
	DIR *d = opendir("/sys/class/virtio-ports");
	int fd = -ENOENT;

	if (!d)
		return -errno;
	while ((e = readdir(d))) {
		ssize_t n;
		int f;

		snprintf(path, sizeof(path), "/sys/class/virtio-ports/%s/name",
			 e->d_name);
		f = open(path, O_RDONLY | O_CLOEXEC);
		if (f < 0)
			continue;
		n = read(f, name, sizeof(name) - 1);
		close(f);
		if (n <= 0)
			continue;
		name[n] = 0;
		name[strcspn(name, "\n")] = 0;
		if (strcmp(name, PORT_NAME))
			continue;
		snprintf(path, sizeof(path), "/dev/%s", e->d_name);
		fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			fd = -errno;
		break;
	}
	closedir(d);
	return fd;
}

/* False: the host is gone, and the frame with it; SYNC sorts that out. */
static bool send_all(const void *buf, size_t len)
{
	const uint8_t *p = buf;

	while (len) {
		ssize_t n = write(port, p, len);
		struct pollfd pfd = {.fd = port, .events = POLLOUT};

		if (n > 0) {
			p += n;
			len -= n;
			continue;
		}
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return false;
		poll(&pfd, 1, 1000);
		if (pfd.revents & (POLLHUP | POLLERR))
			return false;
	}
	return true;
}

static void send_frame(uint32_t type, uint32_t seq, uint32_t arg,
		       const void *data, uint32_t len)
{
	static uint8_t out[sizeof(struct hdr) + CHUNK];
	struct hdr h = {.type = type, .seq = seq, .arg = arg, .len = len};

	memcpy(h.magic, magic, sizeof(magic));
	memcpy(out, &h, sizeof(h));
	memcpy(out + sizeof(h), data, len);
	send_all(out, sizeof(h) + len);
}

static void send_exit(uint32_t seq, int rc)
{
	send_frame(T_EXIT, seq, (uint32_t)rc, "", 0);
}

static void exec_shell(const char *cmd, int out)
{
	int null = open("/dev/null", O_RDWR);
	int adj = open("/proc/self/oom_score_adj", O_WRONLY);

	setsid();
	if (adj >= 0) {
		/* Only labexec itself is exempt from the OOM killer. */
		if (write(adj, "0", 1) != 1)
			_exit(126);
		close(adj);
	}
	dup2(null, 0);
	dup2(out < 0 ? null : out, 1);
	dup2(out < 0 ? null : out, 2);
	sigprocmask(SIG_SETMASK, &old_mask, NULL);
	signal(SIGPIPE, SIG_DFL);
	execl("/bin/sh", "sh", "-c", cmd, (char *)NULL);
	_exit(127);
}

/* Background commands answer with their pid and are not heard of again. */
static void run_background(uint32_t seq, const char *cmd)
{
	pid_t pid = fork();

	if (pid == 0)
		exec_shell(cmd, -1);
	if (pid < 0) {
		send_exit(seq, -errno);
		return;
	}
	char text[16];

	snprintf(text, sizeof(text), "%d", (int)pid);
	send_frame(T_OUT, seq, 0, text, strlen(text));
	send_exit(seq, 0);
}

static void run(uint32_t seq, const char *cmd)
{
	struct job *j = NULL;
	int fds[2];

	for (int i = 0; i < JOBS_MAX && !j; i++)
		if (!jobs[i].pid)
			j = &jobs[i];
	if (!j) {
		send_exit(seq, -EAGAIN);
		return;
	}
	if (pipe2(fds, O_CLOEXEC)) {
		send_exit(seq, -errno);
		return;
	}
	j->pid = fork();
	if (j->pid == 0)
		exec_shell(cmd, fds[1]);
	if (j->pid < 0) {
		send_exit(seq, -errno);
		close(fds[0]);
		close(fds[1]);
		j->pid = 0;
		return;
	}
	close(fds[1]);
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	j->seq = seq;
	j->out = fds[0];
}

static void put(uint32_t seq, uint32_t arg, const uint8_t *data, size_t len)
{
	const uint8_t *nul = memchr(data, 0, len);
	int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
	int fd;

	if (!nul) {
		send_exit(seq, -EINVAL);
		return;
	}
	len -= nul + 1 - data;
	flags |= arg & PUT_APPEND ? O_APPEND : O_TRUNC;
	fd = open((const char *)data, flags, arg & 07777);
	if (fd < 0) {
		send_exit(seq, -errno);
		return;
	}
	for (const uint8_t *p = nul + 1; len;) {
		ssize_t n = write(fd, p, len);

		if (n < 0) {
			send_exit(seq, -errno);
			close(fd);
			return;
		}
		p += n;
		len -= n;
	}
	/* The umask must not decide about the mode; sysfs refuses fchmod. */
	if (!(arg & PUT_APPEND))
		(void)fchmod(fd, arg & 07777);
	send_exit(seq, close(fd) ? -errno : 0);
}

static void get(uint32_t seq, const char *path)
{
	uint8_t buf[CHUNK];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = 0;

	while (fd >= 0 && (n = read(fd, buf, sizeof(buf))) > 0)
		send_frame(T_OUT, seq, 0, buf, n);
	send_exit(seq, fd < 0 || n < 0 ? -errno : 0);
	if (fd >= 0)
		close(fd);
}

static void kill_job(uint32_t seq)
{
	for (int i = 0; i < JOBS_MAX; i++)
		if (jobs[i].pid && jobs[i].seq == seq)
			kill(-jobs[i].pid, SIGKILL);
}

static void handle(const struct hdr *h, uint8_t *data)
{
	data[h->len] = 0; /* in[] has room: a header follows at the earliest */
	switch (h->type) {
	case T_SYNC:
		send_frame(T_SYNC, h->seq, 0, data,
			   h->len > CHUNK ? CHUNK : h->len);
		break;
	case T_RUN:
		if (h->arg)
			run_background(h->seq, (char *)data);
		else
			run(h->seq, (char *)data);
		break;
	case T_KILL:
		kill_job(h->seq);
		break;
	case T_PUT:
		put(h->seq, h->arg, data, h->len);
		break;
	case T_GET:
		get(h->seq, (char *)data);
		break;
	}
}

static void drop(size_t n)
{
	in_len -= n;
	memmove(in, in + n, in_len);
}

/* Take whole frames out of in[]; what is no frame goes byte by byte. */
static void parse(void)
{
	struct hdr h;

	while (in_len >= sizeof(h)) {
		memcpy(&h, in, sizeof(h));
		if (memcmp(h.magic, magic, sizeof(magic)) ||
		    h.len >= PAYLOAD_MAX) {
			uint8_t *p = memchr(in + 1, magic[0], in_len - 1);

			drop(p ? (size_t)(p - in) : in_len);
			continue;
		}
		if (in_len < sizeof(h) + h.len)
			return;
		/* handle() ends the payload with NUL: keep what is there. */
		uint8_t next = in[sizeof(h) + h.len];

		handle(&h, in + sizeof(h));
		in[sizeof(h) + h.len] = next;
		drop(sizeof(h) + h.len);
	}
}

static void read_port(void)
{
	ssize_t n = read(port, in + in_len, sizeof(in) - 1 - in_len);

	if (n > 0) {
		in_len += n;
		in_ms = now_ms();
		parse();
	} else if (n == 0 || errno != EAGAIN) {
		in_len = 0; /* no host attached */
		usleep(NO_HOST_US);
	}
}

/* All there is to read now; true: end of file. */
static bool drain_job(struct job *j)
{
	uint8_t buf[CHUNK];
	ssize_t n;

	while ((n = read(j->out, buf, sizeof(buf))) > 0)
		send_frame(T_OUT, j->seq, 0, buf, n);
	return n == 0;
}

/*
 * A job ends with its shell, not with its pipe: something that was put into
 * the background may hold that open for as long as the guest lives.
 */
static void reap(int sfd)
{
	struct signalfd_siginfo si;
	int status;
	pid_t pid;

	while (read(sfd, &si, sizeof(si)) > 0)
		;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (int i = 0; i < JOBS_MAX; i++) {
			struct job *j = &jobs[i];

			if (j->pid != pid)
				continue;
			drain_job(j);
			if (j->out >= 0)
				close(j->out);
			send_exit(j->seq, WIFEXITED(status)
						  ? WEXITSTATUS(status)
						  : 128 + WTERMSIG(status));
			j->pid = 0;
		}
	}
}

static void turn(int sfd)
{
	struct pollfd p[2 + JOBS_MAX] = {
		{.fd = port, .events = POLLIN},
		{.fd = sfd, .events = POLLIN},
	};

	for (int i = 0; i < JOBS_MAX; i++) {
		p[2 + i].fd = jobs[i].pid ? jobs[i].out : -1;
		p[2 + i].events = POLLIN;
	}
	poll(p, 2 + JOBS_MAX, in_len ? STALL_MS : -1);
	for (int i = 0; i < JOBS_MAX; i++) {
		/* At end of file the slot waits for its SIGCHLD only. */
		if (p[2 + i].revents && drain_job(&jobs[i])) {
			close(jobs[i].out);
			jobs[i].out = -1;
		}
	}
	if (p[1].revents)
		reap(sfd);
	if (p[0].revents)
		read_port();
	if (in_len && now_ms() - in_ms > STALL_MS)
		in_len = 0;
}

int main(void)
{
	sigset_t mask;
	int sfd, adj;

	adj = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (adj < 0 || write(adj, "-1000", 5) != 5)
		perror("labexec: oom_score_adj, going on");
	if (adj >= 0)
		close(adj);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, &old_mask);
	sfd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (sfd < 0) {
		perror("labexec: signalfd");
		return 1;
	}
	for (int i = 0; i < 250 && port < 0; i++) {
		port = port_open();
		if (port < 0)
			usleep(NO_HOST_US);
	}
	if (port < 0) {
		fprintf(stderr, "labexec: port " PORT_NAME ": %s\n",
			strerror(-port));
		return 1;
	}
	for (;;)
		turn(sfd);
}
