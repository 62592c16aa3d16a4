// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The backends fault and proactive over a copy of a guest's files: what they
 * refuse, which switches they take and put back, and that nothing of theirs
 * survives. What they bring is tested on real guests.
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
#include "fault_child.h"
#include "log.h"
#include "mthp.h"
#include "util.h"

#define THP  "sys/kernel/mm/transparent_hugepage/"
#define SIZE THP "hugepages-64kB/enabled"
#define P    "proc/sys/vm/compaction_proactiveness"

struct world {
	char dir[64];
	int dir_fd, proc_fd, sys_fd, run_fd;
	struct config cfg;
	struct msg_hello caps;
	char boot_id[BOOT_ID_TEXT_SIZE];
	struct sampler sampler;
	struct knobs knobs;
	struct budget budget;
	struct action_env env;
	struct backend_memory memory;
	struct gains gains;
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

	snprintf(w->dir, sizeof(w->dir), "/tmp/test_backends.XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(command, sizeof(command),
		 "cp -r tests/data/guest-6.12/* %s && mkdir %s/run", w->dir,
		 w->dir);
	assert_int_equal(system(command), 0);
	w->dir_fd = open(w->dir, O_RDONLY | O_DIRECTORY);
	w->proc_fd = sub_dir(w, "proc");
	w->sys_fd = sub_dir(w, "sys");
	w->run_fd = sub_dir(w, "run");
	close(openat(w->dir_fd, "sys/devices/system/node/node0/compact",
		     O_WRONLY | O_CREAT, 0600));
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
		.memory = &w.memory,
		.gains = &w.gains,
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
	close(w->run_fd);
	close(w->sys_fd);
	close(w->proc_fd);
	close(w->dir_fd);
	snprintf(command, sizeof(command), "rm -rf %s", w->dir);
	return system(command);
}

static const struct msg_action request = {
	.id = 7,
	.backend = BACKEND_FAULT,
	.order = 4,
	.blocks = 100,
	.reason = "test",
};

/* 200,000 loose pages, and blocks of order 9 */
static void set_blocks(const struct world *w, unsigned int order9)
{
	char text[160];

	snprintf(text, sizeof(text),
		 "Node 0, zone    DMA32 200000 0 0 0 0 0 0 0 0 %u 0\n", order9);
	put(w, "proc/buddyinfo", text);
}

static bool start(struct world *w, const struct msg_action *req)
{
	return action_start(&w->action, &w->env, req, w->now_us, &w->result);
}

static bool step(struct world *w, uint64_t us)
{
	w->now_us += us;
	return action_step(&w->action, &w->env, w->now_us, &w->result);
}

/* Step until it ends, at most 5 s of real time. */
static void run_to_end(struct world *w)
{
	for (unsigned int i = 0; i < 5000; i++) {
		if (step(w, MSEC_US))
			return;
		usleep(1000);
	}
	fail_msg("the action does not end");
}

static void expect_text(const struct world *w, const char *path,
			const char *want)
{
	char text[128];

	assert_true(read_text_at(w->dir_fd, path, text, sizeof(text)) > 0);
	assert_memory_equal(text, want, strlen(want));
}

static void expect_journal(const struct world *w, bool there)
{
	assert_int_equal(faccessat(w->run_fd, JOURNAL_NAME, F_OK, 0),
			 there ? 0 : -1);
}

static void expect_refusal(struct world *w, const struct msg_action *req,
			   enum stop_why why, const char *words)
{
	assert_false(start(w, req));
	assert_int_equal(w->result.status, RESULT_REFUSED);
	if (w->result.why != why || !strstr(w->result.text, words))
		fail_msg("%u: %s", w->result.why, w->result.text);
	assert_non_null(strstr(w->result.text, words));
	assert_false(w->action.running);
	expect_journal(w, false);
}

static void fault_refuses(void **state)
{
	struct msg_action req = request;
	struct world *w = *state;

	set_blocks(w, 10);
	req.order = 10;
	expect_refusal(w, &req, WHY_MISSING, "no folio size");
	req = request;
	req.blocks = 12000; /* of 12,800, less what must stay free */
	expect_refusal(w, &req, WHY_LOW_MEMORY, "too little free");
	w->knobs.knob[KNOB_MTHP(4)].denied = true;
	put(w, SIZE, "always inherit madvise [never]\n");
	expect_refusal(w, &request, WHY_DENIED, "not ours to set");
	w->knobs.knob[KNOB_MTHP(4)].denied = false;
	w->knobs.knob[KNOB_THP_DEFRAG].foreign = true;
	put(w, THP "defrag", "always [defer] defer+madvise madvise never\n");
	knobs_tick(&w->knobs, w->now_us);
	expect_refusal(w, &request, WHY_DENIED, "not ours to set");
}

static void fault_takes_its_switches(void **state)
{
	struct world *w = *state;

	set_blocks(w, 10);
	put(w, SIZE, "always inherit madvise [never]\n");
	put(w, THP "defrag", "always [defer] defer+madvise madvise never\n");
	assert_true(start(w, &request));
	expect_journal(w, true);
	/* now as the kernel shows them */
	expect_text(w, SIZE, "madvise");
	expect_text(w, THP "defrag", "defer+madvise");
	put(w, SIZE, "always inherit [madvise] never\n");
	put(w, THP "defrag", "always defer [defer+madvise] madvise never\n");
	knobs_tick(&w->knobs, w->now_us);
	assert_false(step(w, MSEC_US));
	assert_true(w->action.job.fault.pid > 0);
	action_stop(&w->action, WHY_CANCELLED, "host says cancel");
	run_to_end(w);
	assert_int_equal(w->result.why, WHY_CANCELLED);
	expect_text(w, SIZE, "never");
	expect_text(w, THP "defrag", "defer");
	expect_journal(w, false);
}

static void fault_changes_nothing_it_need_not(void **state)
{
	struct world *w = *state;

	set_blocks(w, 10);
	put(w, SIZE, "always [inherit] madvise never\n");
	assert_true(start(w, &request));
	assert_false(w->knobs.knob[KNOB_MTHP(4)].managed);
	assert_false(w->knobs.knob[KNOB_THP_DEFRAG].managed);
	assert_false(step(w, MSEC_US));
	assert_true(w->action.job.fault.pid > 0);
	action_stop(&w->action, WHY_CANCELLED, "");
	run_to_end(w);
	expect_text(w, SIZE, "always [inherit]");
}

/* Here each fault either falls back or is held, but the blocks of this file
 * never get more. */
static void fault_ends_by_itself(void **state)
{
	struct world *w = *state;
	pid_t pid;

	set_blocks(w, 10);
	put(w, SIZE, "always inherit [madvise] never\n");
	assert_true(start(w, &request));
	assert_false(step(w, MSEC_US));
	pid = w->action.job.fault.pid;
	run_to_end(w);
	assert_int_equal(w->result.status, RESULT_DONE);
	assert_int_equal(w->result.why, WHY_EXHAUSTED);
	assert_int_equal(kill(pid, 0), -1);
	expect_journal(w, false);
}

static void fault_is_killed_by(struct world *w, enum stop_why why)
{
	run_to_end(w);
	assert_int_equal(w->result.status, RESULT_STOPPED);
	assert_int_equal(w->result.why, why);
	expect_journal(w, false);
}

static void stop_child(const struct world *w)
{
	/* 0 would be everybody here */
	assert_true(w->action.job.fault.pid > 0);
	kill(w->action.job.fault.pid, SIGSTOP);
}

static void fault_stops_at_stalls(void **state)
{
	struct msg_action req = request;
	struct world *w = *state;

	/* a small order, made of bigger folios */
	req.order = 3;
	set_blocks(w, 10);
	put(w, SIZE, "always inherit [madvise] never\n");
	put(w, "proc/vmstat", "allocstall_movable 5\npgsteal_direct 0\n");
	assert_true(start(w, &req));
	assert_false(step(w, MSEC_US));
	stop_child(w);
	put(w, "proc/vmstat", "allocstall_movable 38\npgsteal_direct 0\n");
	fault_is_killed_by(w, WHY_RECLAIM);

	put(w, "proc/vmstat", "allocstall_movable 5\npgsteal_direct 00000\n");
	assert_true(start(w, &req));
	assert_false(step(w, MSEC_US));
	stop_child(w);
	put(w, "proc/vmstat", "allocstall_movable 5\npgsteal_direct 05000\n");
	fault_is_killed_by(w, WHY_RECLAIM);
	assert_int_equal(w->result.reclaimed, 5000);
}

static void fault_child_dies(void **state)
{
	struct world *w = *state;

	set_blocks(w, 10);
	put(w, SIZE, "always inherit [madvise] never\n");
	assert_true(start(w, &request));
	assert_false(step(w, MSEC_US));
	assert_true(w->action.job.fault.pid > 0);
	kill(w->action.job.fault.pid, SIGKILL);
	run_to_end(w);
	/* unless it had ended before the signal came */
	if (w->result.status != RESULT_DONE)
		assert_int_equal(w->result.status, RESULT_FAILED);
	expect_journal(w, false);
}

/* This program plays kcompactd: it has a CPU clock. */
static void play_kcompactd(const struct world *w)
{
	char dir[32], path[48];
	int fd;

	snprintf(dir, sizeof(dir), "proc/%d", (int)getpid());
	snprintf(path, sizeof(path), "%s/comm", dir);
	assert_int_equal(mkdirat(w->dir_fd, dir, 0700), 0);
	fd = openat(w->dir_fd, path, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(fd, "kcompactd0\n", 11), 11);
	close(fd);
}

static struct msg_action proactive(uint32_t blocks)
{
	struct msg_action req = request;

	req.backend = BACKEND_PROACTIVE;
	req.order = 9;
	req.blocks = blocks;
	return req;
}

static void proactive_refuses(void **state)
{
	struct msg_action req = proactive(100);
	struct world *w = *state;

	set_blocks(w, 10);
	req.order = 4;
	expect_refusal(w, &req, WHY_MISSING, "PMD-sized");
	req.order = 9;
	w->knobs.knob[KNOB_COMPACTION_PROACTIVENESS].denied = true;
	expect_refusal(w, &req, WHY_DENIED, "not ours to set");
	w->knobs.knob[KNOB_COMPACTION_PROACTIVENESS].denied = false;
	put(w, "proc/buddyinfo",
	    "Node 0, zone    DMA32 0 0 0 0 0 0 0 0 0 400 0\n");
	expect_refusal(w, &req, WHY_EXHAUSTED, "below where the kernel starts");
}

static void proactive_stops_at_the_target(void **state)
{
	struct msg_action req = proactive(100);
	struct world *w = *state;

	play_kcompactd(w);
	put(w, P, "20\n");
	set_blocks(w, 10);
	assert_true(start(w, &req));
	/* 110 blocks of 205,120 pages: 72 % are outside, 71 to be sure */
	expect_text(w, P, "29\n");
	expect_journal(w, true);
	assert_false(step(w, MSEC_US));
	set_blocks(w, 110);
	run_to_end(w);
	assert_int_equal(w->result.why, WHY_TARGET);
	expect_text(w, P, "20\n");
	expect_journal(w, false);
}

static void proactive_ends_with_the_kernel(void **state)
{
	struct msg_action req = proactive(100);
	struct world *w = *state;
	unsigned int steps = 0;

	play_kcompactd(w);
	/* few wanted, so low would be above the score: it must start first */
	req.blocks = 1;
	put(w, P, "20\n");
	set_blocks(w, 10);
	assert_true(start(w, &req));
	expect_text(w, P, "15\n"); /* score 96, high must be below */
	while (!step(w, 100 * MSEC_US) && steps < 100)
		steps++;
	assert_in_range(steps, 14, 99);
	assert_int_equal(w->result.why, WHY_EXHAUSTED);
	expect_text(w, P, "20\n");
}

/* A score that older kernels start at no P for: tried once. */
static void proactive_finds_the_floor(void **state)
{
	struct msg_action req = proactive(10);
	struct world *w = *state;
	unsigned int steps = 0;

	play_kcompactd(w);
	put(w, P, "250\n"); /* three digits: a file keeps the tail */
	put(w, "proc/buddyinfo",
	    "Node 0, zone    DMA32 20000 0 0 0 0 0 0 0 0 350 0\n");
	assert_true(start(w, &req));
	expect_text(w, P, "100\n");
	while (!step(w, 500 * MSEC_US) && steps < 100)
		steps++;
	assert_int_equal(w->result.status, RESULT_DONE);
	assert_int_equal(w->result.why, WHY_EXHAUSTED);
	assert_int_equal(w->memory.proactive_floor_pct, 15);
	expect_text(w, P, "250\n");
	expect_refusal(w, &req, WHY_EXHAUSTED, "below where the kernel starts");
	/* above it that does not matter */
	set_blocks(w, 10);
	put(w, P, "20\n");
	knobs_tick(&w->knobs, w->now_us += 10 * SEC_US);
	assert_true(start(w, &req));
	action_stop(&w->action, WHY_CANCELLED, "");
	run_to_end(w);
}

static void auto_says_what_it_took(void **state)
{
	struct msg_action req = request;
	struct world *w = *state;

	req.backend = BACKEND_AUTO;
	set_blocks(w, 10);
	w->caps.backends = 1u << BACKEND_FAULT;
	put(w, SIZE, "always inherit [madvise] never\n");
	assert_true(start(w, &req));
	assert_int_equal(w->action.result.backend, BACKEND_FAULT);
	assert_string_equal(w->action.choice, "auto: fault, alone can do this");
	action_stop(&w->action, WHY_CANCELLED, "");
	run_to_end(w);
}

/* min_free_kbytes goes its own way when a size is switched; a recovery after
 * a crash finds the journal's switch. */
static void switch_of_a_dead_agent(void **state)
{
	struct world *w = *state;
	struct knobs k;

	put(w, SIZE, "always inherit madvise [never]\n");
	knobs_hold(&w->knobs, KNOB_MTHP(4), MTHP_MADVISE);
	knobs_tick(&w->knobs, w->now_us);
	expect_journal(w, true);
	put(w, SIZE, "always inherit [madvise] never\n");
	knobs_init(&k, w->proc_fd, w->sys_fd, w->run_fd, w->boot_id, 0, 0);
	assert_int_equal(knobs_recover(&k), 0);
	expect_text(w, SIZE, "never");
	expect_journal(w, false);
	knobs_close(&k);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(fault_refuses),
		T(fault_takes_its_switches),
		T(fault_changes_nothing_it_need_not),
		T(fault_ends_by_itself),
		T(fault_stops_at_stalls),
		T(fault_child_dies),
		T(proactive_refuses),
		T(proactive_stops_at_the_target),
		T(proactive_ends_with_the_kernel),
		T(proactive_finds_the_floor),
		T(auto_says_what_it_took),
		T(switch_of_a_dead_agent),
	};

	log_setup("test_backends", LOG_LEVEL_ERR - 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
