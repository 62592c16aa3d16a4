// SPDX-License-Identifier: GPL-2.0-or-later
/* vmdefragctl record: what a VM's agent says, into a file for `replay`. */
#include <errno.h>
#include <string.h>

#include "ctl.h"
#include "util.h"

#define LOOK_MS 200

struct record {
	FILE *f;
	uint64_t lines, reports;
	uint64_t end_us; /* UINT64_MAX: until interrupted */
};

static bool is_data(const json_t *line)
{
	return json_object_get(line, "recording") ||
	       json_object_get(line, "frame") ||
	       json_object_get(line, "decide");
}

/* Return: 0, or -errno of the file. */
static int line_keep(struct record *r, const json_t *line)
{
	if (!is_data(line))
		return 0;
	r->lines++;
	r->reports += json_object_get(line, "decide") != NULL;
	errno = 0;
	if (json_dumpf(line, r->f, JSON_COMPACT) < 0 ||
	    fputc('\n', r->f) == EOF || fflush(r->f) == EOF)
		return errno ? -errno : -EIO;
	return 0;
}

/* Return: enum ctl_exit. */
static int receive(struct ctl *c, struct record *rec, const char *path)
{
	while (!ctl_interrupted() && now_us() < rec->end_us) {
		json_t *line;
		int r = ctl_line(c, LOOK_MS, &line);

		if (r < 0) {
			fprintf(stderr, "vmdefragctl: lost vmdefragd: %s\n",
				strerror(-r));
			return CTL_NO_DAEMON;
		}
		if (!r)
			continue;
		if (json_object_get(line, "ok") &&
		    !json_is_true(json_object_get(line, "ok"))) {
			r = ctl_error(line);
			json_decref(line);
			return r;
		}
		r = line_keep(rec, line);
		json_decref(line);
		if (r < 0) {
			fprintf(stderr, "vmdefragctl: cannot write %s: %s\n",
				path, strerror(-r));
			return CTL_FAILED;
		}
	}
	return CTL_OK;
}

int ctl_record(struct ctl *c, const char *vm, const char *path,
	       long long time_ms)
{
	struct record rec = {.end_us = UINT64_MAX};
	int r;

	if (time_ms)
		rec.end_us = now_us() + (uint64_t)time_ms * MSEC_US;
	rec.f = fopen(path, "wxe");
	if (!rec.f) {
		fprintf(stderr, "vmdefragctl: cannot make %s: %s%s\n", path,
			strerror(errno),
			errno == EEXIST ? "; a recording is never overwritten"
					: "");
		return CTL_FAILED;
	}
	ctl_catch_interrupt();
	r = ctl_send(c, json_pack("{s:s, s:s}", "cmd", "record", "vm", vm));
	if (r < 0) {
		fprintf(stderr, "vmdefragctl: %s\n", strerror(-r));
		r = CTL_NO_DAEMON;
	} else {
		r = receive(c, &rec, path);
	}
	if (fclose(rec.f) == EOF && r == CTL_OK) {
		fprintf(stderr, "vmdefragctl: cannot write %s: %s\n", path,
			strerror(errno));
		r = CTL_FAILED;
	}
	if (!rec.lines)
		(void)remove(path); /* nothing in it */
	else
		printf("%s: %llu lines, the policy was asked %llu times\n",
		       path, (unsigned long long)rec.lines,
		       (unsigned long long)rec.reports);
	return r;
}
