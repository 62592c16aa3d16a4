// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * backingmap PID [MEMDEV=GPA:BYTES...] - what kvm/ finds out about a QEMU
 *
 * One JSON object: facts, slots with their addresses, sums of the map, and what
 * it cost. For tests, which compare it with QEMU's own monitor, and benchmarks.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backing.h"
#include "util.h"

static unsigned int hints_parse(char **argv, int argc, struct layout_hint *hint)
{
	unsigned int n = 0;

	for (int i = 0; i < argc && n < LAYOUT_DIMMS_MAX; i++) {
		memset(&hint[n], 0, sizeof(hint[n]));
		if (sscanf(argv[i], "%63[^=]=%" SCNi64 ":%" SCNi64,
			   hint[n].memdev, (int64_t *)&hint[n].gpa,
			   (int64_t *)&hint[n].bytes) == 3)
			n++;
	}
	return n;
}

static void print_slots(const struct memslots *ms)
{
	for (uint32_t i = 0; i < ms->nr; i++) {
		const struct memslot *s = &ms->slot[i];

		printf("%s{\"gpa\": %" PRIu64 ", \"hva\": %" PRIu64
		       ", \"len\": %" PRIu64 ", \"kind\": \"%s\","
		       " \"page_kib\": %u, \"doubtful\": %s,"
		       " \"congruent\": %s, \"file_congruent\": %s}",
		       i ? ", " : "", s->gpa, s->hva, s->len,
		       memslot_kind_name(s->kind), s->page_kib,
		       s->doubtful ? "true" : "false",
		       memslot_congruent(s, MEMSLOT_BLOCK_BYTES) ? "true"
								 : "false",
		       memslot_file_congruent(s, MEMSLOT_BLOCK_BYTES)
			       ? "true"
			       : "false");
	}
}

static int print_map(const struct qemuproc *p, const struct layout *l,
		     uint64_t layout_us)
{
	uint32_t nr = memslots_blocks(&l->slots);
	auto_free struct backing_block *b = calloc(nr + 1, sizeof(*b));
	uint64_t huge = 0, present = 0, swapped = 0;
	struct backing_cost plain, nodes;
	int r;

	if (!b)
		return -ENOMEM;
	/* once with, and last, so that it shows, without nodes */
	r = backing_scan(p, &l->slots, 0, nr, true, b, &nodes);
	if (!r)
		r = backing_scan(p, &l->slots, 0, nr, false, b, &plain);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < nr; i++) {
		huge += (b[i].flags & BACKING_HUGE) != 0;
		swapped += (b[i].flags & BACKING_SWAPPED) != 0;
		present += b[i].present;
	}
	printf("{\"facts\": [");
	for (unsigned int i = 0, n = 0; i < LAYOUT_FACT_COUNT; i++) {
		if (l->facts & 1u << i)
			printf("%s\"%s\"", n++ ? ", " : "",
			       layout_fact_name(i));
	}
	printf("], \"slots\": [");
	print_slots(&l->slots);
	printf("], \"blocks\": %u, \"huge\": %" PRIu64 ", \"present_pages\": "
	       "%" PRIu64 ", \"swapped\": %" PRIu64 ", \"layout_us\": %" PRIu64
	       ", \"scan_us\": %" PRIu64 ", \"scan_nodes_us\": %" PRIu64
	       ", \"by_pagemap\": %s}\n",
	       nr, huge, present, swapped, layout_us, plain.cpu_us,
	       nodes.cpu_us, plain.by_pagemap ? "true" : "false");
	return 0;
}

int main(int argc, char **argv)
{
	struct layout_hint hint[LAYOUT_DIMMS_MAX];
	auto_close int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY);
	unsigned int nr_hints;
	struct qemuproc p;
	struct layout l;
	uint64_t begun_us;
	int r;

	if (argc < 2) {
		fprintf(stderr,
			"usage: backingmap PID [MEMDEV=GPA:BYTES...]\n");
		return 2;
	}
	nr_hints = hints_parse(argv + 2, argc - 2, hint);
	begun_us = now_us();
	r = qemuproc_open(&p, proc_fd, atoi(argv[1]), 0);
	if (!r)
		r = qemuproc_layout(&p, hint, nr_hints, &l);
	if (!r)
		r = print_map(&p, &l, now_us() - begun_us);
	if (r < 0)
		fprintf(stderr, "backingmap: %s\n", strerror(-r));
	return r < 0;
}
