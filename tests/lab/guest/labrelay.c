// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * labrelay - join a virtio-serial port of this machine and a unix socket in it
 *
 *	labrelay PORT-NAME SOCKET-PATH
 *
 * DOC: Theory of Operation
 *
 * The nested lab talks to guests of its emulated host: labexec and QMP sockets
 * of those lie in that host, which has no network. So each gets a port, whose
 * other end is a unix socket outside, and bytes are carried between the two.
 *
 * The port decides: while nobody holds its outer end (POLLHUP) the inner socket
 * is not connected either. That gives every new connection outside one of its
 * own inside, so that QMP greets anew, and no byte of an old one is left over.
 * When the inner side ends (QEMU is gone) so does this program, after what
 * it had to say is written; the lab sees that in the process list.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CHUNK	   32768 /* the port driver's own buffer size */
#define IDLE_MS	   20	 /* POLLHUP is level-triggered: sleep, don't spin */
#define CONNECT_MS 30000 /* QEMU makes its sockets while it starts */

struct flow {
	char buf[CHUNK];
	size_t at, len;
};

static struct flow in, out; /* port -> socket, socket -> port */

static void die(const char *what)
{
	fprintf(stderr, "labrelay: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int port_open(const char *wanted)
{
	char path[PATH_MAX], name[64];
	DIR *d = opendir("/sys/class/virtio-ports");
	struct dirent *e;

	while (d && (e = readdir(d))) {
		FILE *f;
		bool same;

		snprintf(path, sizeof(path), "/sys/class/virtio-ports/%s/name",
			 e->d_name);
		f = fopen(path, "re");
		if (!f)
			continue;
		same = fgets(name, sizeof(name), f) &&
		       (name[strcspn(name, "\n")] = 0, !strcmp(name, wanted));
		fclose(f);
		if (!same)
			continue;
		snprintf(path, sizeof(path), "/dev/%s", e->d_name);
		closedir(d);
		return open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	}
	errno = ENOENT;
	return -1;
}

static bool host_attached(int port)
{
	struct pollfd p = {.fd = port, .events = POLLIN};

	return poll(&p, 1, 0) >= 0 && !(p.revents & POLLHUP);
}

static int socket_connect(const char *path)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int waited = 0;

	if (strlen(path) >= sizeof(sa.sun_path)) {
		errno = ENAMETOOLONG;
		die(path);
	}
	strcpy(sa.sun_path, path);
	for (;;) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0)
			die("socket");
		if (!connect(fd, (struct sockaddr *)&sa, sizeof(sa))) {
			fcntl(fd, F_SETFL, O_NONBLOCK);
			return fd;
		}
		if (waited >= CONNECT_MS)
			die(path);
		close(fd);
		usleep(IDLE_MS * 1000);
		waited += IDLE_MS;
	}
}

/* False: this side has ended. */
static bool fill(int fd, struct flow *f)
{
	ssize_t n;

	if (f->len)
		return true;
	n = read(fd, f->buf, sizeof(f->buf));
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		return false;
	f->at = 0;
	f->len = n < 0 ? 0 : n;
	return true;
}

static bool drain(int fd, struct flow *f)
{
	while (f->len) {
		ssize_t n = write(fd, f->buf + f->at, f->len);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		f->at += n;
		f->len -= n;
	}
	return true;
}

/* Carry bytes until the outer end is let go; exits when the inner one is. */
static void carry(int port, int sock)
{
	for (;;) {
		struct pollfd p[2] = {
			{port, (in.len ? 0 : POLLIN) | (out.len ? POLLOUT : 0),
			 0},
			{sock, (out.len ? 0 : POLLIN) | (in.len ? POLLOUT : 0),
			 0},
		};

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			die("poll");
		if (p[0].revents & POLLHUP)
			return;
		if (p[0].revents & POLLIN && !fill(port, &in))
			return;
		if (p[1].revents & (POLLIN | POLLHUP) && !fill(sock, &out))
			exit(0);
		if (!drain(sock, &in))
			exit(0);
		if (!drain(port, &out))
			return;
	}
}

int main(int argc, char **argv)
{
	int port;

	if (argc != 3) {
		fprintf(stderr, "usage: labrelay PORT-NAME SOCKET-PATH\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	port = port_open(argv[1]);
	if (port < 0)
		die(argv[1]);
	for (;;) {
		int sock;

		while (!host_attached(port))
			usleep(IDLE_MS * 1000);
		sock = socket_connect(argv[2]);
		in.len = out.len = 0;
		carry(port, sock);
		close(sock);
	}
}
