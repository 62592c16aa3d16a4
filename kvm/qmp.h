/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A client of QEMU's machine protocol (QMP) that does no I/O: the caller moves
 * bytes, this keeps the state. QEMU serves the guest, so what it says is not
 * trusted either: sizes, depth and types are checked.
 *
 * Read-only by construction: qmp_command() sends what is on a list of
 * queries, and nothing else.
 */
#ifndef VMDEFRAG_QMP_H
#define VMDEFRAG_QMP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The longest line that we cause is query-chardev's answer: under 200 bytes a
 * device, and QEMU has few hundred. (query-qmp-schema's 180 KiB is never
 * asked for.)
 */
#define QMP_LINE_MAX 65536u
/* Our commands are under 300 bytes each, and few are under way at a time. */
#define QMP_OUT_MAX	4096u
#define QMP_PENDING_MAX 8u
#define QMP_PATH_MAX	108u /* of a unix socket: unix(7) */
#define QMP_ID_MAX	64u

enum qmp_stage {
	QMP_GREETING,	 /* nothing has come yet */
	QMP_NEGOTIATING, /* qmp_capabilities is under way */
	QMP_READY,
	QMP_BROKEN, /* qmp_feed() returned -EPROTO: close, start anew */
};

enum qmp_run { QMP_RUN_UNKNOWN, QMP_RUNNING, QMP_STOPPED };
enum qmp_port { QMP_PORT_UNKNOWN, QMP_PORT_CLOSED, QMP_PORT_OPEN };

enum qmp_event {
	QMP_EVENT_READY,     /* negotiated; first answers are to come */
	QMP_EVENT_RUN,	     /* ->run changed */
	QMP_EVENT_MIGRATION, /* ->migrating changed */
	QMP_EVENT_PORT,	     /* ->port changed: the agent came or went */
	QMP_EVENT_RESET,     /* the guest begins anew */
	QMP_EVENT_SHUTDOWN,
	QMP_EVENT_BALLOON, /* ->balloon_bytes */
	QMP_EVENT_DEVICE,  /* a device came, went or changed its size */
	QMP_EVENT_COUNT
};

struct qmp;

/*
 * Called from within qmp_feed(); may call qmp_command() and qmp_refresh(),
 * not qmp_feed().
 */
struct qmp_ops {
	void (*event)(void *ctx, struct qmp *q, enum qmp_event event);
	/*
	 * @ret:   the answer, borrowed; NULL if QEMU refused
	 * @error: QEMU's error class then, borrowed
	 */
	void (*answer)(void *ctx, struct qmp *q, uint64_t id, json_t *ret,
		       const char *error);
};

struct qmp {
	enum qmp_stage stage;
	/* what is known of the VM */
	enum qmp_run run;
	enum qmp_port port;
	bool migrating;
	uint64_t balloon_bytes; /* 0: never changed */
	/* statistics */
	uint64_t events, unknown_events, stray_answers;

	const char *what; /* static: why stage is QMP_BROKEN */
	const struct qmp_ops *ops;
	void *ctx;
	char channel[QMP_PATH_MAX];
	char port_id[QMP_ID_MAX + 1];
	uint64_t next_id;
	struct qmp_pending {
		uint64_t id; /* 0: free */
		uint8_t kind;
	} pending[QMP_PENDING_MAX];
	size_t in_len, out_len;
	char in[QMP_LINE_MAX];
	char out[QMP_OUT_MAX];
};

/**
 * qmp_init() - for a new connection
 * @channel: socket path of the agent's channel, by which its port is found in
 *	     query-chardev; may be empty
 * @port_id: QEMU's id of the virtserialport, as in VSERPORT_CHANGE; may be
 *	     empty, then the channel is asked for after each such event
 *
 * Return: 0, or -EINVAL if one of the two is too long.
 */
int qmp_init(struct qmp *q, const char *channel, const char *port_id,
	     const struct qmp_ops *ops, void *ctx);

/**
 * qmp_feed() - bytes that came from QEMU
 *
 * Return: 0; -EPROTO once and for all if they are no QMP, with q->what.
 */
int qmp_feed(struct qmp *q, const void *bytes, size_t len);

/**
 * qmp_output() - bytes to send
 * @ret_len: 0: nothing
 *
 * Valid until the next call of any of these functions.
 */
const char *qmp_output(const struct qmp *q, size_t *ret_len);

/**
 * qmp_sent() - the first @len bytes of qmp_output() are gone
 */
void qmp_sent(struct qmp *q, size_t len);

/**
 * qmp_command() - queue a query
 * @args:   borrowed, or NULL
 * @ret_id: of the answer
 *
 * Return: 0; -EPERM if @name is not on the list; -ENOTCONN before QMP_READY;
 * -EBUSY if too many are under way or unsent.
 */
int qmp_command(struct qmp *q, const char *name, json_t *args,
		uint64_t *ret_id);

/**
 * qmp_refresh() - ask again for the state that events may not tell
 *
 * Migration events are sent only where somebody switched them on, and that
 * switch belongs to whoever migrates. So this is for a timer.
 *
 * Return: as qmp_command(); some of the queries may be under way even so.
 */
int qmp_refresh(struct qmp *q);

#endif
