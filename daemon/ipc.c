// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "ipc.h"
#include "policy.h"
#include "policy_collapse.h"
#include "util.h"

/* More fds than the one allowed are taken too, so that they can be closed. */
#define FDS_TAKEN_MAX  4
#define ANSWER_WAIT_US SEC_US

static const char *const role_names[] = {
	[ROLE_CORE] = "core",
	[ROLE_BROKER] = "broker",
	[ROLE_HELPER] = "helper",
	[ROLE_KNOBS] = "knobs",
};
static_assert(ARRAY_SIZE(role_names) == ROLE_COUNT, "role_names is complete");

static const char *const role_titles[] = {
	[ROLE_CORE] = "core",
	[ROLE_BROKER] = "virt broker",
	[ROLE_HELPER] = "mm helper",
	[ROLE_KNOBS] = "knob writer",
};
static_assert(ARRAY_SIZE(role_titles) == ROLE_COUNT, "role_titles is complete");

static const char *const op_names[] = {
	[IPC_LINK] = "link",
	[IPC_REPLACE] = "replace",
	[IPC_READY] = "ready",
	[IPC_ALIVE] = "alive",
	[IPC_STOP] = "stop",
	[IPC_RELOAD] = "reload",
	[IPC_VM_ADD] = "vm-add",
	[IPC_VM_REMOVE] = "vm-remove",
	[IPC_VM_SYNCED] = "vm-synced",
	[IPC_OPEN_SOCKET] = "open-socket",
	[IPC_SAMPLE_PROC] = "sample-proc",
	[IPC_SAMPLE_CGROUP] = "sample-cgroup",
	[IPC_MAP_SCAN] = "map-scan",
	[IPC_COLLAPSE] = "collapse",
	[IPC_SAMPLE_KVM] = "sample-kvm",
	[IPC_NODE_BLOCKS] = "node-blocks",
	[IPC_POOL_READ] = "pool-read",
	[IPC_POOL_SET] = "pool-set",
	[IPC_POOL_RESTORE] = "pool-restore",
	[IPC_NODE_COMPACT] = "node-compact",
	[IPC_NODE_CANCEL] = "node-cancel",
};
static_assert(ARRAY_SIZE(op_names) == IPC_OP_END, "op_names is complete");

const char *role_name(unsigned int role)
{
	return role < ROLE_COUNT ? role_names[role] : "?";
}

const char *role_title(unsigned int role)
{
	return role < ROLE_COUNT ? role_titles[role] : "?";
}

const char *ipc_op_name(unsigned int op)
{
	return op < IPC_OP_END && op_names[op] ? op_names[op] : "?";
}

/* NUL-terminated within its field, printable, of at least @min bytes. */
static bool text_ok(const char *s, size_t size, size_t min)
{
	size_t len = strnlen(s, size);

	return len >= min && len < size && text_is_printable(s, size - 1);
}

static bool path_ok(const char *s)
{
	return text_ok(s, IPC_PATH_MAX, 1) && s[0] == '/';
}

static bool vm_ok(const struct ipc_vm *vm)
{
	return text_ok(vm->name, sizeof(vm->name), 1) &&
	       text_ok(vm->uuid, sizeof(vm->uuid), 0) && path_ok(vm->channel) &&
	       (!vm->qmp[0] || path_ok(vm->qmp)) && vm->pid >= 0 &&
	       vm->mode < VM_MODE_COUNT && vm->collapse < COLLAPSE_MODE_COUNT;
}

static bool pool_ok(const struct ipc_msg *m)
{
	return m->pool.node < IPC_NODES_MAX &&
	       (m->pool.page_kib == 2048 || m->pool.page_kib == 1048576);
}

static bool compact_ok(const struct ipc_msg *m)
{
	return m->compact.node < IPC_NODES_MAX &&
	       m->compact.order < PROTO_ORDERS_MAX && m->compact.blocks &&
	       m->compact.max_time_us &&
	       m->compact.max_time_us <= IPC_COMPACT_MAX_US;
}

int ipc_check(const struct ipc_msg *m)
{
	bool ok = true;

	if (m->result > 0 || m->result < -4095)
		return -EPROTO;
	switch (m->op) {
	case IPC_LINK:
	case IPC_REPLACE:
		ok = m->link.role < ROLE_COUNT;
		break;
	case IPC_READY:
	case IPC_ALIVE:
	case IPC_STOP:
	case IPC_RELOAD:
	case IPC_VM_SYNCED:
	case IPC_POOL_RESTORE:
	case IPC_NODE_CANCEL:
		break;
	case IPC_VM_ADD:
		ok = vm_ok(&m->vm);
		break;
	case IPC_VM_REMOVE:
		ok = text_ok(m->vm.name, sizeof(m->vm.name), 1);
		break;
	case IPC_OPEN_SOCKET:
		/* an answer has .opened there, and zeroes behind it: what a
		 * path must look like is checked by the helper */
		ok = memchr(m->open.path, '\0', IPC_PATH_MAX) != NULL;
		break;
	case IPC_SAMPLE_PROC:
		/* the answer's start_time shares its place with pid */
		break;
	case IPC_SAMPLE_KVM:
		/* the same with pages_4k */
		break;
	case IPC_SAMPLE_CGROUP:
		/* the same with nr_nodes, which the receiver bounds */
		break;
	case IPC_MAP_SCAN:
	case IPC_COLLAPSE:
		/* answers share the place; the helper checks its requests by
		 * ipc_guest_check(), the core bounds what it gets */
		break;
	case IPC_POOL_READ:
	case IPC_POOL_SET:
		ok = pool_ok(m);
		break;
	case IPC_NODE_COMPACT:
		ok = compact_ok(m);
		break;
	case IPC_NODE_BLOCKS:
		ok = m->blocks.node < IPC_NODES_MAX && m->blocks.max_words &&
		     m->blocks.max_words <= IPC_WORDS_MAX;
		break;
	default:
		ok = false;
	}
	return ok ? 0 : -EPROTO;
}

int ipc_guest_check(const struct ipc_guest *g)
{
	if (g->pid <= 0 || g->nr_dimms > IPC_DIMMS_MAX)
		return -EPROTO;
	for (uint32_t i = 0; i < g->nr_dimms; i++) {
		if (!text_ok(g->dimm[i].memdev, IPC_NAME_MAX, 1) ||
		    g->dimm[i].virtio_mem > 1)
			return -EPROTO;
	}
	return 0;
}

/* Which messages bring an fd; an open-socket does as an answer only. */
static bool fd_ok(const struct ipc_msg *m, bool have_fd)
{
	switch (m->op) {
	case IPC_LINK:
	case IPC_RELOAD:
		return have_fd;
	case IPC_OPEN_SOCKET:
	case IPC_MAP_SCAN:
		return true;
	default:
		return !have_fd;
	}
}

int ipc_send(int fd, const struct ipc_msg *m, int pass_fd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control = {};
	struct iovec iov = {(void *)m, sizeof(*m)};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (pass_fd >= 0) {
		struct cmsghdr *c;

		mh.msg_control = control.buf;
		mh.msg_controllen = sizeof(control.buf);
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &pass_fd, sizeof(int));
	}
	do {
		n = sendmsg(fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n >= 0)
		return 0;
	return errno == ECONNRESET ? -EPIPE : -errno;
}

/* Collect the fds of a message: the first into @ret_fd, others are closed. */
static unsigned int take_fds(struct msghdr *mh, int *ret_fd)
{
	unsigned int nr = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int),
			       sizeof(int));
			if (nr++)
				close(fd);
			else
				*ret_fd = fd;
		}
	}
	return nr;
}

int ipc_recv(int fd, struct ipc_msg *ret_m, int *ret_fd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(FDS_TAKEN_MAX * sizeof(int))];
	} control;
	struct ipc_msg m;
	struct iovec iov = {&m, sizeof(m)};
	struct msghdr mh = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	auto_close int taken = -1;
	unsigned int nr_fds;
	ssize_t n;

	do {
		n = recvmsg(fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == ECONNRESET)
		return 0;
	if (n < 0)
		return -errno;
	nr_fds = take_fds(&mh, &taken);
	if (!n && !nr_fds)
		return 0;
	if ((size_t)n != sizeof(m) || nr_fds > 1 ||
	    mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return -EPROTO;
	if (ipc_check(&m) < 0 || !fd_ok(&m, taken >= 0))
		return -EPROTO;
	*ret_m = m;
	*ret_fd = take_fd(&taken);
	return 1;
}

int ipc_pair(int ret_fd[2])
{
	int flags = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;

	return socketpair(AF_UNIX, flags, 0, ret_fd) < 0 ? -errno : 0;
}

int ipc_send_wait(int fd, const struct ipc_msg *m, int pass_fd, uint64_t max_us)
{
	uint64_t end_us = now_us() + max_us;
	int r;

	while ((r = ipc_send(fd, m, pass_fd)) == -EAGAIN) {
		struct pollfd p = {fd, POLLOUT, 0};
		uint64_t now = now_us();

		if (now >= end_us)
			break;
		/* not writable yet: 1 ms more than is left ends it above */
		(void)poll(&p, 1, (int)((end_us - now) / MSEC_US) + 1);
	}
	return r;
}

int ipc_answer(int fd, struct ipc_msg *m, int result, int pass_fd)
{
	m->result = result;
	return ipc_send_wait(fd, m, pass_fd, ANSWER_WAIT_US);
}
