/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages to frames and back. Pure: no I/O, no clock, no allocation.
 */
#ifndef VMDEFRAG_PROTO_CODEC_H
#define VMDEFRAG_PROTO_CODEC_H

#include "proto.h"

/**
 * msg_encode() - one whole frame
 * @m:       values out of their ranges are an error of the caller
 * @buf:     takes the frame
 * @size:    of @buf; PROTO_FRAME_MAX always suffices
 *
 * Return: the frame's bytes; -EMSGSIZE if @size is too small; -EINVAL if @m
 * holds what msg_decode() would refuse.
 */
long msg_encode(const struct msg *m, uint8_t *buf, size_t size);

/**
 * msg_decode() - a body whose header and checksums framer_next() accepted
 * @ret_msg:  written as a whole, also on failure (its content is then void)
 * @ret_what: static text naming the field that is wrong, on -EPROTO
 *
 * Every count, index and enumerator is checked; strings are printable ASCII.
 *
 * Return: 0; -EPROTO; -ENOMSG for a type that this version does not know.
 */
int msg_decode(const struct wire_hdr *h, const uint8_t *body,
	       struct msg *ret_msg, const char **ret_what);

/*
 * Cuts a byte stream into frames. The buffer belongs to the caller and must
 * hold PROTO_FRAME_MAX bytes.
 */
struct framer {
	uint8_t *buf;
	size_t start, end;   /* unread bytes are buf[start..end) */
	uint64_t skipped;    /* garbage bytes, ever */
	uint64_t bad_bodies; /* frames with a broken body checksum, ever */
};

void framer_init(struct framer *f, uint8_t *buf);

/**
 * framer_room() - where the next bytes go
 * @ret_room: bytes free there; at least 1 after framer_next() returned 0
 */
uint8_t *framer_room(struct framer *f, size_t *ret_room);

/**
 * framer_fed() - @n bytes were put where framer_room() said
 */
void framer_fed(struct framer *f, size_t n);

/**
 * framer_next() - the next frame
 * @ret_h:    host byte order
 * @ret_body: points into the buffer, valid until the next call
 *
 * Return: 1; 0 if more bytes are needed; -EBADMSG if bytes had to be skipped,
 * once for each run of garbage, after which the search goes on at the next
 * call.
 */
int framer_next(struct framer *f, struct wire_hdr *ret_h,
		const uint8_t **ret_body);

/**
 * framer_pending() - has a frame begun that is not whole yet?
 */
bool framer_pending(const struct framer *f);

/**
 * framer_rescue() - look for a whole frame behind the one that does not end
 *
 * A peer that died amid a frame leaves a beginning behind, whose missing part
 * the frames of its successor would be taken for. To be called when a frame
 * has been pending for long; harmless if its rest was only late.
 *
 * Return: true if one was found: framer_next() returns it now.
 */
bool framer_rescue(struct framer *f);

/**
 * framer_reset() - forget the bytes of a connection that ended
 */
void framer_reset(struct framer *f);

/* Names for logs, JSON and tables; "?" for a value outside the enumeration. */
const char *msg_type_name(unsigned int type);
const char *bye_reason_name(unsigned int reason);
const char *knob_name(unsigned int knob);
const char *backend_name(unsigned int backend);
const char *feature_name(unsigned int feature);
const char *zone_kind_name(unsigned int kind);
const char *vmstat_ctr_name(unsigned int ctr);
const char *thp_defrag_name(unsigned int mode);
const char *mthp_policy_name(unsigned int policy);
const char *result_status_name(unsigned int status);
const char *stop_why_name(unsigned int why);
const char *urgency_name(unsigned int urgency);

/**
 * name_lookup() - the value with this name
 * @name_of: one of the functions above
 *
 * Return: a value below @count, or -ENOENT.
 */
int name_lookup(const char *(*name_of)(unsigned int), unsigned int count,
		const char *name);

#endif
