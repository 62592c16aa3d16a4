// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pools and memory blocks in the journal, over a directory that looks like
 * /sys: a SIGKILL at any instant leaves nothing behind after the next start.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "../testdir.h"
#include "hugepool.h"
#include "knob.h"
#include "loan.h"
#include "log.h"
#include "memblocks.h"

#define BOOT_A "0d3c9a52-0000-4000-8000-00000000000a"
#define BOOT_B "0d3c9a52-0000-4000-8000-00000000000b"
#define HUGE   "sys/devices/system/node/node0/hugepages/hugepages-2048kB/"
#define BLOCK  "sys/devices/system/memory/memory9/"

/* All sizes have three digits, all states one length: unlike the kernel's, a
 * plain file keeps the tail of a longer text. */
struct world {
	struct testdir dir;
	int proc_fd, sys_fd, run_fd;
	struct knobs k;
	struct loans l;
};

static void init(struct world *w, const char *boot_id)
{
	knobs_init(&w->k, w->proc_fd, w->sys_fd, w->run_fd, boot_id, 0, 0);
	loans_init(&w->l, w->sys_fd, &w->k.journal, &w->k.data, false);
}

static void put(const struct world *w, const char *name, const char *text)
{
	assert_int_equal(testdir_write(&w->dir, name, text), 0);
}

static int setup(void **state)
{
	static struct world w;

	memset(&w, 0, sizeof(w));
	assert_int_equal(testdir_make(&w.dir), 0);
	put(&w, HUGE "nr_hugepages", "100\n");
	put(&w, HUGE "surplus_hugepages", "0\n");
	put(&w, HUGE "free_hugepages", "0\n");
	put(&w, BLOCK "state", "online\n");
	put(&w, BLOCK "valid_zones", "Normal\n");
	put(&w, "proc/sys/vm/watermark_scale_factor", "100\n");
	put(&w, "run/lock", "");
	w.proc_fd = openat(w.dir.fd, "proc", O_RDONLY | O_DIRECTORY);
	w.sys_fd = openat(w.dir.fd, "sys", O_RDONLY | O_DIRECTORY);
	w.run_fd = openat(w.dir.fd, "run", O_RDONLY | O_DIRECTORY);
	init(&w, BOOT_A);
	*state = &w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	knobs_close(&w->k);
	close(w->proc_fd);
	close(w->sys_fd);
	close(w->run_fd);
	testdir_remove(&w->dir);
	return 0;
}

static bool journal_exists(const struct world *w)
{
	return faccessat(w->run_fd, JOURNAL_NAME, F_OK, 0) == 0;
}

static uint64_t pool(const struct world *w)
{
	struct hugepool p = {.kib = 2048};
	struct hugepool_size size;

	assert_int_equal(hugepool_read(w->sys_fd, &p, &size), 0);
	return size.pages;
}

/* As the next start does it. */
static int restart(struct world *w, const char *boot_id)
{
	int r;

	knobs_close(&w->k);
	init(w, boot_id);
	r = knobs_recover(&w->k);
	return r < 0 ? r : loans_recover(&w->l, 0);
}

static void take_and_end(void **state)
{
	struct world *w = *state;

	assert_int_equal(loans_take_pool(&w->l, 0, 2048, 100, 150), 0);
	assert_int_equal(loans_take_pool(&w->l, 0, 2048, 100, 180), 0);
	assert_int_equal(loans_take_pool(&w->l, 0, 2048, 150, 180), -EAGAIN);
	assert_int_equal(loans_take_block(&w->l, 9, ZONE_KIND_NORMAL), 0);
	assert_int_equal(loans_take_block(&w->l, 9, ZONE_KIND_NORMAL), -EAGAIN);
	assert_true(loans_any(&w->l) && journal_exists(w));
	loans_end_pool(&w->l, 0, 2048);
	assert_true(loans_any(&w->l) && journal_exists(w));
	loans_end_block(&w->l, 9);
	assert_false(loans_any(&w->l) || journal_exists(w));
}

static void no_journal_no_loan(void **state)
{
	struct world *w = *state;

	w->k.journal.dir_fd = -1;
	assert_int_equal(loans_take_pool(&w->l, 0, 2048, 100, 150), -ENOENT);
	assert_int_equal(loans_take_block(&w->l, 9, ZONE_KIND_NORMAL), -ENOENT);
	assert_false(loans_any(&w->l));
	w->k.journal.dir_fd = w->run_fd;
	w->l.observe = true;
	assert_int_equal(loans_take_pool(&w->l, 0, 2048, 100, 150), -EROFS);
}

static void all_slots_used(void **state)
{
	struct world *w = *state;

	for (uint32_t i = 0; i < JOURNAL_POOLS_MAX; i++)
		assert_int_equal(loans_take_pool(&w->l, i, 2048, 1, 2), 0);
	for (uint32_t i = 0; i < JOURNAL_BLOCKS_MAX; i++)
		assert_int_equal(loans_take_block(&w->l, i, i), 0);
	assert_int_equal(loans_take_pool(&w->l, 9, 2048, 1, 2), -ENOSPC);
	assert_int_equal(loans_take_block(&w->l, 9, 0), -ENOSPC);
	/* and all of it is read again */
	assert_int_equal(journal_read(&w->k.journal, &w->k.data), 0);
	for (uint32_t i = 0; i < JOURNAL_POOLS_MAX; i++) {
		assert_true(w->k.data.pool[i].used && w->k.data.block[i].used);
		assert_int_equal(w->k.data.pool[i].node, i);
		assert_int_equal(w->k.data.block[i].zone, i);
	}
}

/* What each size that is found means, if 100 was and 180 is ours. */
static void pools_found(void **state)
{
	const struct {
		const char *found, *surplus;
		uint64_t want;
	} cases[] = {
		{"100\n", "0\n", 100},
		{"101\n", "0\n", 100},
		{"180\n", "0\n", 100},
		{"181\n", "0\n", 181},
		{"099\n", "0\n", 99},
		/* in use, and on its way out already */
		{"130\n", "30\n", 100},
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("# found %s", cases[i].found);
		assert_int_equal(loans_take_pool(&w->l, 0, 2048, 100, 180), 0);
		put(w, HUGE "nr_hugepages", cases[i].found);
		put(w, HUGE "surplus_hugepages", cases[i].surplus);
		(void)restart(w, BOOT_A);
		put(w, HUGE "surplus_hugepages", "0\n");
		assert_int_equal(pool(w), cases[i].want);
	}
}

static void blocks_found(void **state)
{
	const struct {
		const char *state, *zones;
		enum zone_kind zone;
		const char *want;
	} cases[] = {
		{"online\n", "Normal\n", ZONE_KIND_NORMAL, "online"},
		{"offline\n", "Normal Movable\n", ZONE_KIND_NORMAL,
		 "online_kernel"},
		{"offline\n", "Movable Normal\n", ZONE_KIND_MOVABLE,
		 "online_movable"},
		/* no way back to it: online at all comes first */
		{"offline\n", "Normal Movable\n", ZONE_KIND_DMA32, "online"},
		{"going-offline\n", "none\n", ZONE_KIND_MOVABLE,
		 "online_movable"},
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("# block %zu\n", i);
		assert_int_equal(loans_take_block(&w->l, 9, cases[i].zone), 0);
		put(w, BLOCK "state", cases[i].state);
		put(w, BLOCK "valid_zones", cases[i].zones);
		(void)restart(w, BOOT_A);
		assert_int_equal(strncmp(testdir_read(&w->dir, BLOCK "state"),
					 cases[i].want, strlen(cases[i].want)),
				 0);
		/* a plain file does not turn "online_kernel" into "online" */
		loans_end_block(&w->l, 9);
	}
}

static void failed_ones_stay(void **state)
{
	struct world *w = *state;

	assert_int_equal(loans_take_block(&w->l, 9, ZONE_KIND_NORMAL), 0);
	put(w, BLOCK "state", "offline\n");
	put(w, BLOCK "valid_zones", "Normal Movable\n");
	/* the plain file reads "online_kernel", which is not online */
	assert_int_equal(restart(w, BOOT_A), -EBUSY);
	assert_true(loans_any(&w->l) && journal_exists(w));
	put(w, BLOCK "state", "online\n");
	loans_tick(&w->l, SEC_US);
	assert_false(loans_any(&w->l) || journal_exists(w));
	put(w, BLOCK "state", "online\n");
}

static void gone_ones_are_dropped(void **state)
{
	struct world *w = *state;

	assert_int_equal(loans_take_block(&w->l, 77, ZONE_KIND_NORMAL), 0);
	assert_int_equal(loans_take_pool(&w->l, 3, 2048, 0, 9), 0);
	assert_int_equal(restart(w, BOOT_A), 0);
	assert_false(journal_exists(w));
}

static void knobs_and_loans_share_it(void **state)
{
	int64_t v[KNOB_COUNT] = {[KNOB_WATERMARK_SCALE_FACTOR] = 150};
	struct world *w = *state;

	knobs_want(&w->k, 1u << KNOB_WATERMARK_SCALE_FACTOR, v);
	knobs_tick(&w->k, SEC_US);
	assert_int_equal(loans_take_pool(&w->l, 0, 2048, 100, 180), 0);
	put(w, HUGE "nr_hugepages", "140\n");
	/* the knob needs nothing any more, the pool does */
	put(w, "proc/sys/vm/watermark_scale_factor", "100\n");
	knobs_close(&w->k);
	init(w, BOOT_A);
	assert_int_equal(knobs_recover(&w->k), 0);
	assert_true(loans_any(&w->l) && journal_exists(w));
	assert_int_equal(loans_recover(&w->l, 0), 0);
	assert_int_equal(pool(w), 100);
	assert_false(journal_exists(w));
}

static void other_boot_is_not_replayed(void **state)
{
	struct world *w = *state;

	assert_int_equal(loans_take_pool(&w->l, 0, 2048, 100, 180), 0);
	put(w, HUGE "nr_hugepages", "140\n");
	assert_int_equal(restart(w, BOOT_B), 0);
	assert_int_equal(pool(w), 140);
	assert_false(journal_exists(w));
}

/* Each byte in turn is broken: nothing may be replayed from any of these. */
static void broken_journal_is_kept_aside(void **state)
{
	struct world *w = *state;
	char text[1024], broken[1024];
	ssize_t n;

	assert_int_equal(loans_take_pool(&w->l, 0, 2048, 100, 180), 0);
	assert_int_equal(loans_take_block(&w->l, 9, ZONE_KIND_NORMAL), 0);
	put(w, HUGE "nr_hugepages", "140\n");
	n = read_text_at(w->run_fd, JOURNAL_NAME, text, sizeof(text));
	assert_true(n > 0);
	for (ssize_t i = 0; i < n; i++) {
		memcpy(broken, text, (size_t)n + 1);
		broken[i] ^= 0x11;
		put(w, "run/" JOURNAL_NAME, broken);
		assert_int_equal(restart(w, BOOT_A), -EBADMSG);
		assert_false(loans_any(&w->l));
		assert_int_equal(pool(w), 140);
		assert_false(journal_exists(w));
		assert_int_equal(
			faccessat(w->run_fd, JOURNAL_ASIDE_NAME, F_OK, 0), 0);
	}
}

/* What the one that dies was doing. */
enum deed { TAKE, RAISE, PUT_BACK, RESTORE };

struct death {
	enum deed deed;
	enum loan_instant at;
	const char *left; /* the pool, when it dies */
};

static void die_at(enum loan_instant i, void *ctx)
{
	const struct death *d = ctx;

	if (i == d->at)
		_exit(0);
}

static void live_and_die(struct world *w, struct death *d)
{
	struct hugepool p = {.kib = 2048};

	if (d->deed != TAKE) {
		(void)loans_take_pool(&w->l, 0, 2048, 100, 150);
		(void)hugepool_write(w->sys_fd, &p, 150);
	}
	w->l.at_instant = die_at;
	w->l.at_ctx = d;
	switch (d->deed) {
	case TAKE:
	case RAISE:
		(void)loans_take_pool(&w->l, 0, 2048, 100, 180);
		(void)hugepool_write(w->sys_fd, &p, 180);
		break;
	case PUT_BACK:
		(void)hugepool_write(w->sys_fd, &p, 100);
		loans_end_pool(&w->l, 0, 2048);
		break;
	case RESTORE:
		(void)loans_restore_all(&w->l, 0);
		break;
	}
	if (d->at == LOAN_INSTANT_COUNT)
		_exit(0);
	_exit(1); /* the instant was not met */
}

static void killed_at_any_instant(void **state)
{
	struct death deaths[] = {
		{TAKE, LOAN_BEFORE_JOURNAL, "100"},
		{TAKE, LOAN_AFTER_JOURNAL, "100"},
		{TAKE, LOAN_INSTANT_COUNT, "180"},
		{RAISE, LOAN_BEFORE_JOURNAL, "150"},
		{RAISE, LOAN_AFTER_JOURNAL, "150"},
		{RAISE, LOAN_INSTANT_COUNT, "180"},
		{PUT_BACK, LOAN_AFTER_FORGET, "100"},
		{RESTORE, LOAN_BEFORE_PUT_BACK, "150"},
		{RESTORE, LOAN_AFTER_PUT_BACK, "100"},
		{RESTORE, LOAN_AFTER_FORGET, "100"},
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(deaths); i++) {
		int status;
		pid_t pid = fork();

		print_message("# death %zu\n", i);
		assert_true(pid >= 0);
		if (!pid)
			live_and_die(w, &deaths[i]);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
		assert_int_equal(
			strncmp(testdir_read(&w->dir, HUGE "nr_hugepages"),
				deaths[i].left, 3),
			0);
		assert_int_equal(restart(w, BOOT_A), 0);
		assert_int_equal(pool(w), 100);
		assert_false(journal_exists(w));
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(take_and_end),
		T(no_journal_no_loan),
		T(all_slots_used),
		T(pools_found),
		T(blocks_found),
		T(failed_ones_stay),
		T(gone_ones_are_dropped),
		T(knobs_and_loans_share_it),
		T(other_boot_is_not_replayed),
		T(broken_journal_is_kept_aside),
		T(killed_at_any_instant),
	};

	log_setup("test_loan", LOG_LEVEL_ERR - 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
