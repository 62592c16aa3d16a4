// SPDX-License-Identifier: GPL-2.0-or-later
/* Parsers over what three guest kernels really show, and over broken text. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "knob_info.h"
#include "procfs.h"
#include "util.h"

static void each_line_of(const char *path, line_fn fn, void *ctx)
{
	static char text[65536];
	ssize_t n = read_text_at(AT_FDCWD, path, text, sizeof(text));

	assert_true(n > 0);
	lines_each(text, (size_t)n, fn, ctx);
}

static void each_line(const char *text, line_fn fn, void *ctx)
{
	lines_each(text, strlen(text), fn, ctx);
}

static void zones_of(const char *guest, struct zones *z)
{
	char path[128];

	memset(z, 0, sizeof(*z));
	snprintf(path, sizeof(path), "tests/data/%s/proc/zoneinfo", guest);
	each_line_of(path, zoneinfo_line, z);
	snprintf(path, sizeof(path), "tests/data/%s/proc/buddyinfo", guest);
	each_line_of(path, buddyinfo_line, z);
}

static void zones_of_real_kernels(void **state)
{
	const struct {
		const char *guest;
		unsigned int nr;
		struct zone_report want[3];
	} cases[] = {
		{"guest-6.1",
		 2,
		 {
			 {0,
			  ZONE_KIND_DMA,
			  3998,
			  3840,
			  3776,
			  85,
			  106,
			  127,
			  {[6] = 1, 1, 0, 1, 3}},
			 {.kind = ZONE_KIND_DMA32},
		 }},
		{"guest-7.3",
		 3,
		 {
			 {0,
			  ZONE_KIND_DMA,
			  3998,
			  3840,
			  3776,
			  129,
			  161,
			  193,
			  {[6] = 1, 1, 0, 1, 3}},
			 {0,
			  ZONE_KIND_DMA32,
			  258048,
			  253841,
			  247479,
			  8539,
			  10673,
			  12807,
			  {4, 2, 1, 2, 2, 0, 2, 2, 1, 2, 240}},
			 {.node = 1, .kind = ZONE_KIND_DMA32},
		 }},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct zones z;

		zones_of(cases[i].guest, &z);
		assert_int_equal(z.nr, cases[i].nr);
		assert_int_equal(z.nr_orders, 11);
		for (unsigned int n = 0; n < z.nr; n++) {
			const struct zone_report *want = &cases[i].want[n];

			assert_int_equal(z.zone[n].node, want->node);
			assert_int_equal(z.zone[n].kind, want->kind);
			if (want->present_pages)
				assert_memory_equal(&z.zone[n], want,
						    sizeof(*want));
		}
	}
}

static void watermarks_come_without_boost(void **state)
{
	struct zones z = {0};

	(void)state;
	each_line("Node 0, zone   Normal\n  pages free     5\n"
		  "        boost    512\n        min      600\n"
		  "        low      700\n        high     800\n"
		  "        present  1000\n        managed  900\n"
		  "    cpu: 0\n              high:  77\n",
		  zoneinfo_line, &z);
	assert_int_equal(z.nr, 1);
	assert_int_equal(z.zone[0].min_pages, 88);
	assert_int_equal(z.zone[0].low_pages, 188);
	assert_int_equal(z.zone[0].high_pages, 288);
}

static void vmstat_of_real_kernels(void **state)
{
	static const char *const guests[] = {"guest-6.1", "guest-6.12",
					     "guest-7.3"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(guests); i++) {
		struct vmstat vs = {0};
		char path[128];

		snprintf(path, sizeof(path), "tests/data/%s/proc/vmstat",
			 guests[i]);
		each_line_of(path, vmstat_line, &vs);
		assert_int_equal(vs.valid, (UINT64_C(1) << CTR_COUNT) - 1);
		assert_true(vs.ctr[CTR_PGFAULT] > 0);
		assert_int_equal(vs.ctr[CTR_ALLOCSTALL], 0);
	}
}

static void vmstat_sums_and_skips(void **state)
{
	struct vmstat vs = {0};

	(void)state;
	each_line("allocstall_dma 1\nallocstall_normal 20\n"
		  "allocstall_movable 300\npgscan_direct_throttle 9\n"
		  "pgfaults 5\npgfaul 6\npgfault\npswpin x\n"
		  "pswpout 99999999999999999999999\nnr_free_pages 3",
		  vmstat_line, &vs);
	assert_int_equal(vs.ctr[CTR_ALLOCSTALL], 321);
	assert_true(vs.ctr[CTR_PSWPOUT] == UINT64_MAX);
	assert_int_equal(vs.valid, UINT64_C(1) << CTR_ALLOCSTALL |
					   UINT64_C(1) << CTR_PSWPOUT);
}

/* The search in it is binary. */
static void vmstat_table_is_sorted_and_complete(void **state)
{
	uint64_t seen = 0;

	(void)state;
	for (size_t i = 0; i < vmstat_nr_ctr_info; i++) {
		seen |= UINT64_C(1) << vmstat_ctr_info[i].ctr;
		if (i)
			assert_true(strcmp(vmstat_ctr_info[i - 1].key,
					   vmstat_ctr_info[i].key) < 0);
	}
	assert_int_equal(seen, (UINT64_C(1) << CTR_COUNT) - 1);
}

static void broken_zones_are_left_out(void **state)
{
	static const char *const broken[] = {
		"",
		"\n\n",
		"Node",
		"Node x, zone Normal 1 2",
		"Node 0, zone",
		"Node 0, zone Unheard 1 2 3",
		"Node 0 zone Normal 1",
		"Node 300, zone Normal 1",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
		struct zones z = {0};

		each_line(broken[i], buddyinfo_line, &z);
		each_line(broken[i], zoneinfo_line, &z);
		assert_int_equal(z.nr, 0);
	}
}

static void too_many_zones_are_left_out(void **state)
{
	struct zones z = {0};

	(void)state;
	for (unsigned int n = 0; n < 256; n++) {
		char line[64];

		snprintf(line, sizeof(line), "Node %u, zone Normal 1 2 3", n);
		buddyinfo_line(&z, line, strlen(line));
	}
	assert_int_equal(z.nr, PROTO_ZONES_MAX);
}

static void extra_orders_are_cut(void **state)
{
	struct zones z = {0};

	(void)state;
	each_line("Node 0, zone Normal 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 "
		  "17 18",
		  buddyinfo_line, &z);
	assert_int_equal(z.nr_orders, PROTO_ORDERS_MAX);
	assert_int_equal(z.zone[0].free_blocks[PROTO_ORDERS_MAX - 1], 16);
}

static void node_meminfo(void **state)
{
	struct node_mem m = {0};

	(void)state;
	each_line_of("tests/data/guest-7.3/sys/devices/system/node/node1/"
		     "meminfo",
		     node_mem_line, &m);
	assert_int_equal(m.total_kib, 986936);
	assert_true(m.free_kib > 900000 && m.free_kib < m.total_kib);
	assert_true(m.slab_kib > 0);
	memset(&m, 0, sizeof(m));
	each_line("MemTotal: 5 kB\nNode x MemTotal: 5\nNode 0 Mem: 3\n",
		  node_mem_line, &m);
	assert_int_equal(m.total_kib, 0);
}

static void psi(void **state)
{
	const struct {
		const char *text;
		int want;
		struct psi_report psi;
	} cases[] = {
		{"some avg10=1.23 avg60=0.00 avg300=0.00 total=42\n"
		 "full avg10=0.50 avg60=0.00 avg300=0.00 total=7\n",
		 0,
		 {123, 50, 42, 7}},
		{"some avg10=100.00 avg60=0 avg300=0 total=1",
		 0,
		 {10000, 0, 1, 0}},
		{"some avg10=7.5 total=1\n", 0, {750, 0, 1, 0}},
		{"some avg10=1.999 total=1\n", 0, {199, 0, 1, 0}},
		{"", -EPROTO, {0}},
		{"some", -EPROTO, {0}},
		{"some avg10=1.00 avg60=0.00", -EPROTO, {0}},
		{"some avg10=101.00 total=1", -EPROTO, {0}},
		{"some avg10=-1 total=1", -EPROTO, {0}},
		{"some avg10=1.00 total=1\nfull nonsense", -EPROTO, {0}},
		{"full avg10=1.00 total=1", -EPROTO, {0}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct psi_report p = {0};

		print_message("# text %zu\n", i);
		assert_int_equal(psi_parse(cases[i].text, &p), cases[i].want);
		assert_memory_equal(&p, &cases[i].psi, sizeof(p));
	}
}

static void id_lists(void **state)
{
	const struct {
		const char *text;
		int want;
		uint8_t first, last;
	} cases[] = {
		{"0\n", 1, 0, 0},	{"0-3\n", 4, 0, 3},
		{"1,3-4,9\n", 4, 1, 9}, {"\n", 0, 0, 0},
		{"", 0, 0, 0},		{"(null)\n", -EPROTO, 0, 0},
		{"3-1", -EPROTO, 0, 0}, {"1,,2", -EPROTO, 0, 0},
		{"1 2", -EPROTO, 0, 0}, {"0-99999999", -EPROTO, 0, 0},
		{"300", -EPROTO, 0, 0}, {"-1", -EPROTO, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t ids[8] = {0};
		int n = id_list_parse(cases[i].text, ids, 8);

		print_message("# list %zu\n", i);
		assert_int_equal(n, cases[i].want);
		if (n <= 0)
			continue;
		assert_int_equal(ids[0], cases[i].first);
		assert_int_equal(ids[n - 1], cases[i].last);
	}
	/* CPUs beyond 255 can be counted, if not named */
	assert_int_equal(id_list_parse("0-511\n", NULL, 0), 512);
}

static void orders(void **state)
{
	(void)state;
	assert_int_equal(order_of_kib(2048, 4096), 9);
	assert_int_equal(order_of_kib(4, 4096), 0);
	assert_int_equal(order_of_kib(524288, 65536), 13);
	assert_int_equal(order_of_kib(3, 4096), -ERANGE);
	assert_int_equal(order_of_kib(0, 4096), -ERANGE);
	assert_int_equal(order_of_kib(UINT64_C(1) << 40, 4096), -ERANGE);
	assert_int_equal(pageblock_order_parse("Page block order: 9\n"), 9);
	assert_int_equal(pageblock_order_parse("Page block order: 99"),
			 -EPROTO);
	assert_int_equal(pageblock_order_parse(""), -EPROTO);
}

static void knob_texts(void **state)
{
	const struct {
		enum knob knob;
		const char *text;
		int want;
		int64_t value;
	} cases[] = {
		{KNOB_WATERMARK_SCALE_FACTOR, "10\n", 0, 10},
		{KNOB_WATERMARK_SCALE_FACTOR, "", -EPROTO, 0},
		{KNOB_WATERMARK_SCALE_FACTOR, "-1\n", -EPROTO, 0},
		{KNOB_WATERMARK_SCALE_FACTOR, "99999999999999999999", -EPROTO,
		 0},
		{KNOB_THP_DEFRAG,
		 "always defer defer+madvise [madvise] never\n", 0,
		 THP_DEFRAG_MADVISE},
		{KNOB_THP_DEFRAG,
		 "always defer [defer+madvise] madvise never\n", 0,
		 THP_DEFRAG_DEFER_MADVISE},
		{KNOB_THP_DEFRAG, "always madvise never\n", -EPROTO, 0},
		{KNOB_THP_DEFRAG, "[sometimes]\n", -EPROTO, 0},
		{KNOB_THP_DEFRAG, "[always\n", -EPROTO, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char back[KNOB_TEXT_MAX];
		int64_t v = 0;

		assert_int_equal(knob_parse(cases[i].knob, cases[i].text, &v),
				 cases[i].want);
		assert_int_equal(v, cases[i].value);
		assert_int_equal(
			knob_format(cases[i].knob, v, back, sizeof(back)), 0);
	}
}

static void knob_bounds(void **state)
{
	(void)state;
	assert_true(knob_value_ok(KNOB_WATERMARK_SCALE_FACTOR, 500));
	assert_false(knob_value_ok(KNOB_WATERMARK_SCALE_FACTOR, 501));
	assert_false(knob_value_ok(KNOB_WATERMARK_SCALE_FACTOR, 0));
	assert_false(knob_value_ok(KNOB_COMPACTION_PROACTIVENESS, -1));
	assert_true(knob_value_ok(KNOB_PCP_HIGH_FRACTION, 0));
	assert_false(knob_value_ok(KNOB_PCP_HIGH_FRACTION, 7));
	assert_true(knob_value_ok(KNOB_PCP_HIGH_FRACTION, 8));
	assert_false(knob_value_ok(KNOB_THP_DEFRAG, THP_DEFRAG_COUNT));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zones_of_real_kernels),
		cmocka_unit_test(watermarks_come_without_boost),
		cmocka_unit_test(vmstat_of_real_kernels),
		cmocka_unit_test(vmstat_sums_and_skips),
		cmocka_unit_test(vmstat_table_is_sorted_and_complete),
		cmocka_unit_test(broken_zones_are_left_out),
		cmocka_unit_test(too_many_zones_are_left_out),
		cmocka_unit_test(extra_orders_are_cut),
		cmocka_unit_test(node_meminfo),
		cmocka_unit_test(psi),
		cmocka_unit_test(id_lists),
		cmocka_unit_test(orders),
		cmocka_unit_test(knob_texts),
		cmocka_unit_test(knob_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
