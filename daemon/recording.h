/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: a recording of one VM's telemetry, to run the policy over again
 *
 * Text, one JSON object a line:
 *
 *	{"recording": 1, "vm": NAME, "mode": MODE, "config": TEXT}
 *				first; TEXT as config_dump() writes, without VMs
 *	{"t_us": N, "frame": HEX}
 *				what the agent said: HELLO, REPORT or RESULT as
 *				on the wire, by the daemon's clock
 *	{"t_us": N, "decide": {"paused": B, "stopped": B, "migrating": B,
 *	 "running": B}, "decisions": [...]}
 *				the policy was asked, with what else it was
 *				told, and decided this; what changed only
 *
 * Times grow. Lines with other keys are of a newer daemon, and skipped. What
 * the policy remembered from before the recording is not in it.
 */
#ifndef VMDEFRAG_RECORDING_H
#define VMDEFRAG_RECORDING_H

#include <jansson.h>

#include "policy.h"

#define RECORDING_VERSION 1

/* The longest line: a frame in hex, and its names. */
#define RECORDING_LINE_MAX (2 * PROTO_FRAME_MAX + 4096)

/* Each of these returns a new reference, or NULL without memory. */
json_t *recording_header(const char *vm, uint32_t mode, const char *config);
json_t *recording_frame(uint64_t t_us, const struct msg *m);
json_t *recording_decide(uint64_t t_us, const struct policy_snapshot *s,
			 const struct policy_plan *plan);

enum recording_kind {
	RECORDING_HEADER,
	RECORDING_FRAME,
	RECORDING_DECIDE,
	RECORDING_OTHER, /* to be skipped */
};

struct recording_line {
	enum recording_kind kind;
	uint64_t t_us;
	struct msg msg;	      /* FRAME */
	bool paused, stopped; /* DECIDE */
	bool migrating, running;
	uint32_t mode; /* HEADER, enum vm_mode */
	json_t *json;  /* all of it; to be freed by json_decref() */
};

/**
 * recording_parse() - one line, of @len bytes without its end
 * @ret_line: its json is NULL on failure
 * @ret_what: static text, on failure
 *
 * Return: 0; -EPROTO for what is no line of a recording; -EOPNOTSUPP for a
 * header of another version.
 */
int recording_parse(const char *text, size_t len,
		    struct recording_line *ret_line, const char **ret_what);

#endif
