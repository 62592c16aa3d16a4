// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdbool.h>
#include <string.h>

#include "crc32c.h"

#define POLY_REFLECTED 0x82f63b78u

uint32_t crc32c_by_table(const void *data, size_t len)
{
	static uint32_t table[256];
	const uint8_t *p = data;
	uint32_t crc = ~0u;

	/* table[255] is never 0 once filled */
	if (!table[255]) {
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t c = i;

			for (int bit = 0; bit < 8; bit++)
				c = c & 1 ? c >> 1 ^ POLY_REFLECTED : c >> 1;
			table[i] = c;
		}
	}

	while (len--)
		crc = crc >> 8 ^ table[(crc ^ *p++) & 0xff];
	return ~crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t crc32c_by_cpu(
	const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t crc = ~0u;

	for (; len >= 8; len -= 8, p += 8) {
		uint64_t word;

		memcpy(&word, p, sizeof(word));
		crc = __builtin_ia32_crc32di(crc, word);
	}
	while (len--)
		crc = __builtin_ia32_crc32qi((uint32_t)crc, *p++);
	return ~(uint32_t)crc;
}
#endif

uint32_t crc32c(const void *data, size_t len)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("sse4.2"))
		return crc32c_by_cpu(data, len);
#endif
	return crc32c_by_table(data, len);
}
