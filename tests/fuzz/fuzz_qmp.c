// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a QEMU might say. However the bytes are cut, the state that comes out
 * is the same, and what we send stays what we mean to send.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "qmp.h"
#include "util.h"

static void output_check(const struct qmp *q)
{
	size_t len;
	const char *out = qmp_output(q, &len);

	if (len > QMP_OUT_MAX || (len && out[len - 1] != '\n'))
		abort();
	if (q->stage == QMP_BROKEN && (len || !q->what))
		abort();
}

/* All in pieces of @piece bytes. */
static void feed(struct qmp *q, const uint8_t *data, size_t size, size_t piece)
{
	if (qmp_init(q, "/run/vm1.sock", "", NULL, NULL) < 0)
		abort();
	while (size) {
		size_t n = MIN(size, piece);
		int r = qmp_feed(q, data, n);

		if (r != 0 && r != -EPROTO)
			abort();
		if ((r < 0) != (q->stage == QMP_BROKEN))
			abort();
		output_check(q);
		data += n;
		size -= n;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct qmp whole, cut;

	feed(&whole, data, size, size ? size : 1);
	feed(&cut, data, size, size ? 1 + data[0] % 17 : 1);
	if (whole.stage != cut.stage || whole.run != cut.run ||
	    whole.port != cut.port || whole.migrating != cut.migrating ||
	    whole.what != cut.what || whole.events != cut.events ||
	    whole.balloon_bytes != cut.balloon_bytes)
		abort();
	return 0;
}
