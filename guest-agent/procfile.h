/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading files of /proc and /sys that stay open: pread from the start makes
 * the kernel write them anew.
 */
#ifndef AGENT_PROCFILE_H
#define AGENT_PROCFILE_H

#include <sys/types.h>

#include "procfs.h"

/**
 * procfile_open() - open for reading below a directory
 *
 * Return: an fd, or -errno.
 */
int procfile_open(int dir_fd, const char *path);

/**
 * procfile_lines() - call @fn for each line of the file
 *
 * A line that is longer than the buffer is cut; none of the kernel's is.
 *
 * Return: 0, or -errno.
 */
int procfile_lines(int fd, line_fn fn, void *ctx);

/**
 * procfile_text() - the head of the file as NUL-terminated text
 *
 * Return: bytes, or -errno.
 */
ssize_t procfile_text(int fd, char *buf, size_t size);

/**
 * procfile_u64() - a file that holds one number
 *
 * Return: 0; -EPROTO if it holds something else; another -errno.
 */
int procfile_u64(int fd, uint64_t *ret_val);

#endif
