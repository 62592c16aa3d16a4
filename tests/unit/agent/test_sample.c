// SPDX-License-Identifier: GPL-2.0-or-later
/* Capabilities and samples, over files of three guest kernels. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "caps.h"
#include "journal.h"
#include "proto_codec.h"
#include "sample.h"
#include "util.h"

#define ALL_KNOBS ((1u << KNOB_COUNT) - 1)

struct guest {
	int proc_fd, sys_fd;
	struct config cfg;
	struct msg_hello caps;
	char boot_id[BOOT_ID_TEXT_SIZE];
	char what[CONF_WHAT_MAX];
};

static int dir_of(const char *guest, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "tests/data/%s/%s", guest, name);
	return open(path, O_RDONLY | O_DIRECTORY);
}

static void guest_open(struct guest *g, const char *name)
{
	g->proc_fd = dir_of(name, "proc");
	g->sys_fd = dir_of(name, "sys");
	assert_true(g->proc_fd >= 0 && g->sys_fd >= 0);
	config_defaults(&g->cfg);
}

static void guest_close(struct guest *g)
{
	close(g->proc_fd);
	close(g->sys_fd);
}

static int probe(struct guest *g)
{
	return caps_probe(&g->cfg, false, g->proc_fd, g->sys_fd, &g->caps,
			  g->boot_id, g->what);
}

struct guest_case {
	const char *name;
	uint8_t nodes;
	uint32_t mthp_orders;
	uint64_t mem_pages;
	unsigned int zones;
};

static const struct guest_case guests[] = {
	{"guest-6.1", 1, 0, 0, 2},
	{"guest-6.12", 1, 0x3fc, 0, 2},
	{"guest-7.3", 2, 0x3fc, 504415, 3},
};

static void capabilities(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(guests); i++) {
		const struct guest_case *c = &guests[i];
		struct guest g;

		print_message("# %s\n", c->name);
		guest_open(&g, c->name);
		assert_int_equal(probe(&g), 0);
		assert_int_equal(g.caps.nr_orders, 11);
		assert_int_equal(g.caps.pmd_order, 9);
		assert_int_equal(g.caps.pageblock_order, 9);
		assert_int_equal(g.caps.nr_nodes, c->nodes);
		assert_int_equal(g.caps.nr_cpus, 2);
		assert_int_equal(g.caps.mthp_orders, c->mthp_orders);
		assert_int_equal(g.caps.knobs, ALL_KNOBS);
		assert_int_equal(g.caps.features & 1u << FEATURE_PSI,
				 1u << FEATURE_PSI);
		assert_int_equal(g.caps.features & 1u << FEATURE_ISOLCPUS, 0);
		if (c->mem_pages)
			assert_int_equal(g.caps.mem_pages, c->mem_pages);
		/* the fixtures hold no write-only files */
		assert_int_equal(g.caps.backends & ~(1u << BACKEND_FAULT), 0);
		assert_true(g.caps.backends_missing & 1u << BACKEND_COMPACT);
		guest_close(&g);
	}
}

static void denied_knobs_are_told_apart(void **state)
{
	struct guest g;

	(void)state;
	guest_open(&g, "guest-6.1");
	g.cfg.allow_knobs = 1u << KNOB_THP_DEFRAG;
	assert_int_equal(probe(&g), 0);
	assert_int_equal(g.caps.knobs, 1u << KNOB_THP_DEFRAG);
	assert_int_equal(g.caps.knobs_denied,
			 ALL_KNOBS & ~(1u << KNOB_THP_DEFRAG));
	assert_int_equal(g.caps.knobs_missing, 0);
	guest_close(&g);
}

static void a_kernel_without_is_named(void **state)
{
	struct guest g;

	(void)state;
	guest_open(&g, "guest-6.1");
	close(g.sys_fd);
	g.sys_fd = open("tests/data/guest-6.1/proc", O_RDONLY | O_DIRECTORY);
	assert_int_equal(probe(&g), -ENOENT);
	assert_non_null(strstr(g.what, "has_memory"));
	guest_close(&g);
}

static void samples(void **state)
{
	static uint8_t frame[PROTO_FRAME_MAX];
	static struct msg m;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(guests); i++) {
		struct msg_report *r = &m.report;
		struct sampler s;
		struct guest g;

		print_message("# %s\n", guests[i].name);
		guest_open(&g, guests[i].name);
		assert_int_equal(probe(&g), 0);
		assert_int_equal(sampler_open(&s, g.proc_fd, g.sys_fd, &g.caps),
				 0);
		memset(&m, 0, sizeof(m));
		m.type = MSG_REPORT;
		assert_int_equal(sampler_report(&s, r), 0);
		assert_int_equal(r->nr_nodes, guests[i].nodes);
		assert_int_equal(r->nr_zones, guests[i].zones);
		assert_int_equal(r->psi_valid, 1);
		assert_int_equal(r->ctr_valid, (UINT64_C(1) << CTR_COUNT) - 1);
		assert_int_equal(r->thp_enabled, MTHP_ALWAYS);
		assert_int_equal(r->reporting_order, UINT16_MAX);
		assert_true(r->node[0].total_pages > r->node[0].free_pages);
		assert_true(msg_encode(&m, frame, sizeof(frame)) > 0);
		sampler_close(&s);
		guest_close(&g);
	}
}

/* Figures of guest-7.3's node 0, by hand from its buddyinfo. */
static void scores(void **state)
{
	static struct msg_report r;
	struct sampler s;
	struct guest g;

	(void)state;
	guest_open(&g, "guest-7.3");
	assert_int_equal(probe(&g), 0);
	assert_int_equal(sampler_open(&s, g.proc_fd, g.sys_fd, &g.caps), 0);
	assert_int_equal(sampler_report(&s, &r), 0);
	assert_int_equal(r.node[0].unusable_permille[9], 3);
	assert_int_equal(r.node[0].unusable_permille[10], 9);
	assert_int_equal(r.node[0].ext_pct[9], 0);
	assert_int_equal(r.node[0].score_pct, 0);
	assert_int_equal(r.nr_mthp, 8);
	assert_int_equal(r.mthp[0].order, 2);
	assert_int_equal(r.mthp[7].policy, MTHP_INHERIT);
	sampler_close(&s);
	guest_close(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(capabilities),
		cmocka_unit_test(denied_knobs_are_told_apart),
		cmocka_unit_test(a_kernel_without_is_named),
		cmocka_unit_test(samples),
		cmocka_unit_test(scores),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
