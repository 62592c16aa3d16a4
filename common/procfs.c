// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "frag.h"
#include "procfs.h"
#include "util.h"

/* What is left of a line. */
struct text {
	const char *p, *end;
};

static void skip_blanks(struct text *t)
{
	while (t->p < t->end && (*t->p == ' ' || *t->p == '\t'))
		t->p++;
}

/* Up to a blank; empty at the end of the line. */
static struct text take_word(struct text *t)
{
	struct text word;

	skip_blanks(t);
	word.p = t->p;
	while (t->p < t->end && *t->p != ' ' && *t->p != '\t')
		t->p++;
	word.end = t->p;
	return word;
}

static bool word_is(struct text word, const char *s)
{
	size_t len = (size_t)(word.end - word.p);

	return strlen(s) == len && !memcmp(word.p, s, len);
}

/* Digits; saturates, as no counter of the kernel can be larger. */
static bool take_u64(struct text *t, uint64_t *ret_val)
{
	uint64_t v = 0;

	skip_blanks(t);
	if (t->p >= t->end || *t->p < '0' || *t->p > '9')
		return false;
	for (; t->p < t->end && *t->p >= '0' && *t->p <= '9'; t->p++) {
		unsigned int digit = (unsigned int)(*t->p - '0');

		v = v > (UINT64_MAX - digit) / 10 ? UINT64_MAX : v * 10 + digit;
	}
	*ret_val = v;
	return true;
}

static bool take_literal(struct text *t, const char *s)
{
	size_t len = strlen(s);

	skip_blanks(t);
	if ((size_t)(t->end - t->p) < len || memcmp(t->p, s, len))
		return false;
	t->p += len;
	return true;
}

void lines_each(const char *text, size_t len, line_fn fn, void *ctx)
{
	while (len) {
		const char *nl = memchr(text, '\n', len);
		size_t line_len = nl ? (size_t)(nl - text) : len;

		fn(ctx, text, line_len);
		if (!nl)
			return;
		text += line_len + 1;
		len -= line_len + 1;
	}
}

const struct vmstat_ctr_info vmstat_ctr_info[] = {
	{"allocstall_device", CTR_ALLOCSTALL},
	{"allocstall_dma", CTR_ALLOCSTALL},
	{"allocstall_dma32", CTR_ALLOCSTALL},
	{"allocstall_movable", CTR_ALLOCSTALL},
	{"allocstall_normal", CTR_ALLOCSTALL},
	{"compact_daemon_free_scanned", CTR_COMPACT_DAEMON_FREE_SCANNED},
	{"compact_daemon_migrate_scanned", CTR_COMPACT_DAEMON_MIGRATE_SCANNED},
	{"compact_daemon_wake", CTR_COMPACT_DAEMON_WAKE},
	{"compact_fail", CTR_COMPACT_FAIL},
	{"compact_free_scanned", CTR_COMPACT_FREE_SCANNED},
	{"compact_isolated", CTR_COMPACT_ISOLATED},
	{"compact_migrate_scanned", CTR_COMPACT_MIGRATE_SCANNED},
	{"compact_stall", CTR_COMPACT_STALL},
	{"compact_success", CTR_COMPACT_SUCCESS},
	{"oom_kill", CTR_OOM_KILL},
	{"pgfault", CTR_PGFAULT},
	{"pgmigrate_fail", CTR_PGMIGRATE_FAIL},
	{"pgmigrate_success", CTR_PGMIGRATE_SUCCESS},
	{"pgscan_direct", CTR_PGSCAN_DIRECT},
	{"pgscan_kswapd", CTR_PGSCAN_KSWAPD},
	{"pgsteal_direct", CTR_PGSTEAL_DIRECT},
	{"pgsteal_kswapd", CTR_PGSTEAL_KSWAPD},
	{"pswpin", CTR_PSWPIN},
	{"pswpout", CTR_PSWPOUT},
	{"thp_collapse_alloc", CTR_THP_COLLAPSE_ALLOC},
	{"thp_fault_alloc", CTR_THP_FAULT_ALLOC},
	{"thp_fault_fallback", CTR_THP_FAULT_FALLBACK},
	{"workingset_refault_anon", CTR_WORKINGSET_REFAULT},
	{"workingset_refault_file", CTR_WORKINGSET_REFAULT},
};

const size_t vmstat_nr_ctr_info = ARRAY_SIZE(vmstat_ctr_info);

static_assert(CTR_COUNT <= 64, "vmstat.valid has a bit for each counter");

static int compare_word(struct text word, const char *s)
{
	size_t len = (size_t)(word.end - word.p);
	int r = strncmp(word.p, s, len);

	return r ? r : -(s[len] != '\0');
}

static const struct vmstat_ctr_info *find_ctr(struct text key)
{
	size_t lo = 0, hi = ARRAY_SIZE(vmstat_ctr_info);

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		int r = compare_word(key, vmstat_ctr_info[mid].key);

		if (!r)
			return &vmstat_ctr_info[mid];
		if (r < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

void vmstat_line(void *vmstat, const char *line, size_t len)
{
	struct text t = {line, line + len};
	const struct vmstat_ctr_info *info;
	struct vmstat *vs = vmstat;
	uint64_t value;

	/* a third of the file is "nr_…", none of which is wanted */
	if (len < 2 || *line == 'n')
		return;
	info = find_ctr(take_word(&t));
	if (!info || !take_u64(&t, &value))
		return;
	vs->ctr[info->ctr] = sum_sat_u64(vs->ctr[info->ctr], value);
	vs->valid |= UINT64_C(1) << info->ctr;
}

/* "Node 0, zone   Normal"; a kind that is not known is no zone of ours. */
static bool take_zone_name(struct text *t, uint8_t *ret_node, uint8_t *ret_kind)
{
	static const char *const kinds[] = {
		[ZONE_KIND_DMA] = "DMA",
		[ZONE_KIND_DMA32] = "DMA32",
		[ZONE_KIND_NORMAL] = "Normal",
		[ZONE_KIND_MOVABLE] = "Movable",
	};
	struct text word;
	uint64_t node;

	static_assert(ARRAY_SIZE(kinds) == ZONE_KIND_COUNT, "all kinds");
	if (!take_literal(t, "Node") || !take_u64(t, &node) ||
	    !take_literal(t, ",") || !take_literal(t, "zone") ||
	    node > UINT8_MAX)
		return false;
	word = take_word(t);
	for (uint8_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		if (word_is(word, kinds[k])) {
			*ret_node = (uint8_t)node;
			*ret_kind = k;
			return true;
		}
	}
	return false;
}

static struct zone_report *zone_find_or_add(struct zones *z, uint8_t node,
					    uint8_t kind)
{
	for (unsigned int i = 0; i < z->nr; i++) {
		if (z->zone[i].node == node && z->zone[i].kind == kind)
			return &z->zone[i];
	}
	if (z->nr == PROTO_ZONES_MAX)
		return NULL;
	z->zone[z->nr].node = node;
	z->zone[z->nr].kind = kind;
	return &z->zone[z->nr++];
}

/* "managed" is the last wanted line of a zone, on all kernels since 4.x. */
static void zoneinfo_commit(struct zones *z)
{
	struct zone_report *zone;
	uint64_t boost = z->cur_boost_pages;

	z->cur_known = 0;
	if (!z->cur.present_pages)
		return;
	zone = zone_find_or_add(z, z->cur.node, z->cur.kind);
	if (!zone)
		return;
	memcpy(z->cur.free_blocks, zone->free_blocks,
	       sizeof(zone->free_blocks));
	*zone = z->cur;
	zone->min_pages -= MIN(boost, zone->min_pages);
	zone->low_pages -= MIN(boost, zone->low_pages);
	zone->high_pages -= MIN(boost, zone->high_pages);
}

static void zoneinfo_zone_begins(struct zones *z, struct text t)
{
	z->cur_known = 0;
	memset(&z->cur, 0, sizeof(z->cur));
	z->cur_boost_pages = 0;
	if (take_zone_name(&t, &z->cur.node, &z->cur.kind))
		z->cur_known = 1;
}

static uint64_t *zoneinfo_field(struct zones *z, struct text key)
{
	const struct {
		const char *name;
		uint64_t *value;
	} fields[] = {
		{"boost", &z->cur_boost_pages},
		{"min", &z->cur.min_pages},
		{"low", &z->cur.low_pages},
		{"high", &z->cur.high_pages},
		{"present", &z->cur.present_pages},
		{"managed", &z->cur.managed_pages},
	};

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (word_is(key, fields[i].name))
			return fields[i].value;
	}
	return NULL;
}

void zoneinfo_line(void *zones, const char *line, size_t len)
{
	struct text t = {line, line + len};
	struct zones *z = zones;
	uint64_t *field;
	struct text key;

	if (len && *line == 'N') {
		zoneinfo_zone_begins(z, t);
		return;
	}
	/* after "managed" come the per-CPU lists, with a "high:" of theirs */
	if (!z->cur_known)
		return;
	key = take_word(&t);
	if (word_is(key, "pages") && take_literal(&t, "free")) {
		(void)take_u64(&t, &z->cur.free_pages);
		return;
	}
	field = zoneinfo_field(z, key);
	if (!field || !take_u64(&t, field))
		return;
	if (field == &z->cur.managed_pages)
		zoneinfo_commit(z);
}

void buddyinfo_line(void *zones, const char *line, size_t len)
{
	struct text t = {line, line + len};
	struct zones *z = zones;
	struct zone_report *zone;
	uint8_t node, kind;
	unsigned int o;
	uint64_t n;

	if (!take_zone_name(&t, &node, &kind))
		return;
	zone = zone_find_or_add(z, node, kind);
	if (!zone)
		return;
	memset(zone->free_blocks, 0, sizeof(zone->free_blocks));
	for (o = 0; o < PROTO_ORDERS_MAX && take_u64(&t, &n); o++)
		zone->free_blocks[o] =
			n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
	z->nr_orders = MAX(z->nr_orders, o);
}

void zones_sum_node(const struct zones *z, unsigned int node,
		    uint32_t sum[PROTO_ORDERS_MAX])
{
	memset(sum, 0, PROTO_ORDERS_MAX * sizeof(*sum));
	for (unsigned int i = 0; i < z->nr; i++) {
		if (z->zone[i].node == node)
			frag_add(sum, z->zone[i].free_blocks);
	}
}

/* "Node 0 AnonPages:  1234 kB" */
void node_mem_line(void *node_mem, const char *line, size_t len)
{
	struct node_mem *m = node_mem;
	const struct {
		const char *key;
		uint64_t *value;
	} fields[] = {
		{"MemTotal:", &m->total_kib},
		{"MemFree:", &m->free_kib},
		{"AnonPages:", &m->anon_kib},
		{"FilePages:", &m->file_kib},
		{"AnonHugePages:", &m->anon_huge_kib},
		{"Slab:", &m->slab_kib},
		{"Unevictable:", &m->unevictable_kib},
	};
	struct text t = {line, line + len};
	uint64_t node;
	struct text key;

	if (!take_literal(&t, "Node") || !take_u64(&t, &node))
		return;
	key = take_word(&t);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (word_is(key, fields[i].key)) {
			(void)take_u64(&t, fields[i].value);
			return;
		}
	}
}

/* "avg10=1.23" to 123 */
static bool take_centi(struct text *t, uint16_t *ret_centi)
{
	uint64_t whole, part = 0;
	unsigned int digits = 0;

	if (!take_literal(t, "avg10=") || !take_u64(t, &whole) || whole > 100)
		return false;
	if (t->p < t->end && *t->p == '.') {
		for (t->p++; t->p < t->end && *t->p >= '0' && *t->p <= '9';
		     t->p++) {
			if (digits++ < 2)
				part = part * 10 + (uint64_t)(*t->p - '0');
		}
	}
	if (digits == 1)
		part *= 10;
	*ret_centi = (uint16_t)MIN(whole * 100 + part, 10000);
	return true;
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=0" */
static bool take_psi(struct text t, const char *kind, uint16_t *ret_centi,
		     uint64_t *ret_total_us)
{
	if (!take_literal(&t, kind) || !take_centi(&t, ret_centi))
		return false;
	while (t.p < t.end) {
		if (take_literal(&t, "total="))
			return take_u64(&t, ret_total_us);
		(void)take_word(&t);
		skip_blanks(&t);
	}
	return false;
}

int psi_parse(const char *text, struct psi_report *ret_psi)
{
	size_t some_len = strcspn(text, "\n");
	struct text some = {text, text + some_len};
	const char *second = text + some_len + (text[some_len] != '\0');
	struct text full = {second, second + strcspn(second, "\n")};
	struct psi_report psi = {0};

	if (!take_psi(some, "some", &psi.some_avg10_centi, &psi.some_total_us))
		return -EPROTO;
	if (full.p < full.end &&
	    !take_psi(full, "full", &psi.full_avg10_centi, &psi.full_total_us))
		return -EPROTO;
	*ret_psi = psi;
	return 0;
}

/* lists longer than this are no lists of nodes or CPUs */
#define ID_MAX 65535u

int id_list_parse(const char *text, uint8_t *ids, unsigned int max)
{
	struct text t = {text, text + strcspn(text, "\n")};
	unsigned int n = 0;

	skip_blanks(&t);
	while (t.p < t.end) {
		uint64_t first, last;

		if (!take_u64(&t, &first))
			return -EPROTO;
		last = first;
		if (take_literal(&t, "-") && !take_u64(&t, &last))
			return -EPROTO;
		if (last < first || last > ID_MAX)
			return -EPROTO;
		for (uint64_t id = first; id <= last; id++, n++) {
			if (n < max && id > UINT8_MAX)
				return -EPROTO;
			if (n < max)
				ids[n] = (uint8_t)id;
		}
		if (!take_literal(&t, ",") && t.p < t.end)
			return -EPROTO;
		/* text like "0-9,0-9,…" must not count for ever */
		if (n > ID_MAX + 1)
			return -EPROTO;
	}
	return (int)n;
}

int pageblock_order_parse(const char *text)
{
	struct text t = {text, text + strcspn(text, "\n")};
	uint64_t order;

	if (!take_literal(&t, "Page block order:") || !take_u64(&t, &order) ||
	    order >= PROTO_ORDERS_MAX)
		return -EPROTO;
	return (int)order;
}

int order_of_kib(uint64_t kib, uint32_t page_size)
{
	for (unsigned int o = 0; o < PROTO_ORDERS_MAX; o++) {
		if (kib * 1024 == (uint64_t)page_size << o)
			return (int)o;
	}
	return -ERANGE;
}
