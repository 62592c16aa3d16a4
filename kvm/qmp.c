// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * DOC: QMP client, theory of operation
 *
 * QEMU greets, we answer qmp_capabilities, and from then on lines of JSON come
 * in: events, and answers that carry the id of their command. On QMP_READY
 * the state is asked for once (query-status, query-migrate, query-chardev);
 * after that events keep it up to date. Both come through one stream, in
 * order, so the newest word is the right one.
 *
 * The agent's port is known to VSERPORT_CHANGE by a device id only, which is
 * whoever started QEMU's choice. Where we were not told it, the event makes us
 * ask query-chardev, which names sockets by their path.
 *
 * Bytes are cut into lines of bounded length, and the nesting of a line is
 * checked before jansson recurses into it. What is not QMP ends the
 * connection; an event or a member that we don't know is nothing special, QEMU
 * grows new ones each release.
 */
#include <errno.h>
#include <string.h>

#include "proto.h"
#include "qmp.h"
#include "util.h"

/* query-migrate nests 3 deep, query-memory-devices 3, query-stats 5. */
#define DEPTH_MAX 16

enum pending_kind {
	PENDING_CALLER,
	PENDING_CAPABILITIES,
	PENDING_STATUS,
	PENDING_MIGRATE,
	PENDING_CHARDEV,
};

/*
 * A QMP connection is as good as QEMU's process. We only look: above all no
 * human-monitor-command, which would be a way around any list.
 */
static const char *const allowed[] = {
	"query-balloon",	"query-chardev", "query-kvm",  "query-memdev",
	"query-memory-devices", "query-migrate", "query-name", "query-stats",
	"query-status",		"query-uuid",
};

static int broken(struct qmp *q, const char *what)
{
	q->stage = QMP_BROKEN;
	q->what = what;
	q->in_len = 0;
	q->out_len = 0;
	return -EPROTO;
}

static void tell(struct qmp *q, enum qmp_event event)
{
	if (q->ops && q->ops->event)
		q->ops->event(q->ctx, q, event);
}

static void run_set(struct qmp *q, enum qmp_run run)
{
	if (q->run == run)
		return;
	q->run = run;
	tell(q, QMP_EVENT_RUN);
}

static void port_set(struct qmp *q, bool open)
{
	enum qmp_port port = open ? QMP_PORT_OPEN : QMP_PORT_CLOSED;

	if (q->port == port)
		return;
	q->port = port;
	tell(q, QMP_EVENT_PORT);
}

/*
 * Anything between the start and the end of a migration, so the states that
 * are an end are listed: an unknown new one then errs towards quiet.
 */
static void migration_set(struct qmp *q, const char *status)
{
	static const char *const over[] = {"none", "completed", "failed",
					   "cancelled"};
	bool migrating = true;

	for (size_t i = 0; i < ARRAY_SIZE(over); i++) {
		if (strcmp(status, over[i]) == 0)
			migrating = false;
	}
	if (q->migrating == migrating)
		return;
	q->migrating = migrating;
	tell(q, QMP_EVENT_MIGRATION);
}

static struct qmp_pending *pending_find(struct qmp *q, uint64_t id)
{
	for (size_t i = 0; i < QMP_PENDING_MAX; i++) {
		if (q->pending[i].id == id)
			return &q->pending[i];
	}
	return NULL;
}

static bool kind_is_pending(const struct qmp *q, enum pending_kind kind)
{
	for (size_t i = 0; i < QMP_PENDING_MAX; i++) {
		if (q->pending[i].id && q->pending[i].kind == kind)
			return true;
	}
	return false;
}

static int command_queue(struct qmp *q, const char *name, json_t *args,
			 enum pending_kind kind, uint64_t *ret_id)
{
	size_t room = QMP_OUT_MAX - q->out_len, len;
	struct qmp_pending *p = pending_find(q, 0);
	uint64_t id = q->next_id;
	json_t *cmd;

	if (!p)
		return -EBUSY;
	cmd = json_pack("{s:s, s:O*, s:I}", "execute", name, "arguments", args,
			"id", (json_int_t)id);
	if (!cmd)
		return -ENOMEM;
	len = json_dumpb(cmd, q->out + q->out_len, room, JSON_COMPACT);
	json_decref(cmd);
	if (len == 0 || len >= room) /* one byte more for the line's end */
		return -EBUSY;
	q->out[q->out_len + len] = '\n';
	q->out_len += len + 1;
	q->next_id = id < INT64_MAX ? id + 1 : 1;
	p->id = id;
	p->kind = kind;
	if (ret_id)
		*ret_id = id;
	return 0;
}

/* A query of our own, unless the same one is under way. */
static int query(struct qmp *q, const char *name, enum pending_kind kind)
{
	if (kind_is_pending(q, kind))
		return 0;
	return command_queue(q, name, NULL, kind, NULL);
}

int qmp_refresh(struct qmp *q)
{
	int r;

	if (q->stage != QMP_READY)
		return -ENOTCONN;
	r = query(q, "query-status", PENDING_STATUS);
	if (r == 0)
		r = query(q, "query-migrate", PENDING_MIGRATE);
	if (r == 0 && q->channel[0])
		r = query(q, "query-chardev", PENDING_CHARDEV);
	return r;
}

int qmp_command(struct qmp *q, const char *name, json_t *args, uint64_t *ret_id)
{
	for (size_t i = 0; i < ARRAY_SIZE(allowed); i++) {
		if (strcmp(name, allowed[i]) != 0)
			continue;
		if (q->stage != QMP_READY)
			return -ENOTCONN;
		return command_queue(q, name, args, PENDING_CALLER, ret_id);
	}
	return -EPERM;
}

static int answer_status(struct qmp *q, const json_t *ret)
{
	const json_t *running = json_object_get(ret, "running");

	if (!json_is_boolean(running))
		return broken(q, "query-status: running is no boolean");
	run_set(q, json_is_true(running) ? QMP_RUNNING : QMP_STOPPED);
	return 0;
}

static int answer_migrate(struct qmp *q, const json_t *ret)
{
	const json_t *status = json_object_get(ret, "status");

	if (!json_is_object(ret))
		return broken(q, "query-migrate: no object");
	if (status && !json_is_string(status))
		return broken(q, "query-migrate: status is no string");
	/* nothing in it: there never was a migration */
	migration_set(q, status ? json_string_value(status) : "none");
	return 0;
}

/* "unix:PATH,server=on", "disconnected:unix:PATH,server=on" and the like */
static bool chardev_is(const char *filename, const char *path)
{
	const char *at = strstr(filename, "unix:");
	size_t len = strlen(path);

	if (!at || strncmp(at + 5, path, len) != 0)
		return false;
	at += 5 + len;
	return *at == '\0' || *at == ',' || *at == ' ';
}

static int answer_chardev(struct qmp *q, const json_t *ret)
{
	size_t i;
	json_t *dev;

	if (!json_is_array(ret))
		return broken(q, "query-chardev: no array");
	json_array_foreach(ret, i, dev)
	{
		const json_t *open = json_object_get(dev, "frontend-open");
		const char *filename =
			json_string_value(json_object_get(dev, "filename"));

		if (!filename || !json_is_boolean(open))
			return broken(q, "query-chardev: member missing");
		if (q->channel[0] && chardev_is(filename, q->channel))
			port_set(q, json_is_true(open));
	}
	return 0;
}

static int negotiated(struct qmp *q, const json_t *ret)
{
	if (!ret)
		return broken(q, "qmp_capabilities was refused");
	q->stage = QMP_READY;
	tell(q, QMP_EVENT_READY);
	/* cannot fail: nothing else is under way, and the buffer is empty or
	 * holds what the event's handler queued, which leaves places */
	(void)qmp_refresh(q);
	return 0;
}

static int answer_take(struct qmp *q, enum pending_kind kind, uint64_t id,
		       json_t *ret, const char *error)
{
	switch (kind) {
	case PENDING_CALLER:
		if (q->ops && q->ops->answer)
			q->ops->answer(q->ctx, q, id, ret, error);
		return 0;
	case PENDING_CAPABILITIES:
		return negotiated(q, ret);
	case PENDING_STATUS:
		return ret ? answer_status(q, ret) : 0;
	case PENDING_MIGRATE:
		return ret ? answer_migrate(q, ret) : 0;
	case PENDING_CHARDEV:
		return ret ? answer_chardev(q, ret) : 0;
	}
	return 0;
}

static int line_answer(struct qmp *q, json_t *msg, json_t *ret)
{
	const json_t *id = json_object_get(msg, "id");
	const json_t *error = json_object_get(msg, "error");
	const char *class = NULL;
	struct qmp_pending *p = NULL;
	struct qmp_pending was;

	if (!ret) {
		class = json_string_value(json_object_get(error, "class"));
		if (!class)
			return broken(q, "error without a class");
	}
	if (json_is_integer(id) && json_integer_value(id) > 0)
		p = pending_find(q, (uint64_t)json_integer_value(id));
	if (!p) {
		q->stray_answers++;
		return 0;
	}
	was = *p;
	p->id = 0;
	return answer_take(q, was.kind, was.id, ret, class);
}

static int event_port(struct qmp *q, const json_t *data)
{
	const json_t *open = json_object_get(data, "open");
	const char *id = json_string_value(json_object_get(data, "id"));

	if (!id || !json_is_boolean(open))
		return broken(q, "VSERPORT_CHANGE: member missing");
	if (q->port_id[0]) {
		if (strcmp(id, q->port_id) == 0)
			port_set(q, json_is_true(open));
	} else if (strcmp(id, PROTO_PORT_NAME) == 0) {
		port_set(q, json_is_true(open));
	} else if (q->channel[0] && q->stage == QMP_READY) {
		/* busy: qmp_refresh() will tell, a little later */
		(void)query(q, "query-chardev", PENDING_CHARDEV);
	}
	return 0;
}

static int event_migration(struct qmp *q, const json_t *data)
{
	const char *status = json_string_value(json_object_get(data, "status"));

	if (!status)
		return broken(q, "MIGRATION: status missing");
	migration_set(q, status);
	return 0;
}

static int event_balloon(struct qmp *q, const json_t *data)
{
	const json_t *actual = json_object_get(data, "actual");

	if (!json_is_integer(actual) || json_integer_value(actual) < 0)
		return broken(q, "BALLOON_CHANGE: actual is no size");
	q->balloon_bytes = (uint64_t)json_integer_value(actual);
	tell(q, QMP_EVENT_BALLOON);
	return 0;
}

static int event_stopped(struct qmp *q, const json_t *data)
{
	(void)data;
	run_set(q, QMP_STOPPED);
	return 0;
}

static int event_running(struct qmp *q, const json_t *data)
{
	(void)data;
	run_set(q, QMP_RUNNING);
	return 0;
}

static int event_shutdown(struct qmp *q, const json_t *data)
{
	(void)data;
	tell(q, QMP_EVENT_SHUTDOWN);
	run_set(q, QMP_STOPPED);
	return 0;
}

static int event_reset(struct qmp *q, const json_t *data)
{
	(void)data;
	tell(q, QMP_EVENT_RESET);
	return 0;
}

static int event_device(struct qmp *q, const json_t *data)
{
	(void)data;
	tell(q, QMP_EVENT_DEVICE);
	return 0;
}

static const struct {
	const char *name;
	int (*take)(struct qmp *q, const json_t *data);
} event_table[] = {
	{"STOP", event_stopped},
	{"RESUME", event_running},
	{"SUSPEND", event_stopped}, /* ACPI sleep: the agent sleeps too */
	{"WAKEUP", event_running},
	{"SHUTDOWN", event_shutdown},
	{"RESET", event_reset},
	{"MIGRATION", event_migration},
	{"VSERPORT_CHANGE", event_port},
	{"BALLOON_CHANGE", event_balloon},
	{"DEVICE_DELETED", event_device},
	{"DEVICE_UNPLUG_GUEST_ERROR", event_device},
	{"MEMORY_DEVICE_SIZE_CHANGE", event_device},
};

static int line_event(struct qmp *q, const json_t *event, const json_t *data)
{
	if (!json_is_string(event))
		return broken(q, "event is no string");
	if (data && !json_is_object(data))
		return broken(q, "event's data is no object");
	q->events++;
	for (size_t i = 0; i < ARRAY_SIZE(event_table); i++) {
		if (strcmp(event_table[i].name, json_string_value(event)) == 0)
			return event_table[i].take(q, data);
	}
	q->unknown_events++;
	return 0;
}

static int line_greeting(struct qmp *q, const json_t *msg)
{
	if (!json_is_object(json_object_get(msg, "QMP")))
		return broken(q, "no QMP greeting");
	q->stage = QMP_NEGOTIATING;
	return command_queue(q, "qmp_capabilities", NULL, PENDING_CAPABILITIES,
			     NULL);
}

static int line_take(struct qmp *q, json_t *msg)
{
	json_t *ret;

	if (!json_is_object(msg))
		return broken(q, "a line is no object");
	if (q->stage == QMP_GREETING)
		return line_greeting(q, msg);
	if (json_object_get(msg, "event"))
		return line_event(q, json_object_get(msg, "event"),
				  json_object_get(msg, "data"));
	ret = json_object_get(msg, "return");
	if (ret || json_object_get(msg, "error"))
		return line_answer(q, msg, ret);
	return broken(q, "neither event nor answer");
}

static bool depth_ok(const char *s, size_t len)
{
	bool in_string = false;
	unsigned int depth = 0;

	for (size_t i = 0; i < len; i++) {
		if (in_string) {
			if (s[i] == '\\')
				i++;
			else if (s[i] == '"')
				in_string = false;
			continue;
		}
		if (s[i] == '"')
			in_string = true;
		else if ((s[i] == '{' || s[i] == '[') && ++depth > DEPTH_MAX)
			return false;
		else if ((s[i] == '}' || s[i] == ']') && depth)
			depth--;
	}
	return true;
}

static int line_parse(struct qmp *q, const char *s, size_t len)
{
	json_error_t error;
	json_t *msg;
	int r;

	while (len && (s[len - 1] == '\r' || s[len - 1] == ' '))
		len--;
	if (!len)
		return 0;
	if (!depth_ok(s, len))
		return broken(q, "JSON nested too deep");
	msg = json_loadb(s, len, 0, &error);
	/* QEMU prints unsigned 64-bit figures, jansson's are signed: those
	 * that don't fit are read as reals, and ours are never among them */
	if (!msg && json_error_code(&error) == json_error_numeric_overflow)
		msg = json_loadb(s, len, JSON_DECODE_INT_AS_REAL, &error);
	if (!msg)
		return broken(q, "a line is no JSON");
	r = line_take(q, msg);
	json_decref(msg);
	return r;
}

int qmp_feed(struct qmp *q, const void *bytes, size_t len)
{
	const char *s = bytes;
	int r;

	if (q->stage == QMP_BROKEN)
		return -EPROTO;
	while (len) {
		const char *nl = memchr(s, '\n', len);
		size_t n = nl ? (size_t)(nl - s) : len;

		if (n > QMP_LINE_MAX - q->in_len)
			return broken(q, "a line is too long");
		memcpy(q->in + q->in_len, s, n);
		q->in_len += n;
		if (!nl)
			return 0;
		r = line_parse(q, q->in, q->in_len);
		if (r < 0)
			return r;
		q->in_len = 0;
		s += n + 1;
		len -= n + 1;
	}
	return 0;
}

const char *qmp_output(const struct qmp *q, size_t *ret_len)
{
	*ret_len = q->out_len;
	return q->out;
}

void qmp_sent(struct qmp *q, size_t len)
{
	len = MIN(len, q->out_len);
	memmove(q->out, q->out + len, q->out_len - len);
	q->out_len -= len;
}

int qmp_init(struct qmp *q, const char *channel, const char *port_id,
	     const struct qmp_ops *ops, void *ctx)
{
	size_t channel_len = strlen(channel), id_len = strlen(port_id);

	if (channel_len >= sizeof(q->channel) || id_len >= sizeof(q->port_id))
		return -EINVAL;
	/* the buffers are not worth clearing */
	memset(q, 0, offsetof(struct qmp, in));
	memcpy(q->channel, channel, channel_len);
	memcpy(q->port_id, port_id, id_len);
	q->ops = ops;
	q->ctx = ctx;
	q->next_id = 1;
	return 0;
}
