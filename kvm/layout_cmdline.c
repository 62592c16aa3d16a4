// SPDX-License-Identifier: GPL-2.0-or-later
/* The part of the layout that QEMU's command line tells. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "layout.h"
#include "qemuopt.h"
#include "util.h"

#define MIB (UINT64_C(1) << 20)
/* What QEMU takes when no -m is given. */
#define RAM_DEFAULT (128 * MIB)
#define NODES_MAX   64u

/* What is collected before the order of things is known. */
struct scan {
	struct layout_want *w;
	char memory_backend[LAYOUT_ID_MAX];
	char mem_path[LAYOUT_PATH_MAX];
	char node_memdev[NODES_MAX][LAYOUT_ID_MAX];
	struct qemuopt opt;
};

static void text_set(char *to, size_t size, const char *from)
{
	(void)snprintf(to, size, "%s", from ? from : "");
}

static void fact(struct scan *s, enum layout_fact f)
{
	s->w->facts |= 1u << f;
}

/* "0-1" or "3": as bits */
static uint64_t nodes_parse(const char *text)
{
	unsigned int lo, hi;
	int n = sscanf(text, "%u-%u", &lo, &hi);
	uint64_t bits = 0;

	if (n < 1)
		return 0;
	if (n < 2)
		hi = lo;
	for (unsigned int i = lo; i <= hi && i < 64; i++)
		bits |= UINT64_C(1) << i;
	return bits;
}

static uint64_t host_nodes(const struct qemuopt *o)
{
	const char *policy = qemuopt_get(o, "policy");
	uint64_t bits = 0;

	if (!policy || strcmp(policy, "bind"))
		return 0;
	for (unsigned int i = 0; i < o->nr; i++) {
		if (!strcmp(o->pair[i].key, "host-nodes"))
			bits |= nodes_parse(o->pair[i].value);
	}
	return bits;
}

static struct layout_backend *backend_new(struct scan *s, const char *id)
{
	struct layout_want *w = s->w;
	struct layout_backend *b;

	if (w->nr_backends == LAYOUT_BACKENDS_MAX) {
		fact(s, LAYOUT_TOO_MUCH);
		return NULL;
	}
	b = &w->backend[w->nr_backends++];
	memset(b, 0, sizeof(*b));
	text_set(b->id, sizeof(b->id), id);
	return b;
}

static void backend_memfd(const struct qemuopt *o, struct layout_backend *b)
{
	uint64_t page = 2 * MIB;
	const char *size = qemuopt_get(o, "hugetlbsize");

	b->kind = MEMSLOT_SHMEM;
	b->shared = qemuopt_bool(o, "share", true);
	text_set(b->path, sizeof(b->path), "/memfd:memory-backend-memfd");
	if (!qemuopt_bool(o, "hugetlb", false))
		return;
	if (size)
		(void)qemuopt_size(size, 1, &page);
	b->kind = MEMSLOT_HUGETLB;
	b->page_kib = (uint32_t)MIN(page >> 10, UINT32_MAX);
}

static void parse_object(struct scan *s)
{
	const struct qemuopt *o = &s->opt;
	const char *type = qemuopt_get(o, "qom-type");
	const char *size = qemuopt_get(o, "size");
	struct layout_backend *b;

	if (!type)
		return;
	if (!strncmp(type, "sev-", 4) || !strncmp(type, "tdx-", 4))
		fact(s, LAYOUT_CONFIDENTIAL);
	if (strncmp(type, "memory-backend-", 15))
		return;
	b = backend_new(s, qemuopt_get(o, "id"));
	if (!b)
		return;
	if (size && qemuopt_size(size, 1, &b->bytes) < 0)
		b->bytes = 0;
	b->host_nodes = host_nodes(o);
	if (b->host_nodes)
		fact(s, LAYOUT_NUMATUNE);
	type += 15;
	if (!strcmp(type, "memfd")) {
		backend_memfd(o, b);
	} else if (!strcmp(type, "file")) {
		b->kind = MEMSLOT_FILE; /* the mounts know better */
		b->shared = qemuopt_bool(o, "share", false);
		text_set(b->path, sizeof(b->path), qemuopt_get(o, "mem-path"));
	} else {
		b->kind = MEMSLOT_ANON;
		b->shared = qemuopt_bool(o, "share", false);
		if (b->shared) {
			b->kind = MEMSLOT_SHMEM;
			text_set(b->path, sizeof(b->path), "/dev/zero");
		}
	}
}

static void parse_machine(struct scan *s)
{
	const struct qemuopt *o = &s->opt;
	const char *type = qemuopt_get(o, "type");
	const char *max = qemuopt_get(o, "max-ram-below-4g");
	const char *backend = qemuopt_get(o, "memory-backend");
	const char *accel = qemuopt_get(o, "accel");
	const char *guard = qemuopt_get(o, "confidential-guest-support");
	struct layout_want *w = s->w;

	if (max)
		(void)qemuopt_size(max, 1, &w->max_below_4g);
	if (backend)
		text_set(s->memory_backend, sizeof(s->memory_backend), backend);
	if (accel && strstr(accel, "kvm"))
		fact(s, LAYOUT_KVM);
	if (guard || qemuopt_get(o, "memory-encryption"))
		fact(s, LAYOUT_CONFIDENTIAL);
	if (!type)
		return;
	if (!strncmp(type, "pc-q35", 6) || !strcmp(type, "q35"))
		w->machine = LAYOUT_Q35;
	else if (!strcmp(type, "pc") || !strncmp(type, "pc-i440fx", 9) ||
		 !strncmp(type, "pc-i440", 7) || !strncmp(type, "rhel", 4))
		w->machine = LAYOUT_PC;
	else if (!strncmp(type, "microvm", 7))
		w->machine = LAYOUT_MICROVM;
	else if (!strncmp(type, "virt", 4))
		w->machine = LAYOUT_VIRT;
	else
		w->machine = LAYOUT_OTHER;
}

static void parse_memory(struct scan *s)
{
	const char *size = qemuopt_get(&s->opt, "size");

	if (size)
		(void)qemuopt_size(size, MIB, &s->w->ram_bytes);
}

static void parse_numa(struct scan *s)
{
	const char *type = qemuopt_get(&s->opt, "type");
	const char *memdev = qemuopt_get(&s->opt, "memdev");
	const char *id = qemuopt_get(&s->opt, "nodeid");
	uint64_t node = 0;

	if (!type || strcmp(type, "node"))
		return;
	if (id) {
		if (parse_u64(id, NODES_MAX - 1, &node) < 0) {
			fact(s, LAYOUT_TOO_MUCH);
			return;
		}
	} else {
		/* the next after those that were given */
		while (node < NODES_MAX - 1 && s->node_memdev[node][0])
			node++;
	}
	text_set(s->node_memdev[node], LAYOUT_ID_MAX, memdev);
}

static void parse_dimm(struct scan *s, const char *memdev, bool virtio_mem)
{
	const char *addr =
		qemuopt_get(&s->opt, virtio_mem ? "memaddr" : "addr");
	struct layout_want *w = s->w;
	struct layout_dimm *d;

	if (w->nr_dimms == LAYOUT_DIMMS_MAX) {
		fact(s, LAYOUT_TOO_MUCH);
		return;
	}
	d = &w->dimm[w->nr_dimms++];
	d->virtio_mem = virtio_mem;
	d->backend = -1;
	for (unsigned int i = 0; memdev && i < w->nr_backends; i++) {
		if (!strcmp(w->backend[i].id, memdev))
			d->backend = (int)i;
	}
	if (d->backend < 0)
		fact(s, LAYOUT_BACKEND_UNKNOWN);
	/* 0 is QEMU's word for "anywhere" */
	d->placed = addr && !qemuopt_size(addr, 1, &d->gpa) && d->gpa;
}

static void parse_device(struct scan *s)
{
	const struct qemuopt *o = &s->opt;
	const char *driver = qemuopt_get(o, "driver");

	if (!driver)
		return;
	if (!strncmp(driver, "vfio-", 5) || !strncmp(driver, "vhost-vdpa", 10))
		fact(s, LAYOUT_VFIO);
	if (!strncmp(driver, "virtio-balloon", 14)) {
		fact(s, LAYOUT_BALLOON);
		if (qemuopt_bool(o, "free-page-reporting", false))
			fact(s, LAYOUT_REPORTING);
	}
	if (!strcmp(driver, "pc-dimm"))
		parse_dimm(s, qemuopt_get(o, "memdev"), false);
	if (!strncmp(driver, "virtio-mem", 10)) {
		fact(s, LAYOUT_VIRTIO_MEM);
		parse_dimm(s, qemuopt_get(o, "memdev"), true);
	}
}

static void parse_accel(struct scan *s)
{
	const char *accel = qemuopt_get(&s->opt, "accel");

	if (accel && !strcmp(accel, "kvm"))
		fact(s, LAYOUT_KVM);
}

static void parse_overcommit(struct scan *s)
{
	if (qemuopt_bool(&s->opt, "mem-lock", false))
		fact(s, LAYOUT_LOCKED);
}

/* Devices come last whatever the order: they name objects. */
static void parse_option(struct scan *s, const char *name, const char *arg,
			 bool devices)
{
	static const struct {
		const char *name, *first_key;
		void (*parse)(struct scan *s);
		bool device;
	} table[] = {
		{"object", "qom-type", parse_object, false},
		{"machine", "type", parse_machine, false},
		{"M", "type", parse_machine, false},
		{"m", "size", parse_memory, false},
		{"numa", "type", parse_numa, false},
		{"accel", "accel", parse_accel, false},
		{"overcommit", "", parse_overcommit, false},
		{"device", "driver", parse_device, true},
	};

	if (!strcmp(name, "enable-kvm"))
		fact(s, LAYOUT_KVM);
	if (!arg)
		return;
	if (!strcmp(name, "incoming"))
		fact(s, LAYOUT_INCOMING);
	if (!strcmp(name, "mem-path"))
		text_set(s->mem_path, sizeof(s->mem_path), arg);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (table[i].device == devices &&
		    !strcmp(name, table[i].name) &&
		    !qemuopt_parse(arg, table[i].first_key, &s->opt))
			table[i].parse(s);
	}
}

static void ram_add(struct scan *s, const char *id, uint8_t node)
{
	struct layout_want *w = s->w;

	for (unsigned int i = 0; i < w->nr_backends; i++) {
		if (strcmp(w->backend[i].id, id))
			continue;
		w->ram_node[w->nr_ram] = node;
		w->ram[w->nr_ram++] = (uint8_t)i;
		return;
	}
	fact(s, LAYOUT_BACKEND_UNKNOWN);
}

/* RAM of no object: anonymous, or in a file of -mem-path. */
static void ram_default(struct scan *s)
{
	struct layout_backend *b = backend_new(s, "pc.ram");

	if (!b)
		return;
	b->bytes = s->w->ram_bytes;
	b->kind = s->mem_path[0] ? MEMSLOT_FILE : MEMSLOT_ANON;
	text_set(b->path, sizeof(b->path), s->mem_path);
	ram_add(s, "pc.ram", 0);
}

static void parse_options(struct scan *s, const char *args, const char *end,
			  bool devices)
{
	for (const char *a = args; a < end; a += strlen(a) + 1) {
		const char *next = a + strlen(a) + 1;
		const char *name = a + 1;

		if (a[0] != '-' || !a[1])
			continue;
		name += *name == '-';
		parse_option(s, name, next < end ? next : NULL, devices);
	}
}

/* Which backends are RAM, in the order in which they follow each other. */
static void ram_order(struct scan *s)
{
	for (unsigned int i = 0; i < NODES_MAX; i++) {
		if (s->node_memdev[i][0] && s->w->nr_ram < LAYOUT_BACKENDS_MAX)
			ram_add(s, s->node_memdev[i], (uint8_t)i);
	}
	if (s->w->nr_ram || s->w->facts & 1u << LAYOUT_BACKEND_UNKNOWN)
		return;
	if (s->memory_backend[0])
		ram_add(s, s->memory_backend, 0);
	else
		ram_default(s);
}

static bool is_qemu(const char *argv0)
{
	const char *slash = strrchr(argv0, '/');
	const char *name = slash ? slash + 1 : argv0;

	return strstr(name, "qemu") || !strcmp(name, "kvm");
}

void layout_parse_cmdline(const char *args, size_t len,
			  struct layout_want *ret_want)
{
	struct scan s = {.w = ret_want};
	const char *end = args + len;

	memset(ret_want, 0, sizeof(*ret_want));
	ret_want->ram_bytes = RAM_DEFAULT;
	if (!len || args[len - 1] || !is_qemu(args)) {
		fact(&s, LAYOUT_NOT_QEMU);
		return;
	}
	if (strstr(args, "aarch64"))
		ret_want->machine = LAYOUT_VIRT;
	parse_options(&s, args, end, false);
	parse_options(&s, args, end, true);
	if (ret_want->machine == LAYOUT_OTHER) {
		fact(&s, LAYOUT_MACHINE_UNKNOWN);
		return;
	}
	ram_order(&s);
}
