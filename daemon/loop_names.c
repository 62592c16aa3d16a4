// SPDX-License-Identifier: GPL-2.0-or-later
/* Apart from the loop itself: whoever reads a configuration needs the names,
 * and no io_uring. */
#include <assert.h>

#include "loop.h"
#include "util.h"

static const char *const loop_kind_names[] = {
	[LOOP_AUTO] = "auto",
	[LOOP_URING] = "uring",
	[LOOP_POLL] = "poll",
};
static_assert(ARRAY_SIZE(loop_kind_names) == LOOP_KIND_COUNT, "complete");

const char *loop_kind_name(unsigned int kind)
{
	return kind < LOOP_KIND_COUNT ? loop_kind_names[kind] : "?";
}
