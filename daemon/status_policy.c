// SPDX-License-Identifier: GPL-2.0-or-later
/* What the policy decided and what came of it, in JSON: for the daemon and for
 * vmdefragctl, which runs the policy itself when it replays. */
#include "proto_codec.h"
#include "status_policy.h"

#define J(v) ((json_int_t)(v))

json_t *status_decision(const struct decision *d)
{
	json_t *evidence = json_object(), *rejected = json_array();

	for (size_t i = 0; i < d->nr_evidence; i++)
		json_object_set_new(evidence, d->evidence[i].name,
				    json_integer(J(d->evidence[i].value)));
	for (size_t i = 0; i < d->nr_rejected; i++)
		json_array_append_new(rejected,
				      json_pack("{s:s, s:s}", "what",
						d->rejected[i].what, "why",
						d->rejected[i].why));
	return json_pack("{s:s, s:s, s:s, s:i, s:i, s:I, s:o, s:o}", "decision",
			 decision_kind_name(d->kind), "reason",
			 decision_reason_name(d->reason), "text",
			 decision_reason_text(d->reason), "node", d->node,
			 "order", d->order, "blocks",
			 d->blocks == ACTION_BLOCKS_ALL ? J(-1) : J(d->blocks),
			 "evidence", evidence, "rejected", rejected);
}

json_t *status_result(const struct msg_result *r)
{
	json_t *o = json_pack(
		"{s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:I, s:I, s:I}",
		"result", result_status_name(r->status), "why",
		stop_why_name(r->why), "backend", backend_name(r->backend),
		"text", r->text, "node", r->node, "order", r->order, "asked",
		r->asked == ACTION_BLOCKS_ALL ? J(-1) : J(r->asked),
		"blocks_before", J(r->blocks_before), "blocks_after",
		J(r->blocks_after), "free_pages_before",
		J(r->free_pages_before), "free_pages_after",
		J(r->free_pages_after));
	json_t *cost = json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I,"
		" s:I}",
		"pages_migrated", J(r->migrated), "pages_migrate_failed",
		J(r->migrate_failed), "pages_reclaimed", J(r->reclaimed),
		"migrate_scanned", J(r->migrate_scanned), "free_scanned",
		J(r->free_scanned), "allocstall", J(r->allocstall),
		"pgscan_direct", J(r->pgscan_direct), "pages_swapped_out",
		J(r->swapped_out), "refaults", J(r->refaults),
		"kpageflags_words", J(r->kpageflags_words), "cpu_us",
		J(r->cpu_us), "elapsed_us", J(r->elapsed_us));

	if (!o || !cost) {
		json_decref(o);
		json_decref(cost);
		return NULL;
	}
	json_object_set_new(o, "cost", cost);
	return o;
}
