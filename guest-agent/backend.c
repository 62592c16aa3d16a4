// SPDX-License-Identifier: GPL-2.0-or-later
#include <stddef.h>

#include "backend.h"

static const struct backend_ops *const table[BACKEND_COUNT] = {
	[BACKEND_COMPACT] = &backend_compact,
	[BACKEND_FAULT] = &backend_fault,
	[BACKEND_HUGETLB] = &backend_hugetlb,
	[BACKEND_MEMBLOCK] = &backend_memblock,
	[BACKEND_PROACTIVE] = &backend_proactive,
};

const struct backend_ops *backend_get(enum backend backend)
{
	return backend < BACKEND_COUNT ? table[backend] : NULL;
}
