// SPDX-License-Identifier: GPL-2.0-or-later
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto.h"
#include "transport.h"
#include "util.h"

#define PORTS_DIR "class/virtio-ports"

/* What follows "PREFIX:"; NULL if the text is something else. */
static const char *after_prefix(const char *text, const char *prefix)
{
	size_t len = strlen(prefix);

	return strncmp(text, prefix, len) ? NULL : text + len;
}

int transport_parse(const char *text, struct transport *ret_transport)
{
	struct transport t = {.kind = TRANSPORT_VIRTIO_SERIAL};
	const char *name;

	if (!strcmp(text, "virtio-serial")) {
		name = PROTO_PORT_NAME;
	} else if ((name = after_prefix(text, "unix:"))) {
		t.kind = TRANSPORT_UNIX;
	} else {
		name = after_prefix(text, "virtio-serial:");
	}
	if (!name || !*name || strlen(name) >= sizeof(t.name))
		return -EINVAL;
	(void)snprintf(t.name, sizeof(t.name), "%s", name);
	*ret_transport = t;
	return 0;
}

bool transport_stays_open(const struct transport *t)
{
	return t->kind == TRANSPORT_VIRTIO_SERIAL;
}

static int open_unix(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	auto_close int fd = -1;

	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		return -errno;
	return take_fd(&fd);
}

/* Is /sys/class/virtio-ports/@entry the port with this name? */
static bool port_has_name(int ports_fd, const char *entry, const char *name)
{
	char path[300], text[256];

	if (entry[0] == '.')
		return false;
	(void)snprintf(path, sizeof(path), "%s/name", entry);
	if (read_text_at(ports_fd, path, text, sizeof(text)) < 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	return !strcmp(text, name);
}

static int open_port(int sys_fd, const char *name)
{
	char path[300] = "";
	struct dirent *d;
	DIR *dir;
	int fd;

	fd = openat(sys_fd, PORTS_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ENODEV : -errno;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	while (!path[0] && (d = readdir(dir))) {
		if (port_has_name(fd, d->d_name, name))
			(void)snprintf(path, sizeof(path), "/dev/%s",
				       d->d_name);
	}
	closedir(dir);
	if (!path[0])
		return -ENODEV;

	fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int transport_open(const struct transport *t, int sys_fd)
{
	switch (t->kind) {
	case TRANSPORT_UNIX:
		return open_unix(t->name);
	case TRANSPORT_VIRTIO_SERIAL:
		return open_port(sys_fd, t->name);
	}
	return -EINVAL;
}
