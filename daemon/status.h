/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The state in JSON, for the control socket. Strings of guests are printable
 * ASCII already; jansson escapes the rest. */
#ifndef VMDEFRAG_STATUS_H
#define VMDEFRAG_STATUS_H

#include <jansson.h>

#include "manager.h"
#include "status_policy.h"

/* Each returns a new reference, or NULL without memory. */
json_t *status_all(struct manager *m, uint64_t now_us);
json_t *status_vm(const struct vm *v, uint64_t now_us);
json_t *status_nodes(const struct manager *m, uint64_t now_us);
/* A VM's memory by host node. */
json_t *status_vm_backing(const struct vm *v, uint64_t now_us);
json_t *status_history(const struct vm *v);

/**
 * explain_vm() - lines of {"level": "ok"|"note"|"problem", "text", "cure"}
 */
json_t *explain_vm(const struct vm *v, uint64_t now_us);

#endif
