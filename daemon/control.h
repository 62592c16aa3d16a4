/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * DOC: the control socket
 *
 * A unix stream socket. A client sends one JSON object a line, at most
 * CONTROL_LINE_MAX bytes; each is answered by one object a line with "ok",
 * and "error" where that is false. "compact" is answered by a line an event,
 * the last of which has "done": true.
 *
 *	{"cmd": "status"}		anyone who may connect
 *	{"cmd": "explain", "vm": NAME}
 *	{"cmd": "history", "vm": NAME}
 *	{"cmd": "dump-config"}
 *	{"cmd": "record", "vm": NAME}	lines of a recording (recording.h), for
 *					as long as the connection lasts
 *	{"cmd": "nodes", "blocks": B}	the host's own memory, node by node;
 *with blocks (root) once all pageblocks were looked at
 *	{"cmd": "compact-node", "node": N, "blocks": N, "time_ms": N}
 *					root; of the host, until so many more
 *					blocks are free, or all that can be had
 *	{"cmd": "compact", "vm": NAME, "blocks": N, "order": N,
 *	 "backend": NAME, "time_ms": N,
 *	 "hold_ms": N}			root; all but vm may be left out
 *	{"cmd": "cancel"}		root; the work this client asked for
 *	{"cmd": "pause", "vm": NAME}	root; without vm: all
 *	{"cmd": "resume", "vm": NAME}
 *
 * Who may: SO_PEERCRED at accept. Root, and the user that started an
 * unprivileged daemon, may all; members of the group (the socket's mode
 * already keeps others out) may read. At most CONTROL_CLIENTS_MAX at once,
 * each with a bounded buffer; one that does not read is dropped.
 */
#ifndef VMDEFRAG_CONTROL_H
#define VMDEFRAG_CONTROL_H

#include "manager.h"

#define CONTROL_CLIENTS_MAX 32
#define CONTROL_LINE_MAX    4096
#define CONTROL_OUT_MAX	    (16 * 1024 * 1024)

struct control;

/**
 * control_open() - serve @listen_fd, which stays the caller's
 */
int control_open(struct manager *m, int listen_fd, struct control **ret_ctl);
void control_close(struct control *c);

#endif
