// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * DOC: one field list for both directions
 *
 * Each message has one visit_*() function that names its fields in wire
 * order. It runs with a cursor that either reads or writes, so encoder and
 * decoder cannot drift apart, and it checks ranges in both directions: what
 * we would refuse we do not send. The first failure sticks in the cursor;
 * later visits do nothing, which spares a check a line.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "crc32c.h"
#include "proto_codec.h"
#include "util.h"

struct cursor {
	bool encode;
	uint8_t *p; /* never written through when decoding */
	size_t left;
	const char *bad; /* static: the field that failed */
	bool full;	 /* encoding: out of room */
};

static void fail(struct cursor *c, const char *what)
{
	if (!c->bad)
		c->bad = what;
}

/* The next @n bytes, or NULL when there are not as many. */
static uint8_t *take(struct cursor *c, size_t n)
{
	uint8_t *p = c->p;

	if (c->bad)
		return NULL;
	if (c->left < n) {
		c->full = c->encode;
		fail(c, "cut short");
		return NULL;
	}
	c->p += n;
	c->left -= n;
	return p;
}

/* Is there a field that was added later? A sender of before ends here. */
static bool tail_left(const struct cursor *c)
{
	return !c->bad && (c->encode || c->left);
}

static void visit_u64(struct cursor *c, uint64_t *v)
{
	uint8_t *p = take(c, sizeof(*v));
	uint64_t le;

	if (!p)
		return;
	if (c->encode) {
		le = htole64(*v);
		memcpy(p, &le, sizeof(le));
	} else {
		memcpy(&le, p, sizeof(le));
		*v = le64toh(le);
	}
}

static void visit_u32(struct cursor *c, uint32_t *v)
{
	uint8_t *p = take(c, sizeof(*v));
	uint32_t le;

	if (!p)
		return;
	if (c->encode) {
		le = htole32(*v);
		memcpy(p, &le, sizeof(le));
	} else {
		memcpy(&le, p, sizeof(le));
		*v = le32toh(le);
	}
}

static void visit_u16(struct cursor *c, uint16_t *v)
{
	uint8_t *p = take(c, sizeof(*v));
	uint16_t le;

	if (!p)
		return;
	if (c->encode) {
		le = htole16(*v);
		memcpy(p, &le, sizeof(le));
	} else {
		memcpy(&le, p, sizeof(le));
		*v = le16toh(le);
	}
}

static void visit_u8(struct cursor *c, uint8_t *v)
{
	uint8_t *p = take(c, sizeof(*v));

	if (!p)
		return;
	if (c->encode)
		*p = *v;
	else
		*v = *p;
}

static void visit_i64(struct cursor *c, int64_t *v)
{
	uint64_t u = (uint64_t)*v;

	visit_u64(c, &u);
	*v = (int64_t)u;
}

/* A value that must lie in [lo, hi]. */
static void visit_u8_in(struct cursor *c, uint8_t *v, unsigned int lo,
			unsigned int hi, const char *what)
{
	visit_u8(c, v);
	if (!c->bad && (*v < lo || *v > hi))
		fail(c, what);
}

static void visit_u16_in(struct cursor *c, uint16_t *v, unsigned int lo,
			 unsigned int hi, const char *what)
{
	visit_u16(c, v);
	if (!c->bad && (*v < lo || *v > hi))
		fail(c, what);
}

static void visit_u32_in(struct cursor *c, uint32_t *v, uint32_t lo,
			 uint32_t hi, const char *what)
{
	visit_u32(c, v);
	if (!c->bad && (*v < lo || *v > hi))
		fail(c, what);
}

/* Length byte, then that many printable ASCII characters. */
static void visit_text(struct cursor *c, char text[PROTO_TEXT_MAX + 1],
		       const char *what)
{
	uint8_t len =
		c->encode ? (uint8_t)strnlen(text, PROTO_TEXT_MAX + 1) : 0;
	uint8_t *p;

	visit_u8_in(c, &len, 0, PROTO_TEXT_MAX, what);
	p = take(c, len);
	if (!p)
		return;
	if (c->encode) {
		memcpy(p, text, len);
	} else {
		memcpy(text, p, len);
		text[len] = '\0';
	}
	/* a NUL within the bytes makes the text shorter than it says */
	if (strlen(text) != len || !text_is_printable(text, PROTO_TEXT_MAX))
		fail(c, what);
}

/*
 * An array: how many, how long one is, the records. A record that is longer
 * than we know has its tail skipped.
 */
struct array {
	size_t n, i;
	uint8_t *len_at;   /* encoding: where the record length goes */
	uint16_t rec_len;  /* decoding: as the sender said */
	uint8_t *rec_from; /* of the current record */
	size_t rec_left;   /* decoding: bytes behind the current record */
};

static void array_begin(struct cursor *c, struct array *a, uint8_t *n,
			unsigned int max, const char *what)
{
	uint16_t rec_len = 0;

	memset(a, 0, sizeof(*a));
	visit_u8_in(c, n, 0, max, what);
	a->len_at = c->p;
	visit_u16(c, &rec_len);
	a->rec_len = rec_len;
	a->n = c->bad ? 0 : *n;
}

/* Enter the next record: narrows the cursor to it when decoding. */
static bool array_next(struct cursor *c, struct array *a, const char *what)
{
	if (c->bad || a->i >= a->n)
		return false;
	a->rec_from = c->p;
	if (!c->encode) {
		if (c->left < a->rec_len) {
			fail(c, what);
			return false;
		}
		a->rec_left = c->left - a->rec_len;
		c->left = a->rec_len;
	}
	a->i++;
	return true;
}

/* Leave the record. */
static void array_done(struct cursor *c, struct array *a)
{
	if (c->bad)
		return;
	if (c->encode) {
		uint16_t le = htole16((uint16_t)(c->p - a->rec_from));

		/* all records of one message are equally long */
		memcpy(a->len_at, &le, sizeof(le));
		return;
	}
	c->p += c->left;
	c->left = a->rec_left;
}

static void visit_hello(struct cursor *c, struct msg_hello *m)
{
	visit_u16(c, &m->ver_min);
	visit_u16(c, &m->ver_max);
	if (m->ver_min > m->ver_max || !m->ver_min)
		fail(c, "hello.ver_min");
	visit_u64(c, &m->nonce);
	for (size_t i = 0; i < sizeof(m->boot_id); i++)
		visit_u8(c, &m->boot_id[i]);
	visit_u32_in(c, &m->page_size, 4096, 65536, "hello.page_size");
	if (m->page_size & (m->page_size - 1))
		fail(c, "hello.page_size");
	visit_u8_in(c, &m->nr_orders, 1, PROTO_ORDERS_MAX, "hello.nr_orders");
	visit_u8_in(c, &m->pmd_order, 1, PROTO_ORDERS_MAX - 1,
		    "hello.pmd_order");
	visit_u8_in(c, &m->pageblock_order, 1, PROTO_ORDERS_MAX - 1,
		    "hello.pageblock_order");
	visit_u8_in(c, &m->nr_nodes, 1, PROTO_NODES_MAX, "hello.nr_nodes");
	visit_u32_in(c, &m->nr_cpus, 1, 65536, "hello.nr_cpus");
	visit_u64(c, &m->mem_pages);
	visit_u32(c, &m->knobs);
	visit_u32(c, &m->knobs_missing);
	visit_u32(c, &m->knobs_denied);
	visit_u32(c, &m->backends);
	visit_u32(c, &m->backends_missing);
	visit_u32(c, &m->backends_denied);
	visit_u32(c, &m->features);
	visit_u32(c, &m->mthp_orders);
	visit_text(c, m->agent_version, "hello.agent_version");
	visit_text(c, m->kernel_release, "hello.kernel_release");
}

static void visit_welcome(struct cursor *c, struct msg_welcome *m)
{
	visit_u16_in(c, &m->version, 1, UINT16_MAX, "welcome.version");
	visit_u64(c, &m->nonce);
	visit_u32_in(c, &m->interval_ms, 10, 600000, "welcome.interval_ms");
	visit_u32_in(c, &m->lease_ms, 100, 3600000, "welcome.lease_ms");
}

static void visit_bye(struct cursor *c, struct msg_bye *m)
{
	/* a reason from a newer peer is still a bye */
	visit_u32(c, &m->reason);
	visit_text(c, m->text, "bye.text");
}

static void visit_zone(struct cursor *c, struct zone_report *z)
{
	visit_u8(c, &z->node);
	visit_u8_in(c, &z->kind, 0, ZONE_KIND_COUNT - 1, "zone.kind");
	visit_u64(c, &z->present_pages);
	visit_u64(c, &z->managed_pages);
	visit_u64(c, &z->free_pages);
	visit_u64(c, &z->min_pages);
	visit_u64(c, &z->low_pages);
	visit_u64(c, &z->high_pages);
	for (size_t o = 0; o < PROTO_ORDERS_MAX; o++)
		visit_u32(c, &z->free_blocks[o]);
}

static void visit_curve(struct cursor *c, struct cost_curve *k)
{
	visit_u8_in(c, &k->nr_points, 0, PROTO_CURVE_MAX, "curve.nr_points");
	visit_u32(c, &k->age_ms);
	for (size_t i = 0; i < PROTO_CURVE_MAX; i++) {
		visit_u32(c, &k->point[i].blocks);
		visit_u64(c, &k->point[i].moves);
	}
	for (size_t i = 1; !c->bad && i < k->nr_points; i++) {
		if (k->point[i].blocks < k->point[i - 1].blocks ||
		    k->point[i].moves < k->point[i - 1].moves)
			fail(c, "curve not rising");
	}
}

static void visit_node(struct cursor *c, struct node_report *n)
{
	visit_u8(c, &n->node);
	visit_u64(c, &n->total_pages);
	visit_u64(c, &n->free_pages);
	visit_u64(c, &n->anon_pages);
	visit_u64(c, &n->file_pages);
	visit_u64(c, &n->anon_huge_pages);
	visit_u64(c, &n->slab_pages);
	visit_u64(c, &n->unevictable_pages);
	for (size_t o = 0; o < PROTO_ORDERS_MAX; o++)
		visit_u16_in(c, &n->ext_pct[o], 0, 100, "node.ext_pct");
	for (size_t o = 0; o < PROTO_ORDERS_MAX; o++)
		visit_u16_in(c, &n->unusable_permille[o], 0, 1000,
			     "node.unusable_permille");
	visit_u16_in(c, &n->score_pct, 0, 100, "node.score_pct");
	visit_curve(c, &n->curve);
	if (tail_left(c))
		visit_u64(c, &n->held_pages);
}

static void visit_mthp(struct cursor *c, struct mthp_report *t)
{
	visit_u8_in(c, &t->order, 1, PROTO_ORDERS_MAX - 1, "mthp.order");
	visit_u8_in(c, &t->policy, 0, MTHP_POLICY_COUNT - 1, "mthp.policy");
	visit_u64(c, &t->fault_alloc);
	visit_u64(c, &t->fault_fallback);
}

/* Fixed part of a report: everything before the arrays of records. */
static void visit_report_head(struct cursor *c, struct msg_report *m)
{
	uint8_t nr_ctrs = CTR_COUNT, nr_knobs = KNOB_COUNT;

	visit_u64(c, &m->guest_us);
	visit_u64(c, &m->directive_id);
	visit_u64(c, &m->action_id);
	visit_u8_in(c, &m->psi_valid, 0, 1, "report.psi_valid");
	visit_u16_in(c, &m->psi.some_avg10_centi, 0, 10000, "report.psi");
	visit_u16_in(c, &m->psi.full_avg10_centi, 0, 10000, "report.psi");
	visit_u64(c, &m->psi.some_total_us);
	visit_u64(c, &m->psi.full_total_us);
	visit_u64(c, &m->ctr_valid);
	visit_u8_in(c, &nr_ctrs, CTR_COUNT, CTR_COUNT, "report.nr_ctrs");
	for (size_t i = 0; i < CTR_COUNT; i++)
		visit_u64(c, &m->ctr[i]);
	visit_u32(c, &m->knob_valid);
	visit_u32(c, &m->knob_managed);
	visit_u32(c, &m->knob_foreign);
	visit_u8_in(c, &nr_knobs, KNOB_COUNT, KNOB_COUNT, "report.nr_knobs");
	for (size_t i = 0; i < KNOB_COUNT; i++)
		visit_i64(c, &m->knob[i]);
	visit_u64(c, &m->agent_cpu_us);
	visit_u64(c, &m->sample_cpu_us);
	visit_u32(c, &m->agent_rss_kib);
	visit_u64(c, &m->kpageflags_words);
	visit_u64(c, &m->bad_frames);
	visit_u8_in(c, &m->thp_enabled, 0, MTHP_POLICY_COUNT - 1,
		    "report.thp_enabled");
	visit_u16(c, &m->reporting_order);
}

/* Nodes ascend, zones ascend within and over their listed nodes. */
static const char *report_order_fault(const struct msg_report *m)
{
	size_t n = 0;

	for (size_t i = 1; i < m->nr_nodes; i++) {
		if (m->node[i].node <= m->node[i - 1].node)
			return "report nodes do not ascend";
	}
	for (size_t i = 1; i < m->nr_mthp; i++) {
		if (m->mthp[i].order <= m->mthp[i - 1].order)
			return "report mthp orders do not ascend";
	}
	for (size_t i = 0; i < m->nr_zones; i++) {
		const struct zone_report *z = &m->zone[i];

		while (n < m->nr_nodes && m->node[n].node < z->node)
			n++;
		if (n == m->nr_nodes || m->node[n].node != z->node)
			return "report zone of no listed node";
		if (i && z->node == z[-1].node && z->kind <= z[-1].kind)
			return "report zones do not ascend";
	}
	return NULL;
}

static void visit_report(struct cursor *c, struct msg_report *m)
{
	const char *fault;
	struct array a;

	visit_report_head(c, m);

	array_begin(c, &a, &m->nr_mthp, PROTO_ORDERS_MAX, "report.nr_mthp");
	while (array_next(c, &a, "report.mthp")) {
		visit_mthp(c, &m->mthp[a.i - 1]);
		array_done(c, &a);
	}
	array_begin(c, &a, &m->nr_nodes, PROTO_NODES_MAX, "report.nr_nodes");
	while (array_next(c, &a, "report.node")) {
		visit_node(c, &m->node[a.i - 1]);
		array_done(c, &a);
	}
	array_begin(c, &a, &m->nr_zones, PROTO_ZONES_MAX, "report.nr_zones");
	while (array_next(c, &a, "report.zone")) {
		visit_zone(c, &m->zone[a.i - 1]);
		array_done(c, &a);
	}
	if (c->bad)
		return;
	fault = report_order_fault(m);
	if (fault)
		fail(c, fault);
}

static void visit_directive(struct cursor *c, struct msg_directive *m)
{
	uint8_t nr_knobs = KNOB_COUNT;

	visit_u64(c, &m->id);
	visit_u32_in(c, &m->lease_ms, 100, 3600000, "directive.lease_ms");
	visit_u8_in(c, &m->quiet, 0, 1, "directive.quiet");
	visit_u32_in(c, &m->knob_mask, 0, (1u << KNOB_COUNT) - 1,
		     "directive.knob_mask");
	visit_u8_in(c, &nr_knobs, KNOB_COUNT, KNOB_COUNT, "directive.nr_knobs");
	for (size_t i = 0; i < KNOB_COUNT; i++)
		visit_i64(c, &m->knob[i]);
	visit_u32_in(c, &m->cpu_budget_ppm, 0, 1000000,
		     "directive.cpu_budget_ppm");
	visit_u16_in(c, &m->psi_abort_centi, 0, 10000,
		     "directive.psi_abort_centi");
	visit_text(c, m->reason, "directive.reason");
}

static void visit_action(struct cursor *c, struct msg_action *m)
{
	visit_u64(c, &m->id);
	visit_u8(c, &m->node);
	visit_u8_in(c, &m->backend, 0, BACKEND_COUNT - 1, "action.backend");
	visit_u8_in(c, &m->order, 1, PROTO_ORDERS_MAX - 1, "action.order");
	visit_u8_in(c, &m->urgency, 0, URGENCY_COUNT - 1, "action.urgency");
	visit_u32_in(c, &m->blocks, 1, ACTION_BLOCKS_ALL, "action.blocks");
	visit_u64(c, &m->max_pages);
	visit_u64(c, &m->max_cpu_us);
	visit_u64(c, &m->max_time_us);
	visit_text(c, m->reason, "action.reason");
	if (tail_left(c))
		visit_u32_in(c, &m->hold_ms, 0, ACTION_HOLD_MAX_MS,
			     "action.hold_ms");
}

static void visit_cancel(struct cursor *c, struct msg_cancel *m)
{
	visit_u64(c, &m->id);
}

static void visit_result(struct cursor *c, struct msg_result *m)
{
	visit_u64(c, &m->id);
	visit_u8_in(c, &m->status, 0, RESULT_STATUS_COUNT - 1, "result.status");
	visit_u8_in(c, &m->why, 0, WHY_COUNT - 1, "result.why");
	visit_u8_in(c, &m->backend, 0, BACKEND_COUNT - 1, "result.backend");
	visit_u8(c, &m->node);
	visit_u8_in(c, &m->order, 0, PROTO_ORDERS_MAX - 1, "result.order");
	visit_u32(c, &m->asked);
	visit_u32(c, &m->blocks_before);
	visit_u32(c, &m->blocks_after);
	visit_u64(c, &m->free_pages_before);
	visit_u64(c, &m->free_pages_after);
	visit_u64(c, &m->migrated);
	visit_u64(c, &m->migrate_failed);
	visit_u64(c, &m->reclaimed);
	visit_u64(c, &m->migrate_scanned);
	visit_u64(c, &m->free_scanned);
	visit_u64(c, &m->allocstall);
	visit_u64(c, &m->pgscan_direct);
	visit_u64(c, &m->swapped_out);
	visit_u64(c, &m->refaults);
	visit_u64(c, &m->kpageflags_words);
	visit_u64(c, &m->cpu_us);
	visit_u64(c, &m->elapsed_us);
	visit_text(c, m->text, "result.text");
}

static void visit_map_ask(struct cursor *c, struct msg_map_ask *m)
{
	visit_u32_in(c, &m->id, 1, UINT32_MAX, "map_ask.id");
	visit_u32_in(c, &m->words_per_sec, 1, UINT32_MAX,
		     "map_ask.words_per_sec");
}

/* Two blocks a byte, the first in the low half. */
static void visit_blocks(struct cursor *c, struct msg_map *m)
{
	for (size_t i = 0; i < m->nr && !c->bad; i += 2) {
		uint8_t pair = 0;

		if (c->encode) {
			pair = m->block[i];
			if (i + 1 < m->nr)
				pair |= (uint8_t)(m->block[i + 1] << 4);
		}
		visit_u8(c, &pair);
		m->block[i] = pair & 15;
		if (i + 1 < m->nr)
			m->block[i + 1] = pair >> 4;
		if (m->block[i] >= GUEST_BLOCK_COUNT ||
		    (i + 1 < m->nr && m->block[i + 1] >= GUEST_BLOCK_COUNT))
			fail(c, "map.block");
	}
}

static void visit_first_block(struct cursor *c, uint64_t *first, uint16_t nr,
			      const char *what)
{
	visit_u64(c, first);
	if (!c->bad && *first > PROTO_MAP_BLOCK_MAX - nr)
		fail(c, what);
}

static void visit_map(struct cursor *c, struct msg_map *m)
{
	visit_u32(c, &m->id);
	visit_u16_in(c, &m->nr, 0, PROTO_MAP_BLOCKS, "map.nr");
	visit_first_block(c, &m->first_block, m->nr, "map.first_block");
	visit_u8(c, &m->node);
	visit_u8_in(c, &m->last, 0, 1, "map.last");
	visit_u64(c, &m->words);
	visit_blocks(c, m);
}

static void visit_backing(struct cursor *c, struct msg_backing *m)
{
	visit_u32(c, &m->id);
	visit_u16_in(c, &m->nr, 1, PROTO_BACKING_BLOCKS, "backing.nr");
	visit_first_block(c, &m->first_block, m->nr, "backing.first_block");
	for (size_t i = 0; i < (m->nr + 7u) / 8 && !c->bad; i++)
		visit_u8(c, &m->huge[i]);
}

/* Return: 0, or -ENOMSG for a type without a definition. */
static int visit_body(struct cursor *c, struct msg *m)
{
	switch (m->type) {
	case MSG_SYNC:
		return 0;
	case MSG_HELLO:
		visit_hello(c, &m->hello);
		return 0;
	case MSG_WELCOME:
		visit_welcome(c, &m->welcome);
		return 0;
	case MSG_BYE:
		visit_bye(c, &m->bye);
		return 0;
	case MSG_REPORT:
		visit_report(c, &m->report);
		return 0;
	case MSG_DIRECTIVE:
		visit_directive(c, &m->directive);
		return 0;
	case MSG_ACTION:
		visit_action(c, &m->action);
		return 0;
	case MSG_CANCEL:
		visit_cancel(c, &m->cancel);
		return 0;
	case MSG_RESULT:
		visit_result(c, &m->result);
		return 0;
	case MSG_MAP_ASK:
		visit_map_ask(c, &m->map_ask);
		return 0;
	case MSG_MAP:
		visit_map(c, &m->map);
		return 0;
	case MSG_BACKING:
		visit_backing(c, &m->backing);
		return 0;
	default:
		return -ENOMSG;
	}
}

long msg_encode(const struct msg *m, uint8_t *buf, size_t size)
{
	struct cursor c = {.encode = true};
	struct wire_hdr h = {0};
	size_t len;
	int r;

	if (size < PROTO_HDR_SIZE)
		return -EMSGSIZE;
	c.p = buf + PROTO_HDR_SIZE;
	c.left = MIN(size - PROTO_HDR_SIZE, (size_t)PROTO_BODY_MAX);

	/* an encoding cursor only reads the message */
	r = visit_body(&c, (struct msg *)m);
	if (r < 0)
		return -EINVAL;
	if (c.bad)
		return c.full ? -EMSGSIZE : -EINVAL;

	len = (size_t)(c.p - (buf + PROTO_HDR_SIZE));
	h.magic = htole32(PROTO_MAGIC);
	h.type = htole16(m->type);
	h.len = htole32((uint32_t)len);
	h.seq = htole32(m->seq);
	h.session = htole64(m->session);
	h.body_crc = htole32(crc32c(buf + PROTO_HDR_SIZE, len));
	h.hdr_crc = htole32(crc32c(&h, offsetof(struct wire_hdr, hdr_crc)));
	memcpy(buf, &h, sizeof(h));
	return (long)(PROTO_HDR_SIZE + len);
}

int msg_decode(const struct wire_hdr *h, const uint8_t *body,
	       struct msg *ret_msg, const char **ret_what)
{
	/* a decoding cursor never writes through p */
	struct cursor c = {.p = (uint8_t *)body, .left = h->len};
	int r;

	memset(ret_msg, 0, sizeof(*ret_msg));
	ret_msg->type = h->type;
	ret_msg->seq = h->seq;
	ret_msg->session = h->session;

	r = visit_body(&c, ret_msg);
	if (r < 0)
		return r;
	if (c.bad) {
		*ret_what = c.bad;
		return -EPROTO;
	}
	return 0;
}
