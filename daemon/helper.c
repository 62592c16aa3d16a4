// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The mm helper: what needs the capabilities in privs.h, on the core's behalf.
 * One request after another, each answered before the next is read. A process
 * or file system that hangs in the kernel can hold it for ever: it knows
 * nothing that would be lost when it is killed and replaced.
 *
 * The core is not trusted: a socket is opened only if the configuration names
 * it. Otherwise a core that a guest has taken over could have any service of
 * the host as root, libvirt's first of all.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "config.h"
#include "helper_map.h"
#include "hostblocks.h"
#include "hostcgroup.h"
#include "hostproc.h"
#include "kvmstats.h"
#include "log.h"
#include "roles.h"
#include "util.h"

/* A listener that does not accept has its backlog full: QEMU's is 1. */
#define CONNECT_US (1 * SEC_US)

#define CGROUP_DIR "/sys/fs/cgroup"
#define SYSTEM_DIR "/sys/devices/system"
#define KVM_DIR	   "/sys/kernel/debug/kvm"

struct helper {
	int sup_fd, core_fd, proc_fd;
	int cgroup_fd;		/* -1: no cgroup2 here */
	int system_fd;		/* -1: no sysfs here */
	struct config reloaded; /* owned */
	const struct config *cfg;
	bool stop;
};

static bool path_allowed(const struct config *cfg, const char *path)
{
	for (size_t i = 0; i < cfg->nr_vms; i++) {
		const struct ipc_vm *vm = &cfg->vm[i];

		if (!strcmp(vm->channel, path) || !strcmp(vm->qmp, path))
			return *path;
	}
	return false;
}

/* Return: a connected, non-blocking fd, or -errno. */
static int connect_path(const char *path)
{
	struct timeval tv = {.tv_sec = CONNECT_US / SEC_US};
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	strcpy(sa.sun_path, path);
	/*
	 * connect(2) of a unix socket knows no "in progress": non-blocking it
	 * fails with EAGAIN on a full backlog. The send timeout bounds it.
	 */
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	if (fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
		return -errno;
	return take_fd(&fd);
}

/*
 * The pid that called listen(2): QEMU, or who handed it the socket (libvirt
 * does for its own chardevs).
 */
static int peer_pid(int fd, int32_t *ret_pid)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return -errno;
	*ret_pid = cred.pid;
	return 0;
}

static int serve_open(struct helper *h, struct ipc_msg *m)
{
	auto_close int fd = -1;
	int32_t pid = 0;
	int r;

	if (!path_allowed(h->cfg, m->open.path)) {
		log_err("The core asked for a socket that no VM has: refused");
		return ipc_answer(h->core_fd, m, -EPERM, -1);
	}
	fd = connect_path(m->open.path);
	r = fd < 0 ? fd : peer_pid(fd, &pid);
	log_debug("Opening %s: %s", m->open.path, strerror(r < 0 ? -r : 0));
	memset(&m->open, 0, sizeof(m->open));
	if (r < 0)
		return ipc_answer(h->core_fd, m, r, -1);
	m->opened.peer_pid = pid;
	return ipc_answer(h->core_fd, m, 0, fd);
}

static int serve_sample(struct helper *h, struct ipc_msg *m)
{
	struct hostproc_sample s;
	int r = hostproc_sample(h->proc_fd, m->proc.pid, m->proc.start_time,
				&s);

	memset(&m->proc_sample, 0, sizeof(m->proc_sample));
	if (r < 0)
		return ipc_answer(h->core_fd, m, r, -1);
	m->proc_sample.start_time = s.start_time;
	m->proc_sample.cpu_us = s.cpu_us;
	m->proc_sample.rss_kib = s.rss_kib;
	m->proc_sample.hugetlb_kib = s.hugetlb_kib;
	m->proc_sample.swap_kib = s.swap_kib;
	m->proc_sample.huge_kib_valid = s.huge_valid;
	m->proc_sample.anon_huge_kib = s.anon_huge_kib;
	m->proc_sample.shmem_huge_kib = s.shmem_huge_kib;
	m->proc_sample.locked_kib_valid = s.locked_valid;
	m->proc_sample.locked_kib = s.locked_kib;
	m->proc_sample.pinned_kib = s.pinned_kib;
	return ipc_answer(h->core_fd, m, 0, -1);
}

static int serve_cgroup(struct helper *h, struct ipc_msg *m)
{
	static_assert(IPC_NUMA_MAX == HOSTCGROUP_NODES_MAX, "same bound");
	struct hostcgroup_numa s;
	int r = hostcgroup_sample(h->proc_fd, h->cgroup_fd, m->proc.pid, &s);

	memset(&m->numa, 0, sizeof(m->numa));
	if (r < 0)
		return ipc_answer(h->core_fd, m, r, -1);
	m->numa.nr_nodes = s.nr_nodes;
	for (uint32_t i = 0; i < s.nr_nodes; i++) {
		/* shmem is counted in file, too */
		m->numa.node[i].kib = s.node[i].anon_kib + s.node[i].shmem_kib;
		m->numa.node[i].huge_kib =
			s.node[i].anon_thp_kib + s.node[i].shmem_thp_kib;
	}
	return ipc_answer(h->core_fd, m, 0, -1);
}

static int serve_map(struct helper *h, struct ipc_msg *m)
{
	auto_close int fd = helper_map_scan(h->proc_fd, m);

	return ipc_answer(h->core_fd, m, MIN(fd, 0), fd);
}

static int serve_collapse(struct helper *h, struct ipc_msg *m)
{
	int r = helper_map_collapse(h->proc_fd, h->cgroup_fd, m);

	return ipc_answer(h->core_fd, m, r, -1);
}

static int serve_kvm(struct helper *h, struct ipc_msg *m)
{
	/* opened each time: it is there only while the module is */
	auto_close int fd = open(KVM_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct kvm_pages p;
	int r = fd < 0 ? -errno : kvmstats_debugfs(fd, m->proc.pid, &p);

	memset(&m->kvm, 0, sizeof(m->kvm));
	if (r < 0)
		return ipc_answer(h->core_fd, m, r, -1);
	m->kvm.pages_4k = p.pages_4k;
	m->kvm.pages_2m = p.pages_2m;
	m->kvm.pages_1g = p.pages_1g;
	return ipc_answer(h->core_fd, m, 0, -1);
}

static int serve_blocks(struct helper *h, struct ipc_msg *m)
{
	struct pageblock_sum sum = {0};
	int r = hostblocks_scan(h->proc_fd, h->system_fd, m->blocks.node,
				&m->blocks.pfn, m->blocks.max_words, &sum,
				&m->blocks.words);

	if (r < 0)
		return ipc_answer(h->core_fd, m, r, -1);
	m->blocks.blocks = sum.blocks;
	m->blocks.blocks_free = sum.blocks_free;
	m->blocks.blocks_clean = sum.blocks_clean;
	m->blocks.blocks_unmovable = sum.blocks_unmovable;
	memcpy(m->blocks.pages, sum.pages, sizeof(m->blocks.pages));
	m->blocks.thp_pages = sum.thp_pages;
	return ipc_answer(h->core_fd, m, 0, -1);
}

static void drop_core(struct helper *h)
{
	close_fd_ptr(&h->core_fd);
	h->core_fd = -1;
}

static void take_core(struct helper *h)
{
	auto_close int fd = -1;
	struct ipc_msg m;
	int r = ipc_recv(h->core_fd, &m, &fd);

	if (r == -EAGAIN)
		return;
	if (!r) {
		drop_core(h);
		return;
	}
	if (r > 0 && fd < 0 && m.op == IPC_OPEN_SOCKET)
		r = serve_open(h, &m);
	else if (r > 0 && fd < 0 && m.op == IPC_SAMPLE_PROC)
		r = serve_sample(h, &m);
	else if (r > 0 && fd < 0 && m.op == IPC_SAMPLE_CGROUP)
		r = serve_cgroup(h, &m);
	else if (r > 0 && fd < 0 && m.op == IPC_MAP_SCAN)
		r = serve_map(h, &m);
	else if (r > 0 && fd < 0 && m.op == IPC_COLLAPSE)
		r = serve_collapse(h, &m);
	else if (r > 0 && fd < 0 && m.op == IPC_SAMPLE_KVM)
		r = serve_kvm(h, &m);
	else if (r > 0 && fd < 0 && m.op == IPC_NODE_BLOCKS)
		r = serve_blocks(h, &m);
	else if (r > 0)
		r = -EPROTO;
	if (r >= 0)
		return;
	/* a core that is gone is the supervisor's to report */
	if (r != -EPIPE)
		log_err_errno(r, "Giving up the link to the core");
	drop_core(h);
}

static void take_config(struct helper *h, int fd)
{
	char what[CONF_WHAT_MAX];
	struct config fresh;

	if (config_read_fd(fd, &fresh, what) < 0) {
		log_err("%s", what);
		config_free(&fresh);
		return;
	}
	config_free(&h->reloaded);
	h->reloaded = fresh;
	h->cfg = &h->reloaded;
}

/* Return: 0, or -errno at which the process should end. */
static int take_supervisor(struct helper *h)
{
	auto_close int fd = -1;
	struct ipc_msg m;
	int r = ipc_recv(h->sup_fd, &m, &fd);

	if (r == -EAGAIN)
		return 0;
	if (r < 0)
		return log_err_errno(r, "Bad message from the supervisor");
	if (!r || m.op == IPC_STOP) {
		h->stop = true;
		return 0;
	}
	if (m.op == IPC_LINK && m.link.role == ROLE_CORE) {
		drop_core(h);
		h->core_fd = take_fd(&fd);
		return 0;
	}
	if (m.op == IPC_RELOAD) {
		take_config(h, fd);
		return 0;
	}
	return log_err_errno(-EPROTO, "Supervisor sent %s", ipc_op_name(m.op));
}

/*
 * What the supervisor says comes first: a request may be about a VM that the
 * newest configuration has brought.
 */
static int loop_once(struct helper *h)
{
	struct pollfd p[] = {
		{h->sup_fd, POLLIN, 0},
		{h->core_fd, POLLIN, 0},
	};

	if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
		return log_err_errno(-errno, "poll failed");
	if (p[0].revents)
		return take_supervisor(h);
	if (p[1].revents)
		take_core(h);
	return 0;
}

int helper_main(const struct config *cfg, int sup_fd, int listen_fd)
{
	struct helper h = {
		.sup_fd = sup_fd,
		.core_fd = -1,
		.cfg = cfg,
		.proc_fd =
			open(cfg->proc_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		.cgroup_fd =
			open(CGROUP_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		.system_fd =
			open(SYSTEM_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
	};
	int r = 0;

	(void)listen_fd;
	if (h.proc_fd < 0)
		r = log_err_errno(-errno, "Cannot open %s", cfg->proc_dir);
	while (!r && !h.stop)
		r = loop_once(&h);
	drop_core(&h);
	close_fd_ptr(&h.proc_fd);
	close_fd_ptr(&h.cgroup_fd);
	close_fd_ptr(&h.system_fd);
	config_free(&h.reloaded);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
