/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * INI configuration by table: fill defaults, then the table, then validate.
 * Parsing is inih's (libinih); this file gives names, types and ranges.
 */
#ifndef VMDEFRAG_CONF_H
#define VMDEFRAG_CONF_H

#include <stdint.h>
#include <stdio.h>

enum conf_type {
	CONF_BOOL,    /* bool */
	CONF_U32,     /* uint32_t within [min, max] */
	CONF_U64,     /* uint64_t within [min, max] */
	CONF_TIME_US, /* uint64_t, microseconds within [min, max] */
	CONF_STRING,  /* char[max]; printable ASCII; at least min characters */
	CONF_ENUM,    /* uint32_t below max, by name_of */
	CONF_BITS,    /* uint32_t; bits below max by name_of, blank-separated,
		       * "all" or "none" */
};

struct conf_key {
	const char *section;
	const char *key;
	enum conf_type type;
	size_t offset; /* into the section's object */
	uint64_t min, max;
	const char *(*name_of)(unsigned int value);
};

#define CONF_WHAT_MAX 256

struct conf_table {
	const struct conf_key *key;
	size_t nr_keys;
	/*
	 * The object that keys of @section belong to; @section is as written,
	 * for a named one ("vm web1") looked up by its first word. NULL
	 * refuses it, with @what (CONF_WHAT_MAX bytes) saying why.
	 * When this member is NULL, it is the cfg given to the functions.
	 */
	void *(*object)(void *cfg, const char *section, char *what);
	/* what is wrong with the @value of a CONF_STRING, or NULL; may be
	 * NULL itself */
	const char *(*string_fault)(const char *key, const char *value);
};

/**
 * conf_load() - read a file into @cfg
 * @what: CONF_WHAT_MAX bytes; on failure says file, line, section, key,
 *        value, and what would be right
 *
 * Keys before the faulty one are set. Lines starting with '#' or ';' are
 * comments. A key that is given twice: the last one counts.
 *
 * Return: 0; -EINVAL with @what; -ENOENT and others if the file can't be read.
 */
int conf_load(const struct conf_table *t, const char *path, void *cfg,
	      char *what);

/**
 * conf_parse() - the same from memory; @name stands for the path in @what
 */
int conf_parse(const struct conf_table *t, const char *name, const char *text,
	       void *cfg, char *what);

/**
 * conf_set() - one value, as from a command line option
 *
 * Return: 0, or -EINVAL with @what (no file or line in it).
 */
int conf_set(const struct conf_table *t, void *cfg, const char *section,
	     const char *key, const char *value, char *what);

/**
 * conf_dump() - all keys of @section with their values, as conf_load() reads
 */
void conf_dump(const struct conf_table *t, const void *object,
	       const char *section, FILE *f);

#endif
