// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "log.h"
#include "manager.h"
#include "util.h"

/*
 * What is paused outlives the daemon: one name a line in this file of the
 * state directory, "*" for all. A VM that is not there now keeps its line.
 */
#define PAUSED_FILE	"paused"
#define PAUSED_ALL	"*"
#define PAUSED_FILE_MAX (64 * 1024)

static void broker_message(struct link *k, const struct ipc_msg *m);
static void link_stuck(struct link *k);

struct vm *manager_vm(struct manager *m, const char *name)
{
	for (struct vm *v = m->vms; v; v = v->next) {
		if (!strcmp(v->cfg.name, name))
			return v;
	}
	return NULL;
}

struct vm *manager_vm_by_serial(struct manager *m, uint64_t serial)
{
	for (struct vm *v = m->vms; v; v = v->next) {
		if (v->serial == serial)
			return v;
	}
	return NULL;
}

uint64_t manager_next_id(struct manager *m)
{
	return ++m->next_id;
}

/* --- what is paused --------------------------------------------------------
 */

/* The file's text; empty when there is none. The caller's to free. */
static char *paused_read(const struct manager *m)
{
	char *text = malloc(PAUSED_FILE_MAX);
	ssize_t n;

	if (!text)
		return NULL;
	n = read_text_at(m->state_fd, PAUSED_FILE, text, PAUSED_FILE_MAX);
	if (n < 0) {
		if (n != -ENOENT)
			log_warn_errno((int)n, "Cannot read which VMs are "
					       "paused, taking none as paused");
		text[0] = '\0';
	}
	return text;
}

static bool paused_has(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *p = text; p && *p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (!strncmp(p, name, len) && (p[len] == '\n' || !p[len]))
			return true;
	}
	return false;
}

static int file_replace(int dir_fd, const char *name, const char *text)
{
	char tmp[64];
	auto_close int fd = -1;
	size_t len = strlen(text);

	snprintf(tmp, sizeof(tmp), "%.50s.new", name);
	fd = openat(dir_fd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
		    0640);
	if (fd < 0)
		return -errno;
	if (write(fd, text, len) != (ssize_t)len)
		return -EIO;
	if (fsync(fd) < 0 || renameat(dir_fd, tmp, dir_fd, name) < 0)
		return -errno;
	return 0;
}

/* Add @name to the file, or take it out. */
static int paused_write(const struct manager *m, const char *name, bool paused)
{
	auto_free char *text = paused_read(m);
	auto_free char *next = NULL;
	char *save = NULL;
	size_t len;

	if (!text)
		return -ENOMEM;
	if (paused_has(text, name) == paused)
		return 0;
	len = strlen(text) + strlen(name) + 3;
	next = calloc(1, len);
	if (!next)
		return -ENOMEM;
	for (char *w = strtok_r(text, "\n", &save); w;
	     w = strtok_r(NULL, "\n", &save)) {
		if (!strcmp(w, name))
			continue;
		strcat(next, w);
		strcat(next, "\n");
	}
	if (paused) {
		strcat(next, name);
		strcat(next, "\n");
	}
	if (strlen(next) >= PAUSED_FILE_MAX)
		return -EFBIG;
	return file_replace(m->state_fd, PAUSED_FILE, next);
}

int manager_pause(struct manager *m, const char *name, bool paused,
		  uint64_t now_us)
{
	struct vm *v;

	if (name) {
		v = manager_vm(m, name);
		if (!v)
			return -ENOENT;
		vm_set_paused(v, paused, now_us);
		return paused_write(m, name, paused);
	}
	m->all_paused = paused;
	for (v = m->vms; v; v = v->next) {
		history_event(&v->history, paused ? "paused, with all VMs"
						  : "resumed, with all VMs");
		if (!paused)
			v->paused = false;
		vm_decide(v, now_us);
	}
	if (!paused) /* resume --all forgets single ones as well */
		return file_replace(m->state_fd, PAUSED_FILE, "");
	return paused_write(m, PAUSED_ALL, true);
}

/* --- VMs come and go --------------------------------------------------------
 */

static void vm_put(struct manager *m, const struct ipc_vm *cfg)
{
	struct vm *v = manager_vm(m, cfg->name);
	uint64_t now = now_us();
	auto_free char *paused = NULL;

	if (v) {
		vm_update(v, cfg, now);
		return;
	}
	v = vm_new(m, cfg, now);
	if (!v) {
		log_err("%s: out of memory, this VM is not served", cfg->name);
		return;
	}
	paused = paused_read(m);
	v->paused = paused && paused_has(paused, cfg->name);
	v->next = m->vms;
	m->vms = v;
	m->nr_vms++;
	log_debug("%s: added, mode %s", cfg->name, vm_mode_name(cfg->mode));
	vm_tick(v, now);
}

static void vm_drop(struct manager *m, const char *name)
{
	for (struct vm **at = &m->vms; *at; at = &(*at)->next) {
		struct vm *v = *at;

		if (strcmp(v->cfg.name, name))
			continue;
		*at = v->next;
		m->nr_vms--;
		vm_free(v);
		return;
	}
}

static void broker_message(struct link *k, const struct ipc_msg *msg)
{
	struct manager *m = container_of(k, struct manager, link[ROLE_BROKER]);

	switch (msg->op) {
	case IPC_VM_ADD:
		vm_put(m, &msg->vm);
		break;
	case IPC_VM_REMOVE:
		vm_drop(m, msg->vm.name);
		break;
	case IPC_VM_SYNCED:
		m->synced = true;
		break;
	default:
		log_warn("Unexpected message %u from the broker, ignoring",
			 msg->op);
	}
}

static void link_stuck(struct link *k)
{
	struct manager *m = container_of(k, struct manager, link[k->role]);

	m->replace(m, k->role);
}

/* --- whole
 * -------------------------------------------------------------------- */

void manager_init(struct manager *m, struct loop *l, const struct config *cfg)
{
	auto_free char *paused = NULL;

	memset(m, 0, sizeof(*m));
	m->loop = l;
	m->cfg = cfg;
	m->started_us = now_us();
	for (unsigned int i = 0; i < ROLE_COUNT; i++) {
		link_init(&m->link[i], l, i);
		m->link[i].stuck = link_stuck;
	}
	m->link[ROLE_BROKER].message = broker_message;
	m->state_fd = open(cfg->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (m->state_fd < 0)
		log_warn_errno(-errno,
			       "State directory %s cannot be used; "
			       "'pause' will not survive a restart",
			       cfg->state_dir);
	nodes_open(&m->nodes, cfg);
	/* ids must not repeat over restarts of the core: agents keep them */
	m->next_id = (uint64_t)time(NULL) << 20;
	paused = paused_read(m);
	m->all_paused = paused && paused_has(paused, PAUSED_ALL);
}

void manager_free(struct manager *m)
{
	while (m->vms) {
		struct vm *v = m->vms;

		m->vms = v->next;
		vm_free(v);
	}
	for (unsigned int i = 0; i < ROLE_COUNT; i++)
		link_set(&m->link[i], -1);
	nodes_close(&m->nodes);
	if (m->state_fd >= 0)
		close(m->state_fd);
	m->state_fd = -1;
}

void manager_tick(struct manager *m, uint64_t now_us)
{
	nodes_tick(&m->nodes, now_us);
	for (unsigned int i = 0; i < ROLE_COUNT; i++)
		link_tick(&m->link[i], now_us);
	for (struct vm *v = m->vms; v; v = v->next)
		vm_tick(v, now_us);
}

void manager_reload(struct manager *m, const struct config *cfg)
{
	m->cfg = cfg;
	/* the broker tells which VMs changed; policy changes reach all */
	for (struct vm *v = m->vms; v; v = v->next) {
		struct ipc_vm same = v->cfg;

		vm_update(v, &same, now_us());
	}
}
