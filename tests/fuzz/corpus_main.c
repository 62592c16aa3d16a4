// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs a fuzz target as a plain test: over its corpus (tests/fuzz/corpus/NAME,
 * NAME being the program's name without "fuzz_"), each file cut short at
 * every length up to 64 bytes, and over seeded mutations of it. TAP output.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define INPUT_MAX 65536
#define MUTATIONS 200

static uint8_t input[INPUT_MAX];

static size_t read_input(const char *dir, const char *name)
{
	char path[512];
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "re");
	if (!f)
		return 0;
	n = fread(input, 1, sizeof(input), f);
	fclose(f);
	return n;
}

/* A heap copy of exactly @n bytes, so that sanitizers see an overrun. */
static void run(const uint8_t *p, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);

	if (!copy)
		abort();
	memcpy(copy, p, n);
	LLVMFuzzerTestOneInput(copy, n);
	free(copy);
}

static void run_file(size_t n)
{
	static uint8_t changed[INPUT_MAX];
	unsigned int seed = 1;

	run(input, n);
	for (size_t cut = 0; cut < n && cut < 64; cut++)
		run(input, cut);
	for (int i = 0; i < MUTATIONS && n; i++) {
		memcpy(changed, input, n);
		for (int k = rand_r(&seed) % 4; k >= 0; k--)
			changed[(size_t)rand_r(&seed) % n] =
				(uint8_t)rand_r(&seed);
		run(changed, n);
	}
}

int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/');
	unsigned int files = 0;
	struct dirent *e;
	char dir[256];
	DIR *d;

	(void)argc;
	name = name ? name + 1 : argv[0];
	snprintf(dir, sizeof(dir), "tests/fuzz/corpus/%s",
		 strncmp(name, "fuzz_", 5) ? name : name + 5);
	printf("1..1\n");
	d = opendir(dir);
	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		run_file(read_input(dir, e->d_name));
		files++;
	}
	if (d)
		closedir(d);
	printf("%s 1 - %u corpus files of %s\n", files ? "ok" : "not ok", files,
	       dir);
	return files ? 0 : 1;
}
