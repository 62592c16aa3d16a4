/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Owns all VMs and the links to the other processes. */
#ifndef VMDEFRAG_MANAGER_H
#define VMDEFRAG_MANAGER_H

#include <jansson.h>

#include "config.h"
#include "job.h"
#include "link.h"
#include "nodeblocks.h"
#include "nodes.h"
#include "vm.h"

struct control;

struct manager {
	struct loop *loop;
	const struct config *cfg;
	struct link link[ROLE_COUNT]; /* [ROLE_CORE] is to the supervisor */
	struct nodes nodes;
	struct nodeblocks nodeblocks;
	struct vm *vms;
	size_t nr_vms;
	bool synced; /* the broker has told all there are */
	bool all_paused;
	uint64_t next_id, next_serial;
	uint32_t next_map_id;
	uint64_t started_us;
	int state_fd; /* state directory */
	/* asks the supervisor for a new process */
	void (*replace)(struct manager *m, enum role role);
	/* a job has something to tell its client; see job.h */
	void (*job_event)(struct job *j, const struct job_event *ev);
	/* a line for those who record a VM (vm.nr_recorders); takes @line;
	 * NULL: there will be no more */
	void (*record)(struct manager *m, const struct vm *v, json_t *line);
	struct control *control; /* for the two above */
};

/**
 * manager_init() - no VM yet; reads what is paused from the state directory
 */
void manager_init(struct manager *m, struct loop *l, const struct config *cfg);
void manager_free(struct manager *m);

void manager_tick(struct manager *m, uint64_t now_us);

struct vm *manager_vm(struct manager *m, const char *name);
struct vm *manager_vm_by_serial(struct manager *m, uint64_t serial);

/* Ids of directives and actions: never the same twice. */
uint64_t manager_next_id(struct manager *m);

/**
 * manager_pause() - pause or resume one VM, or all (@name NULL)
 *
 * Kept in the state directory, so that it survives restarts.
 * Return: 0; -ENOENT; -EIO and others if it could not be kept, though it is
 * in force.
 */
int manager_pause(struct manager *m, const char *name, bool paused,
		  uint64_t now_us);

/* Mode changed on the fly, as after a reload. */
void manager_reload(struct manager *m, const struct config *cfg);

#endif
