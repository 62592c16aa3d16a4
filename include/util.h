/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Small helpers that every part uses. Includes nothing of ours.
 */
#ifndef VMDEFRAG_UTIL_H
#define VMDEFRAG_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#define ARRAY_SIZE(a)	 (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)	 ((a) < (b) ? (a) : (b))
#define MAX(a, b)	 ((a) > (b) ? (a) : (b))
#define CLAMP(v, lo, hi) MIN(MAX(v, lo), hi)

#define container_of(ptr, type, member)                                        \
	((type *)((char *)(ptr)-offsetof(type, member)))

#define printf_like(fmt, args) __attribute__((format(printf, fmt, args)))

/* The one unit of time in this tree is the microsecond, CLOCK_MONOTONIC. */
#define MSEC_US UINT64_C(1000)
#define SEC_US	UINT64_C(1000000)

static inline void close_fd_ptr(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void free_ptr(void *p)
{
	free(*(void **)p);
}

static inline void fclose_ptr(FILE **f)
{
	if (*f)
		fclose(*f);
}

#define auto_close  __attribute__((cleanup(close_fd_ptr)))
#define auto_free   __attribute__((cleanup(free_ptr)))
#define auto_fclose __attribute__((cleanup(fclose_ptr)))

/* Hand an fd out of the scope of its auto_close variable. */
static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

/**
 * now_us() - CLOCK_MONOTONIC in microseconds
 *
 * Read once per loop turn and handed down as an argument.
 */
uint64_t now_us(void);

/**
 * sum_sat_u64() - a + b, or UINT64_MAX where that does not fit
 */
static inline uint64_t sum_sat_u64(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/**
 * parse_u64() - a whole string as a decimal number
 * @s:       NUL-terminated text, no sign, no blanks
 * @max:     largest value accepted
 * @ret_val: the number
 *
 * Return: 0; -EINVAL if @s is not a number; -ERANGE above @max.
 */
int parse_u64(const char *s, uint64_t max, uint64_t *ret_val);

/**
 * parse_time_us() - "500ms", "30s", "5min", "2h" or plain seconds
 * @ret_us: microseconds
 *
 * Return: 0; -EINVAL for an unknown unit or no number; -ERANGE if it does
 * not fit.
 */
int parse_time_us(const char *s, uint64_t *ret_us);

/**
 * parse_bool() - yes/no, true/false, on/off, 1/0
 *
 * Return: 0, or -EINVAL.
 */
int parse_bool(const char *s, bool *ret_val);

/**
 * read_text_at() - a whole small file as NUL-terminated text
 * @dir_fd: directory, or AT_FDCWD
 * @path:   relative to @dir_fd
 * @buf:    takes at most @size - 1 bytes and a NUL
 *
 * Reads by pread, so it works for files of /proc and /sys of any length.
 *
 * Return: bytes read; -EFBIG if the file is longer; another -errno.
 */
ssize_t read_text_at(int dir_fd, const char *path, char *buf, size_t size);

/**
 * write_text_at() - write a string to an existing file by one write(2)
 *
 * Return: 0, or -errno; -EIO for a short write.
 */
int write_text_at(int dir_fd, const char *path, const char *text);

/**
 * text_is_printable() - is @s printable ASCII of at most @max_len bytes?
 */
bool text_is_printable(const char *s, size_t max_len);

/**
 * text_copy_printable() - copy with every other byte replaced by '?'
 * @size: of @dst, its NUL included; @src is cut to fit
 */
void text_copy_printable(char *dst, size_t size, const char *src);

#endif
