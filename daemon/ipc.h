/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: the processes of vmdefragd, and what they say to each other
 *
 *	supervisor	uid 0; forks, reaps, replaces and introduces the four
 *			below, and does nothing else. It is a fifth process
 *			since somebody must be able to make a privileged one
 *			again, and none of the four may be.
 *	core		guest bytes, policy, control socket; own user, no
 *			capability
 *	broker		where VMs come from (libvirt, or the configuration)
 *	helper		opens channels, reads /proc of QEMU
 *	knobs		writes host knobs
 *
 * Each of the four has a SOCK_SEQPACKET pair to the supervisor; the core also
 * has one to each of the other three, which the supervisor makes and hands to
 * both ends by IPC_LINK whenever one of the two is started anew. Messages are
 * struct ipc_msg, whole, one a packet, at most one fd with it. Whoever gets a
 * message that ipc_check() refuses closes that link: all of these processes
 * are ours, so it means that one of them is not what it was.
 */
#ifndef VMDEFRAG_IPC_H
#define VMDEFRAG_IPC_H

#include <stdint.h>
#include <sys/types.h>

#include "proto.h"

enum role {
	ROLE_CORE,
	ROLE_BROKER,
	ROLE_HELPER,
	ROLE_KNOBS,
	ROLE_COUNT,
};

const char *role_name(unsigned int role);

enum ipc_op {
	/* supervisor -> child; fd: the link to .link.role */
	IPC_LINK = 1,
	/* core -> supervisor: kill and restart .link.role, it is stuck */
	IPC_REPLACE,
	/* core -> supervisor: sessions are served; becomes sd_notify READY=1 */
	IPC_READY,
	/* supervisor -> child: end orderly (core puts guests' knobs back) */
	IPC_STOP,
	/* supervisor -> core, broker: read the configuration again */
	IPC_RELOAD,

	/* broker -> core */
	IPC_VM_ADD,    /* .vm: new, or changed under the same name */
	IPC_VM_REMOVE, /* .vm.name */
	IPC_VM_SYNCED, /* all that exist now have been sent since IPC_LINK */

	/* core -> helper, and the answer with the same id and .result */
	IPC_OPEN_SOCKET, /* .open -> fd, .opened */
	IPC_SAMPLE_PROC, /* .proc -> .proc_sample */

	/* core -> knobs, and the answer with the same id and .result */
	IPC_POOL_READ,	  /* .pool -> .pool */
	IPC_POOL_SET,	  /* .pool -> .pool, nr as it came out */
	IPC_POOL_RESTORE, /* all that was journalled */
	IPC_NODE_COMPACT, /* .compact; one at a time, -EBUSY */
	IPC_NODE_CANCEL,

	IPC_OP_END
};

#define IPC_PATH_MAX 108 /* of a unix socket: unix(7) */
#define IPC_NAME_MAX PROTO_TEXT_MAX

/* daemon/policy.h: enum vm_mode */
struct ipc_vm {
	char name[IPC_NAME_MAX + 1];
	char uuid[37];
	char channel[IPC_PATH_MAX];
	char qmp[IPC_PATH_MAX]; /* empty: none */
	int32_t pid;		/* of QEMU; 0: whoever listens on channel */
	uint32_t mode;		/* enum vm_mode */
};

struct ipc_msg {
	uint32_t op;	/* enum ipc_op */
	int32_t result; /* of an answer: 0 or -errno */
	uint64_t id;	/* of a request, echoed by its answer */
	union {
		struct {
			uint32_t role;
		} link;
		struct ipc_vm vm;
		struct {
			char path[IPC_PATH_MAX];
		} open;
		struct {
			int32_t peer_pid; /* SO_PEERCRED of the listener */
		} opened;
		struct {
			int32_t pid;
			uint64_t start_time; /* 0: any; ticks, proc(5) 22 */
		} proc;
		struct {
			uint64_t start_time;
			uint64_t rss_kib;
			uint64_t anon_huge_kib; /* PMD-mapped */
			uint64_t shmem_huge_kib, hugetlb_kib, swap_kib;
			uint64_t cpu_us; /* utime + stime */
			uint32_t locked_kib_valid;
			uint64_t locked_kib, pinned_kib; /* VmLck, VmPin */
		} proc_sample;
		struct {
			uint32_t node;
			uint64_t page_kib; /* 2048 or 1048576 */
			uint64_t nr, free, surplus;
		} pool;
		struct {
			uint32_t node;
			uint32_t order;
			uint64_t blocks; /* further free; UINT64_MAX: all */
			uint64_t max_time_us;
			/* answer: */
			uint64_t blocks_before, blocks_after, cpu_us;
		} compact;
	};
};

/**
 * ipc_send() - one message, without blocking
 * @pass_fd: sent along, or -1; stays the caller's
 *
 * Return: 0; -EAGAIN if the other end does not read; -EPIPE if it is gone;
 * another -errno.
 */
int ipc_send(int fd, const struct ipc_msg *m, int pass_fd);

/**
 * ipc_recv() - one message, without blocking
 * @ret_fd: the fd that came along, or -1; the caller's from now on
 *
 * Return: 1; 0 at the end of the link; -EAGAIN; -EPROTO for a message that is
 * not whole, of an unknown op, or with a string or enumerator out of range.
 */
int ipc_recv(int fd, struct ipc_msg *ret_m, int *ret_fd);

/**
 * ipc_check() - is every field of @m within its range? Pure.
 * Return: 0 or -EPROTO.
 */
int ipc_check(const struct ipc_msg *m);

#endif
