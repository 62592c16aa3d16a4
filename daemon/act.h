/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The only place where a plan turns into messages, and so the only one that
 * knows that mode "observe" does not: rule 7 of the design.
 */
#ifndef VMDEFRAG_ACT_H
#define VMDEFRAG_ACT_H

#include "vm.h"

/**
 * act_plan() - carry out a plan of the policy, or only record it
 *
 * Sends the directive when it differs from the one in force, or when a third
 * of the lease has passed; sends the first action of the plan when none is
 * under way.
 */
void act_plan(struct vm *v, const struct policy_plan *plan, uint64_t now_us);

/**
 * act_action() - send one action; fills in its id
 *
 * Return: 0; -EPERM in a mode that changes nothing; -EBUSY when one is under
 * way; -ENOTCONN without a session.
 */
int act_action(struct vm *v, struct msg_action *a, uint64_t now_us);

/**
 * act_release() - tell the agent to put back whatever it holds for us
 *
 * Before a session that we end: nobody would renew the lease.
 */
void act_release(struct vm *v);

/**
 * act_cancel() - tell the agent to stop what runs; its result still comes
 */
void act_cancel(struct vm *v);

/**
 * act_collapse() - have the helper collapse what a plan says
 *
 * Return: 0; -EPERM in a mode that changes nothing; -EBUSY while one is under
 * way; as link_call().
 */
int act_collapse(struct vm *v, const struct collapse_plan *plan,
		 uint64_t now_us);

/**
 * act_hint() - tell the agent which of its blocks are huge below it, a part
 *		of them a call
 * @from: index of the first, memslot.h
 *
 * Return: index of the next, or how many there are: all is said.
 */
uint32_t act_hint(struct vm *v, uint32_t id, uint32_t from);

#endif
