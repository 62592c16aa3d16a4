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
 * both ends by IPC_LINK whenever one of the two is started anew. A new link
 * to a role replaces the one before, whose end may never be seen: a process
 * in D state keeps it open. Messages are struct ipc_msg, whole, one a packet,
 * at most one fd with it. Whoever gets a message that ipc_check() refuses
 * closes that link: all of these processes are ours, so it means that one of
 * them is not what it was.
 *
 * The end of the link to the supervisor means what IPC_STOP says. Answers are
 * the request with .result and the fields that are named below filled in.
 *
 * Who trusts whom. The core reads what guests send, so nobody trusts it: the
 * helper opens only sockets that the configuration names, the knob writer
 * puts back whatever the core had it change once their link ends, and the
 * supervisor replaces processes no faster than its back-off. Configuration
 * travels as a sealed memfd, read and checked by the supervisor alone; so
 * all agree on it, and nobody else needs leave to open the file.
 */
#ifndef VMDEFRAG_IPC_H
#define VMDEFRAG_IPC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "pbmap.h"
#include "proto.h"

enum role {
	ROLE_CORE,
	ROLE_BROKER,
	ROLE_HELPER,
	ROLE_KNOBS,
	ROLE_COUNT,
};

const char *role_name(unsigned int role);
const char *role_title(unsigned int role); /* "knob writer", for messages */

enum ipc_op {
	/* supervisor -> child; fd: the link to .link.role */
	IPC_LINK = 1,
	/* core -> supervisor: kill and restart .link.role, it is stuck */
	IPC_REPLACE,
	/* core -> supervisor: sessions are served; becomes sd_notify READY=1 */
	IPC_READY,
	/* core -> supervisor, each second: its loop turns */
	IPC_ALIVE,
	/* supervisor -> child: end orderly (core puts guests' knobs back) */
	IPC_STOP,
	/* supervisor -> helper, broker, core (in this order): the configuration
	 * was read again; fd: it, for config_read_fd() */
	IPC_RELOAD,

	/* broker -> core */
	IPC_VM_ADD,    /* .vm: new, or changed under the same name */
	IPC_VM_REMOVE, /* .vm.name */
	IPC_VM_SYNCED, /* all that exist now have been sent since IPC_LINK */

	/* core -> helper, and the answer with the same id and .result */
	IPC_OPEN_SOCKET, /* .open -> fd, .opened */
	IPC_SAMPLE_PROC, /* .proc -> .proc_sample */
	/* .proc -> .numa; -ENODATA where the VM has no group of its own */
	IPC_SAMPLE_CGROUP,
	/* .proc -> .kvm; -ENODATA where debugfs has no VM of this process */
	IPC_SAMPLE_KVM,
	/* .blocks: a slice of a host node's pageblocks -> .blocks */
	IPC_NODE_BLOCKS,

	/* .map -> fd: a struct mapfile; what is cheap is in there always */
	IPC_MAP_SCAN,
	/* .collapse -> .collapsed; -ESRCH if the process is gone */
	IPC_COLLAPSE,

	/* core -> knobs, and the answer with the same id and .result */
	IPC_POOL_READ, /* .pool -> .pool */
	/* .pool, nr without surplus -> .pool as it came out; one at a time:
	 * -EBUSY; -ESTALE: changed by somebody else since, theirs until
	 * IPC_POOL_RESTORE; -ETIMEDOUT: stopped half-way, nr says where */
	IPC_POOL_SET,
	/* all that was journalled; -EAGAIN: something could not be put back
	 * whole, and stays journalled */
	IPC_POOL_RESTORE,
	/* .compact; one at a time: -EBUSY; -ECANCELED after NODE_CANCEL */
	IPC_NODE_COMPACT,
	IPC_NODE_CANCEL, /* -> 0, or -ESRCH: nothing ran */

	IPC_OP_END
};

#define IPC_PATH_MAX  108 /* of a unix socket: unix(7) */
#define IPC_NAME_MAX  PROTO_TEXT_MAX
#define IPC_NUMA_MAX  64u   /* nodes that a VM's memory is told of */
#define IPC_NODES_MAX 1024u /* the kernel's, on x86-64 and aarch64 */
/* of one slice: 60 to 90 ms natively, which others wait for the helper */
#define IPC_WORDS_MAX	   (UINT64_C(1) << 20)
#define IPC_DIMMS_MAX	   16u
#define IPC_COLLAPSE_MAX   64u /* blocks a request: 15 to 40 ms natively */
#define IPC_COMPACT_MAX_US (600 * UINT64_C(1000000))

/* daemon/policy.h: enum vm_mode */
struct ipc_vm {
	char name[IPC_NAME_MAX + 1];
	char uuid[37];
	char channel[IPC_PATH_MAX];
	char qmp[IPC_PATH_MAX]; /* empty: none */
	int32_t pid;		/* of QEMU; 0: whoever listens on channel */
	uint32_t mode;		/* enum vm_mode */
	uint32_t collapse;	/* enum collapse_mode */
	bool hint;		/* tell the agent what is huge below it */
};

/* A memory device, as QMP's query-memory-devices tells. */
struct ipc_dimm {
	char memdev[IPC_NAME_MAX];
	uint64_t gpa, bytes;
	uint32_t virtio_mem;
};

/* Whose memory, and where its DIMMs are. */
struct ipc_guest {
	int32_t pid;
	uint32_t nr_dimms;
	uint64_t start_time; /* 0: any */
	struct ipc_dimm dimm[IPC_DIMMS_MAX];
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
			/* 0: smaps_rollup was refused, *_huge_kib unknown */
			uint32_t huge_kib_valid;
			uint32_t locked_kib_valid;
			uint64_t locked_kib, pinned_kib; /* VmLck, VmPin */
		} proc_sample;
		struct {
			uint32_t nr_nodes; /* entries used */
			struct {
				uint64_t kib, huge_kib; /* anon and shmem */
			} node[IPC_NUMA_MAX];
		} numa;
		struct {
			struct ipc_guest guest;
			uint32_t index, max_blocks; /* memslot.h */
			uint32_t nodes;		    /* 1: host nodes, too */
		} map;
		struct {
			struct ipc_guest guest;
			uint32_t nr;
			uint64_t max_time_us;
			uint32_t block[IPC_COLLAPSE_MAX]; /* gpa / 2 MiB */
		} collapse;
		struct {
			uint32_t nr; /* of those asked, the first so many */
			uint64_t cpu_us;
			int16_t result[IPC_COLLAPSE_MAX]; /* 0 or -errno */
		} collapsed;
		struct {
			uint32_t node;
			uint64_t page_kib; /* 2048 or 1048576 */
			uint64_t nr;	   /* surplus included, but when set */
			uint64_t free, surplus;
		} pool;
		struct {
			uint32_t node;
			uint32_t order;
			uint64_t blocks; /* further free; UINT64_MAX: all */
			uint64_t max_time_us;
			/* answer: */
			uint64_t blocks_before, blocks_after, cpu_us;
		} compact;
		struct {
			uint64_t pages_4k, pages_2m, pages_1g;
		} kvm;
		struct {
			uint32_t node;
			uint64_t max_words; /* of kpageflags */
			uint64_t pfn;	    /* 0: from the start */
			/* answer: pfn of the next slice, 0: done; sums */
			uint64_t words;
			uint64_t blocks, blocks_free, blocks_clean;
			uint64_t blocks_unmovable;
			uint64_t pages[PAGE_CLASS_COUNT], thp_pages;
		} blocks;
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
 * not whole, of an unknown op, with a string or enumerator out of range, or
 * without the fd that it needs or with one that it does not.
 */
int ipc_recv(int fd, struct ipc_msg *ret_m, int *ret_fd);

/**
 * ipc_check() - is every field of @m within its range? Pure.
 * Return: 0 or -EPROTO.
 */
int ipc_check(const struct ipc_msg *m);

/**
 * ipc_guest_check() - is every field of a guest within its range? Pure.
 * Return: 0 or -EPROTO.
 */
int ipc_guest_check(const struct ipc_guest *g);

const char *ipc_op_name(unsigned int op);

/**
 * ipc_pair() - both ends of a new link, close-on-exec and non-blocking
 *
 * Return: 0, or -errno.
 */
int ipc_pair(int ret_fd[2]);

/**
 * ipc_send_wait() - ipc_send(), waiting for room
 * @max_us: gives up with -EAGAIN after this
 *
 * For the small processes that have nothing else to do; never for the core.
 */
int ipc_send_wait(int fd, const struct ipc_msg *m, int pass_fd,
		  uint64_t max_us);

/**
 * ipc_answer() - @m, a request, back as its answer
 * @result: 0 or -errno
 *
 * Return: as ipc_send_wait(), which it calls with a second of patience.
 */
int ipc_answer(int fd, struct ipc_msg *m, int result, int pass_fd);

#endif
