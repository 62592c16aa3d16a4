/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A VM's map in JSON: figures for `status`, and drawn for `map`. */
#ifndef VMDEFRAG_STATUS_MAP_H
#define VMDEFRAG_STATUS_MAP_H

#include <jansson.h>

#include "vm.h"

/* Cells of a drawing: 64 rows of 64 on a terminal. */
#define STATUS_MAP_CELLS 4096u

/**
 * status_alignment() - sums by guest node, ages and costs
 *
 * Return: a new reference; null without a map.
 */
json_t *status_alignment(const struct vm *v, uint64_t now_us);

/**
 * status_map() - status_alignment(), and a line of characters for each side
 *
 * In each of "ranges": gpa, blocks, and strings "guest", "host", "fit", one
 * character for "blocks_per_cell" blocks: what most of them are.
 */
json_t *status_map(const struct vm *v, uint64_t now_us);

/**
 * status_used_kib() - MemTotal - MemFree - Cached - Slab of a guest node
 * @node: ALIGNMENT_NODE_ALL: of all
 *
 * Return: 0 without a report.
 */
uint64_t status_used_kib(const struct vm *v, uint8_t node);

#endif
