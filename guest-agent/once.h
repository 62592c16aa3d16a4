/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One sample as JSON, for people and scripts.
 */
#ifndef AGENT_ONCE_H
#define AGENT_ONCE_H

#include <stdio.h>

#include "proto.h"

/**
 * once_print() - everything that the handshake and a report say
 *
 * Return: 0; -ENOMEM; -EIO if it could not be written.
 */
int once_print(const struct msg_hello *caps, const struct msg_report *report,
	       FILE *f);

#endif
