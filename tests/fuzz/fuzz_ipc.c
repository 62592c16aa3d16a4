// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Any bytes as one packet of a link: what comes through holds no string
 * without an end and no enumerator out of its range.
 */
#include <assert.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "ipc.h"
#include "policy.h"
#include "util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_at(const struct ipc_msg *m)
{
	assert(m->op && m->op < IPC_OP_END && m->result <= 0);
	if (m->op == IPC_VM_ADD) {
		assert(strlen(m->vm.name) < sizeof(m->vm.name));
		assert(strlen(m->vm.uuid) < sizeof(m->vm.uuid));
		assert(strlen(m->vm.channel) < sizeof(m->vm.channel));
		assert(strlen(m->vm.qmp) < sizeof(m->vm.qmp));
		assert(m->vm.mode < VM_MODE_COUNT);
	} else if (m->op == IPC_OPEN_SOCKET) {
		assert(strlen(m->open.path) < sizeof(m->open.path));
	} else if (m->op == IPC_LINK || m->op == IPC_REPLACE) {
		assert(m->link.role < ROLE_COUNT);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int pair[2] = {-1, -1};
	struct ipc_msg m = {};
	int fd = -1;

	if (pair[0] < 0 && ipc_pair(pair) < 0)
		return 0;
	/* short inputs are messages too, with zeroes behind */
	memcpy(&m, data, MIN(size, sizeof(m)));
	if (!ipc_check(&m))
		look_at(&m);
	if (size <= sizeof(m) + 1 && send(pair[0], data, size, 0) >= 0 &&
	    ipc_recv(pair[1], &m, &fd) > 0)
		look_at(&m);
	if (fd >= 0)
		close(fd);
	return 0;
}
