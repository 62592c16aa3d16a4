/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: blocks that stay held after they were made
 *
 * A free block is anybody's: small allocations nibble at it, and free-page
 * reporting takes its host memory away within seconds. So the host may ask for
 * blocks to be held for a while. The child of the fault backend then keeps
 * what it took, and gives all of it back at once when somebody needs it (a
 * task compacts, falls back or stalls for memory, or free memory comes near
 * the watermarks), when its time is over, or when it is told. It dies with the
 * agent, so nothing is journalled. Given back, 2 MiB blocks may first go to the
 * list of the CPU that freed them, as any huge page does.
 */
#ifndef AGENT_HOLD_H
#define AGENT_HOLD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto.h"

struct fault_share;

/* Refills of a reserve; what does not fit is left free. */
#define HOLDS_MAX 4

struct hold {
	pid_t pid; /* 0: not in use */
	struct fault_share *share;
	uint64_t action_id;
	uint64_t charged_us; /* CPU time that its action paid for */
	uint8_t node;
	unsigned int folio_order;
};

struct holds {
	struct hold hold[HOLDS_MAX];
};

/**
 * holds_room() - can one more be held?
 */
bool holds_room(const struct holds *h);

/**
 * holds_add() - take over a child that holds, and its shared page
 *
 * There is room.
 */
void holds_add(struct holds *h, const struct hold *what);

/**
 * holds_release() - have blocks given back
 * @action_id: of this action; 0: all
 *
 * Return: how many holds end.
 */
unsigned int holds_release(struct holds *h, uint64_t action_id);

/**
 * holds_tick() - take note of what ended
 *
 * Return: CPU time that ended ones took, in us, to be charged.
 */
uint64_t holds_tick(struct holds *h);

/**
 * holds_pages() - held on @node now
 */
uint64_t holds_pages(const struct holds *h, unsigned int node);

#endif
