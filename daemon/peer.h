/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: one agent's session
 *
 * Owns the byte stream of one channel: framing, handshake, sequence numbers,
 * rate limit, output buffer. Everything that arrives is hostile until proven
 * otherwise; whatever a guest does costs it this session and a growing wait
 * for the next, and nobody else anything:
 *
 *	bytes, frames	token buckets; above them BYE and a penalty, during
 *			which the channel is not even read
 *	violations	BYE and a penalty that doubles up to PEER_PENALTY_MAX_US
 *	not reading	the output buffer is bounded; when full, the session
 *ends memory		one frame in, PEER_OUT_MAX out, allocated on opening
 */
#ifndef VMDEFRAG_PEER_H
#define VMDEFRAG_PEER_H

#include "loop.h"
#include "proto_codec.h"

struct peer;

struct peer_ops {
	/* a session begins; refuse it by a text, which is sent in BYE */
	const char *(*up)(struct peer *p, const struct msg_hello *hello);
	/* in a session: REPORT, RESULT or MAP */
	void (*message)(struct peer *p, const struct msg *m);
	/* the session ended; @why is static text */
	void (*down)(struct peer *p, const char *why);
	/* the connection is gone as well: open a new one */
	void (*closed)(struct peer *p, int error);
};

struct peer_stats {
	uint64_t frames, bytes, sessions;
	uint64_t stale, unknown, violations, rate_limited, garbage_bytes;
};

#define PEER_OUT_MAX 16384

/* Frames a second a guest may send: agents send one report a second and a
 * few results; ten times that is a fault. Bytes: a full report is 24 KiB. */
#define PEER_FRAMES_PER_SEC 20
#define PEER_FRAMES_BURST   100
#define PEER_BYTES_PER_SEC  (64 * 1024)
#define PEER_BYTES_BURST    (256 * 1024)

#define PEER_PENALTY_MIN_US (1 * SEC_US)
#define PEER_PENALTY_MAX_US (60 * SEC_US)
/* After so long without a new violation the penalty starts small again. */
#define PEER_PENALTY_FORGET_US (120 * SEC_US)
/* A frame whose rest has not come for so long: see framer_rescue(). */
#define PEER_PENDING_US (1 * SEC_US)
/*
 * Silence after which a session counts as dead. Long, since a stopped QEMU is
 * silent too and may come back to the session it had; that its telemetry is
 * old shows by the age of the last report.
 */
#define PEER_SILENT_US (60 * SEC_US)

struct bucket {
	int64_t level; /* may go below 0 by one frame */
	uint64_t filled_us;
};

struct peer {
	const struct peer_ops *ops;
	struct loop *loop;
	struct source in, out;
	int fd;		 /* -1: closed */
	uint64_t now_us; /* of this turn; set by peer_tick() and the owner */

	struct framer framer;
	uint8_t *in_buf, *out_buf;
	size_t out_len;

	bool up;
	uint16_t version;
	uint64_t session;
	uint32_t rx_seq, tx_seq;
	uint64_t nonce; /* of the session's HELLO */
	uint32_t interval_ms, lease_ms;
	uint64_t last_rx_us, pending_since_us;
	bool stale_seen; /* the agent believes in a session that is over */

	struct bucket frames, bytes;
	uint64_t penalty_us, penalty_until_us, last_violation_us;
	struct peer_stats stats;
};

/**
 * peer_init() - before anything else; allocates nothing
 */
void peer_init(struct peer *p, struct loop *l, const struct peer_ops *ops,
	       uint32_t interval_ms, uint32_t lease_ms);

/**
 * peer_open() - a connected stream socket; sends SYNC
 * @fd: the peer's from now on, also on failure
 */
int peer_open(struct peer *p, int fd, uint64_t now_us);

/**
 * peer_close() - end session and connection, without calling ops->closed
 */
void peer_close(struct peer *p, enum bye_reason reason, const char *text);

/**
 * peer_send() - one message; session and sequence number are filled in
 *
 * Return: 0; -ENOTCONN without a session; -EMSGSIZE, -EINVAL of msg_encode();
 * -ENOBUFS when the guest does not read, after which the session is down.
 */
int peer_send(struct peer *p, struct msg *m);

/**
 * peer_tick() - penalties that end, silence, pending frames; each second
 */
void peer_tick(struct peer *p, uint64_t now_us);

#endif
