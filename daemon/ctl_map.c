// SPDX-License-Identifier: GPL-2.0-or-later
/* "vmdefragctl map VM": both sides of a guest's memory, for the terminal. */
#include <inttypes.h>
#include <string.h>

#include "ctl.h"
#include "util.h"

#define ROW_CELLS 64u

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static uint64_t number_of(const json_t *o, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(o, key));

	return v > 0 ? (uint64_t)v : 0;
}

static void print_row(uint64_t gpa, const char *guest, const char *host,
		      const char *fit, size_t at)
{
	printf("%8.2f GiB  guest %.*s\n", (double)gpa / (double)(1 << 30),
	       (int)ROW_CELLS, guest + at);
	printf("              host  %.*s\n", (int)ROW_CELLS, host + at);
	printf("              fit   %.*s\n", (int)ROW_CELLS, fit + at);
}

static void print_range(const json_t *r, uint64_t per_cell)
{
	const char *guest = text_of(r, "guest"), *host = text_of(r, "host");
	const char *fit = text_of(r, "fit");
	size_t n = strlen(guest);

	printf("%s memory%s%s\n", text_of(r, "kind"),
	       json_is_true(json_object_get(r, "congruent"))
		       ? ""
		       : ", addresses disagree modulo 2 MiB: no huge page fits",
	       json_is_true(json_object_get(r, "doubtful"))
		       ? ", found by its looks only"
		       : "");
	if (strlen(host) != n || strlen(fit) != n)
		return;
	for (size_t at = 0; at < n; at += ROW_CELLS)
		print_row(number_of(r, "gpa") + at * per_cell * 2048 * 1024,
			  guest, host, fit, at);
}

static void print_sum(const json_t *a)
{
	const json_t *all = json_object_get(a, "all");

	printf("huge-on-huge %" PRIu64 ", guest only %" PRIu64
	       ", host only %" PRIu64 ", neither %" PRIu64
	       " blocks of 2 MiB; free in the guest: %" PRIu64
	       " MiB backed, %" PRIu64 " MiB not\n",
	       number_of(all, "huge_on_huge"), number_of(all, "guest_only"),
	       number_of(all, "host_only"), number_of(all, "neither"),
	       number_of(all, "free_backed_kib") / 1024,
	       number_of(all, "free_unbacked_kib") / 1024);
	if (json_is_true(json_object_get(a, "guest_known")))
		printf("score %.1f %% of the guest's huge pages, %.1f %% of "
		       "what it uses\n",
		       (double)number_of(all, "score_permille") / 10,
		       (double)number_of(all, "huge_on_huge_of_used_permille") /
			       10);
	else
		puts("no agent tells of the guest's side");
}

void table_map(const json_t *answer)
{
	const json_t *ranges = json_object_get(answer, "ranges"), *r;
	uint64_t per_cell = number_of(answer, "blocks_per_cell");
	size_t i;

	if (!json_array_size(ranges)) {
		puts("the host's side of this VM is not known yet");
		return;
	}
	json_array_foreach(ranges, i, r) print_range(r, per_cell);
	puts("");
	print_sum(json_object_get(answer, "alignment"));
	printf("\na character is %" PRIu64 " MiB, what most of it is\n"
	       "guest  H folio of 2 MiB or more (mapped so or not)  "
	       "b base pages, 90 %% used or more\n"
	       "       p used in part  . free  o given to the host  "
	       "? not known\n"
	       "host   H one huge page  b base pages, all there  p some  "
	       "w some in swap  . nothing\n"
	       "fit    # huge on huge  g guest only  h host only  - neither  "
	       "_ free, yet backed\n",
	       per_cell * 2);
}
