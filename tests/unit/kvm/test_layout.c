// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "layout.h"
#include "qemuopt.h"
#include "util.h"

#define GIB    (UINT64_C(1) << 30)
#define MIB    (UINT64_C(1) << 20)
#define BIT(f) (1u << (f))

static struct layout_want want;
static struct layout_areas areas;
static struct layout layout;

/* Words of a command line, and lines of maps: "SIZE_MIB path", from the top. */
static void make(const char *cmdline, const char *const *maps)
{
	char args[2048], text[4096] = "", line[256];
	size_t len = strlen(cmdline) + 1;
	uint64_t top = UINT64_C(0x7f8000000000);
	char *lines[16];
	size_t n = 0;

	memcpy(args, cmdline, len);
	for (size_t i = 0; i < len; i++) {
		if (args[i] == ' ')
			args[i] = '\0';
	}
	layout_parse_cmdline(args, len, &want);
	for (; maps[n]; n++) {
		uint64_t size = strtoull(maps[n], NULL, 10) * MIB;
		const char *path = strchr(maps[n], ' ');

		top -= size + 4096;
		(void)snprintf(line, sizeof(line),
			       "%llx-%llx rw-%c 00000000 00:01 %d %s\n",
			       (unsigned long long)top,
			       (unsigned long long)(top + size),
			       path && path[1] == '/' ? 's' : 'p',
			       path ? 77 : 0, path ? path + 1 : "");
		lines[n] = strdup(line);
	}
	/* the file goes upwards */
	while (n--) {
		strcat(text, lines[n]);
		free(lines[n]);
	}
	layout_parse_maps(text, &areas);
	layout_join(&want, &areas, &layout);
}

struct row {
	const char *what, *cmdline;
	const char *maps[8];
	uint32_t facts; /* exactly these */
	unsigned int nr;
	struct {
		uint64_t gpa, len;
		enum memslot_kind kind;
		bool doubtful;
	} slot[4];
};

#define RAM(id, size) "-object memory-backend-ram,id=" id ",size=" size " "

static const struct row rows[] = {
	{"plain",
	 "qemu-system-x86_64 -m 2048",
	 {"2048", "8"},
	 0,
	 1,
	 {{0, 2 * GIB, MEMSLOT_ANON, false}}},
	{"4 GiB on pc: hole from 3 GiB",
	 "/usr/bin/qemu-system-x86_64 -machine pc-i440fx-7.2 -m 4G",
	 {"4096"},
	 0,
	 2,
	 {{0, 3 * GIB, MEMSLOT_ANON, false}, {4 * GIB, GIB, 0, false}}},
	{"3200 MiB on pc: all below 3.5 GiB",
	 "kvm -m 3200M",
	 {"3200"},
	 0,
	 1,
	 {{0, 3200 * MIB, MEMSLOT_ANON, false}}},
	{"4 GiB on q35: hole from 2 GiB",
	 "qemu-kvm -M q35,accel=kvm -m size=4194304k",
	 {"4096"},
	 BIT(LAYOUT_KVM),
	 2,
	 {{0, 2 * GIB, MEMSLOT_ANON, false}, {4 * GIB, 2 * GIB, 0, false}}},
	{"a lower limit",
	 "qemu -machine q35,max-ram-below-4g=1G -m 2G",
	 {"2048"},
	 0,
	 2,
	 {{0, GIB, MEMSLOT_ANON, false}, {4 * GIB, GIB, 0, false}}},
	{"microvm",
	 "qemu -M microvm -m 4G",
	 {"4096"},
	 0,
	 2,
	 {{0, 3 * GIB, MEMSLOT_ANON, false}, {4 * GIB, GIB, 0, false}}},
	{"aarch64",
	 "qemu-system-aarch64 -M virt -m 4G",
	 {"4096"},
	 0,
	 1,
	 {{GIB, 4 * GIB, MEMSLOT_ANON, false}}},
	{"two nodes of one size, in reverse order of options",
	 "qemu -m 2G " RAM("b", "1G")
		 RAM("a", "1G") "-numa node,nodeid=1,memdev=a -numa "
				"node,nodeid=0,memdev=b",
	 {"1024", "1024"},
	 0,
	 2,
	 {{0, GIB, MEMSLOT_ANON, false}, {GIB, GIB, 0, false}}},
	{"a node across the hole",
	 "qemu -m 4352M " RAM("r0", "4G")
		 RAM("r1", "256M") "-numa node,memdev=r0 -numa node,memdev=r1",
	 {"4096", "256"},
	 0,
	 3,
	 {{0, 3 * GIB, MEMSLOT_ANON, false},
	  {4 * GIB, GIB, 0, false},
	  {5 * GIB, 256 * MIB, 0, false}}},
	{"libvirt's JSON, memfd, bound",
	 "qemu -machine pc,memory-backend=m -m 1G -object "
	 "{\"qom-type\":\"memory-backend-memfd\",\"id\":\"m\",\"size\":"
	 "1073741824,\"host-nodes\":[1,2],\"policy\":\"bind\",\"share\":true}",
	 {"1024 /memfd:memory-backend-memfd (deleted)"},
	 BIT(LAYOUT_NUMATUNE),
	 1,
	 {{0, GIB, MEMSLOT_SHMEM, false}}},
	{"hugetlb memfd",
	 "qemu -machine pc,memory-backend=m -m 1G -object "
	 "memory-backend-memfd,id=m,size=1G,hugetlb=on,hugetlbsize=2M",
	 {"1024 /memfd:memory-backend-memfd (deleted)"},
	 0,
	 1,
	 {{0, GIB, MEMSLOT_HUGETLB, false}}},
	{"a stranger of the same size",
	 "qemu -m 2G",
	 {"2048", "2048"},
	 BIT(LAYOUT_AREA_DOUBTFUL),
	 1,
	 {{0, 2 * GIB, MEMSLOT_ANON, true}}},
	{"no mapping of that size",
	 "qemu -m 2G",
	 {"1024"},
	 BIT(LAYOUT_AREA_MISSING),
	 0,
	 {{0, 0, 0, false}}},
	{"a DIMM placed by the command line",
	 "qemu -m 1G,slots=2,maxmem=4G " RAM(
		 "d", "512M") "-device pc-dimm,memdev=d,addr=0x100000000",
	 {"512", "1024"},
	 0,
	 2,
	 {{0, GIB, MEMSLOT_ANON, false}, {4 * GIB, 512 * MIB, 0, false}}},
	{"a DIMM placed by nobody",
	 "qemu -m 1G,slots=2,maxmem=4G -device pc-dimm,memdev=d " RAM("d",
								      "512M"),
	 {"512", "1024"},
	 BIT(LAYOUT_DIMM_UNPLACED),
	 1,
	 {{0, GIB, MEMSLOT_ANON, false}}},
	{"what matters elsewhere",
	 "qemu -m 1G -accel kvm -device vfio-pci,host=1 -overcommit "
	 "mem-lock=on -incoming defer -device "
	 "{\"driver\":\"virtio-balloon-pci\",\"free-page-reporting\":true} "
	 "-object sev-guest,id=s",
	 {"1024"},
	 BIT(LAYOUT_KVM) | BIT(LAYOUT_VFIO) | BIT(LAYOUT_LOCKED) |
		 BIT(LAYOUT_INCOMING) | BIT(LAYOUT_BALLOON) |
		 BIT(LAYOUT_REPORTING) | BIT(LAYOUT_CONFIDENTIAL),
	 1,
	 {{0, GIB, MEMSLOT_ANON, false}}},
	{"RAM of an object that is not there",
	 "qemu -m 1G -machine pc,memory-backend=x",
	 {"1024"},
	 BIT(LAYOUT_BACKEND_UNKNOWN),
	 0,
	 {{0, 0, 0, false}}},
	{"not QEMU",
	 "sleep -m 2G",
	 {"2048"},
	 BIT(LAYOUT_NOT_QEMU),
	 0,
	 {{0, 0, 0, false}}},
	{"another machine",
	 "qemu-system-s390x -M s390-ccw -m 1G",
	 {"1024"},
	 BIT(LAYOUT_MACHINE_UNKNOWN),
	 0,
	 {{0, 0, 0, false}}},
};

static void table(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct row *r = &rows[i];

		make(r->cmdline, r->maps);
		if (layout.facts != r->facts || layout.slots.nr != r->nr)
			fail_msg("%s: facts %x, %u slots", r->what,
				 layout.facts, layout.slots.nr);
		for (unsigned int s = 0; s < r->nr; s++) {
			const struct memslot *m = &layout.slots.slot[s];

			if (m->gpa != r->slot[s].gpa ||
			    m->len != r->slot[s].len ||
			    m->kind != r->slot[s].kind ||
			    m->doubtful != r->slot[s].doubtful)
				fail_msg("%s: slot %u: gpa %llx len %llx",
					 r->what, s, (unsigned long long)m->gpa,
					 (unsigned long long)m->len);
		}
	}
}

static void earlier_is_higher(void **state)
{
	const char *const maps[] = {"1024", "1024", NULL};

	(void)state;
	make("qemu -m 2G " RAM("a", "1G")
		     RAM("b", "1G") "-numa node,memdev=a -numa node,memdev=b",
	     maps);
	assert_int_equal(layout.slots.nr, 2);
	assert_true(layout.slots.slot[0].hva > layout.slots.slot[1].hva);
}

/* The kernel splits a mapping, and others touch it. */
static void split_and_touched(void **state)
{
	(void)state;
	layout_parse_cmdline("qemu\0-m\0"
			     "4M",
			     11, &want);
	layout_parse_maps("1000000-1200000 rw-p 00000000 00:00 0\n"
			  "1200000-1600000 rw-p 00000000 00:00 0 \n"
			  "1600000-1601000 ---p 00000000 00:00 0\n",
			  &areas);
	layout_join(&want, &areas, &layout);
	assert_int_equal(layout.slots.nr, 1);
	assert_true(layout.slots.slot[0].hva == 0x1200000);
	assert_false(layout.slots.slot[0].doubtful);
	layout_parse_maps("1200000-1400000 rw-p 00000000 00:00 0\n"
			  "1400000-1600000 rw-p 00000000 00:00 0\n",
			  &areas);
	layout_join(&want, &areas, &layout);
	assert_int_equal(layout.slots.nr, 1);
	assert_true(layout.slots.slot[0].len == 4 * MIB);
}

static void hints(void **state)
{
	const char *const maps[] = {"512", "1024", "256", NULL};
	struct layout_hint h[] = {
		{"d", 6 * GIB, 512 * MIB, false},
		{"later", 8 * GIB, 256 * MIB, true},
	};

	(void)state;
	make("qemu -m 1G " RAM("d", "512M") "-device pc-dimm,memdev=d", maps);
	layout_place(&want, h, 2);
	layout_join(&want, &areas, &layout);
	assert_int_equal(layout.facts, 0);
	assert_int_equal(layout.slots.nr, 3);
	assert_true(layout.slots.slot[1].gpa == 6 * GIB);
	assert_true(layout.slots.slot[2].gpa == 8 * GIB);
	assert_true(layout.slots.slot[2].virtio_mem);
}

static void kinds(void **state)
{
	static const char mounts[] =
		"rootfs / rootfs rw 0 0\n"
		"tmpfs /dev/shm tmpfs rw 0 0\n"
		"hugetlbfs /dev/hugepages hugetlbfs rw,pagesize=1024M 0 0\n"
		"hugetlbfs /dev/hugepages2M hugetlbfs rw,pagesize=2M 0 0\n";
	uint32_t kib;

	(void)state;
	assert_int_equal(layout_file_kind(mounts, "/dev/shm/x", &kib),
			 MEMSLOT_SHMEM);
	assert_int_equal(layout_file_kind(mounts, "/dev/shmem", &kib),
			 MEMSLOT_FILE);
	assert_int_equal(layout_file_kind(mounts, "/dev/hugepages/l/x", &kib),
			 MEMSLOT_HUGETLB);
	assert_int_equal(kib, 1048576);
	assert_int_equal(layout_file_kind(mounts, "/dev/hugepages2M", &kib),
			 MEMSLOT_HUGETLB);
	assert_int_equal(kib, 2048);
}

static void sizes(void **state)
{
	const struct {
		const char *text;
		uint64_t want;
		int r;
	} cases[] = {
		{"2048", 2 * GIB, 0},
		{"2G", 2 * GIB, 0},
		{"1.5G", GIB + 512 * MIB, 0},
		{"4194304k", 4 * GIB, 0},
		{"0x10", 16 * MIB, 0},
		{"", 0, -EINVAL},
		{"x", 0, -EINVAL},
		{"1GB", 0, -EINVAL},
		{"1Z", 0, -EINVAL},
		{"99999999999999999999", 0, -ERANGE},
		{"18446744073709551615", 0, -ERANGE},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t got = 0;
		int r = qemuopt_size(cases[i].text, MIB, &got);

		if (r != cases[i].r || got != cases[i].want)
			fail_msg("'%s': %d %llu", cases[i].text, r,
				 (unsigned long long)got);
	}
}

static void words(void **state)
{
	struct qemuopt o;

	(void)state;
	assert_int_equal(qemuopt_parse("drv,a=1,,2,flag,nooff,a=3", "type", &o),
			 0);
	assert_string_equal(qemuopt_get(&o, "type"), "drv");
	assert_string_equal(qemuopt_get(&o, "a"), "3");
	assert_true(qemuopt_bool(&o, "flag", false));
	assert_false(qemuopt_bool(&o, "off", true));
	assert_int_equal(qemuopt_parse("{\"a\": [1, 2], \"b\": true}", "", &o),
			 0);
	assert_string_equal(qemuopt_get(&o, "a"), "2");
	assert_true(qemuopt_bool(&o, "b", false));
	assert_int_equal(qemuopt_parse("{\"a\"", "", &o), -EBADMSG);
	assert_int_equal(qemuopt_parse("{}x", "", &o), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table),
		cmocka_unit_test(hints),
		cmocka_unit_test(kinds),
		cmocka_unit_test(sizes),
		cmocka_unit_test(words),
		cmocka_unit_test(earlier_is_higher),
		cmocka_unit_test(split_and_touched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
