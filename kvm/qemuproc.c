// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "hostproc.h"
#include "qemuproc.h"
#include "util.h"

/* A large libvirt guest's arguments are 20 KiB; its maps 1000 lines. */
#define TEXT_MAX (1u << 20)

/* A process that ended meanwhile answers by these. */
static int gone(ssize_t r)
{
	return r == -ENOENT || r == -ESRCH ? -ESRCH : (int)r;
}

static void read_status(struct qemuproc *p)
{
	char text[8192], ksm[512];
	const char *at;
	uint64_t pages = 0;

	/* a kernel without the line cannot tell: then the errno has to */
	if (read_text_at(p->dir_fd, "status", text, sizeof(text)) > 0)
		p->thp_disabled = strstr(text, "\nTHP_enabled:\t0") != NULL;
	if (read_text_at(p->dir_fd, "ksm_stat", ksm, sizeof(ksm)) <= 0)
		return;
	at = strstr(ksm, "ksm_merging_pages ");
	if (at && sscanf(at, "ksm_merging_pages %" SCNu64, &pages) == 1)
		p->ksm = pages != 0;
}

int qemuproc_open(struct qemuproc *p, int proc_fd, pid_t pid,
		  uint64_t start_time)
{
	long ticks = sysconf(_SC_CLK_TCK);
	uint64_t cpu_us;
	char text[1024], name[16];
	ssize_t n;
	int r;

	*p = (struct qemuproc){.pid = pid, .dir_fd = -1, .pidfd = -1};
	if (pid <= 0)
		return -ESRCH;
	/* before anything is read: what is checked below is this one */
	p->pidfd = pidfd_open(pid, 0);
	if (p->pidfd < 0)
		return gone(-errno);
	snprintf(name, sizeof(name), "%d", pid);
	p->dir_fd = openat(proc_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	n = p->dir_fd < 0 ? -errno
			  : read_text_at(p->dir_fd, "stat", text, sizeof(text));
	r = n < 0 ? gone(n)
		  : hostproc_parse_stat(text, ticks > 0 ? (uint64_t)ticks : 0,
					&p->start_time, &cpu_us);
	if (!r && start_time && p->start_time != start_time)
		r = -ESRCH;
	if (r < 0) {
		qemuproc_close(p);
		return r;
	}
	read_status(p);
	return 0;
}

void qemuproc_close(struct qemuproc *p)
{
	close_fd_ptr(&p->dir_fd);
	close_fd_ptr(&p->pidfd);
	p->dir_fd = p->pidfd = -1;
}

/* Of files: the mounts know what lies where. */
static void kinds_find(const struct qemuproc *p, char *text,
		       struct layout_want *want)
{
	bool any = false;

	for (unsigned int i = 0; i < want->nr_backends; i++)
		any |= want->backend[i].kind == MEMSLOT_FILE;
	if (!any || read_text_at(p->dir_fd, "mounts", text, TEXT_MAX) < 0)
		return;
	for (unsigned int i = 0; i < want->nr_backends; i++) {
		struct layout_backend *b = &want->backend[i];

		if (b->kind == MEMSLOT_FILE)
			b->kind = (uint8_t)layout_file_kind(text, b->path,
							    &b->page_kib);
	}
}

int qemuproc_layout(const struct qemuproc *p, const struct layout_hint *hints,
		    unsigned int nr_hints, struct layout *ret_layout)
{
	auto_free char *text = malloc(TEXT_MAX);
	auto_free struct layout_want *want = malloc(sizeof(*want));
	auto_free struct layout_areas *areas = malloc(sizeof(*areas));
	ssize_t n;

	if (!text || !want || !areas)
		return -ENOMEM;
	n = read_text_at(p->dir_fd, "cmdline", text, TEXT_MAX);
	if (n < 0)
		return gone(n);
	if (!n)
		return -ESRCH; /* it ends, its memory is gone already */
	layout_parse_cmdline(text, (size_t)n, want);
	layout_place(want, hints, nr_hints);
	kinds_find(p, text, want);
	n = read_text_at(p->dir_fd, "maps", text, TEXT_MAX);
	if (n < 0)
		return gone(n);
	layout_parse_maps(text, areas);
	layout_join(want, areas, ret_layout);
	return 0;
}
