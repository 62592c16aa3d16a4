// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "util.h"
#include "vmfeed.h"

int vmfeed_init(struct vmfeed *f)
{
	memset(f, 0, sizeof(*f));
	f->told = calloc(CONFIG_VMS_MAX, sizeof(*f->told));
	return f->told ? 0 : -ENOMEM;
}

void vmfeed_free(struct vmfeed *f)
{
	free(f->told);
	memset(f, 0, sizeof(*f));
}

void vmfeed_reset(struct vmfeed *f)
{
	f->nr_told = 0;
	f->synced = false;
}

static const struct ipc_vm *find(const struct ipc_vm *vm, size_t nr,
				 const char *name)
{
	for (size_t i = 0; i < nr; i++) {
		if (!strcmp(vm[i].name, name))
			return &vm[i];
	}
	return NULL;
}

/* Field by field: what lies behind the end of a string does not count. */
static bool same(const struct ipc_vm *a, const struct ipc_vm *b)
{
	return !strcmp(a->uuid, b->uuid) && !strcmp(a->channel, b->channel) &&
	       !strcmp(a->qmp, b->qmp) && a->pid == b->pid &&
	       a->mode == b->mode;
}

bool vmfeed_next(const struct vmfeed *f, const struct ipc_vm *want,
		 size_t nr_want, struct ipc_msg *ret_m)
{
	memset(ret_m, 0, sizeof(*ret_m));
	for (size_t i = 0; i < f->nr_told; i++) {
		if (find(want, nr_want, f->told[i].name))
			continue;
		ret_m->op = IPC_VM_REMOVE;
		strcpy(ret_m->vm.name, f->told[i].name);
		return true;
	}
	for (size_t i = 0; i < nr_want; i++) {
		const struct ipc_vm *old;

		old = find(f->told, f->nr_told, want[i].name);
		if (old && same(old, &want[i]))
			continue;
		ret_m->op = IPC_VM_ADD;
		ret_m->vm = want[i];
		return true;
	}
	ret_m->op = IPC_VM_SYNCED;
	return !f->synced;
}

void vmfeed_sent(struct vmfeed *f, const struct ipc_msg *m)
{
	struct ipc_vm *vm = NULL;

	if (m->op == IPC_VM_SYNCED) {
		f->synced = true;
		return;
	}
	for (size_t i = 0; i < f->nr_told && !vm; i++) {
		if (!strcmp(f->told[i].name, m->vm.name))
			vm = &f->told[i];
	}
	if (m->op == IPC_VM_REMOVE) {
		if (vm)
			*vm = f->told[--f->nr_told];
		return;
	}
	/* as many as wanted at most, since removals come first */
	if (!vm && f->nr_told < CONFIG_VMS_MAX)
		vm = &f->told[f->nr_told++];
	if (vm)
		*vm = m->vm;
}
