// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the mm helper does about a guest's memory: look at it, and collapse
 * parts of it. The core is not trusted with processes at large: only what is
 * QEMU by its command line is looked at, and only within its guest's RAM.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "collapse.h"
#include "helper_map.h"
#include "hostcgroup.h"
#include "mapfile.h"
#include "util.h"

static uint64_t own_cpu_us(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * SEC_US + (uint64_t)ts.tv_nsec / 1000;
}

/* Hold the process, and find its guest's memory. */
static int guest_open(int proc_fd, const struct ipc_guest *g,
		      struct qemuproc *ret_proc, struct layout *ret_layout)
{
	struct layout_hint hint[IPC_DIMMS_MAX] = {0};
	int r = ipc_guest_check(g);

	static_assert(IPC_NAME_MAX <= LAYOUT_ID_MAX, "ids fit");
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < g->nr_dimms; i++) {
		memcpy(hint[i].memdev, g->dimm[i].memdev, IPC_NAME_MAX);
		hint[i].gpa = g->dimm[i].gpa;
		hint[i].bytes = g->dimm[i].bytes;
		hint[i].virtio_mem = g->dimm[i].virtio_mem;
	}
	r = qemuproc_open(ret_proc, proc_fd, g->pid, g->start_time);
	if (r < 0)
		return r;
	r = qemuproc_layout(ret_proc, hint, g->nr_dimms, ret_layout);
	if (r < 0)
		qemuproc_close(ret_proc);
	return r;
}

static int scan(const struct qemuproc *p, const struct layout *l,
		struct ipc_msg *req, uint64_t begun_us)
{
	uint32_t total = memslots_blocks(&l->slots);
	uint32_t index = MIN(req->map.index, total);
	uint32_t nr = MIN(req->map.max_blocks, total - index);
	auto_free struct mapfile *m = calloc(1, mapfile_size(nr));
	struct backing_cost cost = {0};
	int r = 0;

	if (!m)
		return -ENOMEM;
	m->facts = l->facts;
	m->index = index;
	m->nr = nr;
	m->total = total;
	m->start_time = p->start_time;
	m->thp_disabled = p->thp_disabled;
	m->ksm = p->ksm;
	m->slots = l->slots;
	m->layout_us = own_cpu_us() - begun_us;
	if (nr)
		r = backing_scan(p, &l->slots, index, nr, req->map.nodes,
				 m->block, &cost);
	m->cpu_us = cost.cpu_us;
	m->by_pagemap = cost.by_pagemap;
	return r < 0 ? r : mapfile_write(m);
}

int helper_map_scan(int proc_fd, struct ipc_msg *req)
{
	uint64_t begun_us = own_cpu_us();
	struct qemuproc p;
	struct layout l;
	int r = guest_open(proc_fd, &req->map.guest, &p, &l);

	if (r < 0)
		return r;
	r = scan(&p, &l, req, begun_us);
	qemuproc_close(&p);
	return r;
}

/*
 * A block that is in use in the guest has hardly a hole in the host; where it
 * has many, it is another block than we think, or free again.
 */
#define PRESENT_MIN (512u * 3 / 4)

/*
 * A collapse takes a new huge page before it gives up the old pages, and fills
 * holes: so much must be free in the group, or the guest would be throttled or
 * reclaimed from for it.
 */
#define ROOM_MIN_KIB (16 * 1024)

static int room_check(int proc_fd, int cgroup_fd, pid_t pid)
{
	uint64_t room_kib;
	int r = hostcgroup_room(proc_fd, cgroup_fd, pid, &room_kib);

	return r < 0 ? r : room_kib < ROOM_MIN_KIB ? -EBUSY : 0;
}

int helper_map_collapse(int proc_fd, int cgroup_fd, struct ipc_msg *m)
{
	struct ipc_msg req = *m;
	uint64_t begun_us = own_cpu_us(), until_us;
	auto_close int fd = -1;
	struct qemuproc p;
	struct layout l;
	int r;

	memset(&m->collapsed, 0, sizeof(m->collapsed));
	if (req.collapse.nr > IPC_COLLAPSE_MAX)
		return -EPROTO;
	r = guest_open(proc_fd, &req.collapse.guest, &p, &l);
	if (r < 0)
		return r;
	until_us = now_us() + req.collapse.max_time_us;
	fd = openat(p.dir_fd, "pagemap", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		r = -errno;
	for (uint32_t i = 0; !r && i < req.collapse.nr; i++) {
		int one = room_check(proc_fd, cgroup_fd, p.pid);

		if (!one)
			one = collapse_block(&p, fd, &l.slots,
					     req.collapse.block[i],
					     PRESENT_MIN);
		m->collapsed.result[i] = (int16_t)one;
		m->collapsed.nr = i + 1;
		if (now_us() >= until_us)
			break;
	}
	m->collapsed.cpu_us = own_cpu_us() - begun_us;
	qemuproc_close(&p);
	return r;
}
