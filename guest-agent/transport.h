/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The byte stream to the host: a virtio-serial port, or a unix socket.
 */
#ifndef AGENT_TRANSPORT_H
#define AGENT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/un.h>

enum transport_kind {
	TRANSPORT_VIRTIO_SERIAL,
	TRANSPORT_UNIX,
};

#define TRANSPORT_NAME_SIZE sizeof(((struct sockaddr_un *)NULL)->sun_path)

struct transport {
	enum transport_kind kind;
	char name[TRANSPORT_NAME_SIZE]; /* of the port, or the socket's path */
};

/**
 * transport_parse() - "virtio-serial", "virtio-serial:PORT" or "unix:PATH"
 *
 * Return: 0; -EINVAL if it is none of these, or the name is empty or too long.
 */
int transport_parse(const char *text, struct transport *ret_transport);

/**
 * transport_open() - connect; never blocks
 * @sys_fd: /sys, where the port is looked up by its name, since a guest may
 *          have no udev that makes links
 *
 * Return: a non-blocking fd; -ENODEV if there is no such port; another -errno.
 */
int transport_open(const struct transport *t, int sys_fd);

/**
 * transport_stays_open() - may an fd that read end-of-file come back to life?
 *
 * A virtio-serial port reads as ended, and polls as hung up, for as long as
 * no host has it open.
 */
bool transport_stays_open(const struct transport *t);

#endif
