/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What ps(1) shows: "vmdefragd: helper".
 */
#ifndef VMDEFRAG_PROCTITLE_H
#define VMDEFRAG_PROCTITLE_H

/**
 * proctitle_init() - remember where argv lies, before anything else uses it
 *
 * Moves the environment away, so that a title may be longer than argv was.
 * Without it (tests), only the short name is set.
 */
void proctitle_init(int argc, char **argv);

/**
 * proctitle_set() - /proc/PID/cmdline "vmdefragd: @role", and comm
 * "vmdefrag-@role", which the kernel cuts to 15 bytes
 *
 * argv's strings are gone afterwards.
 */
void proctitle_set(const char *role);

#endif
