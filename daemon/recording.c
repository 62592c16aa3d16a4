// SPDX-License-Identifier: GPL-2.0-or-later
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "proto_codec.h"
#include "recording.h"
#include "status_policy.h"
#include "util.h"

#define J(v) ((json_int_t)(v))

json_t *recording_header(const char *vm, uint32_t mode, const char *config)
{
	return json_pack("{s:i, s:s, s:s, s:s}", "recording", RECORDING_VERSION,
			 "vm", vm, "mode", vm_mode_name(mode), "config",
			 config);
}

json_t *recording_frame(uint64_t t_us, const struct msg *m)
{
	static const char digits[] = "0123456789abcdef";
	/* too large for a stack; the core has one thread */
	static uint8_t frame[PROTO_FRAME_MAX];
	static char hex[2 * PROTO_FRAME_MAX + 1];
	long n = msg_encode(m, frame, sizeof(frame));

	if (n < 0)
		return NULL;
	for (long i = 0; i < n; i++) {
		hex[2 * i] = digits[frame[i] >> 4];
		hex[2 * i + 1] = digits[frame[i] & 15];
	}
	hex[2 * n] = '\0';
	return json_pack("{s:I, s:s}", "t_us", J(t_us), "frame", hex);
}

json_t *recording_decide(uint64_t t_us, const struct policy_snapshot *s,
			 const struct policy_plan *plan)
{
	json_t *decisions = json_array();

	for (size_t i = 0; i < plan->nr_decisions; i++) {
		if (plan->changed[i])
			json_array_append_new(
				decisions, status_decision(&plan->decision[i]));
	}
	return json_pack("{s:I, s:{s:b, s:b, s:b, s:b}, s:o}", "t_us", J(t_us),
			 "decide", "paused", s->user_paused, "stopped",
			 s->vm_stopped, "migrating", s->vm_migrating, "running",
			 s->action_running, "decisions", decisions);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int frame_parse(const char *hex, struct msg *ret_m, const char **what)
{
	static uint8_t buf[PROTO_FRAME_MAX];
	size_t len = strlen(hex), room;
	const uint8_t *body;
	struct wire_hdr h;
	struct framer f;
	uint8_t *to;

	*what = "\"frame\" is not the hexadecimal digits of a frame";
	if (len % 2 || len / 2 > PROTO_FRAME_MAX)
		return -EPROTO;
	framer_init(&f, buf);
	to = framer_room(&f, &room);
	for (size_t i = 0; i < len / 2; i++) {
		int hi = hex_digit(hex[2 * i]), lo = hex_digit(hex[2 * i + 1]);

		if (hi < 0 || lo < 0)
			return -EPROTO;
		to[i] = (uint8_t)(hi << 4 | lo);
	}
	framer_fed(&f, len / 2);
	*what = "\"frame\" is not a whole frame of the wire";
	if (framer_next(&f, &h, &body) != 1)
		return -EPROTO;
	if (msg_decode(&h, body, ret_m, what) < 0)
		return -EPROTO;
	*what = "\"frame\" holds what an agent does not say";
	return ret_m->type == MSG_HELLO || ret_m->type == MSG_REPORT ||
			       ret_m->type == MSG_RESULT
		       ? 0
		       : -EPROTO;
}

static int header_parse(struct recording_line *l, const char **what)
{
	const json_t *version = json_object_get(l->json, "recording");
	const char *mode = json_string_value(json_object_get(l->json, "mode"));
	int m;

	l->kind = RECORDING_HEADER;
	*what = "a recording of another version";
	if (json_integer_value(version) != RECORDING_VERSION)
		return -EOPNOTSUPP;
	*what = "\"mode\" is not the mode of a VM";
	m = mode ? name_lookup(vm_mode_name, VM_MODE_COUNT, mode) : -1;
	if (m < 0)
		return -EPROTO;
	l->mode = (uint32_t)m;
	*what = "\"config\" is no text";
	return json_is_string(json_object_get(l->json, "config")) ? 0 : -EPROTO;
}

static int line_parse(struct recording_line *l, const char **what)
{
	const json_t *t = json_object_get(l->json, "t_us");
	const json_t *decide = json_object_get(l->json, "decide");
	const char *frame =
		json_string_value(json_object_get(l->json, "frame"));

	if (json_object_get(l->json, "recording"))
		return header_parse(l, what);
	l->kind = RECORDING_OTHER;
	if (!frame && !json_is_object(decide))
		return 0;
	*what = "\"t_us\" is not a time in microseconds";
	if (!json_is_integer(t) || json_integer_value(t) < 0)
		return -EPROTO;
	l->t_us = (uint64_t)json_integer_value(t);
	if (frame) {
		l->kind = RECORDING_FRAME;
		return frame_parse(frame, &l->msg, what);
	}
	l->kind = RECORDING_DECIDE;
	l->paused = json_is_true(json_object_get(decide, "paused"));
	l->stopped = json_is_true(json_object_get(decide, "stopped"));
	l->migrating = json_is_true(json_object_get(decide, "migrating"));
	l->running = json_is_true(json_object_get(decide, "running"));
	return 0;
}

int recording_parse(const char *text, size_t len,
		    struct recording_line *ret_line, const char **ret_what)
{
	int r;

	memset(ret_line, 0, sizeof(*ret_line));
	*ret_what = "not a JSON object";
	ret_line->json = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(ret_line->json))
		r = -EPROTO;
	else
		r = line_parse(ret_line, ret_what);
	if (r < 0) {
		json_decref(ret_line->json);
		ret_line->json = NULL;
	}
	return r;
}
