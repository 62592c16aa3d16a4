// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Any bytes as a configuration: accepted and dumped, they read back the same;
 * refused, there is a reason.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *dump(const struct config *cfg)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert(f);
	config_dump(cfg, f);
	fclose(f);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char what[CONF_WHAT_MAX] = "";
	struct config cfg, again;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	if (config_read_fd(fd, &cfg, what) < 0) {
		assert(what[0]);
	} else {
		int copy = config_write_fd(&cfg);
		char *a = dump(&cfg), *b;

		assert(copy >= 0);
		if (config_read_fd(copy, &again, what) < 0) {
			fprintf(stderr, "%s\n%s", what, a);
			abort();
		}
		b = dump(&again);
		assert(!strcmp(a, b));
		free(a);
		free(b);
		config_free(&again);
		close(copy);
	}
	config_free(&cfg);
	close(fd);
	return 0;
}
