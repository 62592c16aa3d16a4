/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Logging to stderr, one line a call, with "<N>" syslog prefixes when stderr
 * is the journal (sd-daemon(3)). Log once, where the error stops travelling.
 */
#ifndef VMDEFRAG_LOG_H
#define VMDEFRAG_LOG_H

#include <stdarg.h>

#include "util.h"

enum log_level {
	LOG_LEVEL_ERR = 3,
	LOG_LEVEL_WARNING = 4,
	LOG_LEVEL_NOTICE = 5,
	LOG_LEVEL_INFO = 6,
	LOG_LEVEL_DEBUG = 7,
};

/**
 * log_setup() - choose the name and the most talkative level to print
 * @ident: static string put before each line when not in the journal
 */
void log_setup(const char *ident, enum log_level max_level);

/**
 * log_full() - one line at @level, with strerror(-@error) behind it if @error
 *
 * errno is kept. Return: @error, so that "return log_err_errno(r, …)" works.
 */
int log_full(enum log_level level, int error, const char *fmt, ...)
	printf_like(3, 4);

#define log_err(...)		((void)log_full(LOG_LEVEL_ERR, 0, __VA_ARGS__))
#define log_warn(...)		((void)log_full(LOG_LEVEL_WARNING, 0, __VA_ARGS__))
#define log_notice(...)		((void)log_full(LOG_LEVEL_NOTICE, 0, __VA_ARGS__))
#define log_info(...)		((void)log_full(LOG_LEVEL_INFO, 0, __VA_ARGS__))
#define log_debug(...)		((void)log_full(LOG_LEVEL_DEBUG, 0, __VA_ARGS__))

#define log_err_errno(r, ...)	log_full(LOG_LEVEL_ERR, r, __VA_ARGS__)
#define log_warn_errno(r, ...)	log_full(LOG_LEVEL_WARNING, r, __VA_ARGS__)
#define log_info_errno(r, ...)	log_full(LOG_LEVEL_INFO, r, __VA_ARGS__)
#define log_debug_errno(r, ...) log_full(LOG_LEVEL_DEBUG, r, __VA_ARGS__)

/*
 * For what a guest can trigger: at most @burst lines in each @interval_us,
 * then one line that says how many were left out.
 */
struct log_limit {
	uint64_t interval_us;
	unsigned int burst;
	uint64_t window_start_us;
	unsigned int in_window;
	unsigned int suppressed;
};

/**
 * log_limit_pass() - may one more line be printed at @now_us?
 * @ret_suppressed: lines left out before this one, if it may
 */
bool log_limit_pass(struct log_limit *l, uint64_t now_us,
		    unsigned int *ret_suppressed);

#endif
