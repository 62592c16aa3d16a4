/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where in an INI file something stands. Pure. The parser (conf.h) keeps
 * neither sections without keys nor line numbers; error messages and the
 * search for double sections need both.
 */
#ifndef VMDEFRAG_CONFIGTEXT_H
#define VMDEFRAG_CONFIGTEXT_H

#include <stdbool.h>
#include <stddef.h>

struct configtext_pos {
	const char *next; /* start with the text, and line 0 */
	unsigned int line;
};

/**
 * configtext_next_section() - the next "[name]"
 * @ret_name: what stands between the brackets, cut to @size with its NUL
 *
 * Return: true, with @pos->line that of the section; false at the end.
 */
bool configtext_next_section(struct configtext_pos *pos, char *ret_name,
			     size_t size);

/**
 * configtext_line_of() - the line that counts: the last "key=" in @section
 *
 * Return: its number; that of the section if there is no such key; 0.
 */
unsigned int configtext_line_of(const char *text, const char *section,
				const char *key);

#endif
