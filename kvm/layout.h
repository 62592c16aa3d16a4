/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: where a guest's memory lies in QEMU, without asking a monitor
 *
 * QEMU's command line says what memory there is, of which backends, in which
 * order, and for which machine, hence at which guest-physical addresses.
 * /proc/PID/maps says where QEMU has mapped what. The two are joined by what a
 * mapping of a backend looks like: its file, or its exact size. QEMU makes
 * backends in the order of its command line, and the kernel fills the address
 * space from the top; so of several that look alike the higher one belongs to
 * the earlier, which is a guess all the same unless there are as many mappings
 * as backends. DIMMs and virtio-mem devices may be put anywhere and may come
 * later: their addresses are QMP's to tell (query-memory-devices).
 *
 * All of this reads texts of a process that serves a guest: bounded, checked,
 * and nothing that follows from it may do harm if it is a lie. Pure, but for
 * jansson, which allocates.
 */
#ifndef VMDEFRAG_LAYOUT_H
#define VMDEFRAG_LAYOUT_H

#include "memslot.h"

#define LAYOUT_ID_MAX	    64u
#define LAYOUT_PATH_MAX	    128u
#define LAYOUT_BACKENDS_MAX 32u
#define LAYOUT_DIMMS_MAX    16u
/* Writable ones: each thread has a stack, and often a heap. */
#define LAYOUT_AREAS_MAX 2048u

/* What the command line says that matters to alignment: bits. */
enum layout_fact {
	LAYOUT_KVM,
	LAYOUT_CONFIDENTIAL, /* SEV, SNP, TDX: host cannot look or move */
	LAYOUT_VFIO,	     /* device assignment pins memory */
	LAYOUT_LOCKED,	     /* -overcommit mem-lock=on */
	LAYOUT_VIRTIO_MEM,
	LAYOUT_BALLOON,
	LAYOUT_REPORTING, /* free-page reporting is on */
	LAYOUT_NUMATUNE,  /* a backend is bound to host nodes */
	LAYOUT_INCOMING,  /* started to receive a migration */
	/* what keeps the layout from being whole */
	LAYOUT_NOT_QEMU,
	LAYOUT_MACHINE_UNKNOWN,
	LAYOUT_BACKEND_UNKNOWN, /* RAM of an object that is not there */
	LAYOUT_AREA_MISSING,	/* no mapping looks like a backend */
	LAYOUT_AREA_DOUBTFUL,	/* guessed among several */
	LAYOUT_DIMM_UNPLACED,	/* a DIMM whose address nobody told */
	LAYOUT_TOO_MUCH,	/* more of something than is kept */
	LAYOUT_FACT_COUNT
};

const char *layout_fact_name(unsigned int fact);

enum layout_machine {
	LAYOUT_PC, /* also what no -machine means on x86 */
	LAYOUT_Q35,
	LAYOUT_MICROVM,
	LAYOUT_VIRT, /* aarch64 */
	LAYOUT_OTHER,
};

struct layout_backend {
	char id[LAYOUT_ID_MAX];
	char path[LAYOUT_PATH_MAX]; /* beginning of what maps shows; or "" */
	uint64_t bytes;
	uint64_t host_nodes; /* bound to these; 0: not */
	uint32_t page_kib;   /* of hugetlb; else 0 */
	uint8_t kind;	     /* enum memslot_kind */
	bool shared;
};

struct layout_dimm {
	int backend; /* position, or -1: added later */
	uint64_t gpa, bytes;
	bool placed, virtio_mem;
};

/* What the command line says. */
struct layout_want {
	uint32_t facts;
	uint8_t machine; /* enum layout_machine */
	uint64_t ram_bytes, max_below_4g;
	unsigned int nr_backends, nr_ram, nr_dimms;
	struct layout_backend backend[LAYOUT_BACKENDS_MAX];
	uint8_t ram[LAYOUT_BACKENDS_MAX]; /* backends of RAM, in order */
	/* guest node of each, and where a node's memory ends if they have
	 * one: QEMU gives RAM to nodes in the order of their numbers */
	uint8_t ram_node[LAYOUT_BACKENDS_MAX];
	struct layout_dimm dimm[LAYOUT_DIMMS_MAX];
};

/* What QMP's query-memory-devices says of one device. */
struct layout_hint {
	char memdev[LAYOUT_ID_MAX];
	uint64_t gpa, bytes;
	bool virtio_mem;
};

/* A writable mapping. */
struct layout_area {
	uint64_t start, end, offset;
	bool shared, anon;
	char path[LAYOUT_PATH_MAX];
};

struct layout_areas {
	unsigned int nr;
	bool cut; /* there were more */
	struct layout_area area[LAYOUT_AREAS_MAX];
};

struct layout {
	uint32_t facts;
	struct memslots slots;
};

/**
 * layout_parse_cmdline() - QEMU's arguments
 * @args: NUL after each, as in /proc/PID/cmdline
 * @len:  of all; the last byte is taken for a NUL whatever it is
 */
void layout_parse_cmdline(const char *args, size_t len,
			  struct layout_want *ret_want);

/**
 * layout_parse_maps() - /proc/PID/maps
 */
void layout_parse_maps(const char *text, struct layout_areas *ret_areas);

/**
 * layout_file_kind() - what kind of memory does a path hold?
 * @mounts:	  /proc/PID/mounts
 * @ret_page_kib: of hugetlbfs; else 0
 */
enum memslot_kind layout_file_kind(const char *mounts, const char *path,
				   uint32_t *ret_page_kib);

/**
 * layout_place() - lay hints over the DIMMs of the command line
 *
 * A hint whose backend is not known adds a DIMM of anonymous memory.
 */
void layout_place(struct layout_want *want, const struct layout_hint *hints,
		  unsigned int nr_hints);

/**
 * layout_join() - which mapping is which memory
 *
 * What cannot be found is left out, and said in ret_layout->facts.
 */
void layout_join(const struct layout_want *want,
		 const struct layout_areas *areas, struct layout *ret_layout);

/**
 * layout_below_4g() - how much of the RAM lies below the hole
 */
uint64_t layout_below_4g(const struct layout_want *want);

#endif
