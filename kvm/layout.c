// SPDX-License-Identifier: GPL-2.0-or-later
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "layout.h"
#include "util.h"

#define GIB		MEMSLOT_GIB
#define ALIGN_UP(v, to) (((v) + (to)-1) / (to) * (to))

/*
 * From here on QEMU may move what lies above 4 GiB to 1 TiB (AMD's
 * HyperTransport hole), depending on the host's CPU: not known from outside.
 */
#define AMD_HOLE (UINT64_C(0xfd00000000))

static const char *const fact_names[] = {
	[LAYOUT_KVM] = "kvm",
	[LAYOUT_CONFIDENTIAL] = "confidential",
	[LAYOUT_VFIO] = "vfio",
	[LAYOUT_LOCKED] = "locked",
	[LAYOUT_VIRTIO_MEM] = "virtio-mem",
	[LAYOUT_BALLOON] = "balloon",
	[LAYOUT_REPORTING] = "free-page-reporting",
	[LAYOUT_NUMATUNE] = "numatune",
	[LAYOUT_INCOMING] = "incoming",
	[LAYOUT_NOT_QEMU] = "not-qemu",
	[LAYOUT_MACHINE_UNKNOWN] = "machine-unknown",
	[LAYOUT_BACKEND_UNKNOWN] = "backend-unknown",
	[LAYOUT_AREA_MISSING] = "mapping-missing",
	[LAYOUT_AREA_DOUBTFUL] = "mapping-doubtful",
	[LAYOUT_DIMM_UNPLACED] = "dimm-unplaced",
	[LAYOUT_TOO_MUCH] = "too-much",
};
static_assert(ARRAY_SIZE(fact_names) == LAYOUT_FACT_COUNT,
	      "fact_names[] matches enum layout_fact");

const char *layout_fact_name(unsigned int fact)
{
	return fact < LAYOUT_FACT_COUNT ? fact_names[fact] : "?";
}

static int backend_find(const struct layout_want *w, const char *id)
{
	for (unsigned int i = 0; id && i < w->nr_backends; i++) {
		if (!strcmp(w->backend[i].id, id))
			return (int)i;
	}
	return -1;
}

uint64_t layout_below_4g(const struct layout_want *w)
{
	uint64_t low, max = w->max_below_4g;

	switch ((enum layout_machine)w->machine) {
	case LAYOUT_PC:
		/* 3.5 GiB, but 3 GiB where more would be split amid a GiB */
		low = max ? max : UINT64_C(0xe0000000);
		if (w->ram_bytes >= low && low > 3 * GIB)
			low = 3 * GIB;
		break;
	case LAYOUT_Q35:
		low = w->ram_bytes >= UINT64_C(0xb0000000)
			      ? 2 * GIB
			      : UINT64_C(0xb0000000);
		if (max && low > max)
			low = max;
		break;
	case LAYOUT_MICROVM:
		low = max ? MIN(max, 3 * GIB) : 3 * GIB;
		break;
	default:
		return w->ram_bytes;
	}
	return MIN(low, w->ram_bytes);
}

static uint64_t ram_gpa(const struct layout_want *w, uint64_t offset)
{
	uint64_t below = layout_below_4g(w);

	if (w->machine == LAYOUT_VIRT)
		return GIB + offset;
	return offset < below ? offset : 4 * GIB + (offset - below);
}

/* --- the mappings ----------------------------------------------------------
 */

/* Does @b go on where @a ends, in the same thing? */
static bool continues(const struct layout_area *a, const struct layout_area *b)
{
	return a->end == b->start && a->shared == b->shared &&
	       a->anon == b->anon && !strcmp(a->path, b->path) &&
	       (a->anon || a->offset + (a->end - a->start) == b->offset);
}

/* "7f..-7f.. rw-p 00000000 00:00 0      path with blanks" */
static bool line_parse(const char *line, size_t len, struct layout_area *ret)
{
	char head[128], perms[5];
	uint64_t inode;
	int path_at = 0;
	size_t n = MIN(len, sizeof(head) - 1);
	size_t path_len;

	memcpy(head, line, n);
	head[n] = '\0';
	if (sscanf(head,
		   "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*x:%*x %" SCNu64
		   " %n",
		   &ret->start, &ret->end, perms, &ret->offset, &inode,
		   &path_at) != 5 ||
	    !path_at || strlen(perms) != 4 || ret->end <= ret->start)
		return false;
	if (perms[0] != 'r' || perms[1] != 'w')
		return false;
	path_len = MIN(len - MIN(len, (size_t)path_at), LAYOUT_PATH_MAX - 1);
	memcpy(ret->path, line + path_at, path_len);
	ret->path[path_len] = '\0';
	ret->shared = perms[3] == 's';
	/* the heap and stacks are named in brackets; a named anonymous
	 * mapping is "[anon:NAME]" */
	ret->anon = !path_len || !strncmp(ret->path, "[anon:", 6);
	return inode || ret->anon;
}

void layout_parse_maps(const char *text, struct layout_areas *ret_areas)
{
	struct layout_areas *l = ret_areas;

	l->nr = 0;
	l->cut = false;
	while (*text) {
		size_t len = strcspn(text, "\n");

		if (l->nr == LAYOUT_AREAS_MAX) {
			l->cut = true;
			return;
		}
		if (line_parse(text, len, &l->area[l->nr]))
			l->nr++;
		text += len + (text[len] == '\n');
	}
}

/* --- files -----------------------------------------------------------------
 */

/* "pagesize=2M" or "pagesize=1024M" among the options of a mount */
static uint32_t page_kib_of(const char *options)
{
	const char *p = strstr(options, "pagesize=");
	uint64_t n = 0;
	char unit = 0;

	if (!p || sscanf(p, "pagesize=%" SCNu64 "%c", &n, &unit) != 2)
		return 2048;
	if (unit == 'G')
		return (uint32_t)MIN(n << 20, UINT32_MAX);
	return (uint32_t)MIN(unit == 'M' ? n << 10 : n, UINT32_MAX);
}

enum memslot_kind layout_file_kind(const char *mounts, const char *path,
				   uint32_t *ret_page_kib)
{
	enum memslot_kind kind = MEMSLOT_FILE;
	size_t best = 0;

	*ret_page_kib = 0;
	while (*mounts) {
		char dir[256], type[32], options[256] = "";
		size_t len = strcspn(mounts, "\n"), n;
		char line[768];

		(void)snprintf(line, sizeof(line), "%.*s", (int)MIN(len, 767),
			       mounts);
		mounts += len + (mounts[len] == '\n');
		if (sscanf(line, "%*s %255s %31s %255s", dir, type, options) <
		    2)
			continue;
		n = strlen(dir);
		if (n < best || strncmp(path, dir, n) ||
		    (n > 1 && path[n] && path[n] != '/'))
			continue;
		best = n;
		*ret_page_kib = 0;
		kind = MEMSLOT_FILE;
		if (!strcmp(type, "tmpfs"))
			kind = MEMSLOT_SHMEM;
		if (!strcmp(type, "hugetlbfs")) {
			kind = MEMSLOT_HUGETLB;
			*ret_page_kib = page_kib_of(options);
		}
	}
	return kind;
}

/* --- joining ---------------------------------------------------------------
 */

static uint64_t backend_bytes(const struct layout_backend *b)
{
	uint64_t page = b->page_kib ? (uint64_t)b->page_kib << 10 : 4096;

	return ALIGN_UP(b->bytes, page);
}

static bool same_stuff(const struct layout_area *a,
		       const struct layout_backend *b)
{
	if (a->shared != b->shared)
		return false;
	if (!b->path[0])
		return a->anon;
	return !a->anon && !strncmp(a->path, b->path, strlen(b->path));
}

/*
 * Does a backend begin at area @i? The kernel splits a mapping where its parts
 * are treated differently, so several in a row may be one; but what only
 * touches it is another's, so a single one of the right size comes first.
 */
static bool looks_like(const struct layout_areas *l, unsigned int i,
		       const struct layout_backend *b, bool runs)
{
	uint64_t want = backend_bytes(b), start = l->area[i].start;

	if (!same_stuff(&l->area[i], b))
		return false;
	if (!runs)
		return l->area[i].end - start == want;
	while (l->area[i].end - start < want && i + 1 < l->nr &&
	       continues(&l->area[i], &l->area[i + 1]))
		i++;
	return l->area[i].end - start == want;
}

static bool backends_alike(const struct layout_backend *a,
			   const struct layout_backend *b)
{
	return backend_bytes(a) == backend_bytes(b) && a->shared == b->shared &&
	       !strcmp(a->path, b->path);
}

/*
 * From the top, @skip backends of the same looks passed over.
 * Return: position, or -1; @ret_found: how many there are in all.
 */
static int area_pick(const struct layout_areas *l,
		     const struct layout_backend *b, bool runs,
		     unsigned int skip, unsigned int *ret_found)
{
	unsigned int found = 0;
	int at = -1;

	for (unsigned int i = l->nr; i > 0; i--) {
		if (!looks_like(l, i - 1, b, runs))
			continue;
		if (found++ == skip)
			at = (int)(i - 1);
	}
	*ret_found = found;
	return at;
}

/* The first area of a backend, or -1. */
static int area_find(const struct layout_want *w, const struct layout_areas *l,
		     unsigned int backend, bool *ret_doubtful)
{
	const struct layout_backend *b = &w->backend[backend];
	unsigned int alike = 0, before = 0, found;
	int at;

	for (unsigned int i = 0; i < w->nr_backends; i++) {
		if (!backends_alike(&w->backend[i], b))
			continue;
		alike++;
		before += i < backend;
	}
	at = area_pick(l, b, false, before, &found);
	if (found < alike)
		at = area_pick(l, b, true, before, &found);
	*ret_doubtful = found != alike;
	return at;
}

/* One piece of a backend at a guest-physical address. */
static void piece_add(struct layout *out, const struct layout_backend *b,
		      const struct layout_area *a, uint64_t at, uint64_t len,
		      uint64_t gpa, bool doubtful, bool virtio_mem)
{
	struct memslot s = {
		.gpa = gpa,
		.hva = a->start + at,
		.len = len,
		.offset = a->anon ? 0 : a->offset + at,
		.host_nodes = b->host_nodes,
		.page_kib = b->page_kib,
		.kind = b->kind,
		.doubtful = doubtful,
		.virtio_mem = virtio_mem,
	};

	if (len && memslots_add(&out->slots, &s) < 0)
		out->facts |= 1u << LAYOUT_TOO_MUCH;
}

/* Find a backend's area; what is wrong is noted. Return: it, or NULL. */
static const struct layout_area *area_of(const struct layout_want *w,
					 const struct layout_areas *l,
					 unsigned int backend, bool *doubtful,
					 struct layout *out)
{
	int at = area_find(w, l, backend, doubtful);

	if (at < 0) {
		out->facts |= 1u << LAYOUT_AREA_MISSING;
		return NULL;
	}
	if (*doubtful)
		out->facts |= 1u << LAYOUT_AREA_DOUBTFUL;
	return &l->area[at];
}

static void ram_join(const struct layout_want *w, const struct layout_areas *l,
		     struct layout *out)
{
	uint64_t below = layout_below_4g(w), offset = 0;

	for (unsigned int i = 0; i < w->nr_ram; i++) {
		const struct layout_backend *b = &w->backend[w->ram[i]];
		bool doubtful;
		const struct layout_area *a =
			area_of(w, l, w->ram[i], &doubtful, out);
		uint64_t low =
			offset < below ? MIN(b->bytes, below - offset) : 0;

		if (ram_gpa(w, offset) + b->bytes > AMD_HOLE &&
		    w->machine != LAYOUT_VIRT) {
			out->facts |= 1u << LAYOUT_AREA_DOUBTFUL;
			doubtful = true;
		}
		if (a) {
			piece_add(out, b, a, 0, low, ram_gpa(w, offset),
				  doubtful, false);
			piece_add(out, b, a, low, b->bytes - low,
				  ram_gpa(w, offset + low), doubtful, false);
		}
		offset += b->bytes;
	}
}

static void dimm_join(const struct layout_want *w, const struct layout_areas *l,
		      struct layout *out)
{
	for (unsigned int i = 0; i < w->nr_dimms; i++) {
		const struct layout_dimm *d = &w->dimm[i];
		const struct layout_area *a;
		bool doubtful;

		if (d->backend < 0)
			continue;
		if (!d->placed) {
			out->facts |= 1u << LAYOUT_DIMM_UNPLACED;
			continue;
		}
		a = area_of(w, l, (unsigned int)d->backend, &doubtful, out);
		if (a)
			piece_add(out, &w->backend[d->backend], a, 0,
				  w->backend[d->backend].bytes, d->gpa,
				  doubtful, d->virtio_mem);
	}
}

void layout_join(const struct layout_want *want,
		 const struct layout_areas *areas, struct layout *ret_layout)
{
	memset(ret_layout, 0, sizeof(*ret_layout));
	ret_layout->facts = want->facts;
	if (areas->cut)
		ret_layout->facts |= 1u << LAYOUT_TOO_MUCH;
	if (want->facts &
	    (1u << LAYOUT_NOT_QEMU | 1u << LAYOUT_MACHINE_UNKNOWN))
		return;
	ram_join(want, areas, ret_layout);
	dimm_join(want, areas, ret_layout);
}

void layout_place(struct layout_want *w, const struct layout_hint *hints,
		  unsigned int nr_hints)
{
	for (unsigned int h = 0; h < nr_hints; h++) {
		struct layout_dimm *d = NULL;
		int b = backend_find(w, hints[h].memdev);

		for (unsigned int i = 0; i < w->nr_dimms && b >= 0; i++) {
			if (w->dimm[i].backend == b)
				d = &w->dimm[i];
		}
		if (b < 0 && w->nr_backends < LAYOUT_BACKENDS_MAX) {
			b = (int)w->nr_backends++;
			w->backend[b] = (struct layout_backend){
				.bytes = hints[h].bytes,
				.kind = MEMSLOT_ANON,
			};
			memcpy(w->backend[b].id, hints[h].memdev,
			       LAYOUT_ID_MAX - 1);
		}
		if (!d && b >= 0 && w->nr_dimms < LAYOUT_DIMMS_MAX)
			d = &w->dimm[w->nr_dimms++];
		if (!d) {
			w->facts |= 1u << LAYOUT_TOO_MUCH;
			continue;
		}
		d->backend = b;
		d->gpa = hints[h].gpa;
		d->placed = true;
		d->virtio_mem = hints[h].virtio_mem;
	}
}
