/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef VMDEFRAG_CRC32C_H
#define VMDEFRAG_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/**
 * crc32c() - CRC-32C (Castagnoli, RFC 3720 appendix B.4) of @len bytes
 *
 * crc32c("123456789") is 0xe3069283. By the SSE4.2 instruction where the CPU
 * has it: at a thousand reports of 4 KiB a second a table would take 1 % of a
 * core, which is all that the core may use.
 */
uint32_t crc32c(const void *data, size_t len);

/* The same by table, for CPUs without the instruction and for the test. */
uint32_t crc32c_by_table(const void *data, size_t len);

#endif
