// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <string.h>

#include "conf.h"
#include "proto_codec.h"
#include "util.h"

static int fault(char *what, const char *fmt, ...) printf_like(2, 3);

static int fault(char *what, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, CONF_WHAT_MAX, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/* "a, b, c": the names that an enumeration or a bit set takes. */
static void names_list(const struct conf_key *k, char *buf, size_t size)
{
	size_t n = 0;

	buf[0] = '\0';
	for (unsigned int i = 0; i < k->max && n < size; i++) {
		int r = snprintf(buf + n, size - n, "%s%s", i ? ", " : "",
				 k->name_of(i));

		n += r > 0 ? (size_t)r : 0;
	}
}

static int set_number(const struct conf_key *k, void *at, const char *value,
		      char *what)
{
	uint64_t v;

	if (parse_u64(value, UINT64_MAX, &v) < 0)
		return fault(what, "'%.64s' is not a whole number", value);
	if (v < k->min || v > k->max)
		return fault(what, "%s is not within %llu..%llu", value,
			     (unsigned long long)k->min,
			     (unsigned long long)k->max);
	if (k->type == CONF_U32)
		*(uint32_t *)at = (uint32_t)v;
	else
		*(uint64_t *)at = v;
	return 0;
}

static int set_time(const struct conf_key *k, uint64_t *at, const char *value,
		    char *what)
{
	uint64_t us;

	if (parse_time_us(value, &us) < 0)
		return fault(what,
			     "'%.64s' is not a time such as 500ms, 30s, 5min",
			     value);
	if (us < k->min || us > k->max)
		return fault(what, "'%.64s' is not within %llums..%llus", value,
			     (unsigned long long)(k->min / MSEC_US),
			     (unsigned long long)(k->max / SEC_US));
	*at = us;
	return 0;
}

static int set_string(const struct conf_key *k, char *at, const char *value,
		      char *what)
{
	size_t len = strlen(value);

	if (len < k->min)
		return fault(what, "must not be empty");
	if (len >= k->max)
		return fault(what, "longer than %llu characters",
			     (unsigned long long)(k->max - 1));
	if (!text_is_printable(value, len))
		return fault(what, "holds a character outside printable ASCII");
	memcpy(at, value, len + 1);
	return 0;
}

static int set_enum(const struct conf_key *k, uint32_t *at, const char *value,
		    char *what)
{
	int v = name_lookup(k->name_of, (unsigned int)k->max, value);
	char names[160];

	if (v < 0) {
		names_list(k, names, sizeof(names));
		return fault(what, "'%.32s' is none of: %s", value, names);
	}
	*at = (uint32_t)v;
	return 0;
}

static int set_bits(const struct conf_key *k, uint32_t *at, const char *value,
		    char *what)
{
	char copy[256], names[160], *save = NULL;
	uint32_t bits = 0;

	if (strlen(value) >= sizeof(copy))
		return fault(what, "longer than %zu characters",
			     sizeof(copy) - 1);
	strcpy(copy, value);
	for (char *w = strtok_r(copy, " \t,", &save); w;
	     w = strtok_r(NULL, " \t,", &save)) {
		int v = name_lookup(k->name_of, (unsigned int)k->max, w);

		if (!strcmp(w, "all")) {
			bits |= (uint32_t)((UINT64_C(1) << k->max) - 1);
		} else if (!strcmp(w, "none")) {
			bits = 0;
		} else if (v >= 0) {
			bits |= 1u << v;
		} else {
			names_list(k, names, sizeof(names));
			return fault(what, "'%.32s' is none of: all, none, %s",
				     w, names);
		}
	}
	*at = bits;
	return 0;
}

static int set_value(const struct conf_table *t, const struct conf_key *k,
		     void *object, const char *value, char *what)
{
	void *at = (char *)object + k->offset;
	const char *why;

	switch (k->type) {
	case CONF_BOOL:
		if (parse_bool(value, at) < 0)
			return fault(what, "'%.64s' is neither yes nor no",
				     value);
		return 0;
	case CONF_U32:
	case CONF_U64:
		return set_number(k, at, value, what);
	case CONF_TIME_US:
		return set_time(k, at, value, what);
	case CONF_STRING:
		why = t->string_fault ? t->string_fault(k->key, value) : NULL;
		if (why && *value)
			return fault(what, "'%.64s' %s", value, why);
		return set_string(k, at, value, what);
	case CONF_ENUM:
		return set_enum(k, at, value, what);
	case CONF_BITS:
		return set_bits(k, at, value, what);
	}
	return fault(what, "has a type that is not implemented");
}

/* Is @written the section of @k? "vm web1" belongs to keys of "vm". */
static bool section_is(const struct conf_table *t, const struct conf_key *k,
		       const char *written)
{
	size_t len = strlen(k->section);

	if (!strcmp(k->section, written))
		return true;
	return t->object && !strncmp(written, k->section, len) &&
	       written[len] == ' ';
}

int conf_set(const struct conf_table *t, void *cfg, const char *section,
	     const char *key, const char *value, char *what)
{
	bool known_section = false;

	for (size_t i = 0; i < t->nr_keys; i++) {
		const struct conf_key *k = &t->key[i];
		char why[CONF_WHAT_MAX];
		void *object = cfg;

		if (!section_is(t, k, section))
			continue;
		known_section = true;
		if (strcmp(k->key, key))
			continue;
		if (t->object)
			object = t->object(cfg, section, why);
		if (!object || set_value(t, k, object, value, why) < 0)
			return fault(what, "[%.40s] %s: %.180s", section, key,
				     why);
		return 0;
	}
	if (!known_section)
		return fault(what, "unknown section [%.64s]", section);
	return fault(what, "unknown key '%.64s' in section [%.40s]", key,
		     section);
}

#define INIH_SECTION_MAX 49 /* MAX_SECTION of ini.c, '[' instead of NUL */

struct reading {
	const struct conf_table *t;
	void *cfg;
	const char *name;
	char *what;
	unsigned int line;
	bool failed;
	FILE *f;
};

static void reading_fault(struct reading *rd, const char *why)
{
	if (rd->failed)
		return;
	rd->failed = true;
	fault(rd->what, "%.80s:%u: %.160s", rd->name, rd->line, why);
}

/*
 * inih's reader: counts lines, since Debian's inih does not hand out their
 * numbers; strips indentation, since inih would take an indented line for
 * more of the value above; refuses lines that inih would silently split.
 */
static char *read_line(char *buf, int size, void *arg)
{
	struct reading *rd = arg;
	size_t blanks;

	if (rd->failed || !fgets(buf, size, rd->f))
		return NULL;
	rd->line++;
	if (!strchr(buf, '\n') && !feof(rd->f)) {
		reading_fault(rd, "line too long");
		return NULL;
	}
	blanks = strspn(buf, " \t");
	memmove(buf, buf + blanks, strlen(buf + blanks) + 1);
	/* inih cuts longer names silently */
	if (buf[0] == '[' && strcspn(buf, "]") > INIH_SECTION_MAX) {
		reading_fault(rd, "section name longer than 48 characters");
		return NULL;
	}
	/* inih would go on, and blame the keys below */
	if (buf[0] == '[' && !strchr(buf, ']')) {
		reading_fault(rd, "section without ']'");
		return NULL;
	}
	return buf;
}

static int take_value(void *arg, const char *section, const char *key,
		      const char *value)
{
	struct reading *rd = arg;
	char why[CONF_WHAT_MAX];

	if (rd->failed)
		return 0;
	if (!*section)
		fault(why, "'%.64s' stands before any [section]", key);
	else if (!conf_set(rd->t, rd->cfg, section, key, value, why))
		return 1;
	reading_fault(rd, why);
	return 0;
}

static int read_stream(struct reading *rd)
{
	int r = ini_parse_stream(read_line, rd, take_value, rd);

	if (r > 0 && !rd->failed) {
		rd->line = (unsigned int)r;
		reading_fault(rd, "neither [section], Key=value nor comment");
	}
	if (r < 0 && !rd->failed)
		return -ENOMEM;
	if (!rd->failed && ferror(rd->f))
		return -EIO;
	return rd->failed ? -EINVAL : 0;
}

int conf_load(const struct conf_table *t, const char *path, void *cfg,
	      char *what)
{
	auto_fclose FILE *f = fopen(path, "re");
	struct reading rd = {t, cfg, path, what, 0, false, f};

	if (!f)
		return -errno;
	return read_stream(&rd);
}

int conf_parse(const struct conf_table *t, const char *name, const char *text,
	       void *cfg, char *what)
{
	auto_fclose FILE *f = NULL;
	struct reading rd = {t, cfg, name, what, 0, false, NULL};

	if (!*text)
		return 0; /* fmemopen(3) refuses it */
	f = fmemopen((void *)text, strlen(text), "r");
	if (!f)
		return -errno;
	rd.f = f;
	return read_stream(&rd);
}

static void dump_time(uint64_t us, FILE *f)
{
	static const struct {
		uint64_t us;
		const char *name;
	} units[] = {
		{3600 * SEC_US, "h"},
		{60 * SEC_US, "min"},
		{SEC_US, "s"},
		{MSEC_US, "ms"},
		{1, "us"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (us % units[i].us || (!us && i < 2))
			continue;
		fprintf(f, "%llu%s", (unsigned long long)(us / units[i].us),
			units[i].name);
		return;
	}
}

static void dump_bits(const struct conf_key *k, uint32_t bits, FILE *f)
{
	const char *gap = "";

	if (!bits)
		fputs("none", f);
	for (unsigned int i = 0; i < k->max; i++) {
		if (!(bits & 1u << i))
			continue;
		fprintf(f, "%s%s", gap, k->name_of(i));
		gap = " ";
	}
}

static void dump_value(const struct conf_key *k, const void *at, FILE *f)
{
	switch (k->type) {
	case CONF_BOOL:
		fputs(*(const bool *)at ? "yes" : "no", f);
		break;
	case CONF_U32:
		fprintf(f, "%u", *(const uint32_t *)at);
		break;
	case CONF_U64:
		fprintf(f, "%llu", (unsigned long long)*(const uint64_t *)at);
		break;
	case CONF_TIME_US:
		dump_time(*(const uint64_t *)at, f);
		break;
	case CONF_STRING:
		fputs(at, f);
		break;
	case CONF_ENUM:
		fputs(k->name_of(*(const uint32_t *)at), f);
		break;
	case CONF_BITS:
		dump_bits(k, *(const uint32_t *)at, f);
		break;
	}
}

void conf_dump(const struct conf_table *t, const void *object,
	       const char *section, FILE *f)
{
	fprintf(f, "[%s]\n", section);
	for (size_t i = 0; i < t->nr_keys; i++) {
		const struct conf_key *k = &t->key[i];

		if (!section_is(t, k, section))
			continue;
		fprintf(f, "%s=", k->key);
		dump_value(k, (const char *)object + k->offset, f);
		fputc('\n', f);
	}
}
