// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A command line and a maps file, whatever they hold: the layout that comes
 * out is one that memslots_check() takes. The input is split at the first
 * 0xff: arguments, then maps, then mounts.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "layout.h"
#include "util.h"

static char *part(const uint8_t **data, size_t *size, size_t *ret_len)
{
	const uint8_t *end = memchr(*data, 0xff, *size);
	size_t len = end ? (size_t)(end - *data) : *size;
	char *text = malloc(len + 1);

	memcpy(text, *data, len);
	text[len] = '\0';
	*data += len + (end != NULL);
	*size -= len + (end != NULL);
	*ret_len = len;
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct layout_want want;
	static struct layout_areas areas;
	static struct layout layout;
	size_t len, n;
	char *args = part(&data, &size, &len);
	char *maps = part(&data, &size, &n);
	char *mounts = part(&data, &size, &n);
	struct layout_hint hint = {"d", 6ull << 30, 1 << 20, false};
	uint32_t page_kib;

	/* as read from /proc: a NUL at the end */
	layout_parse_cmdline(args, len + 1, &want);
	layout_place(&want, &hint, 1);
	layout_parse_maps(maps, &areas);
	layout_join(&want, &areas, &layout);
	assert(!memslots_check(&layout.slots));
	(void)layout_file_kind(mounts, "/dev/hugepages/x", &page_kib);
	free(args);
	free(maps);
	free(mounts);
	return 0;
}
