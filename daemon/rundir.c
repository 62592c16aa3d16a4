// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include "rundir.h"
#include "util.h"

#define LOCK_NAME "lock"
/* Clients are people and scrapers; each is accepted within a tick. */
#define LISTEN_BACKLOG 64

static int fault(int error, char *what, const char *fmt, ...) printf_like(3, 4);

static int fault(int error, char *what, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, CONF_WHAT_MAX, fmt, ap);
	va_end(ap);
	return error;
}

/* Open @path, made with @mode if it was not there. */
static int make_dir(const char *path, mode_t mode, char *what)
{
	int fd;

	if (mkdir(path, mode) < 0 && errno != EEXIST)
		return fault(-errno, what, "Cannot make directory %.150s: %s",
			     path, strerror(errno));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return fault(-errno, what, "Cannot open directory %.150s: %s",
			     path, strerror(errno));
	return fd;
}

/* Whoever can write there can take the socket's or the journal's place. */
static int check_dir(int fd, const char *path, char *what)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return fault(-errno, what, "%.150s: %s", path, strerror(errno));
	if (st.st_uid != geteuid())
		return fault(-EPERM, what,
			     "Run directory %.150s belongs to uid %u, not to "
			     "%u, who starts the daemon",
			     path, st.st_uid, geteuid());
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return fault(-EPERM, what,
			     "Run directory %.150s is writable for others "
			     "(mode %o): chmod 755 it, or name another",
			     path, st.st_mode & 07777);
	return 0;
}

int rundir_open(const char *path, int *ret_lock_fd, char *what)
{
	auto_close int dir_fd = make_dir(path, 0755, what);
	auto_close int fd = -1;
	int r;

	if (dir_fd < 0)
		return dir_fd;
	r = check_dir(dir_fd, path, what);
	if (r < 0)
		return r;
	fd = openat(dir_fd, LOCK_NAME,
		    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fault(-errno, what,
			     "Cannot open %.150s/" LOCK_NAME ": %s", path,
			     strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return fault(-errno, what, "Cannot lock %.150s: %s",
				     path, strerror(errno));
		return fault(-EBUSY, what,
			     "Another vmdefragd has the run directory %.150s: "
			     "end it first, or name another by --run-dir",
			     path);
	}
	*ret_lock_fd = take_fd(&fd);
	return 0;
}

int rundir_state(const char *path, const struct identity *id, char *what)
{
	auto_close int fd = make_dir(path, 0750, what);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return fault(-errno, what, "%.150s: %s", path, strerror(errno));
	if (st.st_uid == id->uid && st.st_gid == id->gid)
		return 0;
	if (fchown(fd, id->uid, id->gid) < 0)
		return fault(-errno, what,
			     "Cannot give state directory %.150s to uid %u: %s",
			     path, id->uid, strerror(errno));
	return 0;
}

static int listen_inherited(char *what, int *ret_fd)
{
	int n = sd_listen_fds(1), fd = SD_LISTEN_FDS_START;

	if (n < 0)
		return fault(n, what, "Cannot take over systemd's sockets: %s",
			     strerror(-n));
	if (!n)
		return 0;
	if (n > 1)
		return fault(-EINVAL, what,
			     "systemd passed %d sockets; one is expected, the "
			     "control socket",
			     n);
	if (sd_is_socket_unix(fd, SOCK_STREAM, 1, NULL, 0) <= 0)
		return fault(-EINVAL, what,
			     "systemd passed a socket that is no listening "
			     "unix stream socket");
	if (fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
		return fault(-errno, what, "Control socket: %s",
			     strerror(errno));
	*ret_fd = fd;
	return 1;
}

static int bind_control(int fd, const struct sockaddr_un *sa,
			const struct identity *id)
{
	/* nobody else makes files meanwhile: one thread, no children yet */
	mode_t mask = umask(0117);
	int r = bind(fd, (const struct sockaddr *)sa, sizeof(*sa)) < 0 ? -errno
								       : 0;

	umask(mask);
	if (r < 0)
		return r;
	/* as root the group is given to; else it is ours already */
	if (id->split && chown(sa->sun_path, 0, id->socket_gid) < 0)
		return -errno;
	return listen(fd, LISTEN_BACKLOG) < 0 ? -errno : 0;
}

int rundir_listen(const struct config *cfg, const struct identity *id,
		  int *ret_fd, bool *ret_own, char *what)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	auto_close int fd = -1;
	int r;

	r = listen_inherited(what, ret_fd);
	*ret_own = !r;
	if (r)
		return r < 0 ? r : 0;
	r = snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/%s", cfg->run_dir,
		     CONFIG_SOCKET_NAME);
	if ((size_t)r >= sizeof(sa.sun_path))
		return fault(-ENAMETOOLONG, what, "RunDir is too long");
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fault(-errno, what, "Control socket: %s",
			     strerror(errno));
	/* the lock says that nobody serves an old one */
	(void)unlink(sa.sun_path);
	r = bind_control(fd, &sa, id);
	if (r < 0)
		return fault(r, what, "Control socket %.108s: %s", sa.sun_path,
			     strerror(-r));
	*ret_fd = take_fd(&fd);
	return 0;
}
