// SPDX-License-Identifier: GPL-2.0-or-later
/* Alignment, and what is collapsed because of it. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "alignment.h"
#include "helper_map.h"
#include "mapfile.h"
#include "policy_collapse.h"
#include "util.h"
#include "vmmap.h"

#define MIB (UINT64_C(1) << 20)
#define HVA UINT64_C(0x7f0000000000)
#define K   BACKING_KNOWN
#define NOW (1000 * SEC_US)

static struct memslots one_slot(uint32_t blocks)
{
	struct memslots ms = {
		.nr = 1,
		.slot = {{.hva = HVA, .len = blocks * 2 * MIB}},
	};

	return ms;
}

static const struct {
	const char *what;
	struct backing_block host;
	uint8_t guest;
	bool want; /* with collapse=on */
} blocks[] = {
	{"folio on base pages", {512, 0, K}, GUEST_BLOCK_FOLIO, true},
	{"used to 90 %", {512, 0, K}, GUEST_BLOCK_BASE_FULL, true},
	{"used to 80 %", {512, 0, K}, 12, false},
	{"free", {512, 0, K}, GUEST_BLOCK_FREE, false},
	{"ballooned", {512, 0, K}, GUEST_BLOCK_OFFLINE, false},
	{"not known", {512, 0, K}, GUEST_BLOCK_NONE, false},
	{"huge already", {512, 0, K | BACKING_HUGE}, GUEST_BLOCK_FOLIO, false},
	{"swapped", {500, 0, K | BACKING_SWAPPED}, GUEST_BLOCK_FOLIO, false},
	{"KSM", {512, 0, K | BACKING_SHARED}, GUEST_BLOCK_FOLIO, false},
	{"half there", {256, 0, K}, GUEST_BLOCK_FOLIO, false},
	{"not looked at", {512, 0, 0}, GUEST_BLOCK_FOLIO, false},
	{"three quarters", {384, 0, K}, GUEST_BLOCK_FOLIO, true},
};
#define NR ARRAY_SIZE(blocks)

static struct backing_block host[NR];
static uint8_t guest[NR], node[NR];
static struct memslots slots;

static struct collapse_input input(void)
{
	struct collapse_input in = {
		.mode = COLLAPSE_ON,
		.host_known = true,
		.guest_known = true,
		.slots = &slots,
		.host = host,
		.guest = guest,
		.nr = NR,
		.psi_abort_centi = 1000,
	};

	slots = one_slot(NR);
	for (size_t i = 0; i < NR; i++) {
		host[i] = blocks[i].host;
		guest[i] = blocks[i].guest;
	}
	for (size_t i = 0; i < COLLAPSE_NODES_MAX; i++)
		in.free_blocks[i] = UINT64_MAX;
	return in;
}

static void which_blocks(void **state)
{
	struct collapse_input in = input();
	struct collapse_state st = {0};
	struct collapse_plan plan;
	size_t at = 0;

	(void)state;
	policy_collapse(&in, &st, NOW, &plan);
	assert_int_equal(plan.hold, COLLAPSE_GO);
	for (size_t i = 0; i < NR; i++) {
		bool got = at < plan.nr && plan.index[at] == i;

		if (got != blocks[i].want)
			fail_msg("%s", blocks[i].what);
		at += got;
	}
	/* a guest without an agent: all that is there, if so configured */
	in.guest_known = false;
	policy_collapse(&in, &st, NOW, &plan);
	assert_int_equal(plan.hold, COLLAPSE_HOLD_NO_AGENT);
	in.mode = COLLAPSE_ALL;
	policy_collapse(&in, &st, NOW, &plan);
	assert_int_equal(plan.nr, 6);
}

static void holds(void **state)
{
	const struct {
		enum collapse_hold want;
		struct collapse_input in; /* what differs */
	} cases[] = {
		{COLLAPSE_HOLD_PAUSED, {.paused = true}},
		{COLLAPSE_HOLD_STOPPED, {.stopped = true}},
		{COLLAPSE_HOLD_MIGRATING, {.migrating = true}},
		{COLLAPSE_HOLD_PINNED, {.pinned = true}},
		{COLLAPSE_HOLD_THP_DISABLED, {.thp_disabled = true}},
		{COLLAPSE_HOLD_PINNED, {.facts = 1u << LAYOUT_VFIO}},
		{COLLAPSE_HOLD_PINNED, {.facts = 1u << LAYOUT_LOCKED}},
		{COLLAPSE_HOLD_CONFIDENTIAL,
		 {.facts = 1u << LAYOUT_CONFIDENTIAL}},
		{COLLAPSE_HOLD_NO_MAP, {.host_age_us = 3600 * SEC_US}},
		{COLLAPSE_HOLD_NO_AGENT, {.guest_age_us = 3600 * SEC_US}},
		{COLLAPSE_HOLD_PRESSURE,
		 {.psi_valid = true, .psi_some_centi = 1000}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct collapse_input *d = &cases[i].in;
		struct collapse_input in = input();
		struct collapse_state st = {0};
		struct collapse_plan plan;

		in.paused = d->paused;
		in.stopped = d->stopped;
		in.migrating = d->migrating;
		in.pinned = d->pinned;
		in.thp_disabled = d->thp_disabled;
		in.facts = d->facts;
		in.host_age_us = d->host_age_us;
		in.guest_age_us = d->guest_age_us;
		in.psi_valid = d->psi_valid;
		in.psi_some_centi = d->psi_some_centi;
		policy_collapse(&in, &st, NOW, &plan);
		if (plan.hold != cases[i].want || plan.nr)
			fail_msg("case %zu: %s", i,
				 collapse_hold_name(plan.hold));
	}
}

static void places(void **state)
{
	struct collapse_input in = input();
	struct collapse_state st = {0};
	struct collapse_plan plan;

	(void)state;
	slots.slot[0].hva += 4096;
	policy_collapse(&in, &st, NOW, &plan);
	assert_int_equal(plan.hold, COLLAPSE_HOLD_MISALIGNED);
	slots = one_slot(NR);
	slots.slot[0].doubtful = true;
	policy_collapse(&in, &st, NOW, &plan);
	assert_int_equal(plan.hold, COLLAPSE_HOLD_NO_MAP);
	slots = one_slot(NR);
	slots.slot[0].host_nodes = 2; /* bound to node 1, lies on 0 */
	policy_collapse(&in, &st, NOW, &plan);
	assert_int_equal(plan.hold, COLLAPSE_HOLD_DONE);
	slots = one_slot(NR);
	in.free_blocks[0] = 33; /* 32 stay for the host */
	policy_collapse(&in, &st, NOW, &plan);
	assert_int_equal(plan.nr, 2);
	in.free_blocks[0] = 0;
	policy_collapse(&in, &st, NOW, &plan);
	assert_int_equal(plan.hold, COLLAPSE_HOLD_NO_BLOCK);
}

static void answers(void **state)
{
	const struct {
		int16_t result[2];
		enum collapse_hold want;
	} cases[] = {
		{{0, 0}, COLLAPSE_GO},
		{{0, -EAGAIN}, COLLAPSE_GO},
		{{-EAGAIN, -EAGAIN}, COLLAPSE_GO},
		{{0, -EINVAL}, COLLAPSE_GO}, /* a single odd one */
		{{-EINVAL, -EINVAL}, COLLAPSE_HOLD_REFUSED},
		{{-EPERM, -EPERM}, COLLAPSE_HOLD_REFUSED},
		{{0, -ENOMEM}, COLLAPSE_HOLD_NO_BLOCK},
		{{-EBUSY, 0}, COLLAPSE_HOLD_MEMCG},
		{{-EUCLEAN, -EMLINK}, COLLAPSE_GO},
		{{-ESRCH, -ENOENT}, COLLAPSE_GO},
	};
	struct collapse_input in = input();
	struct collapse_plan plan;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct collapse_state st = {0};

		policy_collapse_result(&st, cases[i].result, 2, NOW);
		policy_collapse(&in, &st, NOW + SEC_US, &plan);
		if (plan.hold != cases[i].want)
			fail_msg("case %zu: %s", i,
				 collapse_hold_name(plan.hold));
		/* and it does not last for ever */
		policy_collapse(&in, &st, NOW + 601 * SEC_US, &plan);
		assert_int_equal(plan.hold, COLLAPSE_GO);
	}
}

static void counts(void **state)
{
	struct alignment a;

	(void)state;
	(void)input();
	node[0] = 1;
	alignment_count(host, guest, node, NR, &a);
	assert_int_equal(a.nr_nodes, 2);
	assert_int_equal(a.all.huge_huge, 1);
	/* folios but the huge one: base, swapped, KSM, half, unseen, 3/4 */
	assert_int_equal(a.all.guest_only, 6);
	assert_int_equal(a.all.swapped, 1);
	assert_int_equal(a.all.shared, 1);
	assert_int_equal(a.all.neither, 2);
	assert_int_equal(a.all.free_backed_kib, 2048);
	assert_int_equal(alignment_score_permille(&a.all), 142);
	assert_int_equal(alignment_used_permille(&a.all, 4 * 2048), 250);
	assert_int_equal(a.node[0].node, 1);
	assert_int_equal(a.node[0].guest_only, 1);
	/* more nodes than there can be */
	for (size_t i = 0; i < NR; i++)
		node[i] = (uint8_t)(i * 20);
	alignment_count(host, guest, node, NR, &a);
	assert_true(a.nr_nodes <= PROTO_NODES_MAX);
}

/* What a guest says of memory that is not its own is not kept. */
static void hostile_parts(void **state)
{
	struct mapfile *f = calloc(1, mapfile_size(4));
	struct msg_map part = {.id = 7, .first_block = 2, .nr = 4, .last = 1};
	struct vmmap m = {0};

	(void)state;
	f->nr = f->total = 4;
	f->slots = one_slot(4);
	assert_int_equal(vmmap_host_part(&m, f, NOW), 1);
	memset(part.block, GUEST_BLOCK_FOLIO, sizeof(part.block));
	assert_int_equal(vmmap_guest_part(&m, &part, NOW), 0);
	assert_int_equal(m.guest_strays, 1); /* not asked for */
	m.ask_id = 7;
	assert_int_equal(vmmap_guest_part(&m, &part, NOW), 1);
	assert_int_equal(m.guest_marked, 2);
	assert_int_equal(m.guest[3], GUEST_BLOCK_FOLIO);
	part.first_block = PROTO_MAP_BLOCK_MAX - 4;
	m.ask_id = 7;
	m.guest_marked = 0;
	assert_int_equal(vmmap_guest_part(&m, &part, NOW), 0);
	vmmap_free(&m);
	free(f);
}

static int file_of(const struct mapfile *f, size_t size, bool seal)
{
	int fd = memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, f, size), (ssize_t)size);
	if (seal)
		assert_int_equal(fcntl(fd, F_ADD_SEALS,
				       F_SEAL_SHRINK | F_SEAL_GROW |
					       F_SEAL_WRITE | F_SEAL_SEAL),
				 0);
	return fd;
}

static void map_files(void **state)
{
	size_t size = mapfile_size(2);
	struct mapfile *f = calloc(1, size), *got;
	int fd;

	(void)state;
	f->nr = f->total = 2;
	f->slots = one_slot(2);
	f->block[1].present = 512;
	fd = mapfile_write(f);
	assert_true(fd >= 0);
	assert_int_equal(mapfile_read(fd, &got), 0);
	assert_memory_equal(got, f, size);
	free(got);
	close(fd);
	for (int i = 0; i < 6; i++) {
		struct mapfile *bad = malloc(size);

		memcpy(bad, f, size);
		if (i == 1)
			bad->nr = 3;
		if (i == 2)
			bad->index = 1;
		if (i == 3)
			bad->block[0].present = 513;
		if (i == 4)
			bad->slots.nr = MEMSLOTS_MAX + 1;
		fd = file_of(bad, i == 5 ? size - 1 : size, i != 0);
		assert_int_equal(mapfile_read(fd, &got), -EPROTO);
		close(fd);
		free(bad);
	}
	free(f);
}

/* Another program under QEMU's number, and one that is no QEMU. */
static void other_programs(void **state)
{
	int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct ipc_msg m = {.op = IPC_MAP_SCAN};
	struct mapfile *f;
	int fd;

	(void)state;
	m.map.guest.pid = getpid();
	m.map.max_blocks = 100;
	fd = helper_map_scan(proc_fd, &m);
	assert_true(fd >= 0);
	assert_int_equal(mapfile_read(fd, &f), 0);
	assert_int_equal(f->total, 0);
	assert_true(f->facts & 1u << LAYOUT_NOT_QEMU);
	m.map.guest.start_time = f->start_time + 1;
	free(f);
	close(fd);
	assert_int_equal(helper_map_scan(proc_fd, &m), -ESRCH);
	m.map.guest.pid = 0;
	assert_int_equal(helper_map_scan(proc_fd, &m), -EPROTO);
	m.map.guest.pid = getpid();
	m.map.guest.nr_dimms = IPC_DIMMS_MAX + 1;
	assert_int_equal(helper_map_scan(proc_fd, &m), -EPROTO);

	memset(&m, 0, sizeof(m));
	m.collapse.guest.pid = getpid();
	m.collapse.nr = 1;
	m.collapse.max_time_us = SEC_US;
	assert_int_equal(helper_map_collapse(proc_fd, -1, &m), 0);
	assert_int_equal(m.collapsed.nr, 1);
	assert_int_equal(m.collapsed.result[0], -ENOENT);
	memset(&m, 0, sizeof(m));
	m.collapse.guest.pid = getpid();
	m.collapse.nr = IPC_COLLAPSE_MAX + 1;
	assert_int_equal(helper_map_collapse(proc_fd, -1, &m), -EPROTO);
	close(proc_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(which_blocks),
		cmocka_unit_test(holds),
		cmocka_unit_test(places),
		cmocka_unit_test(answers),
		cmocka_unit_test(counts),
		cmocka_unit_test(hostile_parts),
		cmocka_unit_test(map_files),
		cmocka_unit_test(other_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
