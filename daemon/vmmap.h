/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: a VM's map of 2 MiB blocks, both sides of it
 *
 * The host's side comes from the mm helper in parts, within a budget of blocks
 * a tick, and begins anew when the layout changes; the guest's side comes from
 * its agent, for a pass that we asked for. Each side has its age. What is kept
 * is as large as the guest's memory by the host's own account: a guest can say
 * of its blocks what it likes, and of others nothing.
 */
#ifndef VMDEFRAG_VMMAP_H
#define VMDEFRAG_VMMAP_H

#include "alignment.h"
#include "layout.h"
#include "mapfile.h"

struct vm;
struct policy_snapshot;

struct vmmap {
	/* the host's side */
	struct memslots slots;
	uint32_t facts; /* bits of enum layout_fact */
	bool thp_disabled, ksm, by_pagemap;
	uint32_t nr; /* blocks in each array */
	struct backing_block *host;
	bool asked;
	int last_error;
	uint32_t next_index;  /* of the pass under way */
	uint64_t next_us;     /* when a part may be asked for */
	uint64_t host_us;     /* end of the last whole pass; 0: none */
	uint64_t pass_cpu_us; /* of helper, so far, and of the last pass */
	uint64_t host_cpu_us, layout_us, passes;
	/* the guest's side */
	uint8_t *guest, *guest_node;
	uint32_t ask_id;   /* of the pass under way, 0: none */
	uint64_t ask_us;   /* when it was asked for */
	uint64_t guest_us; /* end of the last whole pass; 0: none */
	uint64_t guest_next_us, guest_words, guest_strays;
	uint32_t guest_marked; /* blocks said in the pass under way */
	/* passes of the guest rest while nothing moves: see vm_map.c */
	uint32_t guest_rest;
	uint64_t guest_rested_us; /* the pass that counted last */
	uint64_t seen_huge, seen_only, seen_huge_pages;

	/* what the agent is told of the host's side; once a minute */
	uint32_t hint_id, hint_next;
	uint64_t hint_us;

	struct alignment alignment; /* of both, at count_us */
	uint64_t count_us;
};

/**
 * vmmap_free() - all of it; then it is as new
 */
void vmmap_free(struct vmmap *m);

/**
 * vmmap_host_part() - what the helper sent
 *
 * Return: 1 if this completes a pass; 0; -ENOMEM.
 */
int vmmap_host_part(struct vmmap *m, const struct mapfile *f, uint64_t now_us);

/**
 * vmmap_guest_part() - what the agent sent
 *
 * Parts of another pass than the one asked for are counted and dropped.
 * Return: 1 if this completes a pass; 0.
 */
int vmmap_guest_part(struct vmmap *m, const struct msg_map *p, uint64_t now_us);

/**
 * vmmap_guest_lost() - the guest is another, or its agent is gone
 */
void vmmap_guest_lost(struct vmmap *m);

/**
 * vmmap_count() - alignment of what is known now
 */
void vmmap_count(struct vmmap *m, uint64_t now_us);

/* Flow, in vm_map.c: asks both sides in time. */
void vm_map_tick(struct vm *v, uint64_t now_us);
void vm_map_message(struct vm *v, const struct msg_map *p, uint64_t now_us);

#endif
