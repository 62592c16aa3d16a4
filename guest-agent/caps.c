// SPDX-License-Identifier: GPL-2.0-or-later
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "backend.h"
#include "caps.h"
#include "mapper.h"
#include "journal.h"
#include "knob_info.h"
#include "procfile.h"
#include "procfs.h"
#include "util.h"

#define THP_DIR "kernel/mm/transparent_hugepage"

static int say_missing(char *what, const char *path, int r)
{
	(void)snprintf(what, CONF_WHAT_MAX, "%s: %s", path, strerror(-r));
	return r;
}

/* The head of a file; -errno as for reading it. */
static int read_head(int dir_fd, const char *path, char *buf, size_t size)
{
	auto_close int fd = procfile_open(dir_fd, path);
	ssize_t n;

	if (fd < 0)
		return fd;
	n = procfile_text(fd, buf, size);
	if (n < 0)
		return (int)n;
	buf[strcspn(buf, "\n")] = '\0';
	return 0;
}

static int hex_digit(char c)
{
	const char *digits = "0123456789abcdef";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -EPROTO;
}

/* "0d3c9a52-…" to its 16 bytes */
static int boot_id_bytes(const char *text, uint8_t ret_id[16])
{
	size_t n = 0;

	while (*text && n < 16) {
		int hi, lo;

		if (*text == '-') {
			text++;
			continue;
		}
		hi = hex_digit(text[0]);
		lo = hi < 0 ? hi : hex_digit(text[1]);
		if (lo < 0)
			return -EPROTO;
		ret_id[n++] = (uint8_t)(hi << 4 | lo);
		text += 2;
	}
	return n == 16 && !*text ? 0 : -EPROTO;
}

static int probe_boot_id(int proc_fd, struct msg_hello *h, char *ret_boot_id,
			 char *what)
{
	const char *path = "sys/kernel/random/boot_id";
	char text[64];
	int r = read_head(proc_fd, path, text, sizeof(text));

	if (!r)
		r = boot_id_bytes(text, h->boot_id);
	if (r < 0)
		return say_missing(what, path, r);
	text_copy_printable(ret_boot_id, BOOT_ID_TEXT_SIZE, text);
	return 0;
}

static void probe_orders(int proc_fd, int sys_fd, struct msg_hello *h)
{
	char text[256];
	uint64_t bytes;
	int order = -ERANGE;

	/* without THP in the kernel: 512 entries a page table, as on x86-64 */
	h->pmd_order = 9;
	if (read_head(sys_fd, THP_DIR "/hpage_pmd_size", text, sizeof(text)) ==
		    0 &&
	    parse_u64(text, UINT64_C(1) << 40, &bytes) == 0)
		order = order_of_kib(bytes / 1024, h->page_size);
	if (order > 0)
		h->pmd_order = (uint8_t)order;

	/* read once, since the kernel counts all blocks for it */
	h->pageblock_order = h->pmd_order;
	if (read_head(proc_fd, "pagetypeinfo", text, sizeof(text)) == 0) {
		order = pageblock_order_parse(text);
		if (order > 0)
			h->pageblock_order = (uint8_t)order;
	}
}

static int probe_zones(int proc_fd, struct msg_hello *h, char *what)
{
	auto_close int zoneinfo_fd = procfile_open(proc_fd, "zoneinfo");
	auto_close int buddyinfo_fd = procfile_open(proc_fd, "buddyinfo");
	struct zones z = {0};
	int r;

	if (zoneinfo_fd < 0)
		return say_missing(what, "zoneinfo", zoneinfo_fd);
	if (buddyinfo_fd < 0)
		return say_missing(what, "buddyinfo", buddyinfo_fd);
	r = procfile_lines(zoneinfo_fd, zoneinfo_line, &z);
	if (!r)
		r = procfile_lines(buddyinfo_fd, buddyinfo_line, &z);
	if (!r && !z.nr_orders)
		r = -EPROTO;
	if (r < 0)
		return say_missing(what, "buddyinfo", r);
	h->nr_orders = (uint8_t)z.nr_orders;
	for (unsigned int i = 0; i < z.nr; i++)
		h->mem_pages += z.zone[i].managed_pages;
	return 0;
}

/* Return: the first node with memory, or -errno. */
static int probe_nodes(int sys_fd, struct msg_hello *h, char *what)
{
	const char *path = "devices/system/node/has_memory";
	uint8_t ids[PROTO_NODES_MAX];
	char text[256];
	int r = read_head(sys_fd, path, text, sizeof(text));

	if (!r)
		r = id_list_parse(text, ids, PROTO_NODES_MAX);
	if (r <= 0)
		return say_missing(what, path, r < 0 ? r : -ENODATA);
	h->nr_nodes = (uint8_t)MIN(r, (int)PROTO_NODES_MAX);
	return ids[0];
}

static void probe_cpus(int sys_fd, struct msg_hello *h)
{
	char text[1024];
	int n = 0;

	if (read_head(sys_fd, "devices/system/cpu/online", text,
		      sizeof(text)) == 0)
		n = id_list_parse(text, NULL, 0);
	h->nr_cpus = n > 0 ? (uint32_t)n : 1;
}

static void probe_mthp(int sys_fd, struct msg_hello *h)
{
	int fd = openat(sys_fd, THP_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((d = readdir(dir))) {
		const char *prefix = "hugepages-";
		char kib_text[32], path[300];
		uint64_t kib;
		int order;

		if (strncmp(d->d_name, prefix, strlen(prefix)))
			continue;
		(void)snprintf(kib_text, sizeof(kib_text), "%.*s",
			       (int)strcspn(d->d_name + strlen(prefix), "k"),
			       d->d_name + strlen(prefix));
		if (parse_u64(kib_text, UINT32_MAX, &kib) < 0)
			continue;
		/* sizes for shmem alone have no "enabled" */
		(void)snprintf(path, sizeof(path), "%s/enabled", d->d_name);
		order = order_of_kib(kib, h->page_size);
		if (order > 0 && faccessat(fd, path, F_OK, 0) == 0)
			h->mthp_orders |= 1u << order;
	}
	closedir(dir);
}

static void probe_knobs(const struct config *cfg, int proc_fd, int sys_fd,
			struct msg_hello *h)
{
	for (unsigned int k = 0; k < KNOB_COUNT; k++) {
		const struct knob_info *info = &knob_info[k];
		int dir_fd = info->in_sys ? sys_fd : proc_fd;
		bool missing = faccessat(dir_fd, info->path, F_OK, 0) < 0;
		bool denied = !(cfg->allow_knobs & 1u << k) ||
			      faccessat(dir_fd, info->path, W_OK, 0) < 0;

		if (missing)
			h->knobs_missing |= 1u << k;
		else if (denied)
			h->knobs_denied |= 1u << k;
		else
			h->knobs |= 1u << k;
	}
}

static bool backend_is_denied(const struct config *cfg,
			      const struct msg_hello *h, unsigned int b)
{
	/* its drains wait for work on all CPUs, also those of real-time tasks
	 */
	if (b == BACKEND_COMPACT && h->features & 1u << FEATURE_ISOLCPUS &&
	    !cfg->allow_isolated_cpus)
		return true;
	return !(cfg->allow_backends & 1u << b);
}

static void probe_backends(const struct config *cfg, int sys_fd,
			   unsigned int node, struct msg_hello *h)
{
	for (unsigned int b = BACKEND_AUTO + 1; b < BACKEND_COUNT; b++) {
		const struct backend_ops *ops = backend_get(b);
		int r = ops ? ops->probe(sys_fd, node) : -ENOENT;

		if (b == BACKEND_PROACTIVE &&
		    h->knobs_missing >> KNOB_COMPACTION_PROACTIVENESS & 1)
			r = -ENOENT;
		if (r == -ENOENT)
			h->backends_missing |= 1u << b;
		else if (r < 0 || backend_is_denied(cfg, h, b))
			h->backends_denied |= 1u << b;
		else
			h->backends |= 1u << b;
	}
}

/* Is a list of CPUs there, and not empty? Old kernels write "(null)". */
static bool lists_cpus(int sys_fd, const char *path)
{
	char text[1024];

	return read_head(sys_fd, path, text, sizeof(text)) == 0 &&
	       id_list_parse(text, NULL, 0) > 0;
}

static bool has_psi(int proc_fd)
{
	char text[256];

	return read_head(proc_fd, "pressure/memory", text, sizeof(text)) == 0;
}

static bool has_kpageflags(int proc_fd)
{
	auto_close int fd = procfile_open(proc_fd, "kpageflags");

	return fd >= 0;
}

/* The table's first line is its head. */
static void count_line(void *n, const char *line, size_t len)
{
	(void)line;
	*(unsigned int *)n += len > 0;
}

bool caps_has_swap(int proc_fd)
{
	auto_close int fd = procfile_open(proc_fd, "swaps");
	unsigned int lines = 0;

	return fd >= 0 && procfile_lines(fd, count_line, &lines) == 0 &&
	       lines > 1;
}

#define VIRTIO_ID_BALLOON	   "0x0005"
#define VIRTIO_ID_MEM		   "0x0018"
#define VIRTIO_BALLOON_F_REPORTING 5

static void probe_virtio_device(int devices_fd, const char *name,
				struct msg_hello *h)
{
	char path[300], device[16], bits[80];

	(void)snprintf(path, sizeof(path), "%s/device", name);
	if (read_head(devices_fd, path, device, sizeof(device)) < 0)
		return;
	if (!strcmp(device, VIRTIO_ID_MEM))
		h->features |= 1u << FEATURE_VIRTIO_MEM;
	if (strcmp(device, VIRTIO_ID_BALLOON))
		return;
	/* negotiated features, a character a bit, lowest first */
	(void)snprintf(path, sizeof(path), "%s/features", name);
	if (read_head(devices_fd, path, bits, sizeof(bits)) == 0 &&
	    strlen(bits) > VIRTIO_BALLOON_F_REPORTING &&
	    bits[VIRTIO_BALLOON_F_REPORTING] == '1')
		h->features |= 1u << FEATURE_REPORTING;
}

static void probe_virtio(int sys_fd, struct msg_hello *h)
{
	int fd = openat(sys_fd, "bus/virtio/devices",
			O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((d = readdir(dir))) {
		if (d->d_name[0] != '.')
			probe_virtio_device(fd, d->d_name, h);
	}
	closedir(dir);
}

static void probe_features(bool observe, int proc_fd, int sys_fd,
			   struct msg_hello *h)
{
	const struct {
		enum feature feature;
		bool there;
	} probes[] = {
		{FEATURE_PSI, has_psi(proc_fd)},
		{FEATURE_KPAGEFLAGS, has_kpageflags(proc_fd)},
		{FEATURE_MTHP, h->mthp_orders != 0},
		{FEATURE_SWAP, caps_has_swap(proc_fd)},
		{FEATURE_OBSERVE, observe},
		{FEATURE_ISOLCPUS,
		 lists_cpus(sys_fd, "devices/system/cpu/isolated") ||
			 lists_cpus(sys_fd, "devices/system/cpu/nohz_full")},
	};

	for (size_t i = 0; i < ARRAY_SIZE(probes); i++)
		h->features |= (uint32_t)probes[i].there << probes[i].feature;
	probe_virtio(sys_fd, h);
	if (mapper_possible(h))
		h->features |= 1u << FEATURE_MAP;
}

static void probe_names(struct msg_hello *h)
{
	struct utsname un;

	text_copy_printable(h->agent_version, sizeof(h->agent_version),
			    VMDEFRAG_VERSION);
	if (uname(&un) == 0)
		text_copy_printable(h->kernel_release,
				    sizeof(h->kernel_release), un.release);
}

int caps_probe(const struct config *cfg, bool observe, int proc_fd, int sys_fd,
	       struct msg_hello *ret_hello, char *ret_boot_id, char *what)
{
	struct msg_hello h = {
		.ver_min = PROTO_MAJOR_MIN,
		.ver_max = PROTO_MAJOR,
		.page_size = (uint32_t)sysconf(_SC_PAGESIZE),
	};
	int node, r;

	r = probe_boot_id(proc_fd, &h, ret_boot_id, what);
	if (r < 0)
		return r;
	r = probe_zones(proc_fd, &h, what);
	if (r < 0)
		return r;
	node = probe_nodes(sys_fd, &h, what);
	if (node < 0)
		return node;
	probe_cpus(sys_fd, &h);
	probe_orders(proc_fd, sys_fd, &h);
	probe_mthp(sys_fd, &h);
	probe_features(observe, proc_fd, sys_fd, &h);
	probe_knobs(cfg, proc_fd, sys_fd, &h);
	probe_backends(cfg, sys_fd, (unsigned int)node, &h);
	probe_names(&h);
	*ret_hello = h;
	return 0;
}
