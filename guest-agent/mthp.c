// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "knob_info.h"
#include "mthp.h"
#include "proto_codec.h"
#include "util.h"

#define THP_DIR	      "kernel/mm/transparent_hugepage"
#define MIN_FREE_PATH "sys/vm/min_free_kbytes"

static const char *const names[] = {"mthp-0",  "mthp-1",  "mthp-2",  "mthp-3",
				    "mthp-4",  "mthp-5",  "mthp-6",  "mthp-7",
				    "mthp-8",  "mthp-9",  "mthp-10", "mthp-11",
				    "mthp-12", "mthp-13", "mthp-14", "mthp-15"};
static_assert(ARRAY_SIZE(names) == PROTO_ORDERS_MAX, "names[] match orders");

const char *knob_any_name(unsigned int knob)
{
	if (!knob_is_mthp(knob))
		return knob_name(knob);
	return knob < KNOB_ALL ? names[knob - KNOB_COUNT] : NULL;
}

void mthp_path(unsigned int order, char *buf, size_t size)
{
	uint64_t kib = ((uint64_t)sysconf(_SC_PAGESIZE) << order) / 1024;

	(void)snprintf(buf, size, THP_DIR "/hugepages-%llukB/enabled",
		       (unsigned long long)kib);
}

int mthp_parse(const char *text, int64_t *ret_value)
{
	char word[KNOB_TEXT_MAX];
	int r;

	if (bracketed_word(text, word, sizeof(word)) < 0)
		return -EPROTO;
	r = name_lookup(mthp_policy_name, MTHP_POLICY_COUNT, word);
	if (r < 0)
		return -EPROTO;
	*ret_value = r;
	return 0;
}

int mthp_format(int64_t value, char *buf, size_t size)
{
	if (value < 0 || value >= MTHP_POLICY_COUNT)
		return -ERANGE;
	(void)snprintf(buf, size, "%s", mthp_policy_name((unsigned int)value));
	return 0;
}

int mthp_write(int proc_fd, int sys_fd, unsigned int order, int64_t value)
{
	char before[KNOB_TEXT_MAX], after[KNOB_TEXT_MAX];
	char path[MTHP_PATH_MAX], text[KNOB_TEXT_MAX];
	ssize_t n =
		read_text_at(proc_fd, MIN_FREE_PATH, before, sizeof(before));
	int r = mthp_format(value, text, sizeof(text));

	if (r < 0)
		return r;
	mthp_path(order, path, sizeof(path));
	r = write_text_at(sys_fd, path, text);
	if (n <= 0 ||
	    read_text_at(proc_fd, MIN_FREE_PATH, after, sizeof(after)) <= 0 ||
	    !strcmp(before, after))
		return r;
	before[strcspn(before, "\n")] = '\0';
	n = write_text_at(proc_fd, MIN_FREE_PATH, before);
	return r < 0 ? r : (int)n;
}

static int64_t policy_at(int sys_fd, const char *path)
{
	char text[256];
	int64_t policy;

	if (read_text_at(sys_fd, path, text, sizeof(text)) < 0 ||
	    mthp_parse(text, &policy) < 0)
		return -ENOENT;
	return policy;
}

bool mthp_serves_advised(int sys_fd, unsigned int order, unsigned int pmd_order)
{
	char path[MTHP_PATH_MAX];
	int64_t policy;

	mthp_path(order, path, sizeof(path));
	policy = policy_at(sys_fd, path);
	/* before there were sizes, the common switch was the only one */
	if (policy == MTHP_INHERIT || (policy < 0 && order == pmd_order))
		policy = policy_at(sys_fd, THP_DIR "/enabled");
	return policy == MTHP_ALWAYS || policy == MTHP_MADVISE;
}
