// SPDX-License-Identifier: GPL-2.0-or-later
#include <stddef.h>

#include "backend.h"
#include "util.h"

static const struct backend_ops *const table[BACKEND_COUNT] = {
	[BACKEND_COMPACT] = &backend_compact,
	[BACKEND_HUGETLB] = &backend_hugetlb,
	[BACKEND_MEMBLOCK] = &backend_memblock,
};

/* What auto tries, best first. */
static const enum backend preference[] = {
	BACKEND_COMPACT,
};

const struct backend_ops *backend_get(enum backend backend)
{
	return backend < BACKEND_COUNT ? table[backend] : NULL;
}

enum backend backend_choose(enum backend wanted, uint32_t usable)
{
	if (wanted != BACKEND_AUTO)
		return wanted;
	for (size_t i = 0; i < ARRAY_SIZE(preference); i++) {
		if (usable & 1u << preference[i])
			return preference[i];
	}
	/* none can be used: let the refusal name the most likely one */
	return preference[0];
}
