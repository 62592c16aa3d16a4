/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between the parts of vmdefragctl. */
#ifndef VMDEFRAG_CTL_H
#define VMDEFRAG_CTL_H

#include <jansson.h>
#include <stdbool.h>

/* Exit codes, also in --help and the man page. */
enum ctl_exit {
	CTL_OK = 0,
	CTL_FAILED = 1,	   /* the daemon said no, or the work fell short */
	CTL_USAGE = 2,	   /* command line */
	CTL_NO_DAEMON = 3, /* nobody answers on the socket */
};

struct ctl {
	const char *socket;
	bool json;
	int fd, answer_timeout_ms;
	char *buf; /* received, not yet taken */
	size_t len, size;
};

int ctl_connect(struct ctl *c);
int ctl_send(struct ctl *c, json_t *req);

/**
 * ctl_line() - the next answer; the caller's reference
 * @timeout_ms: -1: for ever
 *
 * Return: 1, 0 at a time-out or a signal, -errno.
 */
int ctl_line(struct ctl *c, int timeout_ms, json_t **ret_line);

/**
 * ctl_ask() - one request, one answer; prints the daemon's error
 *
 * Return: enum ctl_exit; @ret_answer only with CTL_OK.
 */
int ctl_ask(struct ctl *c, json_t *req, json_t **ret_answer);

/* Prints the daemon's error. Return: CTL_FAILED. */
int ctl_error(const json_t *answer);

/* Ctrl-C no longer ends the program, but is seen by ctl_interrupted(). */
void ctl_catch_interrupt(void);
bool ctl_interrupted(void);

/* ctl_table.c: for people. */
void table_status(const json_t *answer);
void table_vm(const json_t *vm);
void table_explain(const json_t *answer);
void table_map(const json_t *answer); /* ctl_map.c */
void table_history(const json_t *answer);
void table_nodes(const json_t *answer);
void table_result(const json_t *event);
void table_decision(const json_t *decision);

/* ctl_top.c */
int ctl_top(struct ctl *c, int interval_ms, int turns);

/**
 * ctl_record() - into a new file, until Ctrl-C
 * @time_ms: or for so long; 0: no limit
 */
int ctl_record(struct ctl *c, const char *vm, const char *path,
	       long long time_ms);

struct replay_args {
	const char *path;
	const char *config; /* NULL: what was in force */
	int mode;	    /* enum vm_mode; -1: what it was, or config's */
};

int ctl_replay(const struct replay_args *a, bool json);

#endif
