// SPDX-License-Identifier: GPL-2.0-or-later
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "log.h"
#include "rolerun.h"

static void make_config(struct config *cfg, int first, int last)
{
	char what[CONF_WHAT_MAX], vm[64];

	assert_int_equal(config_init(cfg), 0);
	for (int i = first; i < last; i++) {
		snprintf(vm, sizeof(vm), "name=vm%d,channel=/run/%d", i, i);
		assert_int_equal(config_add_vm(cfg, vm, what), 0);
	}
	assert_int_equal(config_validate(cfg, what), 0);
}

/* Take @n messages of @op. */
static void expect(struct rolerun *rr, uint32_t op, int n)
{
	struct ipc_msg m;
	int fd;

	for (int i = 0; i < n; i++) {
		assert_int_equal(rolerun_recv(rr, 5000, &m, &fd), 1);
		assert_int_equal(m.op, op);
	}
}

static void check_each_core_is_told(void **state)
{
	struct config cfg;
	struct rolerun rr;

	(void)state;
	make_config(&cfg, 0, 2);
	rolerun_start(&rr, broker_main, &cfg);
	expect(&rr, IPC_VM_ADD, 2);
	expect(&rr, IPC_VM_SYNCED, 1);
	rolerun_link(&rr);
	expect(&rr, IPC_VM_ADD, 2);
	expect(&rr, IPC_VM_SYNCED, 1);
	assert_int_equal(rolerun_stop(&rr), 0);
	config_free(&cfg);
}

static void check_reload_sends_the_difference(void **state)
{
	struct config cfg, other;
	struct rolerun rr;
	struct ipc_msg m;
	int fd;

	(void)state;
	make_config(&cfg, 0, 2);
	make_config(&other, 1, 3);
	rolerun_start(&rr, broker_main, &cfg);
	expect(&rr, IPC_VM_ADD, 2);
	expect(&rr, IPC_VM_SYNCED, 1);
	rolerun_reload(&rr, &other);
	assert_int_equal(rolerun_recv(&rr, 5000, &m, &fd), 1);
	assert_int_equal(m.op, IPC_VM_REMOVE);
	assert_string_equal(m.vm.name, "vm0");
	assert_int_equal(rolerun_recv(&rr, 5000, &m, &fd), 1);
	assert_int_equal(m.op, IPC_VM_ADD);
	assert_string_equal(m.vm.name, "vm2");
	assert_int_equal(rolerun_recv(&rr, 50, &m, &fd), -EAGAIN);
	assert_int_equal(rolerun_stop(&rr), 0);
	config_free(&cfg);
	config_free(&other);
}

/* More than a link holds, to a core that takes its time. */
static void check_many_vms(void **state)
{
	struct config cfg;
	struct rolerun rr;

	(void)state;
	make_config(&cfg, 0, CONFIG_VMS_MAX);
	rolerun_start(&rr, broker_main, &cfg);
	(void)poll(NULL, 0, 50);
	expect(&rr, IPC_VM_ADD, CONFIG_VMS_MAX);
	expect(&rr, IPC_VM_SYNCED, 1);
	assert_int_equal(rolerun_stop(&rr), 0);
	config_free(&cfg);
}

static void check_end_of_the_supervisor(void **state)
{
	struct config cfg;
	struct rolerun rr;

	(void)state;
	make_config(&cfg, 0, 1);
	rolerun_start(&rr, broker_main, &cfg);
	close(rr.sup_fd);
	rr.sup_fd = -1;
	assert_int_equal(rolerun_wait(&rr), 0);
	config_free(&cfg);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(check_each_core_is_told),
		cmocka_unit_test(check_reload_sends_the_difference),
		cmocka_unit_test(check_many_vms),
		cmocka_unit_test(check_end_of_the_supervisor),
	};

	log_setup("test", LOG_LEVEL_ERR);
	return cmocka_run_group_tests_name("broker", tests, NULL, NULL);
}
