// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "log.h"

static const char *log_ident = "vmdefrag";
static enum log_level log_max_level = LOG_LEVEL_INFO;

void log_setup(const char *ident, enum log_level max_level)
{
	log_ident = ident;
	log_max_level = max_level;
}

int log_full(enum log_level level, int error, const char *fmt, ...)
{
	/* set by systemd when stderr goes to the journal: systemd.exec(5) */
	bool journal = getenv("JOURNAL_STREAM") != NULL;
	int saved_errno = errno;
	char line[1024];
	size_t n = 0;
	va_list ap;
	int r;

	if (level > log_max_level)
		return error;

	if (journal)
		r = snprintf(line, sizeof(line), "<%d>", (int)level);
	else
		r = snprintf(line, sizeof(line), "%s: ", log_ident);
	n = MIN((size_t)r, sizeof(line) - 2);

	va_start(ap, fmt);
	r = vsnprintf(line + n, sizeof(line) - 1 - n, fmt, ap);
	va_end(ap);
	if (r > 0)
		n = MIN(n + (size_t)r, sizeof(line) - 2);

	if (error) {
		r = snprintf(line + n, sizeof(line) - 1 - n, ": %s",
			     strerror(error < 0 ? -error : error));
		n = MIN(n + (size_t)r, sizeof(line) - 2);
	}
	line[n++] = '\n';

	/* nowhere to report a failure to log */
	if (write(STDERR_FILENO, line, n) < 0)
		errno = saved_errno;
	errno = saved_errno;
	return error;
}

bool log_limit_pass(struct log_limit *l, uint64_t now_us,
		    unsigned int *ret_suppressed)
{
	if (now_us - l->window_start_us >= l->interval_us ||
	    !l->window_start_us) {
		l->window_start_us = now_us;
		l->in_window = 0;
	}
	if (l->in_window >= l->burst) {
		l->suppressed++;
		return false;
	}
	l->in_window++;
	*ret_suppressed = l->suppressed;
	l->suppressed = 0;
	return true;
}
