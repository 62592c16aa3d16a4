/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef VMDEFRAG_STATUS_POLICY_H
#define VMDEFRAG_STATUS_POLICY_H

#include <jansson.h>

#include "policy.h"

/* Each returns a new reference, or NULL without memory. */
json_t *status_decision(const struct decision *d);
json_t *status_result(const struct msg_result *r);

#endif
