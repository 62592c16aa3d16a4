/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the host's messages do to the agent: directives and their lease,
 * actions and their results.
 */
#ifndef AGENT_STEER_H
#define AGENT_STEER_H

#include "agent.h"

/* For session_init(), with the agent as its ctx. */
extern const struct session_ops steer_ops;

/**
 * steer_tick() - let a lease run out, and see to what runs
 */
void steer_tick(struct agent *a, uint64_t now_us);

/**
 * steer_deadline_us() - when steer_tick() has something to do
 *
 * Return: UINT64_MAX for never.
 */
uint64_t steer_deadline_us(const struct agent *a);

#endif
