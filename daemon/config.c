// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "config.h"
#include "configtext.h"
#include "policy_collapse.h"
#include "proto_codec.h"
#include "util.h"

/* 1024 VMs with every key and the longest values are below 600 KiB. */
#define CONFIG_TEXT_MAX (1u << 20)
#define MODE_UNSET	VM_MODE_COUNT

/* Silence that makes an agent put its knobs back must outlast one late or
 * lost directive. */
#define LEASE_MIN_INTERVALS 2

static int fault(char *what, const char *fmt, ...) printf_like(2, 3);

static int fault(char *what, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, CONF_WHAT_MAX, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

#define OF_DAEMON(member) offsetof(struct config, member)
#define OF_POLICY(member) offsetof(struct config, policy.member)
#define OF_VM(member)	  offsetof(struct ipc_vm, member)

static const struct conf_key config_keys[] = {
	{"daemon", "RunDir", CONF_STRING, OF_DAEMON(run_dir), 1, CONFIG_DIR_MAX,
	 NULL},
	{"daemon", "StateDir", CONF_STRING, OF_DAEMON(state_dir), 1,
	 CONFIG_DIR_MAX, NULL},
	{"daemon", "User", CONF_STRING, OF_DAEMON(user), 1, CONFIG_USER_MAX,
	 NULL},
	{"daemon", "Group", CONF_STRING, OF_DAEMON(group), 0, CONFIG_USER_MAX,
	 NULL},
	{"daemon", "Loop", CONF_ENUM, OF_DAEMON(loop), 0, LOOP_KIND_COUNT,
	 loop_kind_name},
	{"daemon", "Verbose", CONF_BOOL, OF_DAEMON(verbose), 0, 0, NULL},
	/* goes over the wire as 32 bits of milliseconds */
	{"daemon", "ReportInterval", CONF_TIME_US,
	 OF_DAEMON(report_interval_us), 50 * MSEC_US, 3600 * SEC_US, NULL},
	{"daemon", "BlocksMaxWords", CONF_U64, OF_DAEMON(blocks_max_words),
	 1 << 16, UINT64_C(1) << 40, NULL},

	{"policy", "Mode", CONF_ENUM, OF_POLICY(mode), 0, VM_MODE_COUNT,
	 vm_mode_name},
	{"policy", "Backend", CONF_ENUM, OF_POLICY(backend), 0, BACKEND_COUNT,
	 backend_name},
	{"policy", "ReserveMinPercent", CONF_U32, OF_POLICY(reserve_min_pct), 0,
	 90, NULL},
	{"policy", "ReserveMaxPercent", CONF_U32, OF_POLICY(reserve_max_pct), 0,
	 90, NULL},
	{"policy", "CpuBudgetPercent", CONF_U32, OF_POLICY(cpu_budget_pct), 1,
	 100, NULL},
	{"policy", "PsiAbortPercent", CONF_U32, OF_POLICY(psi_abort_pct), 1,
	 100, NULL},
	{"policy", "ActionMaxTime", CONF_TIME_US, OF_POLICY(action_max_us),
	 10 * MSEC_US, 600 * SEC_US, NULL},
	{"policy", "ActionMaxCpuTime", CONF_TIME_US,
	 OF_POLICY(action_max_cpu_us), 1 * MSEC_US, 600 * SEC_US, NULL},
	{"policy", "ActionMaxPages", CONF_U64, OF_POLICY(action_max_pages), 512,
	 UINT64_C(1) << 40, NULL},
	{"policy", "Cooldown", CONF_TIME_US, OF_POLICY(cooldown_us), 0,
	 3600 * SEC_US, NULL},
	{"policy", "BackoffMax", CONF_TIME_US, OF_POLICY(backoff_max_us),
	 1 * SEC_US, 24 * 3600 * SEC_US, NULL},
	{"policy", "ReserveHold", CONF_TIME_US, OF_POLICY(reserve_hold_us), 0,
	 3600 * SEC_US, NULL},
	{"policy", "Lease", CONF_TIME_US, OF_POLICY(lease_us), 1 * SEC_US,
	 24 * 3600 * SEC_US, NULL},

	{"policy", "Collapse", CONF_ENUM, OF_POLICY(collapse), 0,
	 COLLAPSE_MODE_COUNT, collapse_mode_name},
	{"policy", "MapInterval", CONF_TIME_US, OF_POLICY(map_interval_us),
	 500 * MSEC_US, 3600 * SEC_US, NULL},
	{"policy", "Hint", CONF_BOOL, OF_POLICY(hint), 0, 0, NULL},

	{"vm", "Channel", CONF_STRING, OF_VM(channel), 1, IPC_PATH_MAX, NULL},
	{"vm", "Qmp", CONF_STRING, OF_VM(qmp), 0, IPC_PATH_MAX, NULL},
	{"vm", "Pid", CONF_U32, OF_VM(pid), 0, INT32_MAX, NULL},
	{"vm", "Uuid", CONF_STRING, OF_VM(uuid), 0,
	 sizeof((struct ipc_vm){}.uuid), NULL},
	{"vm", "Mode", CONF_ENUM, OF_VM(mode), 0, VM_MODE_COUNT, vm_mode_name},
	{"vm", "Collapse", CONF_ENUM, OF_VM(collapse), 0, COLLAPSE_MODE_COUNT,
	 collapse_mode_name},
	{"vm", "Hint", CONF_BOOL, OF_VM(hint), 0, 0, NULL},
};

static struct ipc_vm *find_vm(struct config *cfg, const char *name)
{
	for (size_t i = 0; i < cfg->nr_vms; i++) {
		if (!strcmp(cfg->vm[i].name, name))
			return &cfg->vm[i];
	}
	return NULL;
}

/* "vm web1" -> "web1"; NULL where no name is in it. */
static const char *vm_section_name(const char *section)
{
	return !strncmp(section, "vm ", 3) && section[3] ? section + 3 : NULL;
}

static void *section_object(void *arg, const char *section, char *what)
{
	struct config *cfg = arg;
	const char *name;
	void *vm;

	if (strcmp(section, "vm") && strncmp(section, "vm ", 3))
		return cfg;
	name = vm_section_name(section);
	if (!name) {
		fault(what, "the section needs the VM's name: [vm NAME]");
		return NULL;
	}
	vm = find_vm(cfg, name);
	if (!vm)
		fault(what, "no VM of that name");
	return vm;
}

static const struct conf_table config_table = {
	.key = config_keys,
	.nr_keys = ARRAY_SIZE(config_keys),
	.object = section_object,
};

int config_init(struct config *cfg)
{
	memset(cfg, 0, sizeof(*cfg));
	strcpy(cfg->run_dir, "/run/vmdefrag");
	strcpy(cfg->state_dir, "/var/lib/vmdefrag");
	strcpy(cfg->user, "vmdefrag");
	strcpy(cfg->node_dir, "/sys/devices/system/node");
	strcpy(cfg->proc_dir, "/proc");
	/* the nested questions of an operator ("is it slow now?") want
	 * seconds; a report costs a guest 0.2 ms of CPU */
	cfg->report_interval_us = 1 * SEC_US;
	/* 256 GiB of 4 KiB pages: 4 to 6 s of one CPU, in pieces */
	cfg->blocks_max_words = UINT64_C(1) << 26;
	policy_cfg_defaults(&cfg->policy);
	/* whatever the policy thinks: nothing is changed before asked for */
	cfg->policy.mode = VM_MODE_OBSERVE;
	cfg->vm = calloc(CONFIG_VMS_MAX, sizeof(*cfg->vm));
	return cfg->vm ? 0 : -ENOMEM;
}

void config_free(struct config *cfg)
{
	free(cfg->vm);
	cfg->vm = NULL;
	cfg->nr_vms = 0;
}

/* What keeps @name from being a section's name that reads back. */
static const char *vm_name_fault(const char *name)
{
	size_t len = strlen(name);

	if (!len)
		return "the name is empty";
	if (len > CONFIG_VM_NAME_MAX)
		return "the name is longer than 45 characters";
	if (!text_is_printable(name, len))
		return "the name holds a character outside printable ASCII";
	if (name[0] == ' ' || name[len - 1] == ' ' || strpbrk(name, "],;"))
		return "the name may not hold ']', ',' or ';', nor start or "
		       "end with a blank";
	return NULL;
}

static int new_vm(struct config *cfg, const char *name, char *what)
{
	const char *why = vm_name_fault(name);
	struct ipc_vm *vm;

	if (why)
		return fault(what, "VM '%.50s': %s", name, why);
	if (find_vm(cfg, name))
		return fault(what, "VM '%s' is defined twice", name);
	if (cfg->nr_vms == CONFIG_VMS_MAX)
		return fault(what, "more than %d VMs", CONFIG_VMS_MAX);
	vm = &cfg->vm[cfg->nr_vms++];
	memset(vm, 0, sizeof(*vm));
	strcpy(vm->name, name);
	vm->mode = MODE_UNSET;
	vm->collapse = COLLAPSE_MODE_COUNT;
	vm->hint = true;
	return 0;
}

static const char *path_fault(const char *path)
{
	size_t len = strlen(path);

	if (path[0] != '/')
		return "is not an absolute path";
	/* " ;" would start a comment in a configuration file */
	if (path[len - 1] == ' ' || strstr(path, " ;"))
		return "ends in a blank or holds ' ;'";
	return NULL;
}

static bool uuid_ok(const char *s)
{
	if (strlen(s) != 36)
		return false;
	for (size_t i = 0; i < 36; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? s[i] != '-'
			 : !strchr("0123456789abcdefABCDEF", s[i]))
			return false;
	}
	return true;
}

/* The key of @vm that is wrong, and why; NULL if all is well. */
static const char *vm_fault(const struct ipc_vm *vm, const char **ret_why)
{
	if (!vm->channel[0]) {
		*ret_why = "is missing: the unix socket of the VM's "
			   "virtio-serial port " PROTO_PORT_NAME;
		return "Channel";
	}
	*ret_why = path_fault(vm->channel);
	if (*ret_why)
		return "Channel";
	*ret_why = vm->qmp[0] ? path_fault(vm->qmp) : NULL;
	if (*ret_why)
		return "Qmp";
	if (vm->uuid[0] && !uuid_ok(vm->uuid)) {
		*ret_why = "is no UUID such as "
			   "01234567-89ab-cdef-0123-456789abcdef";
		return "Uuid";
	}
	return NULL;
}

/* The VMs of a file, before their keys are read. */
static int scan_vms(struct config *cfg, const char *path, const char *text,
		    char *what)
{
	struct configtext_pos pos = {text, 0};
	char section[128], why[CONF_WHAT_MAX];

	while (configtext_next_section(&pos, section, sizeof(section))) {
		const char *name = vm_section_name(section);

		if (name && new_vm(cfg, name, why) < 0)
			return fault(what, "%.100s:%u: %.130s", path, pos.line,
				     why);
	}
	return 0;
}

/* What stands in a file and is wrong although it parsed. */
static int check_file_vms(const struct config *cfg, size_t first,
			  const char *path, const char *text, char *what)
{
	for (size_t i = first; i < cfg->nr_vms; i++) {
		char section[sizeof("vm ") + IPC_NAME_MAX];
		const char *why, *key = vm_fault(&cfg->vm[i], &why);

		if (!key)
			continue;
		snprintf(section, sizeof(section), "vm %s", cfg->vm[i].name);
		return fault(what, "%.80s:%u: [%.48s] %s %s", path,
			     configtext_line_of(text, section, key), section,
			     key, why);
	}
	return 0;
}

static int check_file_dirs(const struct config *cfg, const char *path,
			   const char *text, char *what)
{
	const struct {
		const char *key, *dir;
	} dirs[] = {{"RunDir", cfg->run_dir}, {"StateDir", cfg->state_dir}};

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		const char *why = path_fault(dirs[i].dir);
		unsigned int line;

		line = configtext_line_of(text, "daemon", dirs[i].key);
		if (why && line)
			return fault(what, "%.80s:%u: [daemon] %s: '%.64s' %s",
				     path, line, dirs[i].key, dirs[i].dir, why);
	}
	return 0;
}

static int load_text(struct config *cfg, const char *path, const char *text,
		     char *what)
{
	size_t first = cfg->nr_vms;
	int r;

	r = scan_vms(cfg, path, text, what);
	if (r < 0)
		return r;
	r = conf_parse(&config_table, path, text, cfg, what);
	if (r < 0) {
		if (r != -EINVAL)
			fault(what, "%.100s: %s", path, strerror(-r));
		return r;
	}
	r = check_file_dirs(cfg, path, text, what);
	if (r < 0)
		return r;
	return check_file_vms(cfg, first, path, text, what);
}

int config_load(struct config *cfg, const char *path, char *what)
{
	auto_free char *text = malloc(CONFIG_TEXT_MAX);
	ssize_t n;

	if (!text) {
		fault(what, "%.100s: %s", path, strerror(ENOMEM));
		return -ENOMEM;
	}
	n = read_text_at(AT_FDCWD, path, text, CONFIG_TEXT_MAX);
	if (n < 0) {
		fault(what, "%.100s: %s", path, strerror((int)-n));
		return (int)n;
	}
	if (strlen(text) != (size_t)n)
		return fault(what, "%.100s: holds a NUL byte", path);
	return load_text(cfg, path, text, what);
}

int config_load_all(struct config *cfg, const char *path, bool *ret_found,
		    char *what)
{
	char pattern[PATH_MAX];
	int r = config_load(cfg, path, what);
	glob_t g;

	*ret_found = r != -ENOENT;
	if (r < 0 && r != -ENOENT)
		return r;
	if ((size_t)snprintf(pattern, sizeof(pattern), "%s.d/*.conf", path) >=
	    sizeof(pattern))
		return fault(what, "%.100s: path is too long", path);
	r = glob(pattern, 0, NULL, &g); /* sorted */
	if (r == GLOB_NOMATCH)
		return 0;
	if (r)
		return fault(what, "%.100s: cannot be listed", pattern);
	r = 0;
	for (size_t i = 0; i < g.gl_pathc && !r; i++) {
		*ret_found = true;
		r = config_load(cfg, g.gl_pathv[i], what);
	}
	globfree(&g);
	return r;
}

int config_set(struct config *cfg, const char *section, const char *key,
	       const char *value, char *what)
{
	return conf_set(&config_table, cfg, section, key, value, what);
}

/* One "key=value" of --vm; its keys are those of the section in lower case. */
static int set_vm_word(struct config *cfg, const char *section, char *word,
		       char *what)
{
	static const char *const keys[] = {"Channel", "Qmp",	  "Pid", "Uuid",
					   "Mode",    "Collapse", "Hint"};
	char why[CONF_WHAT_MAX], *value = strchr(word, '=');

	if (!value)
		return fault(what, "'%.64s' is not key=value", word);
	*value++ = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcasecmp(word, keys[i]))
			continue;
		if (!conf_set(&config_table, cfg, section, keys[i], value, why))
			return 0;
		return fault(what, "%.200s", why);
	}
	return fault(what,
		     "unknown key '%.32s': name, channel, qmp, pid, uuid, "
		     "mode, collapse and hint are known",
		     word);
}

int config_add_vm(struct config *cfg, const char *text, char *what)
{
	char copy[1024], section[sizeof("vm ") + IPC_NAME_MAX], *save = NULL;
	const char *key, *why;
	char *name, *word;
	int r;

	if (strlen(text) >= sizeof(copy))
		return fault(what, "longer than %zu characters",
			     sizeof(copy) - 1);
	strcpy(copy, text);
	name = strtok_r(copy, ",", &save);
	if (!name || strncmp(name, "name=", 5))
		return fault(what, "must start with name=NAME");
	r = new_vm(cfg, name + 5, what);
	if (r < 0)
		return r;
	snprintf(section, sizeof(section), "vm %.64s", name + 5);
	while ((word = strtok_r(NULL, ",", &save))) {
		r = set_vm_word(cfg, section, word, what);
		if (r < 0)
			return r;
	}
	key = vm_fault(&cfg->vm[cfg->nr_vms - 1], &why);
	return key ? fault(what, "[%.64s] %s %s", section, key, why) : 0;
}

static int check_vms_differ(const struct config *cfg, char *what)
{
	for (size_t i = 0; i < cfg->nr_vms; i++) {
		const struct ipc_vm *a = &cfg->vm[i];

		for (size_t j = i + 1; j < cfg->nr_vms; j++) {
			const struct ipc_vm *b = &cfg->vm[j];

			if (!strcmp(a->channel, b->channel))
				return fault(what,
					     "VMs '%s' and '%s' have the same "
					     "Channel '%s'",
					     a->name, b->name, a->channel);
		}
	}
	return 0;
}

static int check_run_dir(const struct config *cfg, char *what)
{
	size_t max = IPC_PATH_MAX - sizeof("/" CONFIG_SOCKET_NAME);
	const char *why = path_fault(cfg->run_dir);

	if (why)
		return fault(what, "RunDir '%.100s' %s", cfg->run_dir, why);
	if (strlen(cfg->run_dir) > max)
		return fault(what,
			     "RunDir '%.100s…' is longer than %zu characters: "
			     "no unix socket could be made in it",
			     cfg->run_dir, max);
	why = path_fault(cfg->state_dir);
	if (why)
		return fault(what, "StateDir '%.100s' %s", cfg->state_dir, why);
	return 0;
}

static int check_policy(const struct config *cfg, char *what)
{
	const struct policy_cfg *p = &cfg->policy;

	if (p->reserve_min_pct > p->reserve_max_pct)
		return fault(what,
			     "[policy] ReserveMinPercent=%u is above "
			     "ReserveMaxPercent=%u",
			     p->reserve_min_pct, p->reserve_max_pct);
	if (p->lease_us < LEASE_MIN_INTERVALS * cfg->report_interval_us)
		return fault(what,
			     "[policy] Lease (%llu ms) is shorter than %d "
			     "ReportIntervals (%llu ms each): agents would "
			     "put their knobs back all the time",
			     (unsigned long long)(p->lease_us / MSEC_US),
			     LEASE_MIN_INTERVALS,
			     (unsigned long long)(cfg->report_interval_us /
						  MSEC_US));
	return 0;
}

int config_validate(struct config *cfg, char *what)
{
	int r;

	r = check_run_dir(cfg, what);
	if (r < 0)
		return r;
	r = check_policy(cfg, what);
	if (r < 0)
		return r;
	r = check_vms_differ(cfg, what);
	if (r < 0)
		return r;
	for (size_t i = 0; i < cfg->nr_vms; i++) {
		if (cfg->vm[i].mode == MODE_UNSET)
			cfg->vm[i].mode = cfg->policy.mode;
		if (cfg->vm[i].collapse == COLLAPSE_MODE_COUNT)
			cfg->vm[i].collapse = cfg->policy.collapse;
		cfg->vm[i].hint = cfg->vm[i].hint && cfg->policy.hint;
	}
	return 0;
}

void config_dump(const struct config *cfg, FILE *f)
{
	conf_dump(&config_table, cfg, "daemon", f);
	fputc('\n', f);
	conf_dump(&config_table, cfg, "policy", f);
	for (size_t i = 0; i < cfg->nr_vms; i++) {
		char section[sizeof("vm ") + IPC_NAME_MAX];

		snprintf(section, sizeof(section), "vm %s", cfg->vm[i].name);
		fputc('\n', f);
		conf_dump(&config_table, &cfg->vm[i], section, f);
	}
}

int config_write_fd(const struct config *cfg)
{
	auto_close int fd =
		memfd_create("vmdefragd.conf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	auto_fclose FILE *f = NULL;
	int copy;

	if (fd < 0)
		return -errno;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy < 0)
		return -errno;
	f = fdopen(copy, "w");
	if (!f) {
		close(copy);
		return -ENOMEM;
	}
	config_dump(cfg, f);
	if (fflush(f) || ferror(f))
		return -EIO;
	if (fcntl(fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return -errno;
	return take_fd(&fd);
}

int config_read_fd(int fd, struct config *ret_cfg, char *what)
{
	auto_free char *text = NULL;
	struct stat st;
	int r;

	r = config_init(ret_cfg);
	if (r < 0 || fstat(fd, &st) < 0 || st.st_size >= CONFIG_TEXT_MAX) {
		fault(what, "the new configuration cannot be taken over");
		return r < 0 ? r : -EINVAL;
	}
	text = calloc(1, (size_t)st.st_size + 1);
	if (!text || pread(fd, text, (size_t)st.st_size, 0) != st.st_size) {
		fault(what, "the new configuration cannot be read");
		return -EIO;
	}
	r = load_text(ret_cfg, "new configuration", text, what);
	return r < 0 ? r : config_validate(ret_cfg, what);
}
