// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "act.h"
#include "control.h"
#include "log.h"
#include "proto_codec.h"
#include "recording.h"
#include "status.h"
#include "status_map.h"
#include "util.h"

#define COMPACT_TIME_DEFAULT_US (120 * SEC_US)
#define COMPACT_TIME_MAX_US	(3600 * SEC_US)

struct client {
	struct control *c;
	int fd; /* -1: free */
	struct source in, out;
	uint64_t serial; /* of the connection: the slot is used again */
	bool may_change;
	bool closing; /* when the output is sent */
	char line[CONTROL_LINE_MAX];
	size_t line_len;
	char *out_buf;
	size_t out_len, out_sent;
	struct job *job;
	uint64_t recorded; /* serial of the VM; 0: none */
	bool wants_blocks; /* "nodes" is answered once they were looked at */
};

struct control {
	struct manager *m;
	struct source listen;
	uid_t owner;
	struct log_limit log;
	uint64_t next_serial;
	struct client client[CONTROL_CLIENTS_MAX];
};

static void record_end(struct client *cl)
{
	struct vm *v = manager_vm_by_serial(cl->c->m, cl->recorded);

	if (cl->recorded && v)
		v->nr_recorders--;
	cl->recorded = 0;
}

static void client_close(struct client *cl)
{
	struct loop *l = cl->c->m->loop;

	if (cl->fd < 0)
		return;
	record_end(cl);
	if (cl->job) {
		job_abandon(cl->job);
		cl->job = NULL;
	}
	loop_remove(l, &cl->in);
	loop_remove(l, &cl->out);
	close(cl->fd);
	cl->fd = -1;
	free(cl->out_buf);
	cl->out_buf = NULL;
	cl->out_len = 0;
	cl->out_sent = 0;
	cl->line_len = 0;
}

/* --- output
 * ------------------------------------------------------------------- */

static void client_flush(struct client *cl)
{
	struct loop *l = cl->c->m->loop;

	while (cl->out_sent < cl->out_len) {
		ssize_t n = send(cl->fd, cl->out_buf + cl->out_sent,
				 cl->out_len - cl->out_sent,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			if (!source_active(&cl->out))
				loop_watch(l, &cl->out, cl->fd, POLLOUT);
			return;
		}
		if (n < 0) {
			client_close(cl);
			return;
		}
		cl->out_sent += (size_t)n;
	}
	free(cl->out_buf);
	cl->out_buf = NULL;
	cl->out_len = 0;
	cl->out_sent = 0;
	loop_remove(l, &cl->out);
	if (cl->closing)
		client_close(cl);
}

static void on_writable(struct source *s, unsigned int revents)
{
	(void)revents;
	client_flush(container_of(s, struct client, out));
}

/* Queue one line; consumes @o. */
static void client_send(struct client *cl, json_t *o)
{
	auto_free char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	char *grown;
	size_t len;

	json_decref(o);
	if (cl->fd < 0)
		return;
	if (!text) {
		client_close(cl); /* out of memory */
		return;
	}
	len = strlen(text);
	if (cl->out_len + len + 1 > CONTROL_OUT_MAX) {
		client_close(cl); /* does not read */
		return;
	}
	grown = realloc(cl->out_buf, cl->out_len + len + 1);
	if (!grown) {
		client_close(cl);
		return;
	}
	cl->out_buf = grown;
	memcpy(cl->out_buf + cl->out_len, text, len);
	cl->out_len += len;
	cl->out_buf[cl->out_len++] = '\n';
	client_flush(cl);
}

static void client_error(struct client *cl, const char *fmt, ...)
	printf_like(2, 3);

static void client_error(struct client *cl, const char *fmt, ...)
{
	char text[256], clean[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	text_copy_printable(clean, sizeof(clean), text);
	client_send(cl, json_pack("{s:b, s:b, s:s}", "ok", false, "done", true,
				  "error", clean));
}

/* --- commands
 * -------------------------------------------------------------------- */

static const char *text_of(const json_t *req, const char *key)
{
	return json_string_value(json_object_get(req, key));
}

/* The VM that "vm" names; answers the client itself where there is none. */
static struct vm *vm_of(struct client *cl, const json_t *req)
{
	const char *name = text_of(req, "vm");
	struct vm *v;

	if (!name) {
		client_error(cl, "which VM? \"vm\" is missing");
		return NULL;
	}
	v = manager_vm(cl->c->m, name);
	if (!v)
		client_error(cl,
			     "no VM '%.64s'; 'vmdefragctl status' lists "
			     "those that are known",
			     name);
	return v;
}

static void cmd_status(struct client *cl, const json_t *req)
{
	json_t *o = status_all(cl->c->m, now_us());

	(void)req;
	if (o)
		json_object_set_new(o, "ok", json_true());
	client_send(cl, o);
}

static void cmd_explain(struct client *cl, const json_t *req)
{
	struct vm *v = vm_of(cl, req);

	if (v)
		client_send(cl, json_pack("{s:b, s:s, s:o}", "ok", true, "vm",
					  v->cfg.name, "lines",
					  explain_vm(v, now_us())));
}

static void cmd_map(struct client *cl, const json_t *req)
{
	struct vm *v = vm_of(cl, req);
	json_t *o = v ? status_map(v, now_us()) : NULL;

	if (!v)
		return;
	if (o)
		json_object_set_new(o, "ok", json_true());
	client_send(cl, o);
}

static void cmd_history(struct client *cl, const json_t *req)
{
	struct vm *v = vm_of(cl, req);

	if (v)
		client_send(cl, json_pack("{s:b, s:s, s:o}", "ok", true, "vm",
					  v->cfg.name, "history",
					  status_history(v)));
}

static void cmd_dump_config(struct client *cl, const json_t *req)
{
	auto_free char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	(void)req;
	if (!f) {
		client_error(cl, "out of memory");
		return;
	}
	config_dump(cl->c->m->cfg, f);
	fclose(f);
	client_send(cl, json_pack("{s:b, s:s}", "ok", true, "text", text));
}

static void cmd_pause_resume(struct client *cl, const json_t *req, bool paused)
{
	const char *name = text_of(req, "vm");
	int r;

	if (name && !vm_of(cl, req))
		return;
	r = manager_pause(cl->c->m, name, paused, now_us());
	if (r < 0)
		client_error(cl,
			     "in force now, but cannot be kept over a "
			     "restart: %s",
			     strerror(-r));
	else
		client_send(cl, json_pack("{s:b, s:b}", "ok", true, "paused",
					  paused));
}

static void cmd_pause(struct client *cl, const json_t *req)
{
	cmd_pause_resume(cl, req, true);
}

static void cmd_resume(struct client *cl, const json_t *req)
{
	cmd_pause_resume(cl, req, false);
}

/* An optional whole number within [lo, hi]. */
static bool number_of(struct client *cl, const json_t *req, const char *key,
		      json_int_t lo, json_int_t hi, json_int_t *val)
{
	const json_t *o = json_object_get(req, key);

	if (!o || json_is_null(o))
		return true;
	if (!json_is_integer(o) || json_integer_value(o) < lo ||
	    json_integer_value(o) > hi) {
		client_error(cl,
			     "\"%s\" must be a whole number within "
			     "%lld..%lld",
			     key, (long long)lo, (long long)hi);
		return false;
	}
	*val = json_integer_value(o);
	return true;
}

static void cmd_compact(struct client *cl, const json_t *req)
{
	json_int_t blocks = ACTION_BLOCKS_ALL;
	json_int_t time_ms = COMPACT_TIME_DEFAULT_US / MSEC_US, order = 0;
	json_int_t hold_ms = 0;
	struct job_ask ask;
	const char *name = text_of(req, "backend"), *why = "";
	struct vm *v = vm_of(cl, req);
	int backend = BACKEND_AUTO, r;

	if (!v ||
	    !number_of(cl, req, "blocks", 1, ACTION_BLOCKS_ALL, &blocks) ||
	    !number_of(cl, req, "order", 1, PROTO_ORDERS_MAX - 1, &order) ||
	    !number_of(cl, req, "time_ms", 100, COMPACT_TIME_MAX_US / MSEC_US,
		       &time_ms) ||
	    !number_of(cl, req, "hold_ms", 0, ACTION_HOLD_MAX_MS, &hold_ms))
		return;
	if (cl->job) {
		client_error(cl, "this connection already waits for one");
		return;
	}
	if (name)
		backend = name_lookup(backend_name, BACKEND_COUNT, name);
	if (backend < 0) {
		client_error(cl, "no backend '%.32s'", name);
		return;
	}
	ask = (struct job_ask){
		.blocks = (uint32_t)blocks,
		.backend = (uint8_t)backend,
		.order = (uint8_t)order,
		.hold_ms = (uint32_t)hold_ms,
		.time_us = (uint64_t)time_ms * MSEC_US,
	};
	r = job_start(v, cl, &ask, now_us(), &cl->job, &why);
	if (r < 0)
		client_error(cl, "%s: %s", v->cfg.name, why);
}

static void send_nodes(struct client *cl)
{
	json_t *o = status_nodes(cl->c->m, now_us());

	if (o)
		json_object_set_new(o, "ok", json_true());
	client_send(cl, o);
}

/* From the manager: pageblocks of all nodes were looked at. */
static void blocks_done(struct manager *m)
{
	for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		struct client *cl = &m->control->client[i];

		if (cl->fd < 0 || !cl->wants_blocks)
			continue;
		cl->wants_blocks = false;
		send_nodes(cl);
	}
}

static void cmd_nodes(struct client *cl, const json_t *req)
{
	struct manager *m = cl->c->m;

	if (!json_is_true(json_object_get(req, "blocks"))) {
		send_nodes(cl);
		return;
	}
	if (!cl->may_change) {
		client_error(cl, "a look at all pageblocks costs CPU time: "
				 "only root may ask for it");
		return;
	}
	cl->wants_blocks = true;
	nodeblocks_start(m, m->cfg->blocks_max_words);
}

/* The client that a cookie stands for, if it is still the same. */
static struct client *client_of(struct control *c, uint64_t cookie)
{
	struct client *cl = &c->client[cookie % CONTROL_CLIENTS_MAX];

	return cl->fd >= 0 && cl->serial == cookie / CONTROL_CLIENTS_MAX ? cl
									 : NULL;
}

static void node_compacted(void *ctx, uint64_t cookie, int result,
			   const struct ipc_msg *m, int fd)
{
	struct control *c = ctx;
	struct client *cl = client_of(c, cookie);

	if (fd >= 0)
		close(fd);
	if (!cl)
		return;
	if (result < 0) {
		client_error(cl, "compaction of the node: %s",
			     result == -EBUSY ? "another one runs"
					      : strerror(-result));
		return;
	}
	client_send(cl, json_pack("{s:b, s:b, s:I, s:I, s:I, s:I}", "ok", true,
				  "done", true, "node",
				  (json_int_t)m->compact.node, "blocks_before",
				  (json_int_t)m->compact.blocks_before,
				  "blocks_after",
				  (json_int_t)m->compact.blocks_after, "cpu_us",
				  (json_int_t)m->compact.cpu_us));
}

static void cmd_compact_node(struct client *cl, const json_t *req)
{
	struct manager *m = cl->c->m;
	struct ipc_msg q = {.op = IPC_NODE_COMPACT};
	json_int_t node = -1, blocks = 0, time_ms = 60000;
	int r;

	if (!number_of(cl, req, "node", 0, IPC_NODES_MAX - 1, &node) ||
	    !number_of(cl, req, "blocks", 1, UINT32_MAX, &blocks) ||
	    !number_of(cl, req, "time_ms", 100, IPC_COMPACT_MAX_US / MSEC_US,
		       &time_ms))
		return;
	if (node < 0 || hostview_find(&m->nodes.view, (uint32_t)node) < 0) {
		client_error(cl, "no such node of this host; 'vmdefragctl "
				 "nodes' lists them");
		return;
	}
	q.compact.node = (uint32_t)node;
	q.compact.order = m->nodes.pmd_order;
	q.compact.blocks = blocks ? (uint64_t)blocks : UINT64_MAX;
	q.compact.max_time_us = (uint64_t)time_ms * MSEC_US;
	r = link_call(&m->link[ROLE_KNOBS], &q,
		      now_us() + q.compact.max_time_us + 5 * SEC_US,
		      node_compacted, cl->c,
		      cl->serial * CONTROL_CLIENTS_MAX +
			      (uint64_t)(cl - cl->c->client));
	if (r < 0)
		client_error(cl, "the knob writer cannot be asked: %s",
			     strerror(-r));
}

static void cmd_cancel(struct client *cl, const json_t *req)
{
	(void)req;
	if (!cl->job)
		client_error(cl, "nothing to cancel");
	else
		act_cancel(cl->job->vm);
}

/* From a VM: a line for each client that records it. */
static void record_line(struct manager *m, const struct vm *v, json_t *line)
{
	struct control *c = m->control;

	for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		struct client *cl = &c->client[i];

		if (cl->fd < 0 || cl->recorded != v->serial)
			continue;
		if (line) {
			client_send(cl, json_incref(line));
			continue;
		}
		record_end(cl);
		client_error(cl, "%s is served no more", v->cfg.name);
	}
	json_decref(line);
}

static void cmd_record(struct client *cl, const json_t *req)
{
	struct vm *v = vm_of(cl, req);
	struct config cfg = *cl->c->m->cfg;
	auto_free char *text = NULL;
	size_t len;
	FILE *f;

	if (!v)
		return;
	if (cl->recorded || cl->job) {
		client_error(cl, "this connection is in use already");
		return;
	}
	f = open_memstream(&text, &len);
	if (!f) {
		client_error(cl, "out of memory");
		return;
	}
	cfg.nr_vms = 0; /* other VMs are nobody's business */
	config_dump(&cfg, f);
	fclose(f);
	client_send(cl, recording_header(v->cfg.name, v->cfg.mode, text));
	if (cl->fd < 0)
		return;
	cl->recorded = v->serial;
	v->nr_recorders++;
	vm_record_begin(v, now_us());
}

/* From the manager: something about a job of one of our clients. */
static void job_event(struct job *j, const struct job_event *ev)
{
	struct client *cl = j->client;
	json_t *o = NULL;

	switch (ev->kind) {
	case JOB_STARTED:
		o = json_pack("{s:s, s:i}", "event", "started", "node",
			      ev->action->node);
		break;
	case JOB_PROGRESS:
		o = json_pack("{s:s, s:I, s:I}", "event", "progress",
			      "free_blocks", (json_int_t)ev->free_blocks,
			      "free_pages", (json_int_t)ev->free_pages);
		break;
	case JOB_RESULT:
		o = status_result(ev->result);
		if (o)
			json_object_set_new(o, "event", json_string("result"));
		break;
	case JOB_DONE:
		cl->job = NULL; /* freed after this call */
		o = json_pack("{s:s, s:b, s:s, s:I, s:I}", "event", "done",
			      "done", true, "text", ev->text, "free_blocks",
			      (json_int_t)ev->free_blocks, "free_pages",
			      (json_int_t)ev->free_pages);
		if (o && !ev->ok)
			json_object_set_new(o, "error", json_string(ev->text));
		break;
	}
	if (o)
		json_object_set_new(
			o, "ok", json_boolean(ev->kind != JOB_DONE || ev->ok));
	client_send(cl, o);
}

static const struct {
	const char *name;
	bool changes;
	void (*run)(struct client *cl, const json_t *req);
} commands[] = {
	{"status", false, cmd_status},
	{"explain", false, cmd_explain},
	{"map", false, cmd_map},
	{"history", false, cmd_history},
	{"dump-config", false, cmd_dump_config},
	{"record", false, cmd_record},
	{"nodes", false, cmd_nodes},
	{"compact-node", true, cmd_compact_node},
	{"compact", true, cmd_compact},
	{"cancel", true, cmd_cancel},
	{"pause", true, cmd_pause},
	{"resume", true, cmd_resume},
};

static void request(struct client *cl, const char *line, size_t len)
{
	json_error_t err;
	json_t *req = json_loadb(line, len, JSON_REJECT_DUPLICATES, &err);
	const char *cmd = text_of(req, "cmd");

	if (!cmd) {
		client_error(cl, "a request is a JSON object with \"cmd\"%s%s",
			     req ? "" : ": ", req ? "" : err.text);
		json_decref(req);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (strcmp(commands[i].name, cmd))
			continue;
		if (commands[i].changes && !cl->may_change)
			client_error(cl,
				     "'%s' changes something: only root "
				     "may ask for it",
				     cmd);
		else
			commands[i].run(cl, req);
		json_decref(req);
		return;
	}
	client_error(cl, "unknown command '%.32s'", cmd);
	json_decref(req);
}

/* --- input
 * -------------------------------------------------------------------------- */

static void on_input(struct source *s, const uint8_t *buf, long n)
{
	struct client *cl = container_of(s, struct client, in);

	if (n <= 0) {
		client_close(cl);
		return;
	}
	for (long i = 0; i < n && cl->fd >= 0 && !cl->closing; i++) {
		if (buf[i] != '\n') {
			if (cl->line_len < CONTROL_LINE_MAX) {
				cl->line[cl->line_len++] = (char)buf[i];
				continue;
			}
			cl->closing = true;
			client_error(cl, "request longer than %d bytes",
				     CONTROL_LINE_MAX);
			return;
		}
		request(cl, cl->line, cl->line_len);
		cl->line_len = 0;
	}
}

static bool peer_may_change(const struct control *c, int fd)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return false;
	return cred.uid == 0 || cred.uid == c->owner;
}

static struct client *client_free_slot(struct control *c)
{
	for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		if (c->client[i].fd < 0)
			return &c->client[i];
	}
	return NULL;
}

static void on_client(struct source *s, int fd)
{
	struct control *c = container_of(s, struct control, listen);
	unsigned int missed;
	struct client *cl;

	if (fd < 0) {
		if (log_limit_pass(&c->log, now_us(), &missed))
			log_warn_errno(fd, "Cannot accept a control client");
		return;
	}
	cl = client_free_slot(c);
	if (!cl) {
		static const char full[] =
			"{\"ok\":false,\"done\":true,\"error\":"
			"\"too many control clients\"}\n";

		(void)send(fd, full, sizeof(full) - 1,
			   MSG_DONTWAIT | MSG_NOSIGNAL);
		close(fd);
		return;
	}
	cl->fd = fd;
	cl->serial = ++c->next_serial;
	cl->may_change = peer_may_change(c, fd);
	cl->closing = false;
	cl->job = NULL;
	cl->recorded = 0;
	cl->wants_blocks = false;
	if (loop_recv(c->m->loop, &cl->in, fd) < 0)
		client_close(cl);
}

int control_open(struct manager *m, int listen_fd, struct control **ret_ctl)
{
	struct control *c = calloc(1, sizeof(*c));
	struct stat st;
	int r;

	if (!c)
		return -ENOMEM;
	c->m = m;
	c->log = (struct log_limit){.interval_us = 10 * SEC_US, .burst = 3};
	c->listen.on_accept = on_client;
	/* who owns the run directory started the daemon */
	c->owner = stat(m->cfg->run_dir, &st) ? 0 : st.st_uid;
	for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++) {
		struct client *cl = &c->client[i];

		cl->c = c;
		cl->fd = -1;
		cl->in.on_recv = on_input;
		cl->out.on_ready = on_writable;
	}
	m->job_event = job_event;
	m->record = record_line;
	m->nodeblocks.done = blocks_done;
	m->control = c;
	r = loop_accept(m->loop, &c->listen, listen_fd);
	if (r < 0) {
		free(c);
		return r;
	}
	*ret_ctl = c;
	return 0;
}

void control_close(struct control *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < CONTROL_CLIENTS_MAX; i++)
		client_close(&c->client[i]);
	loop_remove(c->m->loop, &c->listen);
	free(c);
}
