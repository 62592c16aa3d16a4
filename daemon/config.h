/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the operator said: defaults, then the file, then the command line.
 *
 *	[daemon]	this process
 *	[policy]	struct policy_cfg; Mode= is that of VMs without one
 *	[vm NAME]	one VM: Channel=, Qmp=, Pid=, Uuid=, Mode=
 *
 * What is dumped reads back as the same configuration.
 */
#ifndef VMDEFRAG_CONFIG_H
#define VMDEFRAG_CONFIG_H

#include <stdbool.h>
#include <stdio.h>

#include "conf.h"
#include "ipc.h"
#include "loop.h"
#include "policy.h"

#define CONFIG_FILE_DEFAULT "/etc/vmdefrag/vmdefragd.conf"
#define CONFIG_SOCKET_NAME  "control.sock" /* in run_dir */

#define CONFIG_VMS_MAX	    1024
/* inih keeps 49 bytes of a section's name and cuts the rest without a word:
 * "vm " and one byte less than would fit, so that a cut one is seen */
#define CONFIG_VM_NAME_MAX 45
#define CONFIG_DIR_MAX	   256
#define CONFIG_USER_MAX	   33 /* useradd(8): 32 characters */

struct config {
	char run_dir[CONFIG_DIR_MAX];
	char state_dir[CONFIG_DIR_MAX];
	char user[CONFIG_USER_MAX];
	char group[CONFIG_USER_MAX]; /* empty: primary group of user */
	uint32_t loop;		     /* enum loop_kind */
	bool verbose;
	uint64_t report_interval_us;
	uint64_t blocks_max_words; /* of the host's kpageflags, a look */
	struct policy_cfg policy;
	size_t nr_vms;
	struct ipc_vm *vm; /* CONFIG_VMS_MAX of them */
	/* no keys: what tests point elsewhere */
	char node_dir[CONFIG_DIR_MAX]; /* /sys/devices/system/node */
	char proc_dir[CONFIG_DIR_MAX]; /* /proc */
};

/**
 * config_init() - defaults, and room for VMs
 *
 * Return: 0, or -ENOMEM.
 */
int config_init(struct config *cfg);

/**
 * config_free() - accepts one that is zeroed or failed to load
 */
void config_free(struct config *cfg);

/**
 * config_load() - add what a file says
 * @what: CONF_WHAT_MAX bytes, set on every failure
 *
 * Return: 0; -ENOENT; another -errno.
 */
int config_load(struct config *cfg, const char *path, char *what);

/**
 * config_load_all() - the file, then those of FILE.d that end in .conf, by name
 * @ret_found: is there any of them?
 *
 * A later value replaces an earlier one. A VM is told in one file.
 *
 * Return: 0; -errno with @what.
 */
int config_load_all(struct config *cfg, const char *path, bool *ret_found,
		    char *what);

/**
 * config_set() - one value of [daemon] or [policy], from the command line
 */
int config_set(struct config *cfg, const char *section, const char *key,
	       const char *value, char *what);

/**
 * config_add_vm() - a VM as "name=web1,channel=/path[,qmp=…][,pid=…]…"
 */
int config_add_vm(struct config *cfg, const char *text, char *what);

/**
 * config_validate() - what a table of ranges cannot say; gives VMs without a
 *                     mode that of [policy]
 *
 * To be called once after all of it was read. Return: 0, or -EINVAL.
 */
int config_validate(struct config *cfg, char *what);

/**
 * config_dump() - all of it, as config_load() reads
 */
void config_dump(const struct config *cfg, FILE *f);

/**
 * config_write_fd() - all of it in a sealed memfd, for IPC_RELOAD
 *
 * Return: the fd, or -errno.
 */
int config_write_fd(const struct config *cfg);

/**
 * config_read_fd() - what config_write_fd() wrote, validated again
 * @ret_cfg: to be freed by config_free() in every case
 *
 * Return: 0, or -errno with @what.
 */
int config_read_fd(int fd, struct config *ret_cfg, char *what);

#endif
