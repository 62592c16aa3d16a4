// SPDX-License-Identifier: GPL-2.0-or-later
#include <cap-ng.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "conf.h"
#include "log.h"
#include "privs.h"
#include "util.h"

struct role_caps {
	bool root; /* stays uid 0 */
	size_t nr;
	unsigned int cap[4];
};

static const struct role_caps role_caps[ROLE_COUNT] = {
	[ROLE_CORE] = {false, 0, {0}},
	[ROLE_BROKER] = {false, 0, {0}},
	[ROLE_HELPER] = {true,
			 4,
			 {CAP_SYS_PTRACE, CAP_SYS_NICE, CAP_DAC_READ_SEARCH,
			  CAP_DAC_OVERRIDE}},
	[ROLE_KNOBS] = {true, 0, {0}},
};

/* What the supervisor passes on, and what it takes to pass it on. */
static const unsigned int supervisor_caps[] = {
	CAP_SETUID,
	CAP_SETGID,
	CAP_SETPCAP, /* bounding sets of children */
	CAP_KILL,    /* core and broker are another user */
	CAP_SYS_PTRACE,
	CAP_SYS_NICE,
	CAP_DAC_READ_SEARCH, /* reads the configuration again, too */
	CAP_DAC_OVERRIDE,    /* unlinks the control socket */
};

int privs_identity(const char *user, const char *group, struct identity *ret_id,
		   char *what)
{
	struct identity id = {
		.split = geteuid() == 0,
		.uid = geteuid(),
		.gid = getegid(),
		.socket_gid = getegid(),
	};
	const struct passwd *pw;
	const struct group *gr;

	if (!id.split) {
		*ret_id = id;
		return 0;
	}
	pw = getpwnam(user);
	if (!pw) {
		snprintf(what, CONF_WHAT_MAX,
			 "there is no user '%s' for core and virt broker: "
			 "make it (useradd --system %s), or name another by "
			 "--user or User=",
			 user, user);
		return -ENOENT;
	}
	if (!pw->pw_uid)
		log_warn("User '%s' is uid 0: the core will be root, without "
			 "capabilities but with root's files",
			 user);
	id.uid = pw->pw_uid;
	id.gid = pw->pw_gid;
	id.socket_gid = pw->pw_gid;
	gr = *group ? getgrnam(group) : NULL;
	if (*group && !gr) {
		snprintf(what, CONF_WHAT_MAX,
			 "there is no group '%s' for the control socket: make "
			 "it (groupadd --system %s), or name another by "
			 "--group or Group=",
			 group, group);
		return -ENOENT;
	}
	if (gr)
		id.socket_gid = gr->gr_gid;
	*ret_id = id;
	return 0;
}

/*
 * Leave only @caps, in every set; those that we have not are left out, and
 * named if @who will miss them.
 */
static int limit_caps(const unsigned int *caps, size_t nr, const char *who)
{
	bool have[CAP_LAST_CAP + 1] = {false};

	capng_get_caps_process();
	for (size_t i = 0; i < nr; i++)
		have[caps[i]] = capng_have_capability(CAPNG_PERMITTED, caps[i]);
	capng_clear(CAPNG_SELECT_ALL);
	for (size_t i = 0; i < nr; i++) {
		if (!have[caps[i]] && who)
			log_warn("The %s has to do without the capability "
				 "%s, which this daemon was started without",
				 who, capng_capability_to_name(caps[i]));
		if (!have[caps[i]])
			continue;
		capng_update(CAPNG_ADD,
			     CAPNG_EFFECTIVE | CAPNG_PERMITTED |
				     CAPNG_BOUNDING_SET,
			     caps[i]);
	}
	return capng_apply(CAPNG_SELECT_BOUNDS) < 0 ? -EPERM : 0;
}

static int apply_caps(void)
{
	return capng_apply(CAPNG_SELECT_CAPS) < 0 ? -EPERM : 0;
}

int privs_supervisor(const struct identity *id)
{
	int r;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	if (!id->split)
		return 0;
	if (setgroups(0, NULL) < 0)
		return -errno;
	r = limit_caps(supervisor_caps, ARRAY_SIZE(supervisor_caps), NULL);
	return r < 0 ? r : apply_caps();
}

int privs_drop(enum role role, const struct identity *id)
{
	const struct role_caps *rc = &role_caps[role];
	uid_t uid = rc->root ? 0 : id->uid;
	gid_t gid = rc->root ? 0 : id->gid;
	int r;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	if (!id->split)
		return 0;
	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0)
		return -errno;
	/* needs CAP_SETPCAP, so before the rest goes */
	r = limit_caps(rc->cap, rc->nr, role_title(role));
	if (r < 0)
		return r;
	if (setresuid(uid, uid, uid) < 0)
		return -errno;
	return apply_caps();
}
