// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "configtext.h"

#define NAME_SIZE 256

/* The next line without its indentation; its length, or -1 at the end. */
static ptrdiff_t next_line(struct configtext_pos *pos, const char **ret_line)
{
	const char *start = pos->next, *end;

	if (!*start)
		return -1;
	end = start + strcspn(start, "\n");
	pos->next = *end ? end + 1 : end;
	pos->line++;
	start += strspn(start, " \t");
	*ret_line = start;
	return end > start ? end - start : 0;
}

/* The name in "[name]"; false for any other line. */
static bool section_name(const char *line, ptrdiff_t len, char *ret_name,
			 size_t size)
{
	const char *end;
	size_t n;

	if (len < 1 || line[0] != '[')
		return false;
	end = memchr(line, ']', (size_t)len);
	if (!end)
		return false;
	n = (size_t)(end - line) - 1;
	if (n >= size)
		n = size - 1;
	memcpy(ret_name, line + 1, n);
	ret_name[n] = '\0';
	return true;
}

bool configtext_next_section(struct configtext_pos *pos, char *ret_name,
			     size_t size)
{
	const char *line;
	ptrdiff_t len;

	while ((len = next_line(pos, &line)) >= 0) {
		if (section_name(line, len, ret_name, size))
			return true;
	}
	return false;
}

/* Does @line start with @key, blanks, and '=' or ':'? */
static bool key_is(const char *line, ptrdiff_t len, const char *key)
{
	size_t n = strlen(key);

	if (len <= (ptrdiff_t)n || strncmp(line, key, n))
		return false;
	n += strspn(line + n, " \t");
	return line[n] == '=' || line[n] == ':';
}

unsigned int configtext_line_of(const char *text, const char *section,
				const char *key)
{
	struct configtext_pos pos = {text, 0};
	unsigned int found = 0;
	bool inside = false;
	char name[NAME_SIZE];
	const char *line;
	ptrdiff_t len;

	while ((len = next_line(&pos, &line)) >= 0) {
		if (section_name(line, len, name, sizeof(name))) {
			inside = !strcmp(name, section);
			if (inside && !found)
				found = pos.line;
		} else if (inside && key_is(line, len, key)) {
			found = pos.line;
		}
	}
	return found;
}
