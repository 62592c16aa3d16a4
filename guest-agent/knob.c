// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "knob.h"
#include "knob_info.h"
#include "procfile.h"
#include "proto_codec.h"
#include "util.h"

static void instant(const struct knobs *k, enum knob_instant i)
{
	if (k->at_instant)
		k->at_instant(i, k->at_ctx);
}

static int knob_open(const struct knobs *k, unsigned int knob)
{
	char path[MTHP_PATH_MAX];

	if (!knob_is_mthp(knob))
		return procfile_open(knob_info[knob].in_sys ? k->sys_fd
							    : k->proc_fd,
				     knob_info[knob].path);
	mthp_path(knob - KNOB_COUNT, path, sizeof(path));
	return procfile_open(k->sys_fd, path);
}

static uint64_t write_pause_us(unsigned int knob)
{
	return knob_is_mthp(knob) ? 0 : knob_info[knob].write_pause_us;
}

static int knob_read(const struct knobs *k, unsigned int knob,
		     int64_t *ret_value)
{
	char text[256];
	ssize_t n = procfile_text(k->knob[knob].fd, text, sizeof(text));

	if (n < 0)
		return (int)n;
	return knob_is_mthp(knob) ? mthp_parse(text, ret_value)
				  : knob_parse(knob, text, ret_value);
}

static int knob_write(const struct knobs *k, unsigned int knob, int64_t value)
{
	char text[KNOB_TEXT_MAX];
	int r;

	if (knob_is_mthp(knob))
		return mthp_write(k->proc_fd, k->sys_fd, knob - KNOB_COUNT,
				  value);
	r = knob_format(knob, value, text, sizeof(text));
	if (r < 0)
		return r;
	return write_text_at(knob_info[knob].in_sys ? k->sys_fd : k->proc_fd,
			     knob_info[knob].path, text);
}

static void look(struct knobs *k, unsigned int knob)
{
	struct knob_state *s = &k->knob[knob];

	s->readable = s->fd >= 0 && knob_read(k, knob, &s->current) == 0;
}

enum knob_step knob_decide(unsigned int knob, const struct knob_state *s,
			   uint64_t now_us)
{
	const struct knob_want *want = s->action.set ? &s->action : &s->host;

	if (s->foreign || !s->readable)
		return KNOB_KEEP;
	if (s->managed && s->current != s->ours)
		return KNOB_LOSE;
	if (!want->set || s->denied)
		return s->managed ? KNOB_PUT_BACK : KNOB_KEEP;
	if (want->value == s->current)
		return KNOB_KEEP;
	if (s->managed && want->value == s->original)
		return KNOB_PUT_BACK;
	if (s->written_us && now_us - s->written_us < write_pause_us(knob))
		return KNOB_WAIT;
	return KNOB_WRITE;
}

void knobs_init(struct knobs *k, int proc_fd, int sys_fd, int run_dir_fd,
		const char *boot_id, uint32_t missing, uint32_t denied)
{
	memset(k, 0, sizeof(*k));
	k->proc_fd = proc_fd;
	k->sys_fd = sys_fd;
	k->journal.dir_fd = run_dir_fd;
	text_copy_printable(k->journal.boot_id, sizeof(k->journal.boot_id),
			    boot_id);
	k->trouble.interval_us = 60 * SEC_US;
	k->trouble.burst = 5;
	for (unsigned int i = 0; i < KNOB_ALL; i++) {
		/* who may not touch one THP switch may touch none */
		unsigned int bit = knob_is_mthp(i) ? KNOB_THP_DEFRAG : i;

		k->knob[i].fd = knob_open(k, i);
		k->knob[i].missing =
			knob_is_mthp(i) ? k->knob[i].fd < 0 : missing >> i & 1;
		k->knob[i].denied = denied >> bit & 1;
		look(k, i);
	}
}

void knobs_close(struct knobs *k)
{
	for (unsigned int i = 0; i < KNOB_ALL; i++) {
		if (k->knob[i].fd >= 0)
			close(k->knob[i].fd);
		k->knob[i].fd = -1;
	}
}

static void say_trouble(struct knobs *k, unsigned int knob, int r,
			const char *what, uint64_t now_us)
{
	unsigned int suppressed;

	if (log_limit_pass(&k->trouble, now_us, &suppressed))
		log_err_errno(r, "Failed to %s for knob '%s'%s", what,
			      knob_any_name(knob),
			      suppressed ? " (and more like it)" : "");
}

/* The journal without the knob; where that fails, the entry does no harm. */
static void forget(struct knobs *k, unsigned int knob, uint64_t now_us)
{
	int r;

	k->knob[knob].managed = false;
	k->data.knob[knob].used = false;
	r = journal_write(&k->journal, &k->data);
	if (r < 0)
		say_trouble(k, knob, r, "update the journal", now_us);
	instant(k, KNOB_AFTER_FORGET);
}

static void lose(struct knobs *k, unsigned int knob, uint64_t now_us)
{
	struct knob_state *s = &k->knob[knob];

	log_notice("Knob '%s' was changed by somebody else from %" PRId64
		   " to %" PRId64 ": left alone from now on",
		   knob_any_name(knob), s->ours, s->current);
	s->foreign = true;
	forget(k, knob, now_us);
}

static int put_back(struct knobs *k, unsigned int knob, uint64_t now_us)
{
	struct knob_state *s = &k->knob[knob];
	int r = 0;

	instant(k, KNOB_BEFORE_PUT_BACK);
	/* someone else may have put it back already */
	if (s->current != s->original)
		r = knob_write(k, knob, s->original);
	if (r < 0) {
		say_trouble(k, knob, r, "put the value back", now_us);
		return r;
	}
	instant(k, KNOB_AFTER_PUT_BACK);
	s->written_us = now_us;
	log_info("Knob '%s' put back to %" PRId64, knob_any_name(knob),
		 s->original);
	look(k, knob);
	forget(k, knob, now_us);
	return 0;
}

static int journal_intent(struct knobs *k, unsigned int knob, int64_t value)
{
	struct journal_entry *e = &k->data.knob[knob];
	const struct knob_state *s = &k->knob[knob];
	struct journal_entry saved = *e;
	int r;

	e->used = true;
	e->original = s->managed ? s->original : s->current;
	e->has_prev = s->managed;
	e->prev = s->managed ? s->ours : 0;
	e->ours = value;
	instant(k, KNOB_BEFORE_JOURNAL);
	r = journal_write(&k->journal, &k->data);
	if (r < 0)
		*e = saved;
	return r;
}

static void set_value(struct knobs *k, unsigned int knob, int64_t value,
		      uint64_t now_us)
{
	struct knob_state *s = &k->knob[knob];
	int r = journal_intent(k, knob, value);

	if (r < 0) {
		say_trouble(k, knob, r, "write the journal, so not to write it",
			    now_us);
		return;
	}
	instant(k, KNOB_BEFORE_WRITE);
	s->written_us = now_us;
	r = knob_write(k, knob, value);
	if (r < 0) {
		say_trouble(k, knob, r, "write the value", now_us);
		if (!s->managed)
			forget(k, knob, now_us);
		/* else the entry's prev is what is there: kept as it is */
		return;
	}
	instant(k, KNOB_AFTER_WRITE);

	s->original = k->data.knob[knob].original;
	s->managed = true;
	s->ours = value;
	log_info("Knob '%s' set from %" PRId64 " to %" PRId64,
		 knob_any_name(knob), s->current, value);
	s->current = value;
}

void knobs_tick(struct knobs *k, uint64_t now_us)
{
	for (unsigned int i = 0; i < KNOB_ALL; i++) {
		struct knob_state *s = &k->knob[i];

		/* nobody asks for the value of a size's switch */
		if (knob_is_mthp(i) && !s->managed && !s->action.set)
			continue;
		look(k, i);
		switch (k->observe ? KNOB_KEEP : knob_decide(i, s, now_us)) {
		case KNOB_KEEP:
		case KNOB_WAIT:
			break;
		case KNOB_WRITE:
			set_value(k, i,
				  s->action.set ? s->action.value
						: s->host.value,
				  now_us);
			break;
		case KNOB_PUT_BACK:
			(void)put_back(k, i, now_us); /* the next tick tries */
			break;
		case KNOB_LOSE:
			lose(k, i, now_us);
			break;
		}
	}
}

uint32_t knobs_want(struct knobs *k, uint32_t mask,
		    const int64_t value[KNOB_COUNT])
{
	uint32_t left_out = 0;

	for (unsigned int i = 0; i < KNOB_COUNT; i++) {
		struct knob_want *want = &k->knob[i].host;

		want->set = mask >> i & 1 && knob_value_ok(i, value[i]);
		want->value = value[i];
		if (mask >> i & 1 && !want->set)
			left_out |= 1u << i;
	}
	return left_out;
}

void knobs_hold(struct knobs *k, unsigned int knob, int64_t value)
{
	k->knob[knob].action.set = true;
	k->knob[knob].action.value = value;
}

void knobs_unhold(struct knobs *k, unsigned int knob)
{
	k->knob[knob].action.set = false;
}

int knobs_restore_all(struct knobs *k, uint64_t now_us)
{
	int first = 0;

	for (unsigned int i = 0; i < KNOB_ALL; i++) {
		struct knob_state *s = &k->knob[i];
		int r = 0;

		s->host.set = false;
		s->action.set = false;
		look(k, i);
		switch (k->observe ? KNOB_KEEP : knob_decide(i, s, now_us)) {
		case KNOB_PUT_BACK:
			r = put_back(k, i, now_us);
			break;
		case KNOB_LOSE:
			lose(k, i, now_us);
			break;
		default:
			break;
		}
		if (r < 0 && !first)
			first = r;
	}
	return first;
}

/* One entry of a journal that an agent before us left. */
static void recover_one(struct knobs *k, unsigned int knob)
{
	const struct journal_entry *e = &k->data.knob[knob];
	struct knob_state *s = &k->knob[knob];

	if (!s->readable) {
		log_warn("Knob '%s' cannot be read, so it is not put back",
			 knob_any_name(knob));
		return;
	}
	s->original = e->original;
	s->ours = s->current;
	if (s->current == e->original) {
		log_info("Knob '%s' is as it was found: nothing to put back",
			 knob_any_name(knob));
	} else if (s->current == e->ours ||
		   (e->has_prev && s->current == e->prev)) {
		/* as if we had set it: put back now, or at a later tick */
		s->managed = true;
	} else {
		log_notice("Knob '%s' is %" PRId64
			   ", neither ours nor as found: left alone",
			   knob_any_name(knob), s->current);
		s->foreign = true;
	}
}

static int recover_no_journal(struct knobs *k, int r)
{
	int aside;

	switch (r) {
	case -ENOENT:
		return 0;
	case -ESTALE:
		log_info("The knob journal is of another boot: dropped");
		(void)journal_remove(&k->journal);
		return 0;
	case -EBADMSG:
		aside = journal_set_aside(&k->journal);
		return log_err_errno(
			r,
			"The knob journal is broken: nothing is put back; "
			"%s",
			aside < 0 ? "it could not be renamed"
				  : "kept as '" JOURNAL_ASIDE_NAME "'");
	default:
		return log_err_errno(r, "Failed to read the knob journal");
	}
}

int knobs_recover(struct knobs *k)
{
	uint64_t no_time_us = 0;
	bool left = false;
	int r = journal_read(&k->journal, &k->data);

	if (r < 0) {
		memset(&k->data, 0, sizeof(k->data));
		return recover_no_journal(k, r);
	}
	if (k->observe) {
		log_warn("Knobs of an agent before this one are still set; "
			 "not put back with --observe");
		memset(&k->data, 0, sizeof(k->data));
		return 0;
	}
	for (unsigned int i = 0; i < KNOB_ALL; i++) {
		if (k->data.knob[i].used)
			recover_one(k, i);
		left = left || k->knob[i].managed;
		k->data.knob[i].used = k->knob[i].managed;
	}
	/* entries that need nothing go, also when none is left at all */
	r = journal_write(&k->journal, &k->data);
	return left ? knobs_restore_all(k, no_time_us) : r;
}

void knobs_report(const struct knobs *k, struct msg_report *r)
{
	r->knob_valid = r->knob_managed = r->knob_foreign = 0;
	for (unsigned int i = 0; i < KNOB_COUNT; i++) {
		const struct knob_state *s = &k->knob[i];

		r->knob_valid |= (uint32_t)s->readable << i;
		r->knob_managed |= (uint32_t)s->managed << i;
		r->knob_foreign |= (uint32_t)s->foreign << i;
		r->knob[i] = s->readable ? s->current : 0;
	}
}
