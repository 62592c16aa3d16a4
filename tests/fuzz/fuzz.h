/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef VMDEFRAG_FUZZ_H
#define VMDEFRAG_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* One input; must return 0, and abort() where an invariant is broken. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
