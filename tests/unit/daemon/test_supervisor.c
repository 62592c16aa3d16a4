// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The whole daemon with a stub for the core. What the stub gets to know, it
 * tells the test by one packet each: struct note.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "../testdir.h"
#include "config.h"
#include "log.h"
#include "options.h"
#include "supervisor.h"

struct note {
	uint32_t op;
	uint32_t role;	 /* of a link */
	pid_t pid;	 /* of who said it */
	char name[80];	 /* of a VM */
	uint32_t nr_vms; /* of a reload */
};

static int note_fd[2];
static struct testdir dir;
static pid_t daemon_pid;

/* --- the stub ---------------------------------------------------------- */

static void tell(uint32_t op, uint32_t role, const char *name, uint32_t nr_vms)
{
	struct note n = {op, role, getpid(), "", nr_vms};

	snprintf(n.name, sizeof(n.name), "%s", name);
	(void)send(note_fd[1], &n, sizeof(n), MSG_DONTWAIT);
}

static void stub_reload(int fd)
{
	char what[CONF_WHAT_MAX];
	struct config cfg;

	if (!config_read_fd(fd, &cfg, what))
		tell(IPC_RELOAD, 0, "", (uint32_t)cfg.nr_vms);
	config_free(&cfg);
}

/* Return: false at the end. */
static bool stub_supervisor(int sup_fd, int *link)
{
	struct ipc_msg m;
	int fd = -1, r = ipc_recv(sup_fd, &m, &fd);

	if (!r || (r > 0 && m.op == IPC_STOP))
		return false;
	if (r > 0 && m.op == IPC_LINK) {
		close_fd_ptr(&link[m.link.role]);
		link[m.link.role] = fd;
		tell(IPC_LINK, m.link.role, "", 0);
	} else if (r > 0 && m.op == IPC_RELOAD) {
		stub_reload(fd);
		close(fd);
	}
	return true;
}

/* The test asks for a replacement by a file "replace". */
static void stub_replace(int sup_fd)
{
	struct ipc_msg m = {.op = IPC_REPLACE, .link.role = ROLE_HELPER};

	if (!unlinkat(dir.fd, "replace", 0))
		(void)ipc_send(sup_fd, &m, -1);
	m.link.role = ROLE_CORE;
	if (!unlinkat(dir.fd, "misbehave", 0))
		(void)ipc_send(sup_fd, &m, -1);
}

static int stub_main(const struct config *cfg, int sup_fd, int listen_fd)
{
	int link[ROLE_COUNT] = {-1, -1, -1, -1}, fd;
	struct ipc_msg m = {.op = IPC_READY}, alive = {.op = IPC_ALIVE};
	unsigned int turns = 0;

	(void)cfg;
	dir.fd = open(dir.path, O_RDONLY | O_DIRECTORY);
	tell(IPC_READY, listen_fd >= 0, "", 0);
	(void)ipc_send(sup_fd, &m, -1);
	for (;;) {
		struct pollfd p[] = {{sup_fd, POLLIN, 0},
				     {link[ROLE_BROKER], POLLIN, 0}};

		(void)poll(p, 2, 10);
		if (turns++ % 50 == 0)
			(void)ipc_send(sup_fd, &alive, -1);
		stub_replace(sup_fd);
		if (p[0].revents && !stub_supervisor(sup_fd, link))
			break;
		if (p[1].revents && ipc_recv(link[ROLE_BROKER], &m, &fd) > 0)
			tell(m.op, 0, m.vm.name, 0);
		else if (p[1].revents)
			(void)poll(NULL, 0, 1);
	}
	tell(IPC_STOP, 0, "", 0);
	return 0;
}

/* notes come by an fd that close_range() would take: found again by path */
static int core_stub(const struct config *cfg, int sup_fd, int listen_fd)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};

	note_fd[1] = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/notes", dir.path);
	if (connect(note_fd[1], (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return 1;
	return stub_main(cfg, sup_fd, listen_fd);
}

/* --- the test's side ---------------------------------------------------- */

static int bind_at(const char *name, int type)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/%s", dir.path, name);
	/* the stub is another user */
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
	    chmod(sa.sun_path, 0777) < 0)
		return -1;
	return fd;
}

static bool is_root(void)
{
	return geteuid() == 0;
}

static int run_daemon(void)
{
	static char conf[128], run[128], state[128];
	char *argv[] = {"vmdefragd",   "--config", conf,     "--run-dir", run,
			"--state-dir", state,	   "--user", "nobody",	  NULL};
	struct supervisor_args args = {
		.main = {core_stub, broker_main, helper_main, knobs_main},
	};
	char what[CONF_WHAT_MAX];
	struct options o;
	struct config cfg;
	int status;

	snprintf(conf, sizeof(conf), "%s/conf", dir.path);
	snprintf(run, sizeof(run), "%s/run", dir.path);
	snprintf(state, sizeof(state), "%s/state", dir.path);
	if (options_parse(9, argv, &o, what) < 0 ||
	    options_config(&o, &cfg, what) < 0) {
		fprintf(stderr, "%s\n", what);
		return STATUS_CONFIG;
	}
	snprintf(cfg.node_dir, sizeof(cfg.node_dir), "%s/nodes", dir.path);
	args.options = &o;
	args.cfg = &cfg;
	status = supervisor_run(&args);
	config_free(&cfg);
	options_free(&o);
	return status;
}

static pid_t start_daemon(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(run_daemon());
	return pid;
}

/* Return: exit status; -signal; -ETIMEDOUT, and it is gone then as well. */
static int end_of(pid_t pid, int max_ms)
{
	int status;

	for (int i = 0; i < max_ms; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status) ? WEXITSTATUS(status)
						 : -WTERMSIG(status);
		(void)poll(NULL, 0, 1);
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	return -ETIMEDOUT;
}

static struct note kept[64]; /* that nobody has waited for yet */
static size_t nr_kept;

static bool matches(const struct note *n, uint32_t op, uint32_t role)
{
	return n->op == op && (op != IPC_LINK || n->role == role);
}

static bool take_kept(uint32_t op, uint32_t role, struct note *ret)
{
	for (size_t i = 0; i < nr_kept; i++) {
		if (!matches(&kept[i], op, role))
			continue;
		*ret = kept[i];
		nr_kept--;
		memmove(&kept[i], &kept[i + 1], (nr_kept - i) * sizeof(*kept));
		return true;
	}
	return false;
}

/* The next note of @op (and for links, of @role), within @max_ms. */
static bool await(uint32_t op, uint32_t role, int max_ms, struct note *ret)
{
	uint64_t end = now_us() + (uint64_t)max_ms * MSEC_US, now;

	if (take_kept(op, role, ret))
		return true;
	while ((now = now_us()) < end) {
		struct pollfd p = {note_fd[0], POLLIN, 0};

		if (poll(&p, 1, (int)((end - now) / MSEC_US) + 1) <= 0)
			continue;
		if (recv(note_fd[0], ret, sizeof(*ret), 0) != sizeof(*ret))
			continue;
		if (matches(ret, op, role))
			return true;
		if (nr_kept < ARRAY_SIZE(kept))
			kept[nr_kept++] = *ret;
	}
	return false;
}

/* Is @pid a child of the daemon that calls itself @comm? */
static bool is_child(const char *pid, const char *comm)
{
	char path[64], text[1024], name[32] = "";
	pid_t parent = 0;

	snprintf(path, sizeof(path), "/proc/%.16s/stat", pid);
	if (read_text_at(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	(void)sscanf(text, "%*d (%31[^)]) %*c %d", name, &parent);
	return parent == daemon_pid && !strcmp(name, comm);
}

/* The daemon's process of @role; the newest of several. */
static pid_t find_child(const char *role)
{
	DIR *proc = opendir("/proc");
	const struct dirent *e;
	pid_t found = 0;
	char comm[32];

	snprintf(comm, sizeof(comm), "vmdefrag-%s", role);
	while (proc && (e = readdir(proc))) {
		if (is_child(e->d_name, comm))
			found = MAX(found, atoi(e->d_name));
	}
	if (proc)
		closedir(proc);
	return found;
}

/* The same, once it got to give itself that name. */
static pid_t pid_of(const char *role)
{
	pid_t pid = 0;

	for (int i = 0; i < 1000 && !pid; i++) {
		pid = find_child(role);
		if (!pid)
			(void)poll(NULL, 0, 1);
	}
	return pid;
}

/* Never kill(2) with the 0 that a missing process gives. */
static void kill_child(pid_t pid, int signo)
{
	assert_true(pid > 0);
	assert_int_equal(kill(pid, signo), 0);
}

static int teardown(void **state)
{
	(void)state;
	if (daemon_pid > 0) {
		(void)kill(daemon_pid, SIGTERM);
		(void)end_of(daemon_pid, 8000);
	}
	close(note_fd[0]);
	testdir_remove(&dir);
	return 0;
}

static int start(void)
{
	struct note n;

	nr_kept = 0;
	if (testdir_make(&dir) || mkdirat(dir.fd, "nodes", 0755) ||
	    chmod(dir.path, 0777) ||
	    (note_fd[0] = bind_at("notes", SOCK_DGRAM)) < 0 ||
	    testdir_write(&dir, "conf", "[vm a]\nChannel=/run/a\n"))
		return -1;
	daemon_pid = start_daemon();
	if (daemon_pid <= 0 || !await(IPC_READY, 0, 2000, &n))
		return -1;
	for (unsigned int i = ROLE_CORE + 1; i < ROLE_COUNT; i++) {
		/* in the order of enum role */
		if (!await(IPC_LINK, i, 2000, &n))
			return -1;
	}
	return 0;
}

/* cmocka calls no teardown for a setup that failed */
static int setup(void **state)
{
	if (!start())
		return 0;
	(void)teardown(state);
	return -1;
}

static void check_vms_come_through(void **state)
{
	struct note n;

	(void)state;
	assert_true(await(IPC_VM_ADD, 0, 2000, &n));
	assert_string_equal(n.name, "a");
	assert_true(await(IPC_VM_SYNCED, 0, 2000, &n));
}

/* Each but the core: killed, back within a second, the others untouched. */
static void check_killed_ones_come_back(void **state)
{
	static const char *const names[] = {"broker", "helper", "knobs"};
	pid_t core = pid_of("core");
	struct note n;

	(void)state;
	for (unsigned int i = 0; i < ARRAY_SIZE(names); i++) {
		pid_t old = pid_of(names[i]);
		pid_t others[ARRAY_SIZE(names)];

		assert_true(old > 0);
		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			others[k] = pid_of(names[k]);
		kill_child(old, SIGKILL);
		assert_true(await(IPC_LINK, ROLE_BROKER + i, 1000, &n));
		assert_int_equal(n.pid, core);
		for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
			pid_t now = pid_of(names[k]);

			if (k == i)
				assert_true(now > 0 && now != old);
			else
				assert_int_equal(now, others[k]);
		}
	}
}

static void check_killed_core_comes_back(void **state)
{
	pid_t core = pid_of("core"), helper = pid_of("helper");
	struct note n;

	(void)state;
	assert_true(await(IPC_VM_SYNCED, 0, 2000, &n));
	kill_child(core, SIGKILL);
	/* all links anew, and all VMs */
	assert_true(await(IPC_READY, 0, 1000, &n));
	assert_int_not_equal(n.pid, core);
	assert_int_equal(n.role, 1); /* it has the control socket */
	for (unsigned int i = ROLE_CORE + 1; i < ROLE_COUNT; i++)
		assert_true(await(IPC_LINK, i, 1000, &n));
	assert_true(await(IPC_VM_SYNCED, 0, 1000, &n));
	assert_int_equal(pid_of("helper"), helper);
}

static void check_stuck_helper_is_replaced(void **state)
{
	pid_t helper = pid_of("helper");
	struct note n;

	(void)state;
	kill_child(helper, SIGSTOP);
	assert_int_equal(testdir_write(&dir, "replace", ""), 0);
	assert_true(await(IPC_LINK, ROLE_HELPER, 1000, &n));
	/* reaped a moment after the new one was started */
	for (int i = 0; i < 1000 && !kill(helper, 0); i++)
		(void)poll(NULL, 0, 1);
	assert_int_equal(kill(helper, 0), -1);
	assert_int_equal(errno, ESRCH);
	assert_int_not_equal(pid_of("helper"), helper);
}

static void check_misbehaving_core_is_killed(void **state)
{
	pid_t core = pid_of("core");
	struct note n;

	(void)state;
	assert_int_equal(testdir_write(&dir, "misbehave", ""), 0);
	assert_true(await(IPC_READY, 0, 1000, &n));
	assert_int_not_equal(n.pid, core);
}

static void check_backoff(void **state)
{
	uint64_t start, took[3];
	struct note n;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(took); i++) {
		start = now_us();
		kill_child(pid_of("helper"), SIGKILL);
		assert_true(await(IPC_LINK, ROLE_HELPER, 2000, &n));
		took[i] = now_us() - start;
	}
	assert_true(took[1] >= 100 * MSEC_US);
	assert_true(took[2] >= 200 * MSEC_US);
}

static void check_orderly_end(void **state)
{
	static const char *const names[] = {"core", "broker", "helper",
					    "knobs"};
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	pid_t pids[ARRAY_SIZE(names)];
	struct note n;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)state;
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/run/control.sock",
		 dir.path);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	close(fd);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		pids[i] = pid_of(names[i]);
	kill_child(daemon_pid, SIGTERM);
	assert_true(await(IPC_STOP, 0, 2000, &n));
	assert_int_equal(end_of(daemon_pid, 5000), 0);
	daemon_pid = 0;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(kill(pids[i], 0), -1);
	assert_int_equal(access(sa.sun_path, F_OK), -1);
}

static void check_supervisors_death_ends_all(void **state)
{
	static const char *const names[] = {"core", "broker", "helper",
					    "knobs"};
	pid_t pids[ARRAY_SIZE(names)];
	struct note n;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		pids[i] = pid_of(names[i]);
	kill_child(daemon_pid, SIGKILL);
	assert_int_equal(end_of(daemon_pid, 1000), -SIGKILL);
	daemon_pid = 0;
	/* orderly: the core got to say so */
	assert_true(await(IPC_STOP, 0, 2000, &n));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		for (int k = 0; k < 2000 && !kill(pids[i], 0); k++)
			(void)poll(NULL, 0, 1);
		/* somebody else's to reap, so a zombie may remain */
		if (!kill(pids[i], 0)) {
			char path[64], text[4096];

			snprintf(path, sizeof(path), "/proc/%d/stat", pids[i]);
			if (read_text_at(AT_FDCWD, path, text, sizeof(text)) >
			    0)
				assert_non_null(strstr(text, ") Z "));
		}
	}
}

static void check_reload(void **state)
{
	struct note n;

	(void)state;
	assert_true(await(IPC_VM_SYNCED, 0, 2000, &n));
	/* a bad one changes nothing */
	testdir_write(&dir, "conf", "[vm b]\nChannel=relative\n");
	kill_child(daemon_pid, SIGHUP);
	assert_false(await(IPC_RELOAD, 0, 200, &n));
	testdir_write(&dir, "conf",
		      "[vm b]\nChannel=/run/b\n[vm c]\nChannel=/run/c\n");
	kill_child(daemon_pid, SIGHUP);
	assert_true(await(IPC_RELOAD, 0, 2000, &n));
	assert_int_equal(n.nr_vms, 2);
}

static void check_reload_reaches_the_broker(void **state)
{
	struct note n;

	(void)state;
	assert_true(await(IPC_VM_ADD, 0, 2000, &n));
	assert_true(await(IPC_VM_SYNCED, 0, 2000, &n));
	testdir_write(&dir, "conf", "[vm b]\nChannel=/run/b\n");
	kill_child(daemon_pid, SIGHUP);
	assert_true(await(IPC_VM_REMOVE, 0, 2000, &n));
	assert_string_equal(n.name, "a");
	assert_true(await(IPC_VM_ADD, 0, 2000, &n));
	assert_string_equal(n.name, "b");
}

static void check_second_daemon_is_refused(void **state)
{
	pid_t second = start_daemon();

	(void)state;
	assert_int_equal(end_of(second, 2000), STATUS_RUNNING);
	/* the first one's socket is still there */
	assert_int_equal(access(testdir_path(&dir, "run/control.sock"), F_OK),
			 0);
}

/* --- systemd -------------------------------------------------------------- */

/* Does the daemon say @want (in a line of its own) to systemd? */
static bool notified(int fd, const char *want)
{
	char text[512], *save;
	ssize_t n;

	for (int i = 0; i < 20; i++) {
		struct pollfd p = {fd, POLLIN, 0};

		if (poll(&p, 1, 2000) <= 0)
			return false;
		n = recv(fd, text, sizeof(text) - 1, 0);
		text[n > 0 ? n : 0] = '\0';
		for (char *line = strtok_r(text, "\n", &save); line;
		     line = strtok_r(NULL, "\n", &save)) {
			if (!strncmp(line, want, strlen(want)))
				return true;
		}
	}
	return false;
}

/* As systemd starts it: a socket for notes, and the control socket as fd 3. */
static pid_t start_as_service(int control_fd)
{
	char path[128], pid[16];

	snprintf(path, sizeof(path), "%s/notify", dir.path);
	daemon_pid = fork();
	if (daemon_pid)
		return daemon_pid;
	snprintf(pid, sizeof(pid), "%d", getpid());
	setenv("NOTIFY_SOCKET", path, 1);
	setenv("WATCHDOG_USEC", "200000", 1);
	setenv("LISTEN_FDS", "1", 1);
	setenv("LISTEN_PID", pid, 1);
	dup2(control_fd, 3);
	_exit(run_daemon());
}

static void check_service(void **state)
{
	int notify_fd, control_fd;
	struct note n;

	(void)state;
	assert_true(daemon_pid > 0);
	kill_child(daemon_pid, SIGTERM);
	assert_int_equal(end_of(daemon_pid, 8000), 0);
	nr_kept = 0;
	while (recv(note_fd[0], &n, sizeof(n), MSG_DONTWAIT) > 0)
		;
	notify_fd = bind_at("notify", SOCK_DGRAM);
	control_fd = bind_at("activated", SOCK_STREAM);
	assert_int_equal(listen(control_fd, 1), 0);
	assert_true(start_as_service(control_fd) > 0);
	assert_true(notified(notify_fd, "READY=1"));
	assert_true(await(IPC_READY, 0, 2000, &n));
	assert_int_equal(n.role, 1);
	/* the one it was given, not one of its own */
	assert_int_equal(access(testdir_path(&dir, "run/control.sock"), F_OK),
			 -1);
	assert_true(notified(notify_fd, "WATCHDOG=1"));
	assert_true(notified(notify_fd, "WATCHDOG=1"));
	kill_child(daemon_pid, SIGHUP);
	assert_true(notified(notify_fd, "RELOADING=1"));
	assert_true(notified(notify_fd, "READY=1"));
	kill_child(daemon_pid, SIGTERM);
	assert_true(notified(notify_fd, "STOPPING=1"));
	assert_int_equal(end_of(daemon_pid, 5000), 0);
	daemon_pid = 0;
	/* systemd's to remove */
	assert_int_equal(access(testdir_path(&dir, "activated"), F_OK), 0);
	close(notify_fd);
	close(control_fd);
}

/* --- privileges ----------------------------------------------------------- */

struct status {
	unsigned int uid[4];
	unsigned long long cap_eff, cap_prm, cap_bnd, cap_inh;
	unsigned long long blocked, ignored; /* signals: bit n - 1 */
	int no_new_privs, nr_groups;
};

static void read_status(pid_t pid, struct status *s)
{
	char path[64], line[4096];
	FILE *f;

	memset(s, 0, sizeof(*s));
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		(void)sscanf(line, "Uid: %u %u %u %u", &s->uid[0], &s->uid[1],
			     &s->uid[2], &s->uid[3]);
		(void)sscanf(line, "CapEff: %llx", &s->cap_eff);
		(void)sscanf(line, "CapPrm: %llx", &s->cap_prm);
		(void)sscanf(line, "CapBnd: %llx", &s->cap_bnd);
		(void)sscanf(line, "CapInh: %llx", &s->cap_inh);
		(void)sscanf(line, "SigBlk: %llx", &s->blocked);
		(void)sscanf(line, "SigIgn: %llx", &s->ignored);
		(void)sscanf(line, "NoNewPrivs: %d", &s->no_new_privs);
		if (!strncmp(line, "Groups:", 7))
			s->nr_groups = line[strspn(line + 7, " \t\n") + 7] != 0;
	}
	fclose(f);
}

static void check_privileges(void **state)
{
	/* SYS_PTRACE, SYS_NICE, DAC_READ_SEARCH, DAC_OVERRIDE */
	const unsigned long long helper =
		1ull << 19 | 1ull << 23 | 1ull << 2 | 1ull << 1;
	const struct {
		const char *role;
		bool root;
		unsigned long long caps;
	} cases[] = {
		{"core", false, 0},
		{"broker", false, 0},
		{"helper", true, helper},
		{"knobs", true, 0},
	};
	struct status own;

	(void)state;
	if (!is_root())
		skip();
	read_status(getpid(), &own);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct status s;

		read_status(pid_of(cases[i].role), &s);
		for (size_t k = 0; k < 4; k++)
			assert_int_equal(s.uid[k] == 0, cases[i].root);
		/* a container may have been given less */
		assert_int_equal(s.cap_eff, cases[i].caps & own.cap_eff);
		assert_int_equal(s.cap_prm, s.cap_eff);
		assert_int_equal(s.cap_bnd, s.cap_eff);
		assert_int_equal(s.cap_inh, 0);
		assert_int_equal(s.no_new_privs, 1);
		assert_int_equal(s.nr_groups, 0);
	}
}

/* A terminal's signals are the supervisor's; core and knob writer end in
 * their own time, the others at once. */
static void check_signals(void **state)
{
	const unsigned long long ignored = 1ull << (SIGINT - 1) |
					   1ull << (SIGHUP - 1) |
					   1ull << (SIGPIPE - 1);
	const struct {
		const char *role;
		unsigned long long blocked;
	} cases[] = {
		{"core", 1ull << (SIGTERM - 1)},
		{"knobs", 1ull << (SIGTERM - 1)},
		{"helper", 0},
		{"broker", 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct status s;

		read_status(pid_of(cases[i].role), &s);
		assert_int_equal(s.blocked, cases[i].blocked);
		assert_int_equal(s.ignored & ignored, ignored);
	}
}

/* Links to the core and the supervisor, and what each role opened. */
static void check_no_fd_is_inherited(void **state)
{
	static const char *const names[] = {"broker", "helper"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char cmd[96], target[512];
		FILE *f;

		snprintf(cmd, sizeof(cmd), "readlink /proc/%d/fd/*",
			 pid_of(names[i]));
		f = popen(cmd, "r");
		assert_non_null(f);
		for (int n = 0; fgets(target, sizeof(target), f); n++) {
			assert_null(strstr(target, "signalfd"));
			assert_null(strstr(target, "/lock"));
			/* stdio, two links, /proc, and two of /sys */
			assert_true(n < 8);
		}
		pclose(f);
	}
}

static void check_places(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(stat(testdir_path(&dir, "run"), &st), 0);
	assert_int_equal(st.st_uid, geteuid());
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(stat(testdir_path(&dir, "run/control.sock"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0660);
	assert_int_equal(st.st_uid, geteuid());
	assert_int_equal(stat(testdir_path(&dir, "state"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0750);
	assert_int_equal(st.st_uid == geteuid(), !is_root());
}

static void check_open_run_directory_is_refused(void **state)
{
	pid_t pid;

	(void)state;
	kill_child(daemon_pid, SIGTERM);
	assert_int_equal(end_of(daemon_pid, 8000), 0);
	assert_int_equal(chmod(testdir_path(&dir, "run"), 0777), 0);
	pid = start_daemon();
	daemon_pid = 0;
	assert_int_equal(end_of(pid, 2000), STATUS_NOPERM);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(check_vms_come_through),
		TEST(check_killed_ones_come_back),
		TEST(check_killed_core_comes_back),
		TEST(check_stuck_helper_is_replaced),
		TEST(check_misbehaving_core_is_killed),
		TEST(check_backoff),
		TEST(check_orderly_end),
		TEST(check_supervisors_death_ends_all),
		TEST(check_reload),
		TEST(check_reload_reaches_the_broker),
		TEST(check_second_daemon_is_refused),
		TEST(check_service),
		TEST(check_privileges),
		TEST(check_signals),
		TEST(check_no_fd_is_inherited),
		TEST(check_places),
		TEST(check_open_run_directory_is_refused),
	};

	return cmocka_run_group_tests_name("supervisor", tests, NULL, NULL);
}
