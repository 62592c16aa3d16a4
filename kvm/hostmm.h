/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Settings and programs of the host that decide about huge pages, from files
 * that anybody may read. Never logs.
 */
#ifndef VMDEFRAG_HOSTMM_H
#define VMDEFRAG_HOSTMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * hostmm_choice() - "always [madvise] never": is @word the one in brackets?
 */
bool hostmm_choice(const char *text, const char *word);

/**
 * hostmm_read_choice() - the word in brackets in a file of sysfs
 * @path: absolute
 *
 * Return: 0; -ENODATA; -errno.
 */
int hostmm_read_choice(const char *path, char *word, size_t size);

/**
 * hostmm_programs() - which of these run?
 * @proc_fd: /proc
 * @names:   of processes, at most 15 characters count
 * @nr:	     at most 32
 *
 * Return: bits.
 */
uint32_t hostmm_programs(int proc_fd, const char *const *names,
			 unsigned int nr);

#endif
