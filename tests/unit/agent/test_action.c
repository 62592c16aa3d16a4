// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Actions through the compact backend, over a copy of a guest's files. Its
 * nodeN/compact is a pipe: full, so that the child hangs in write(2) as it
 * would in the kernel, or with room, so that its pass ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "action.h"
#include "caps.h"
#include "log.h"
#include "util.h"

#define COMPACT "sys/devices/system/node/node0/compact"
#define PCP	"proc/sys/vm/percpu_pagelist_high_fraction"

struct world {
	char dir[64];
	int dir_fd, proc_fd, sys_fd, run_fd, pipe_fd;
	struct config cfg;
	struct msg_hello caps;
	char boot_id[BOOT_ID_TEXT_SIZE];
	struct sampler sampler;
	struct knobs knobs;
	struct budget budget;
	struct action_env env;
	struct action action;
	struct msg_result result;
	uint64_t now_us;
};

static int sub_dir(const struct world *w, const char *name)
{
	return openat(w->dir_fd, name, O_RDONLY | O_DIRECTORY);
}

static void put(const struct world *w, const char *path, const char *text)
{
	int fd = openat(w->dir_fd, path, O_WRONLY | O_TRUNC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void make_files(struct world *w)
{
	char command[200];

	snprintf(w->dir, sizeof(w->dir), "/tmp/test_action.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(command, sizeof(command),
		 "cp -r tests/data/guest-6.12/* %s && mkdir %s/run", w->dir,
		 w->dir);
	assert_int_equal(system(command), 0);
	w->dir_fd = open(w->dir, O_RDONLY | O_DIRECTORY);
	w->proc_fd = sub_dir(w, "proc");
	w->sys_fd = sub_dir(w, "sys");
	w->run_fd = sub_dir(w, "run");
	assert_int_equal(mkfifoat(w->dir_fd, COMPACT, 0600), 0);
	w->pipe_fd = openat(w->dir_fd, COMPACT, O_RDWR | O_NONBLOCK);
	assert_true(w->pipe_fd >= 0);
}

static int setup(void **state)
{
	static struct world w;
	char what[CONF_WHAT_MAX];

	memset(&w, 0, sizeof(w));
	make_files(&w);
	w.now_us = 100 * SEC_US;
	config_defaults(&w.cfg);
	assert_int_equal(caps_probe(&w.cfg, false, w.proc_fd, w.sys_fd, &w.caps,
				    w.boot_id, what),
			 0);
	assert_true(w.caps.backends >> BACKEND_COMPACT & 1);
	w.caps.backends_missing |= w.caps.backends & ~(1u << BACKEND_COMPACT);
	w.caps.backends &= 1u << BACKEND_COMPACT;
	assert_int_equal(sampler_open(&w.sampler, w.proc_fd, w.sys_fd, &w.caps),
			 0);
	knobs_init(&w.knobs, w.proc_fd, w.sys_fd, w.run_fd, w.boot_id, 0, 0);
	budget_init(&w.budget, 100000, 30 * SEC_US, w.now_us);
	w.env = (struct action_env){
		.cfg = &w.cfg,
		.caps = &w.caps,
		.sampler = &w.sampler,
		.knobs = &w.knobs,
		.budget = &w.budget,
		.sys_fd = w.sys_fd,
		.psi_abort_centi = 2000,
	};
	*state = &w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	char command[96];

	knobs_close(&w->knobs);
	sampler_close(&w->sampler);
	close(w->pipe_fd);
	close(w->run_fd);
	close(w->sys_fd);
	close(w->proc_fd);
	close(w->dir_fd);
	snprintf(command, sizeof(command), "rm -rf %s", w->dir);
	return system(command);
}

/* From now on a write to nodeN/compact hangs. */
static void let_it_hang(struct world *w)
{
	static const char block[4096];

	while (write(w->pipe_fd, block, sizeof(block)) > 0)
		;
	while (write(w->pipe_fd, block, 1) > 0)
		;
}

static const struct msg_action request = {
	.id = 7,
	.node = 0,
	.backend = BACKEND_AUTO,
	.order = 9,
	.blocks = 10,
	.reason = "test",
};

static bool start(struct world *w, const struct msg_action *req)
{
	return action_start(&w->action, &w->env, req, w->now_us, &w->result);
}

/* Step until it ends, at most 5 s of real time. */
static void run_to_end(struct world *w)
{
	for (unsigned int i = 0; i < 5000; i++) {
		w->now_us += MSEC_US;
		if (action_step(&w->action, &w->env, w->now_us, &w->result))
			return;
		usleep(1000);
	}
	fail_msg("the action does not end");
}

static void step(struct world *w)
{
	w->now_us += MSEC_US;
	assert_false(action_step(&w->action, &w->env, w->now_us, &w->result));
}

static void expect_end(struct world *w, enum result_status status,
		       enum stop_why why)
{
	char text[16];

	run_to_end(w);
	assert_int_equal(w->result.id, 7);
	assert_int_equal(w->result.status, status);
	assert_int_equal(w->result.why, why);
	assert_int_equal(w->result.backend, BACKEND_COMPACT);
	assert_false(w->action.running);
	/* nothing of ours stays */
	assert_true(read_text_at(w->dir_fd, PCP, text, sizeof(text)) > 0);
	assert_int_equal(text[0], '0');
	assert_int_not_equal(faccessat(w->run_fd, JOURNAL_NAME, F_OK, 0), 0);
}

static void kernel_has_no_more(void **state)
{
	struct world *w = *state;
	char said[16] = "";

	assert_true(start(w, &request));
	expect_end(w, RESULT_DONE, WHY_EXHAUSTED);
	assert_int_equal(read(w->pipe_fd, said, sizeof(said)), 1);
	assert_string_equal(said, "1"); /* no gain, no second pass */
	assert_int_equal(w->result.asked, 10);
	assert_int_equal(w->result.blocks_before, w->result.blocks_after);
}

static void set_blocks(struct world *w, unsigned int order9)
{
	char text[160];

	snprintf(text, sizeof(text),
		 "Node 0, zone    DMA32 9 0 0 0 0 0 0 0 0 %u 480\n", order9);
	put(w, "proc/buddyinfo", text);
}

static void killed_at_the_target(void **state)
{
	struct world *w = *state;
	pid_t pid;

	let_it_hang(w);
	set_blocks(w, 1);
	assert_true(start(w, &request));
	pid = w->action.job.compact.pid;
	step(w);
	set_blocks(w, 10);
	step(w);
	assert_int_equal(kill(pid, 0), 0);
	set_blocks(w, 11);
	expect_end(w, RESULT_DONE, WHY_TARGET);
	assert_int_equal(w->result.blocks_after - w->result.blocks_before, 10);
	assert_int_equal(kill(pid, 0), -1);
}

static void too_many_at_once(void **state)
{
	struct world *w = *state;

	let_it_hang(w);
	set_blocks(w, 1);
	assert_true(start(w, &request));
	step(w);
	set_blocks(w, 15);
	expect_end(w, RESULT_DONE, WHY_TARGET);
	assert_non_null(strstr(w->result.text, "; overshot"));
	assert_non_null(strstr(w->result.text, "auto: compact, "));
}

/* The cheapest refuses: auto goes on to the next, instead of doing nothing. */
static void auto_takes_the_next(void **state)
{
	static struct gains gains;
	struct world *w = *state;
	struct msg_action small = request;

	let_it_hang(w);
	set_blocks(w, 1);
	small.order = 4;
	w->caps.backends |= 1u << BACKEND_FAULT;
	w->caps.backends_missing &= ~(1u << BACKEND_FAULT);
	w->caps.mthp_orders |= 1u << 4;
	put(w, "sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled",
	    "always inherit madvise [never]\n");
	w->knobs.knob[KNOB_MTHP(4)].denied = true;
	gains.seen[BACKEND_FAULT][GAIN_MIDDLE] =
		(struct gain_seen){{1, 1}, w->now_us};
	w->env.gains = &gains;
	assert_true(start(w, &small));
	assert_int_equal(w->action.result.backend, BACKEND_COMPACT);
	action_stop(&w->action, WHY_CANCELLED, "enough");
	expect_end(w, RESULT_STOPPED, WHY_CANCELLED);
	/* asked for by name, it is refused in its own words */
	small.backend = BACKEND_FAULT;
	assert_false(start(w, &small));
	assert_int_equal(w->result.why, WHY_DENIED);
}

static void passes_while_they_gain(void **state)
{
	struct msg_action all = request;
	struct world *w = *state;

	all.blocks = ACTION_BLOCKS_ALL;
	let_it_hang(w);
	set_blocks(w, 1);
	assert_true(start(w, &all));
	for (unsigned int pass = 1; pass <= 3; pass++) {
		char junk[4096];

		assert_int_equal(w->action.job.compact.passes, pass);
		set_blocks(w, pass < 3 ? pass * 100 : 201);
		/* room for one byte: the pass ends, the next one hangs */
		while (read(w->pipe_fd, junk, sizeof(junk)) ==
		       (ssize_t)sizeof(junk))
			;
		for (unsigned int i = 0; pass < 3 && i < 1000 &&
					 w->action.job.compact.passes == pass;
		     i++) {
			step(w);
			usleep(1000);
		}
		if (pass < 3)
			let_it_hang(w);
	}
	expect_end(w, RESULT_DONE, WHY_EXHAUSTED);
}

static void stopped_by_the_host(void **state)
{
	struct world *w = *state;

	let_it_hang(w);
	assert_true(start(w, &request));
	step(w);
	action_stop(&w->action, WHY_CANCELLED, "host says cancel");
	action_stop(&w->action, WHY_QUIET, "the first reason counts");
	expect_end(w, RESULT_STOPPED, WHY_CANCELLED);
}

static void stopped_by_time(void **state)
{
	struct msg_action req = request;
	struct world *w = *state;

	req.max_time_us = 10 * MSEC_US;
	let_it_hang(w);
	assert_true(start(w, &req));
	expect_end(w, RESULT_STOPPED, WHY_TIME);
	assert_in_range(w->result.elapsed_us, 10 * MSEC_US, 200 * MSEC_US);
}

static void stopped_by_pressure(void **state)
{
	struct world *w = *state;

	let_it_hang(w);
	assert_true(start(w, &request));
	step(w);
	put(w, "proc/pressure/memory",
	    "some avg10=30.00 avg60=0.00 avg300=0.00 total=1\n"
	    "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
	w->now_us += SEC_US;
	expect_end(w, RESULT_STOPPED, WHY_PRESSURE);
}

static void stopped_by_pages_moved(void **state)
{
	struct msg_action req = request;
	struct world *w = *state;

	req.max_pages = 100;
	let_it_hang(w);
	assert_true(start(w, &req));
	step(w);
	put(w, "proc/vmstat", "pgmigrate_success 100\npgscan_direct 3\n");
	expect_end(w, RESULT_STOPPED, WHY_PAGES);
	assert_int_equal(w->result.migrated, 100);
	assert_int_equal(w->result.pgscan_direct, 3);
}

static void child_dies_of_itself(void **state)
{
	struct world *w = *state;

	let_it_hang(w);
	assert_true(start(w, &request));
	kill(w->action.job.compact.pid, SIGKILL);
	expect_end(w, RESULT_FAILED, WHY_ERROR);
}

static void refusals(void **state)
{
	struct world *w = *state;
	struct msg_action req = request;

	let_it_hang(w);
	assert_true(start(w, &req));
	assert_false(start(w, &req));
	assert_int_equal(w->result.why, WHY_BUSY);
	action_stop(&w->action, WHY_CANCELLED, "");
	run_to_end(w);

	w->env.observe = true;
	assert_false(start(w, &req));
	assert_int_equal(w->result.why, WHY_OBSERVE);
	w->env.observe = false;
	req.node = 5;
	assert_false(start(w, &req));
	assert_int_equal(w->result.why, WHY_MISSING);
	req.node = 0;
	req.backend = BACKEND_KMOD;
	assert_false(start(w, &req));
	assert_int_equal(w->result.why, WHY_MISSING);
	assert_non_null(strstr(w->result.text, "kmod"));
	req.backend = BACKEND_COMPACT;
	w->cfg.min_free_mib = 1 << 20;
	assert_false(start(w, &req));
	assert_int_equal(w->result.status, RESULT_REFUSED);
	assert_int_equal(w->result.why, WHY_LOW_MEMORY);
}

static void a_failed_source_is_an_error(void **state)
{
	struct world *w = *state;

	put(w, "proc/buddyinfo", "");
	assert_false(start(w, &request));
	assert_int_equal(w->result.status, RESULT_FAILED);
	assert_int_equal(w->result.why, WHY_ERROR);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(kernel_has_no_more),
		T(killed_at_the_target),
		T(too_many_at_once),
		T(auto_takes_the_next),
		T(passes_while_they_gain),
		T(stopped_by_the_host),
		T(stopped_by_time),
		T(stopped_by_pressure),
		T(stopped_by_pages_moved),
		T(child_dies_of_itself),
		T(refusals),
		T(a_failed_source_is_an_error),
	};

	log_setup("test_action", LOG_LEVEL_ERR - 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
