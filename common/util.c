// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "util.h"

uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SEC_US + (uint64_t)ts.tv_nsec / 1000;
}

/* Digits only; leaves @ret_end at the first byte that is none. */
static int parse_digits(const char *s, uint64_t *ret_val, const char **ret_end)
{
	uint64_t v = 0;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	for (; *s >= '0' && *s <= '9'; s++) {
		unsigned int digit = (unsigned int)(*s - '0');

		if (v > (UINT64_MAX - digit) / 10)
			return -ERANGE;
		v = v * 10 + digit;
	}
	*ret_val = v;
	*ret_end = s;
	return 0;
}

int parse_u64(const char *s, uint64_t max, uint64_t *ret_val)
{
	const char *end;
	uint64_t v;
	int r;

	r = parse_digits(s, &v, &end);
	if (r < 0)
		return r;
	if (*end)
		return -EINVAL;
	if (v > max)
		return -ERANGE;
	*ret_val = v;
	return 0;
}

int parse_time_us(const char *s, uint64_t *ret_us)
{
	static const struct {
		const char *name;
		uint64_t us;
	} units[] = {
		{"", SEC_US},	      {"us", 1},
		{"ms", MSEC_US},      {"s", SEC_US},
		{"min", 60 * SEC_US}, {"h", 3600 * SEC_US},
	};
	const char *end;
	uint64_t v;
	int r;

	r = parse_digits(s, &v, &end);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(end, units[i].name))
			continue;
		if (v > UINT64_MAX / units[i].us)
			return -ERANGE;
		*ret_us = v * units[i].us;
		return 0;
	}
	return -EINVAL;
}

int parse_bool(const char *s, bool *ret_val)
{
	static const char *const yes[] = {"yes", "true", "on", "1"};
	static const char *const no[] = {"no", "false", "off", "0"};

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		if (!strcmp(s, yes[i])) {
			*ret_val = true;
			return 0;
		}
		if (!strcmp(s, no[i])) {
			*ret_val = false;
			return 0;
		}
	}
	return -EINVAL;
}

ssize_t read_text_at(int dir_fd, const char *path, char *buf, size_t size)
{
	auto_close int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;

	if (fd < 0)
		return -errno;

	for (;;) {
		ssize_t n = pread(fd, buf + len, size - len, (off_t)len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		len += (size_t)n;
		if (len >= size)
			return -EFBIG;
	}
	buf[len] = '\0';
	return (ssize_t)len;
}

int write_text_at(int dir_fd, const char *path, const char *text)
{
	auto_close int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC);
	size_t len = strlen(text);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = write(fd, text, len);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}

bool text_is_printable(const char *s, size_t max_len)
{
	size_t len = strnlen(s, max_len + 1);

	if (len > max_len)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (s[i] < 0x20 || s[i] > 0x7e)
			return false;
	}
	return true;
}

void text_copy_printable(char *dst, size_t size, const char *src)
{
	size_t i;

	for (i = 0; i + 1 < size && src[i]; i++)
		dst[i] = src[i] < 0x20 || src[i] > 0x7e ? '?' : src[i];
	dst[i] = '\0';
}
