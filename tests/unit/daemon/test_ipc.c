// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "ipc.h"
#include "policy.h"
#include "util.h"

static struct ipc_msg good_vm(void)
{
	struct ipc_msg m = {.op = IPC_VM_ADD};

	strcpy(m.vm.name, "web1");
	strcpy(m.vm.channel, "/run/web1.sock");
	return m;
}

static void check_ranges(void **state)
{
	const struct {
		const char *what;
		struct ipc_msg m;
		int want;
	} cases[] = {
		{"op 0", {.op = 0}, -EPROTO},
		{"op beyond the end", {.op = IPC_OP_END}, -EPROTO},
		{"positive result", {.op = IPC_READY, .result = 1}, -EPROTO},
		{"no errno", {.op = IPC_READY, .result = -5000}, -EPROTO},
		{"ready", {.op = IPC_READY}, 0},
		{"link", {.op = IPC_LINK, .link.role = ROLE_KNOBS}, 0},
		{"no role", {.op = IPC_LINK, .link.role = ROLE_COUNT}, -EPROTO},
		{"replace", {.op = IPC_REPLACE, .link.role = 77}, -EPROTO},
		{"pool", {.op = IPC_POOL_SET, .pool.page_kib = 2048}, 0},
		{"1 GiB", {.op = IPC_POOL_SET, .pool.page_kib = 1048576}, 0},
		{"4 KiB", {.op = IPC_POOL_SET, .pool.page_kib = 4}, -EPROTO},
		{"node",
		 {.op = IPC_POOL_READ,
		  .pool = {.node = IPC_NODES_MAX, .page_kib = 2048}},
		 -EPROTO},
		{"compact",
		 {.op = IPC_NODE_COMPACT,
		  .compact = {.order = 9, .blocks = 1, .max_time_us = 1}},
		 0},
		{"no blocks",
		 {.op = IPC_NODE_COMPACT,
		  .compact = {.order = 9, .max_time_us = 1}},
		 -EPROTO},
		{"no time",
		 {.op = IPC_NODE_COMPACT, .compact = {.order = 9, .blocks = 1}},
		 -EPROTO},
		{"too long",
		 {.op = IPC_NODE_COMPACT,
		  .compact = {.order = 9,
			      .blocks = 1,
			      .max_time_us = IPC_COMPACT_MAX_US + 1}},
		 -EPROTO},
		{"order",
		 {.op = IPC_NODE_COMPACT,
		  .compact = {.order = PROTO_ORDERS_MAX,
			      .blocks = 1,
			      .max_time_us = 1}},
		 -EPROTO},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (ipc_check(&cases[i].m) != cases[i].want)
			fail_msg("%s: %d", cases[i].what,
				 ipc_check(&cases[i].m));
	}
}

static void check_strings(void **state)
{
	struct ipc_msg m = good_vm();

	(void)state;
	assert_int_equal(ipc_check(&m), 0);
	m.vm.name[0] = '\0';
	assert_int_equal(ipc_check(&m), -EPROTO);
	m = good_vm();
	m.vm.name[1] = '\n';
	assert_int_equal(ipc_check(&m), -EPROTO);
	m = good_vm();
	memset(m.vm.name, 'x', sizeof(m.vm.name)); /* no end */
	assert_int_equal(ipc_check(&m), -EPROTO);
	m = good_vm();
	memset(m.vm.channel, '/', sizeof(m.vm.channel));
	assert_int_equal(ipc_check(&m), -EPROTO);
	m = good_vm();
	strcpy(m.vm.channel, "relative");
	assert_int_equal(ipc_check(&m), -EPROTO);
	m = good_vm();
	strcpy(m.vm.qmp, "relative");
	assert_int_equal(ipc_check(&m), -EPROTO);
	m = good_vm();
	m.vm.mode = VM_MODE_COUNT;
	assert_int_equal(ipc_check(&m), -EPROTO);
	m = good_vm();
	m.vm.pid = -1;
	assert_int_equal(ipc_check(&m), -EPROTO);
	m = (struct ipc_msg){.op = IPC_OPEN_SOCKET};
	memset(m.open.path, 'x', sizeof(m.open.path));
	assert_int_equal(ipc_check(&m), -EPROTO);
}

static void check_messages_arrive_whole(void **state)
{
	struct ipc_msg m = good_vm(), got;
	int pair[2], fd = -1;

	(void)state;
	assert_int_equal(ipc_pair(pair), 0);
	assert_int_equal(ipc_recv(pair[1], &got, &fd), -EAGAIN);
	m.id = 42;
	assert_int_equal(ipc_send(pair[0], &m, -1), 0);
	assert_int_equal(ipc_recv(pair[1], &got, &fd), 1);
	assert_int_equal(fd, -1);
	assert_memory_equal(&m, &got, sizeof(m));
	close(pair[0]);
	assert_int_equal(ipc_recv(pair[1], &got, &fd), 0);
	assert_int_equal(ipc_send(pair[1], &m, -1), -EPIPE);
	close(pair[1]);
}

static void check_fds(void **state)
{
	struct ipc_msg m = {.op = IPC_LINK}, got;
	int pair[2], pipes[2], fd = -1;
	char c = 0;

	(void)state;
	assert_int_equal(ipc_pair(pair), 0);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(ipc_send(pair[0], &m, pipes[1]), 0);
	close(pipes[1]);
	assert_int_equal(ipc_recv(pair[1], &got, &fd), 1);
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(write(fd, "x", 1), 1);
	assert_int_equal(read(pipes[0], &c, 1), 1);
	close(fd);

	/* needed and not there; there and not needed: closed, not leaked */
	fd = -1;
	assert_int_equal(ipc_send(pair[0], &m, -1), 0);
	assert_int_equal(ipc_recv(pair[1], &got, &fd), -EPROTO);
	m = (struct ipc_msg){.op = IPC_READY};
	assert_int_equal(ipc_send(pair[0], &m, pipes[0]), 0);
	assert_int_equal(ipc_recv(pair[1], &got, &fd), -EPROTO);
	assert_int_equal(fd, -1);
	close(pipes[0]);
	close(pair[0]);
	close(pair[1]);
}

static int count_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void check_too_many_fds_are_closed(void **state)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(2 * sizeof(int))];
	} control = {};
	struct ipc_msg m = {.op = IPC_LINK}, got;
	struct iovec iov = {&m, sizeof(m)};
	struct msghdr mh = {.msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control.buf,
			    .msg_controllen = sizeof(control.buf)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
	int pair[2], fds[2] = {0, 1}, fd = -1, before;

	(void)state;
	assert_int_equal(ipc_pair(pair), 0);
	before = count_fds();
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(c), fds, sizeof(fds));
	assert_int_equal(sendmsg(pair[0], &mh, 0), sizeof(m));
	assert_int_equal(ipc_recv(pair[1], &got, &fd), -EPROTO);
	assert_int_equal(count_fds(), before);
	close(pair[0]);
	close(pair[1]);
}

static void check_wrong_sizes(void **state)
{
	char big[sizeof(struct ipc_msg) + 1] = {IPC_READY};
	struct ipc_msg got;
	int pair[2], fd = -1;

	(void)state;
	assert_int_equal(ipc_pair(pair), 0);
	assert_int_equal(send(pair[0], big, sizeof(big), 0), sizeof(big));
	assert_int_equal(ipc_recv(pair[1], &got, &fd), -EPROTO);
	assert_int_equal(send(pair[0], big, 4, 0), 4);
	assert_int_equal(ipc_recv(pair[1], &got, &fd), -EPROTO);
	close(pair[0]);
	close(pair[1]);
}

static void check_a_full_link_does_not_block(void **state)
{
	struct ipc_msg m = {.op = IPC_READY};
	uint64_t start;
	int pair[2], n, r = 0;

	(void)state;
	assert_int_equal(ipc_pair(pair), 0);
	for (n = 0; n < 100000 && !r; n++)
		r = ipc_send(pair[0], &m, -1);
	assert_int_equal(r, -EAGAIN);
	start = now_us();
	assert_int_equal(ipc_send_wait(pair[0], &m, -1, 50 * MSEC_US), -EAGAIN);
	assert_in_range(now_us() - start, 50 * MSEC_US, 5 * SEC_US);
	close(pair[0]);
	close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_ranges),
		cmocka_unit_test(check_strings),
		cmocka_unit_test(check_messages_arrive_whole),
		cmocka_unit_test(check_fds),
		cmocka_unit_test(check_too_many_fds_are_closed),
		cmocka_unit_test(check_wrong_sizes),
		cmocka_unit_test(check_a_full_link_does_not_block),
	};

	return cmocka_run_group_tests_name("ipc", tests, NULL, NULL);
}
