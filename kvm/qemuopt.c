// SPDX-License-Identifier: GPL-2.0-or-later
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "qemuopt.h"
#include "util.h"

/* The text grows by one string, or does not. Return: where it is, or NULL. */
static const char *keep(struct qemuopt *o, const char *s, size_t len)
{
	char *to = o->text + o->used;

	if (len >= QEMUOPT_TEXT_MAX - o->used)
		return NULL;
	memcpy(to, s, len);
	to[len] = '\0';
	o->used += len + 1;
	return to;
}

static void add(struct qemuopt *o, const char *key, size_t key_len,
		const char *value, size_t value_len)
{
	size_t used = o->used;
	const char *k, *v;

	if (o->nr == QEMUOPT_PAIRS_MAX)
		return;
	k = keep(o, key, key_len);
	v = k ? keep(o, value, value_len) : NULL;
	if (!v) {
		o->used = used;
		return;
	}
	o->pair[o->nr].key = k;
	o->pair[o->nr].value = v;
	o->nr++;
}

/* The length of a word, and with its doubled commas halved in @buf. */
static size_t word_take(const char **at, char *buf, size_t size)
{
	const char *s = *at;
	size_t n = 0;

	while (*s) {
		if (*s == ',' && s[1] != ',')
			break;
		s += *s == ',';
		if (n < size)
			buf[n++] = *s;
		s++;
	}
	*at = *s ? s + 1 : s;
	return n;
}

static void parse_words(const char *arg, const char *first_key,
			struct qemuopt *o)
{
	bool first = true;

	while (*arg) {
		char word[QEMUOPT_TEXT_MAX];
		size_t n = word_take(&arg, word, sizeof(word));
		const char *eq = memchr(word, '=', n);

		if (eq)
			add(o, word, (size_t)(eq - word), eq + 1,
			    n - (size_t)(eq - word) - 1);
		else if (first)
			add(o, first_key, strlen(first_key), word, n);
		else if (n > 2 && !strncmp(word, "no", 2))
			add(o, word + 2, n - 2, "off", 3);
		else
			add(o, word, n, "on", 2);
		first = false;
	}
}

static void add_json(struct qemuopt *o, const char *key, const json_t *v)
{
	char text[32];
	const char *s = text;
	const json_t *element;
	size_t i;

	switch (json_typeof(v)) {
	case JSON_STRING:
		s = json_string_value(v);
		break;
	case JSON_INTEGER:
		(void)snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT,
			       json_integer_value(v));
		break;
	case JSON_TRUE:
		s = "on";
		break;
	case JSON_FALSE:
		s = "off";
		break;
	case JSON_ARRAY:
		json_array_foreach(v, i, element)
		{
			if (!json_is_array(element))
				add_json(o, key, element);
		}
		return;
	default:
		return; /* nothing of ours is an object, a real, or null */
	}
	add(o, key, strlen(key), s, strlen(s));
}

int qemuopt_parse(const char *arg, const char *first_key,
		  struct qemuopt *ret_opt)
{
	struct qemuopt *o = ret_opt;
	const char *key;
	json_t *obj, *v;

	o->nr = 0;
	o->used = 0;
	if (arg[0] != '{') {
		parse_words(arg, first_key, o);
		return 0;
	}
	obj = json_loads(arg, 0, NULL);
	if (!json_is_object(obj)) {
		json_decref(obj);
		return -EBADMSG;
	}
	json_object_foreach(obj, key, v) add_json(o, key, v);
	json_decref(obj);
	return 0;
}

const char *qemuopt_get(const struct qemuopt *o, const char *key)
{
	for (unsigned int i = o->nr; i > 0; i--) {
		if (!strcmp(o->pair[i - 1].key, key))
			return o->pair[i - 1].value;
	}
	return NULL;
}

bool qemuopt_bool(const struct qemuopt *o, const char *key, bool dflt)
{
	const char *v = qemuopt_get(o, key);

	if (!v)
		return dflt;
	return !strcmp(v, "on") || !strcmp(v, "true") || !strcmp(v, "yes") ||
	       !strcmp(v, "y");
}

static uint64_t unit_of(char suffix, uint64_t unit)
{
	static const char letters[] = "BKMGTP";
	const char *at = suffix ? strchr(letters, toupper(suffix)) : NULL;

	if (!suffix)
		return unit;
	return at ? UINT64_C(1) << 10 * (at - letters) : 0;
}

int qemuopt_size(const char *text, uint64_t unit, uint64_t *ret_bytes)
{
	uint64_t whole = 0, part = 0, part_of = 1, mult;
	const char *s = text;
	char *end;

	if (!isdigit((unsigned char)*s))
		return -EINVAL;
	errno = 0;
	whole = strtoull(s, &end, !strncmp(s, "0x", 2) ? 16 : 10);
	if (errno)
		return -ERANGE;
	s = end;
	if (*s == '.') {
		for (s++; isdigit((unsigned char)*s) && part_of < 1000000;
		     s++) {
			part = part * 10 + (uint64_t)(*s - '0');
			part_of *= 10;
		}
	}
	mult = unit_of(*s, unit);
	if (!mult || (*s && s[1]))
		return -EINVAL;
	if (whole > UINT64_MAX / mult / 2)
		return -ERANGE;
	*ret_bytes = whole * mult + part * (mult / part_of) +
		     part * (mult % part_of) / part_of;
	return 0;
}
