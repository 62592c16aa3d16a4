/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An option of QEMU's command line: "driver,key=value,..." with ",," for a
 * comma, or a JSON object, which is what libvirt writes. Both become the same
 * list of keys and values.
 */
#ifndef VMDEFRAG_QEMUOPT_H
#define VMDEFRAG_QEMUOPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QEMUOPT_PAIRS_MAX 48u
#define QEMUOPT_TEXT_MAX  1024u

struct qemuopt {
	unsigned int nr;
	struct {
		const char *key, *value; /* into text */
	} pair[QEMUOPT_PAIRS_MAX];
	size_t used;
	char text[QEMUOPT_TEXT_MAX];
};

/**
 * qemuopt_parse() - one option's argument
 * @first_key: what a first word without '=' is the value of: "type", "size",
 *	       "qom-type", "driver"
 *
 * What does not fit is left out: keys that matter here come early and are
 * short. A list in JSON becomes its key once for each element.
 *
 * Return: 0, or -EBADMSG for JSON that is none.
 */
int qemuopt_parse(const char *arg, const char *first_key,
		  struct qemuopt *ret_opt);

/**
 * qemuopt_get() - the last value of a key, as QEMU takes it; NULL: none
 */
const char *qemuopt_get(const struct qemuopt *o, const char *key);

/**
 * qemuopt_bool() - on, true, yes; @dflt where it is not given
 */
bool qemuopt_bool(const struct qemuopt *o, const char *key, bool dflt);

/**
 * qemuopt_size() - "512M", "1.5G", "4194304k", "0x100000"
 * @unit: in bytes, of a number without a suffix
 *
 * Return: 0; -EINVAL; -ERANGE.
 */
int qemuopt_size(const char *text, uint64_t unit, uint64_t *ret_bytes);

#endif
