// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Actions through the hugetlb and memblock backends, over a copy of a guest's
 * files: what they refuse, what they choose, and that a pool goes back.
 *
 * All sizes have three digits: unlike the kernel's, a plain file keeps the
 * tail of a longer text.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "../testdir.h"
#include "action.h"
#include "caps.h"
#include "log.h"
#include "pbmap.h"

#define POOL   "sys/devices/system/node/node0/hugepages/hugepages-2048kB/"
#define MEMORY "sys/devices/system/memory/"
/* memory block 8 of 128 MiB */
#define BLOCK_PFN   0x40000u
#define BLOCK_PAGES 0x8000u
#define OURS	    "40000000-47ffffff : System RAM\n"

struct world {
	struct testdir dir;
	int proc_fd, sys_fd, run_fd;
	struct config cfg;
	struct msg_hello caps;
	char boot_id[BOOT_ID_TEXT_SIZE];
	struct sampler sampler;
	struct knobs knobs;
	struct loans loans;
	struct budget budget;
	struct action_env env;
	struct action action;
	struct msg_result result;
	uint64_t now_us;
};

static void put(const struct world *w, const char *name, const char *text)
{
	assert_int_equal(testdir_write(&w->dir, name, text), 0);
}

static void put_flags(const struct world *w, uint64_t word)
{
	static uint64_t words[BLOCK_PAGES];
	int fd = openat(w->dir.fd, "proc/kpageflags", O_WRONLY | O_CREAT, 0600);

	for (size_t i = 0; i < BLOCK_PAGES; i++)
		words[i] = word;
	assert_int_equal(
		pwrite(fd, words, sizeof(words), BLOCK_PFN * sizeof(words[0])),
		sizeof(words));
	close(fd);
}

static void make_files(struct world *w)
{
	char command[200];

	assert_int_equal(testdir_make(&w->dir), 0);
	snprintf(command, sizeof(command),
		 "cp -r tests/data/guest-6.12/* %s && mkdir %s/run",
		 w->dir.path, w->dir.path);
	assert_int_equal(system(command), 0);
	put(w, "proc/buddyinfo",
	    "Node 0, zone    DMA32 200000 0 0 0 0 0 0 0 0 5 0\n");
	put(w, POOL "nr_hugepages", "100\n");
	put(w, POOL "surplus_hugepages", "0\n");
	put(w, POOL "free_hugepages", "0\n");
	put(w, "proc/iomem", OURS);
	put_flags(w, 1 << KPF_LRU);
	put(w, MEMORY "block_size_bytes", "8000000\n");
	put(w, MEMORY "memory8/state", "online\n");
	put(w, MEMORY "memory8/valid_zones", "DMA32\n");
	put(w, MEMORY "memory8/node0/x", "");
	put(w, "sys/devices/system/node/node0/memory8/state", "online\n");
	put(w, "sys/devices/system/node/node0/memory8/valid_zones", "DMA32\n");
	w->proc_fd = openat(w->dir.fd, "proc", O_RDONLY | O_DIRECTORY);
	w->sys_fd = openat(w->dir.fd, "sys", O_RDONLY | O_DIRECTORY);
	w->run_fd = openat(w->dir.fd, "run", O_RDONLY | O_DIRECTORY);
}

static int setup(void **state)
{
	static struct world w;
	char what[CONF_WHAT_MAX];

	memset(&w, 0, sizeof(w));
	make_files(&w);
	w.now_us = 100 * SEC_US;
	config_defaults(&w.cfg);
	w.cfg.allow_backends |= 1u << BACKEND_MEMBLOCK;
	assert_int_equal(caps_probe(&w.cfg, false, w.proc_fd, w.sys_fd, &w.caps,
				    w.boot_id, what),
			 0);
	assert_int_equal(sampler_open(&w.sampler, w.proc_fd, w.sys_fd, &w.caps),
			 0);
	knobs_init(&w.knobs, w.proc_fd, w.sys_fd, w.run_fd, w.boot_id, 0, 0);
	loans_init(&w.loans, w.sys_fd, &w.knobs.journal, &w.knobs.data, false);
	budget_init(&w.budget, 100000, 30 * SEC_US, w.now_us);
	w.env = (struct action_env){
		.cfg = &w.cfg,
		.caps = &w.caps,
		.sampler = &w.sampler,
		.knobs = &w.knobs,
		.loans = &w.loans,
		.budget = &w.budget,
		.proc_fd = w.proc_fd,
		.sys_fd = w.sys_fd,
		.psi_abort_centi = 2000,
	};
	*state = &w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	knobs_close(&w->knobs);
	sampler_close(&w->sampler);
	close(w->run_fd);
	close(w->sys_fd);
	close(w->proc_fd);
	testdir_remove(&w->dir);
	return 0;
}

static bool start(struct world *w, enum backend backend, uint32_t blocks,
		  uint8_t order)
{
	struct msg_action req = {
		.id = 7,
		.backend = (uint8_t)backend,
		.order = order,
		.blocks = blocks,
		.reason = "test",
	};

	return action_start(&w->action, &w->env, &req, w->now_us, &w->result);
}

static bool journal_exists(const struct world *w)
{
	return faccessat(w->run_fd, JOURNAL_NAME, F_OK, 0) == 0;
}

/* Step until it ends, at most 5 s of real time. */
static void expect_end(struct world *w, enum result_status status,
		       enum stop_why why, const char *text)
{
	for (unsigned int i = 0; i < 5000; i++) {
		w->now_us += MSEC_US;
		if (action_step(&w->action, &w->env, w->now_us, &w->result))
			break;
		usleep(1000);
	}
	assert_false(w->action.running);
	assert_string_equal(w->result.text, text);
	assert_int_equal(w->result.status, status);
	assert_int_equal(w->result.why, why);
	/* nothing of ours stays */
	assert_false(journal_exists(w));
	assert_false(loans_any(&w->loans));
	assert_int_equal(
		*testdir_read(&w->dir,
			      "proc/sys/vm/percpu_pagelist_high_fraction"),
		'0');
}

static void expect_refusal(struct world *w, enum stop_why why)
{
	assert_int_equal(w->result.status, RESULT_REFUSED);
	assert_int_equal(w->result.why, why);
	assert_false(journal_exists(w));
}

static const char *pool(const struct world *w)
{
	return testdir_read(&w->dir, POOL "nr_hugepages");
}

static void capabilities(void **state)
{
	struct world *w = *state;
	char what[CONF_WHAT_MAX];

	w->caps.backends &= ~(1u << BACKEND_FAULT);
	assert_int_equal(w->caps.backends,
			 1u << BACKEND_HUGETLB | 1u << BACKEND_MEMBLOCK);
	/* as shipped */
	config_defaults(&w->cfg);
	assert_int_equal(caps_probe(&w->cfg, false, w->proc_fd, w->sys_fd,
				    &w->caps, w->boot_id, what),
			 0);
	w->caps.backends &= ~(1u << BACKEND_FAULT);
	assert_int_equal(w->caps.backends, 1u << BACKEND_HUGETLB);
	assert_true(w->caps.backends_denied >> BACKEND_MEMBLOCK & 1);
	assert_true(w->caps.backends_missing >> BACKEND_COMPACT & 1);
}

static void pool_grows_and_goes_back(void **state)
{
	struct world *w = *state;

	assert_true(start(w, BACKEND_HUGETLB, 20, 9));
	assert_true(journal_exists(w));
	/* the files don't show what it freed */
	expect_end(w, RESULT_DONE, WHY_EXHAUSTED, "");
	assert_string_equal(pool(w), "100");
	assert_int_equal(w->result.backend, BACKEND_HUGETLB);
	assert_true(w->result.blocks_before > 0);
}

static void cancelled_pool_goes_back(void **state)
{
	struct world *w = *state;

	assert_true(start(w, BACKEND_HUGETLB, ACTION_BLOCKS_ALL, 9));
	action_stop(&w->action, WHY_CANCELLED, "host says cancel");
	expect_end(w, RESULT_STOPPED, WHY_CANCELLED, "host says cancel");
	assert_string_equal(pool(w), "100");
}

static void pool_of_others_is_theirs(void **state)
{
	struct world *w = *state;

	assert_true(start(w, BACKEND_HUGETLB, 200, 9));
	for (unsigned int i = 0; i < 2000 && !strcmp(pool(w), "100"); i++)
		usleep(1000);
	put(w, POOL "nr_hugepages", "050\n");
	expect_end(w, RESULT_STOPPED, WHY_BUSY, "pool was changed by others");
	assert_string_equal(pool(w), "050");
}

/* With all but a little of the node's memory below its watermarks. */
static void no_room_for_a_pool(void **state)
{
	struct world *w = *state;

	put(w, "proc/buddyinfo",
	    "Node 0, zone    DMA32 9 0 0 0 0 0 0 0 0 1 0\n");
	assert_false(start(w, BACKEND_HUGETLB, 20, 9));
	expect_refusal(w, WHY_LOW_MEMORY);
}

static void pools_that_are_refused(void **state)
{
	struct world *w = *state;

	assert_false(start(w, BACKEND_HUGETLB, 20, 4));
	expect_refusal(w, WHY_MISSING);
	put(w, POOL "surplus_hugepages", "2\n");
	assert_false(start(w, BACKEND_HUGETLB, 20, 9));
	expect_refusal(w, WHY_BUSY);
	put(w, POOL "surplus_hugepages", "0\n");
	put(w, "proc/swaps", "Filename Type Size\n/dev/vda partition 9\n");
	assert_false(start(w, BACKEND_HUGETLB, 20, 9));
	expect_refusal(w, WHY_RECLAIM);
}

static void stopped_by_reclaim(void **state)
{
	struct world *w = *state;

	put(w, "proc/vmstat", "pgsteal_kswapd 1000\n");
	assert_true(start(w, BACKEND_HUGETLB, ACTION_BLOCKS_ALL, 9));
	put(w, "proc/vmstat", "pgsteal_kswapd 6000\n");
	expect_end(w, RESULT_STOPPED, WHY_RECLAIM, "reclaim rises");
	assert_int_equal(w->result.reclaimed, 5000);
	assert_string_equal(pool(w), "100");
}

static void memblock_needs_its_sources(void **state)
{
	struct world *w = *state;

	put(w, "proc/iomem", "00000000-00000000 : System RAM\n");
	assert_false(start(w, BACKEND_MEMBLOCK, 20, 9));
	expect_refusal(w, WHY_MISSING);
	put(w, "proc/iomem", OURS);
	assert_int_equal(unlinkat(w->proc_fd, "kpageflags", 0), 0);
	assert_false(start(w, BACKEND_MEMBLOCK, 20, 9));
	expect_refusal(w, WHY_MISSING);
}

/* Which of them may be taken offline, and why not. */
static void blocks_that_are_refused(void **state)
{
	static const char fits[] = "no further memory block fits";
	const struct {
		const char *name;
		uint64_t word;
		const char *iomem, *state, *zones, *buddyinfo;
		enum stop_why why;
		const char *text;
	} cases[] = {
		{"slab", 1 << KPF_SLAB, OURS, "online", "DMA32", NULL,
		 WHY_EXHAUSTED, fits},
		{"kernel's, or on a per-CPU list", 0, OURS, "online", "DMA32",
		 NULL, WHY_EXHAUSTED, fits},
		{"hugetlb", 1 << KPF_HUGE, OURS, "online", "DMA32", NULL,
		 WHY_EXHAUSTED, fits},
		{"balloon", 1 << KPF_OFFLINE, OURS, "online", "DMA32", NULL,
		 WHY_EXHAUSTED, fits},
		{"nothing to gain", 1 << KPF_BUDDY, OURS, "online", "DMA32",
		 NULL, WHY_EXHAUSTED, fits},
		{"virtio-mem's", 1 << KPF_LRU,
		 "40000000-4fffffff : virtio0\n"
		 "  40000000-47ffffff : System RAM (virtio_mem)\n",
		 "online", "DMA32", NULL, WHY_EXHAUSTED, fits},
		{"with a hole", 1 << KPF_LRU,
		 "40000000-47fff000 : System RAM\n", "online", "DMA32", NULL,
		 WHY_EXHAUSTED, fits},
		{"of several zones", 1 << KPF_LRU, OURS, "online", "none", NULL,
		 WHY_EXHAUSTED, fits},
		{"offline already", 1 << KPF_LRU, OURS, "offline",
		 "DMA32 Movable", NULL, WHY_EXHAUSTED, fits},
		{"no room elsewhere", 1 << KPF_LRU, OURS, "online", "DMA32",
		 "Node 0, zone    DMA32 0 0 0 0 0 0 0 0 0 100 0\n",
		 WHY_LOW_MEMORY, "too little is free elsewhere"},
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("# %s\n", cases[i].name);
		put_flags(w, cases[i].word);
		put(w, "proc/iomem", cases[i].iomem);
		put(w, MEMORY "memory8/state", cases[i].state);
		put(w, MEMORY "memory8/valid_zones", cases[i].zones);
		if (cases[i].buddyinfo)
			put(w, "proc/buddyinfo", cases[i].buddyinfo);
		assert_true(start(w, BACKEND_MEMBLOCK, 20, 9));
		expect_end(w,
			   cases[i].why == WHY_EXHAUSTED ? RESULT_DONE
							 : RESULT_STOPPED,
			   cases[i].why, cases[i].text);
		assert_true(w->result.kpageflags_words >= BLOCK_PAGES - 1024);
		assert_string_equal(
			testdir_read(&w->dir, MEMORY "memory8/state"),
			cases[i].state);
	}
}

/* At the end of DMA32 it would come back as Normal. */
static void block_at_the_edge_of_its_zone(void **state)
{
	struct world *w = *state;

	put(w, "proc/zoneinfo",
	    "Node 0, zone    DMA32\n  pages free     400000\n"
	    "        high     900\n        spanned  290816\n"
	    "        present  290816\n        managed  290000\n"
	    "  start_pfn:           4096\n");
	assert_true(start(w, BACKEND_MEMBLOCK, 20, 9));
	expect_end(w, RESULT_DONE, WHY_EXHAUSTED,
		   "no further memory block fits");
}

/* The file takes "offline" as the kernel would, and "online_kernel" as it
 * would not: taken, brought back, and told that it is not online. */
static void block_that_does_not_come_back(void **state)
{
	struct world *w = *state;
	uint64_t end_us = w->now_us + 5 * SEC_US;

	put(w, MEMORY "memory8/state", "online\n");
	assert_true(start(w, BACKEND_MEMBLOCK, 20, 9));
	while (w->now_us < end_us &&
	       !action_step(&w->action, &w->env, w->now_us, &w->result)) {
		w->now_us += MSEC_US;
		usleep(1000);
	}
	assert_int_equal(w->result.status, RESULT_FAILED);
	assert_string_equal(testdir_read(&w->dir, MEMORY "memory8/state"),
			    "online_kernel");
	/* kept for later */
	assert_true(journal_exists(w) && loans_any(&w->loans));
	put(w, MEMORY "memory8/state", "online\n");
	loans_tick(&w->loans, w->now_us);
	assert_false(journal_exists(w));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(capabilities),
		T(pool_grows_and_goes_back),
		T(cancelled_pool_goes_back),
		T(pool_of_others_is_theirs),
		T(no_room_for_a_pool),
		T(pools_that_are_refused),
		T(stopped_by_reclaim),
		T(memblock_needs_its_sources),
		T(blocks_that_are_refused),
		T(block_at_the_edge_of_its_zone),
		T(block_that_does_not_come_back),
	};

	log_setup("test_backends_b", LOG_LEVEL_ERR - 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
