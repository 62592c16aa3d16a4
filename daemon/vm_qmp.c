// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What QEMU says about a VM: whether it runs, migrates, and whether the guest
 * holds the agent's port open. A QMP socket that is silent or closed makes the
 * VM's state unknown, and nothing waits for it.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "log.h"
#include "manager.h"
#include "qmp.h"
#include "util.h"
#include "vm.h"

/* Migration events come only where somebody asked for them, so it is asked
 * for: twice within the two seconds in which a VM must be quiet. */
#define QMP_REFRESH_US (1 * SEC_US)
/* QEMU answers within milliseconds, unless it is stopped or busy saving. */
#define QMP_SILENT_US	     (3 * SEC_US)
#define QMP_DIAL_DEADLINE_US (4 * SEC_US)
#define QMP_RETRY_MIN_US     (500 * MSEC_US)
#define QMP_RETRY_MAX_US     (30 * SEC_US)

static void retry_later(struct vm *v, int error, uint64_t now_us)
{
	struct dial *d = &v->qmp_dial;

	d->opening = false;
	d->last_error = error;
	d->retry_us =
		CLAMP(2 * d->retry_us, QMP_RETRY_MIN_US, QMP_RETRY_MAX_US);
	d->retry_at_us = now_us + d->retry_us;
}

void vm_qmp_close(struct vm *v)
{
	if (v->qmp_fd < 0)
		return;
	loop_remove(v->m->loop, &v->qmp_src);
	close(v->qmp_fd);
	v->qmp_fd = -1;
	v->kvm.asked = false; /* no answer will come */
	v->kvm.qmp_has_none = false;
	free(v->qmp);
	v->qmp = NULL;
}

static void qmp_lost(struct vm *v, int error, const char *why)
{
	log_debug("%s: QMP: %s", v->cfg.name, why);
	vm_qmp_close(v);
	retry_later(v, error, now_us());
}

/* Bytes of ours are few and short; a QEMU that does not take them is stuck. */
static void flush(struct vm *v)
{
	for (;;) {
		const char *bytes;
		size_t len;
		ssize_t n;

		bytes = qmp_output(v->qmp, &len);
		if (!len)
			return;
		n = send(v->qmp_fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return; /* the rest with the next tick, or never */
		qmp_sent(v->qmp, (size_t)n);
	}
}

static void balloon_seen(struct vm *v, uint64_t bytes)
{
	uint64_t all = 0;

	for (uint32_t i = 0; i < v->map.slots.nr; i++)
		all += v->map.slots.slot[i].len;
	if (all > bytes)
		v->ballooned_kib = MAX(v->ballooned_kib, (all - bytes) / 1024);
}

static void dimms_ask(struct vm *v)
{
	/* too many under way: the next device event asks again */
	(void)qmp_command(v->qmp, "query-memory-devices", NULL, &v->dimms_id);
}

/* One of query-memory-devices; what is no RAM, or odd, is left out. */
static void dimm_take(struct vm *v, const json_t *device)
{
	const char *type = json_string_value(json_object_get(device, "type"));
	const json_t *data = json_object_get(device, "data");
	bool virtio_mem = type && !strcmp(type, "virtio-mem");
	const char *memdev = json_string_value(json_object_get(data, "memdev"));
	json_int_t gpa = json_integer_value(
		json_object_get(data, virtio_mem ? "memaddr" : "addr"));
	json_int_t bytes = json_integer_value(
		json_object_get(data, virtio_mem ? "max-size" : "size"));
	struct ipc_dimm *d;

	if (!type || !memdev || (!virtio_mem && strcmp(type, "dimm")) ||
	    gpa <= 0 || bytes <= 0 || v->nr_dimms == IPC_DIMMS_MAX)
		return;
	if (strrchr(memdev, '/'))
		memdev = strrchr(memdev, '/') + 1;
	d = &v->dimm[v->nr_dimms++];
	memset(d, 0, sizeof(*d));
	text_copy_printable(d->memdev, sizeof(d->memdev), memdev);
	d->gpa = (uint64_t)gpa;
	d->bytes = (uint64_t)bytes;
	d->virtio_mem = virtio_mem;
	if (!d->memdev[0])
		v->nr_dimms--;
}

static void dimms_take(struct vm *v, const json_t *ret)
{
	const json_t *device;
	size_t i;

	v->nr_dimms = 0;
	json_array_foreach(ret, i, device) dimm_take(v, device);
	vm_map_again(v, now_us());
}

static void on_event(void *ctx, struct qmp *q, enum qmp_event event)
{
	struct vm *v = ctx;

	switch (event) {
	case QMP_EVENT_READY:
		v->qmp_dial.retry_us = 0;
		v->qmp_dial.last_error = 0;
		dimms_ask(v);
		break;
	case QMP_EVENT_RUN:
		history_event(&v->history, "QEMU: %s",
			      q->run == QMP_RUNNING ? "running" : "stopped");
		break;
	case QMP_EVENT_MIGRATION:
		history_event(&v->history, "QEMU: migration %s",
			      q->migrating ? "began" : "ended");
		break;
	case QMP_EVENT_RESET:
		history_event(&v->history, "QEMU: guest was reset");
		break;
	case QMP_EVENT_SHUTDOWN:
		history_event(&v->history, "QEMU: guest shuts down");
		break;
	case QMP_EVENT_BALLOON:
		balloon_seen(v, q->balloon_bytes);
		vm_map_again(v, now_us());
		return;
	case QMP_EVENT_DEVICE:
		dimms_ask(v);
		vm_map_again(v, now_us());
		return;
	case QMP_EVENT_PORT:
	case QMP_EVENT_COUNT:
		return;
	}
	if (event == QMP_EVENT_MIGRATION)
		vm_map_again(v, now_us());
	if (event == QMP_EVENT_RUN || event == QMP_EVENT_MIGRATION)
		vm_decide(v, now_us());
}

static void on_answer(void *ctx, struct qmp *q, uint64_t id, json_t *ret,
		      const char *error)
{
	struct vm *v = ctx;
	struct kvm_pages pages;
	int r;

	(void)q;
	(void)error;
	if (id == v->dimms_id && ret)
		dimms_take(v, ret);
	if (id != v->kvm.query_id)
		return;
	v->kvm.asked = false;
	r = ret ? kvmstats_parse(ret, &pages) : -ENODATA;
	/* emulation, or a QEMU of before: debugfs may know */
	v->kvm.qmp_has_none = r < 0;
	if (r < 0)
		return;
	v->kvm.pages = pages;
	v->kvm.valid = true;
	v->kvm.by_qmp = true;
	v->kvm.last_error = 0;
	v->kvm.at_us = now_us();
}

static const struct qmp_ops ops = {.event = on_event, .answer = on_answer};

int vm_qmp_ask_kvm(struct vm *v)
{
	json_t *args;
	int r;

	if (v->qmp_fd < 0 || v->kvm.qmp_has_none)
		return -ENODATA;
	args = kvmstats_args();
	if (!args)
		return -ENOMEM;
	r = qmp_command(v->qmp, "query-stats", args, &v->kvm.query_id);
	json_decref(args);
	if (!r)
		flush(v);
	return r;
}

static void on_recv(struct source *s, const uint8_t *buf, long n)
{
	struct vm *v = container_of(s, struct vm, qmp_src);

	if (n <= 0) {
		qmp_lost(v, n < 0 ? (int)n : -ECONNRESET, "closed");
		return;
	}
	v->qmp_heard_us = now_us();
	if (qmp_feed(v->qmp, buf, (size_t)n) < 0) {
		log_warn("%s: QMP: %s; closing it", v->cfg.name, v->qmp->what);
		qmp_lost(v, -EPROTO, v->qmp->what);
		return;
	}
	flush(v);
}

static void opened(void *ctx, uint64_t cookie, int result,
		   const struct ipc_msg *m, int fd)
{
	struct vm *v = manager_vm_by_serial(ctx, cookie);
	uint64_t now = now_us();

	(void)m;
	if (!v || v->qmp_fd >= 0 || result < 0 || fd < 0) {
		if (fd >= 0)
			close(fd);
		if (v && v->qmp_fd < 0)
			retry_later(v, result < 0 ? result : -EPROTO, now);
		return;
	}
	v->qmp_dial.opening = false;
	v->qmp = malloc(sizeof(*v->qmp));
	v->qmp_fd = fd;
	v->qmp_heard_us = now;
	v->qmp_src.on_recv = on_recv;
	if (!v->qmp || qmp_init(v->qmp, v->cfg.channel, "", &ops, v) < 0 ||
	    loop_recv(v->m->loop, &v->qmp_src, fd) < 0)
		qmp_lost(v, -ENOMEM, "cannot be used");
}

static void dial(struct vm *v, uint64_t now_us)
{
	struct ipc_msg m = {.op = IPC_OPEN_SOCKET};
	struct dial *d = &v->qmp_dial;

	if (d->opening || now_us < d->retry_at_us)
		return;
	memcpy(m.open.path, v->cfg.qmp, sizeof(m.open.path));
	if (!link_call(&v->m->link[ROLE_HELPER], &m,
		       now_us + QMP_DIAL_DEADLINE_US, opened, v->m, v->serial))
		d->opening = true;
}

void vm_qmp_tick(struct vm *v, uint64_t now_us)
{
	if (v->qmp_fd < 0) {
		dial(v, now_us);
		return;
	}
	if (now_us < v->qmp_refresh_us)
		return;
	v->qmp_refresh_us = now_us + QMP_REFRESH_US;
	if (v->qmp->stage == QMP_READY)
		(void)qmp_refresh(v->qmp); /* busy: answers are under way */
	flush(v);
}

/* Is what QMP said recent enough to be believed? */
static bool is_known(const struct vm *v, uint64_t now_us)
{
	return v->qmp_fd >= 0 && v->qmp->stage == QMP_READY &&
	       now_us - v->qmp_heard_us < QMP_SILENT_US;
}

void vm_qmp_state(const struct vm *v, struct policy_snapshot *s,
		  uint64_t now_us)
{
	if (!is_known(v, now_us))
		return;
	s->vm_stopped = v->qmp->run == QMP_STOPPED;
	s->vm_migrating = v->qmp->migrating;
}

const char *vm_qmp_state_name(const struct vm *v, uint64_t now_us)
{
	if (!v->cfg.qmp[0])
		return "no QMP configured";
	if (v->qmp_fd < 0)
		return "QMP closed";
	if (!is_known(v, now_us))
		return "QMP silent";
	if (v->qmp->migrating)
		return "migrating";
	return v->qmp->run == QMP_STOPPED ? "stopped" : "running";
}
