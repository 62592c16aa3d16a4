// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdarg.h>

#include "history.h"
#include "util.h"

void history_free(struct history *h)
{
	free(h->entry);
	h->entry = NULL;
}

/* The next entry, or NULL without memory: history is then lost, not work. */
static struct history_entry *entry_new(struct history *h,
				       enum history_kind kind)
{
	struct history_entry *e;

	if (!h->entry) {
		h->entry = calloc(HISTORY_MAX, sizeof(*h->entry));
		if (!h->entry)
			return NULL;
		h->next_seq = 1;
	}
	e = &h->entry[h->next_seq % HISTORY_MAX];
	e->seq = h->next_seq++;
	e->kind = kind;
	clock_gettime(CLOCK_REALTIME, &e->wall);
	return e;
}

void history_decision(struct history *h, const struct decision *d,
		      bool carried_out)
{
	struct history_entry *e = entry_new(h, HISTORY_DECISION);

	if (!e)
		return;
	e->decision = *d;
	e->carried_out = carried_out;
}

void history_result(struct history *h, const struct msg_result *r)
{
	struct history_entry *e = entry_new(h, HISTORY_RESULT);

	if (!e)
		return;
	e->result = *r;
	e->carried_out = true;
}

void history_event(struct history *h, const char *fmt, ...)
{
	struct history_entry *e = entry_new(h, HISTORY_EVENT);
	va_list ap;

	if (!e)
		return;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	e->carried_out = true;
}

uint64_t history_oldest(const struct history *h)
{
	if (!h->entry)
		return h->next_seq;
	return h->next_seq > HISTORY_MAX ? h->next_seq - HISTORY_MAX : 1;
}

const struct history_entry *history_get(const struct history *h, uint64_t seq)
{
	if (!h->entry || seq < history_oldest(h) || seq >= h->next_seq)
		return NULL;
	return &h->entry[seq % HISTORY_MAX];
}
