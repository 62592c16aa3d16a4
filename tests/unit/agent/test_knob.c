// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Knobs over a directory that looks like /proc and /sys: what is written,
 * what is put back, and that a SIGKILL at any instant leaves nothing behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "knob.h"
#include "knob_info.h"
#include "util.h"

#define BOOT_A	"0d3c9a52-0000-4000-8000-00000000000a"
#define BOOT_B	"0d3c9a52-0000-4000-8000-00000000000b"
#define WSF	KNOB_WATERMARK_SCALE_FACTOR
#define WSF_BIT (1u << WSF)

struct world {
	char dir[64];
	int proc_fd, sys_fd, run_fd;
	struct knobs k;
};

static void put(int dir_fd, const char *path, const char *text)
{
	int fd = openat(dir_fd, path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static int64_t wsf(const struct world *w)
{
	char text[64];
	int64_t v = -1;

	assert_true(read_text_at(w->proc_fd, knob_info[WSF].path, text,
				 sizeof(text)) > 0);
	assert_int_equal(knob_parse(WSF, text, &v), 0);
	return v;
}

static void set_wsf(const struct world *w, const char *text)
{
	put(w->proc_fd, knob_info[WSF].path, text);
}

/* All values have three digits: unlike the kernel's, a plain file keeps the
 * tail of a longer text. */
static void init(struct world *w, const char *boot_id)
{
	knobs_init(&w->k, w->proc_fd, w->sys_fd, w->run_fd, boot_id, 0, 0);
}

static int setup(void **state)
{
	static struct world w;
	static const char *const dirs[] = {"proc",
					   "proc/sys",
					   "proc/sys/vm",
					   "sys",
					   "sys/kernel",
					   "sys/kernel/mm",
					   "sys/kernel/mm/transparent_hugepage",
					   "run"};
	char path[160];

	snprintf(w.dir, sizeof(w.dir), "/tmp/test_knob.XXXXXX");
	assert_non_null(mkdtemp(w.dir));
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		snprintf(path, sizeof(path), "%s/%s", w.dir, dirs[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	snprintf(path, sizeof(path), "%s/proc", w.dir);
	w.proc_fd = open(path, O_RDONLY | O_DIRECTORY);
	snprintf(path, sizeof(path), "%s/sys", w.dir);
	w.sys_fd = open(path, O_RDONLY | O_DIRECTORY);
	snprintf(path, sizeof(path), "%s/run", w.dir);
	w.run_fd = open(path, O_RDONLY | O_DIRECTORY);
	set_wsf(&w, "100\n");
	put(w.proc_fd, "sys/vm/compaction_proactiveness", "20\n");
	put(w.proc_fd, "sys/vm/percpu_pagelist_high_fraction", "0\n");
	put(w.sys_fd, "kernel/mm/transparent_hugepage/defrag",
	    "always defer defer+madvise [madvise] never\n");
	init(&w, BOOT_A);
	*state = &w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	char command[96];

	knobs_close(&w->k);
	close(w->proc_fd);
	close(w->sys_fd);
	close(w->run_fd);
	snprintf(command, sizeof(command), "rm -rf %s", w->dir);
	return system(command);
}

static void want_wsf(struct world *w, int64_t value)
{
	int64_t v[KNOB_COUNT] = {0};

	v[WSF] = value;
	knobs_want(&w->k, value ? WSF_BIT : 0, v);
}

static bool journal_exists(const struct world *w)
{
	return faccessat(w->run_fd, JOURNAL_NAME, F_OK, 0) == 0;
}

static void decisions(void **state)
{
	const struct {
		const char *name;
		struct knob_state s;
		uint64_t now_us;
		enum knob_step want;
	} cases[] = {
		{"nobody wants it",
		 {.readable = true, .current = 1},
		 0,
		 KNOB_KEEP},
		{"wanted",
		 {.readable = true, .current = 1, .host = {true, 2}},
		 0,
		 KNOB_WRITE},
		{"is there already",
		 {.readable = true, .current = 2, .host = {true, 2}},
		 0,
		 KNOB_KEEP},
		{"action goes first",
		 {.readable = true,
		  .current = 2,
		  .host = {true, 2},
		  .action = {true, 3}},
		 0,
		 KNOB_WRITE},
		{"written just now",
		 {.readable = true,
		  .managed = true,
		  .current = 2,
		  .ours = 2,
		  .written_us = SEC_US,
		  .host = {true, 3}},
		 2 * SEC_US,
		 KNOB_WAIT},
		{"written a while ago",
		 {.readable = true,
		  .managed = true,
		  .current = 2,
		  .ours = 2,
		  .written_us = SEC_US,
		  .host = {true, 3}},
		 11 * SEC_US,
		 KNOB_WRITE},
		{"put back does not wait",
		 {.readable = true,
		  .managed = true,
		  .current = 2,
		  .ours = 2,
		  .original = 1,
		  .written_us = SEC_US},
		 SEC_US + 1,
		 KNOB_PUT_BACK},
		{"original wanted",
		 {.readable = true,
		  .managed = true,
		  .current = 2,
		  .ours = 2,
		  .original = 1,
		  .host = {true, 1}},
		 0,
		 KNOB_PUT_BACK},
		{"changed by others",
		 {.readable = true,
		  .managed = true,
		  .current = 9,
		  .ours = 2,
		  .host = {true, 2}},
		 0,
		 KNOB_LOSE},
		{"foreign stays so",
		 {.readable = true,
		  .foreign = true,
		  .current = 9,
		  .host = {true, 2}},
		 0,
		 KNOB_KEEP},
		{"denied",
		 {.readable = true,
		  .denied = true,
		  .current = 1,
		  .host = {true, 2}},
		 0,
		 KNOB_KEEP},
		{"missing", {.missing = true, .host = {true, 2}}, 0, KNOB_KEEP},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		print_message("# %s\n", cases[i].name);
		assert_int_equal(knob_decide(WSF, &cases[i].s, cases[i].now_us),
				 cases[i].want);
	}
}

static void set_and_put_back(void **state)
{
	struct world *w = *state;
	struct msg_report r = {0};

	want_wsf(w, 150);
	knobs_tick(&w->k, SEC_US);
	assert_int_equal(wsf(w), 150);
	assert_true(journal_exists(w));
	knobs_report(&w->k, &r);
	assert_int_equal(r.knob_managed, WSF_BIT);
	assert_int_equal(r.knob[WSF], 150);
	want_wsf(w, 0);
	knobs_tick(&w->k, 2 * SEC_US);
	assert_int_equal(wsf(w), 100);
	assert_false(journal_exists(w));
}

static void thp_defrag_by_word(void **state)
{
	struct world *w = *state;
	int64_t v[KNOB_COUNT] = {[KNOB_THP_DEFRAG] = THP_DEFRAG_DEFER};
	char text[64] = "";

	knobs_want(&w->k, 1u << KNOB_THP_DEFRAG, v);
	knobs_tick(&w->k, SEC_US);
	read_text_at(w->sys_fd, knob_info[KNOB_THP_DEFRAG].path, text,
		     sizeof(text));
	assert_int_equal(strncmp(text, "defer", 5), 0);
}

static void bounds_are_kept(void **state)
{
	struct world *w = *state;
	int64_t v[KNOB_COUNT] = {[WSF] = 501};

	assert_int_equal(knobs_want(&w->k, WSF_BIT, v), WSF_BIT);
	knobs_tick(&w->k, SEC_US);
	assert_int_equal(wsf(w), 100);
}

static void foreign_change_is_left_alone(void **state)
{
	struct world *w = *state;
	struct msg_report r = {0};

	want_wsf(w, 150);
	knobs_tick(&w->k, SEC_US);
	set_wsf(w, "333\n");
	knobs_tick(&w->k, 20 * SEC_US);
	knobs_report(&w->k, &r);
	assert_int_equal(r.knob_foreign, WSF_BIT);
	assert_int_equal(r.knob_managed, 0);
	assert_false(journal_exists(w));
	knobs_tick(&w->k, 40 * SEC_US);
	assert_int_equal(knobs_restore_all(&w->k, 60 * SEC_US), 0);
	assert_int_equal(wsf(w), 333);
}

static void no_journal_no_write(void **state)
{
	struct world *w = *state;
	int run_fd = w->k.journal.dir_fd;

	w->k.journal.dir_fd = -1;
	want_wsf(w, 150);
	knobs_tick(&w->k, SEC_US);
	assert_int_equal(wsf(w), 100);
	assert_false(w->k.knob[WSF].managed);

	/* as on a full disk: the temporary file cannot be written */
	w->k.journal.dir_fd = run_fd;
	assert_int_equal(mkdirat(run_fd, JOURNAL_TEMP_NAME, 0700), 0);
	knobs_tick(&w->k, 2 * SEC_US);
	assert_int_equal(wsf(w), 100);
	assert_false(w->k.knob[WSF].managed);
}

static void observe_writes_nothing(void **state)
{
	struct world *w = *state;

	w->k.observe = true;
	want_wsf(w, 150);
	knobs_tick(&w->k, SEC_US);
	assert_int_equal(wsf(w), 100);
	assert_false(journal_exists(w));
}

static void action_goes_before_host(void **state)
{
	struct world *w = *state;

	want_wsf(w, 150);
	knobs_tick(&w->k, SEC_US);
	knobs_hold(&w->k, WSF, 200);
	knobs_tick(&w->k, 20 * SEC_US);
	assert_int_equal(wsf(w), 200);
	knobs_unhold(&w->k, WSF);
	knobs_tick(&w->k, 40 * SEC_US);
	assert_int_equal(wsf(w), 150);
	assert_int_equal(knobs_restore_all(&w->k, 41 * SEC_US), 0);
	assert_int_equal(wsf(w), 100);
}

/* What the one that dies had done before, and was doing. */
enum deed { SET, CHANGE, PUT_BACK };

struct death {
	enum deed deed;
	enum knob_instant at;
	int64_t left; /* value that it leaves */
};

static void die_at(enum knob_instant i, void *ctx)
{
	const struct death *d = ctx;

	if (i == d->at)
		_exit(0);
}

static void live_and_die(struct world *w, struct death *d)
{
	if (d->deed != SET) {
		want_wsf(w, 150);
		knobs_tick(&w->k, SEC_US);
	}
	w->k.at_instant = die_at;
	w->k.at_ctx = d;
	want_wsf(w, d->deed == PUT_BACK ? 0 : d->deed == SET ? 150 : 200);
	knobs_tick(&w->k, 20 * SEC_US);
	_exit(1); /* the instant was not met */
}

static void killed_at_any_instant(void **state)
{
	struct death deaths[] = {
		{SET, KNOB_BEFORE_JOURNAL, 100},
		{SET, KNOB_BEFORE_WRITE, 100},
		{SET, KNOB_AFTER_WRITE, 150},
		{CHANGE, KNOB_BEFORE_JOURNAL, 150},
		{CHANGE, KNOB_BEFORE_WRITE, 150},
		{CHANGE, KNOB_AFTER_WRITE, 200},
		{PUT_BACK, KNOB_BEFORE_PUT_BACK, 150},
		{PUT_BACK, KNOB_AFTER_PUT_BACK, 100},
		{PUT_BACK, KNOB_AFTER_FORGET, 100},
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
		assert_int_equal(wsf(w), deaths[i].left);

		knobs_close(&w->k);
		init(w, BOOT_A);
		assert_int_equal(knobs_recover(&w->k), 0);
		assert_int_equal(wsf(w), 100);
		assert_false(journal_exists(w));
		assert_false(w->k.knob[WSF].foreign);
	}
}

static void leave_behind(struct world *w)
{
	want_wsf(w, 150);
	knobs_tick(&w->k, SEC_US);
	knobs_close(&w->k);
}

static void other_boot_is_not_replayed(void **state)
{
	struct world *w = *state;

	leave_behind(w);
	init(w, BOOT_B);
	assert_int_equal(knobs_recover(&w->k), 0);
	assert_int_equal(wsf(w), 150);
	assert_false(journal_exists(w));
}

static void changed_after_death_is_foreign(void **state)
{
	struct world *w = *state;

	leave_behind(w);
	set_wsf(w, "420\n");
	init(w, BOOT_A);
	assert_int_equal(knobs_recover(&w->k), 0);
	assert_int_equal(wsf(w), 420);
	assert_true(w->k.knob[WSF].foreign);
	assert_false(journal_exists(w));
}

static void observe_leaves_the_journal(void **state)
{
	struct world *w = *state;

	leave_behind(w);
	init(w, BOOT_A);
	w->k.observe = true;
	assert_int_equal(knobs_recover(&w->k), 0);
	assert_int_equal(wsf(w), 150);
	assert_true(journal_exists(w));
}

/* Each byte in turn is broken: nothing may be replayed from any of these. */
static void broken_journal_is_kept_aside(void **state)
{
	struct world *w = *state;
	char text[1024];
	ssize_t n;

	leave_behind(w);
	n = read_text_at(w->run_fd, JOURNAL_NAME, text, sizeof(text));
	assert_true(n > 0);
	for (ssize_t i = -1; i < n; i++) {
		char broken[1024];

		memcpy(broken, text, (size_t)n + 1);
		if (i < 0)
			broken[n / 2] = '\0'; /* cut short */
		else
			broken[i] ^= 0x11;
		put(w->run_fd, JOURNAL_NAME, broken);
		init(w, BOOT_A);
		assert_int_equal(knobs_recover(&w->k), -EBADMSG);
		assert_int_equal(wsf(w), 150);
		assert_false(journal_exists(w));
		assert_int_equal(
			faccessat(w->run_fd, JOURNAL_ASIDE_NAME, F_OK, 0), 0);
		knobs_close(&w->k);
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(decisions),
		T(set_and_put_back),
		T(thp_defrag_by_word),
		T(bounds_are_kept),
		T(foreign_change_is_left_alone),
		T(no_journal_no_write),
		T(observe_writes_nothing),
		T(action_goes_before_host),
		T(killed_at_any_instant),
		T(other_boot_is_not_replayed),
		T(changed_after_death_is_foreign),
		T(observe_leaves_the_journal),
		T(broken_journal_is_kept_aside),
	};

	log_setup("test_knob", LOG_LEVEL_ERR - 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
