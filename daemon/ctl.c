// SPDX-License-Identifier: GPL-2.0-or-later
/* vmdefragctl: asks the daemon over its control socket. */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "ctl.h"
#include "policy.h"
#include "proto_codec.h"
#include "util.h"

#define SOCKET_DEFAULT	  "/run/vmdefrag/control.sock"
#define ANSWER_TIMEOUT_MS 5000
/* BlocksMaxWords as shipped takes the helper 6 s, emulated a minute and more */
#define LOOK_TIMEOUT_MS 300000
/* a signal that comes just before poll(2) does not end it */
#define INTERRUPT_LOOK_MS 200

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
	(void)sig;
	interrupted = 1;
}

void ctl_catch_interrupt(void)
{
	struct sigaction sa = {.sa_handler = on_interrupt};

	sigaction(SIGINT, &sa, NULL);
}

bool ctl_interrupted(void)
{
	return interrupted;
}

/* --- the connection --------------------------------------------------------
 */

int ctl_connect(struct ctl *c)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};

	if (strlen(c->socket) >= sizeof(sa.sun_path)) {
		fprintf(stderr, "vmdefragctl: socket path is too long: %s\n",
			c->socket);
		return CTL_USAGE;
	}
	strcpy(sa.sun_path, c->socket);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 ||
	    connect(c->fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		fprintf(stderr,
			"vmdefragctl: cannot reach vmdefragd on %s: %s%s\n",
			c->socket, strerror(errno),
			errno == EACCES
				? " (members of group vmdefrag may look, root "
				  "may change)"
				: "; is it running?");
		return CTL_NO_DAEMON;
	}
	return CTL_OK;
}

int ctl_send(struct ctl *c, json_t *req)
{
	auto_free char *text = json_dumps(req, JSON_COMPACT);
	size_t len, done = 0;

	json_decref(req);
	if (!text)
		return -ENOMEM;
	len = strlen(text);
	text[len++] = '\n'; /* the NUL is not sent */
	while (done < len) {
		ssize_t n = send(c->fd, text + done, len - done, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* A whole line from the buffer, parsed; NULL if there is none. */
static json_t *line_take(struct ctl *c)
{
	char *end = memchr(c->buf, '\n', c->len);
	json_t *o;
	size_t n;

	if (!end)
		return NULL;
	n = (size_t)(end - c->buf) + 1;
	o = json_loadb(c->buf, n - 1, 0, NULL);
	memmove(c->buf, end + 1, c->len - n);
	c->len -= n;
	return o ? o : json_null();
}

int ctl_line(struct ctl *c, int timeout_ms, json_t **ret_line)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};

	for (;;) {
		json_t *o = c->len ? line_take(c) : NULL;
		ssize_t n;
		int r;

		if (o) {
			*ret_line = o;
			return 1;
		}
		r = poll(&p, 1, timeout_ms);
		if (r <= 0)
			return r < 0 && errno != EINTR ? -errno : 0;
		if (c->size - c->len < 4096) {
			size_t size = c->size ? 2 * c->size : 65536;
			char *grown = realloc(c->buf, size);

			if (!grown)
				return -ENOMEM;
			c->buf = grown;
			c->size = size;
		}
		n = recv(c->fd, c->buf + c->len, c->size - c->len, 0);
		if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		c->len += (size_t)n;
	}
}

int ctl_error(const json_t *answer)
{
	const char *text = json_string_value(json_object_get(answer, "error"));

	fprintf(stderr, "vmdefragctl: %s\n",
		text ? text : "the daemon's answer makes no sense");
	return CTL_FAILED;
}

int ctl_ask(struct ctl *c, json_t *req, json_t **ret_answer)
{
	int r = ctl_send(c, req);

	/* a daemon that is full answers before it was asked, and hangs up */
	if (!r || r == -EPIPE)
		r = ctl_line(c, c->answer_timeout_ms, ret_answer);
	if (r <= 0) {
		fprintf(stderr, "vmdefragctl: no answer from vmdefragd: %s\n",
			r < 0 ? strerror(-r) : "timed out");
		return CTL_NO_DAEMON;
	}
	if (json_is_true(json_object_get(*ret_answer, "ok")))
		return CTL_OK;
	if (c->json)
		json_dumpf(*ret_answer, stdout, JSON_INDENT(2));
	r = ctl_error(*ret_answer);
	json_decref(*ret_answer);
	return r;
}

/* --- commands ----------------------------------------------------------------
 */

struct args {
	const char *vm;
	bool all, look_blocks;
	long long blocks, order, time_ms, hold_ms;
	const char *backend;
	const char *file, *config;
	int mode;
	int interval_ms, turns;
};

static void print_json(const json_t *o)
{
	json_dumpf(o, stdout, JSON_INDENT(2));
	putchar('\n');
}

static int ask_and_show(struct ctl *c, json_t *req,
			void (*table)(const json_t *))
{
	json_t *answer;
	int r = ctl_ask(c, req, &answer);

	if (r != CTL_OK)
		return r;
	if (c->json)
		print_json(answer);
	else
		table(answer);
	json_decref(answer);
	return CTL_OK;
}

static int run_status(struct ctl *c, const struct args *a)
{
	(void)a;
	return ask_and_show(c, json_pack("{s:s}", "cmd", "status"),
			    table_status);
}

static int run_top(struct ctl *c, const struct args *a)
{
	return ctl_top(c, a->interval_ms, a->turns);
}

static int run_explain(struct ctl *c, const struct args *a)
{
	return ask_and_show(
		c, json_pack("{s:s, s:s}", "cmd", "explain", "vm", a->vm),
		table_explain);
}

static int run_map(struct ctl *c, const struct args *a)
{
	return ask_and_show(c,
			    json_pack("{s:s, s:s}", "cmd", "map", "vm", a->vm),
			    table_map);
}

static int run_history(struct ctl *c, const struct args *a)
{
	return ask_and_show(
		c, json_pack("{s:s, s:s}", "cmd", "history", "vm", a->vm),
		table_history);
}

static void print_config(const json_t *answer)
{
	const char *text = json_string_value(json_object_get(answer, "text"));

	fputs(text ? text : "", stdout);
}

static int run_dump_config(struct ctl *c, const struct args *a)
{
	(void)a;
	return ask_and_show(c, json_pack("{s:s}", "cmd", "dump-config"),
			    print_config);
}

static int run_nodes(struct ctl *c, const struct args *a)
{
	json_t *req = json_pack("{s:s, s:b}", "cmd", "nodes", "blocks",
				a->look_blocks);

	if (a->look_blocks)
		c->answer_timeout_ms = LOOK_TIMEOUT_MS;
	return ask_and_show(c, req, table_nodes);
}

static void print_node_compacted(const json_t *o)
{
	printf("free blocks: %lld -> %lld, %lld ms CPU\n",
	       (long long)json_integer_value(
		       json_object_get(o, "blocks_before")),
	       (long long)json_integer_value(
		       json_object_get(o, "blocks_after")),
	       (long long)json_integer_value(json_object_get(o, "cpu_us")) /
		       1000);
}

static int run_compact_node(struct ctl *c, const struct args *a)
{
	json_t *req;
	uint64_t node;

	if (parse_u64(a->vm, 1023, &node) < 0) {
		fprintf(stderr,
			"vmdefragctl: compact-node: '%s' is not the number of "
			"a node\n",
			a->vm);
		return CTL_USAGE;
	}
	req = json_pack("{s:s, s:I}", "cmd", "compact-node", "node",
			(json_int_t)node);
	if (a->blocks)
		json_object_set_new(req, "blocks", json_integer(a->blocks));
	if (a->time_ms)
		json_object_set_new(req, "time_ms", json_integer(a->time_ms));
	c->answer_timeout_ms =
		(int)(a->time_ms ? a->time_ms : 60000) + ANSWER_TIMEOUT_MS;
	return ask_and_show(c, req, print_node_compacted);
}

static void print_paused(const json_t *answer)
{
	puts(json_is_true(json_object_get(answer, "paused"))
		     ? "paused: knobs go back, nothing is started"
		     : "resumed");
}

static int pause_resume(struct ctl *c, const struct args *a, const char *cmd)
{
	if (!a->vm && !a->all) {
		fprintf(stderr,
			"vmdefragctl: %s: which VM? Name one, or "
			"--all\n",
			cmd);
		return CTL_USAGE;
	}
	return ask_and_show(c,
			    json_pack("{s:s, s:s?}", "cmd", cmd, "vm", a->vm),
			    print_paused);
}

static int run_pause(struct ctl *c, const struct args *a)
{
	return pause_resume(c, a, "pause");
}

static int run_resume(struct ctl *c, const struct args *a)
{
	return pause_resume(c, a, "resume");
}

static void show_event(const struct ctl *c, const json_t *ev)
{
	const char *kind = json_string_value(json_object_get(ev, "event"));

	if (c->json || !kind)
		return;
	if (!strcmp(kind, "started")) {
		printf("node %lld: started\n",
		       (long long)json_integer_value(
			       json_object_get(ev, "node")));
	} else if (!strcmp(kind, "progress")) {
		printf("  free blocks: %lld\n",
		       (long long)json_integer_value(
			       json_object_get(ev, "free_blocks")));
	} else if (!strcmp(kind, "result")) {
		table_result(ev);
	} else {
		printf("%s\n", json_string_value(json_object_get(ev, "text")));
	}
	fflush(stdout);
}

/* Events until the last; Ctrl-C asks the daemon to cancel, and waits on. */
static int follow(struct ctl *c, json_t *events)
{
	bool cancel_sent = false;

	for (;;) {
		json_t *ev;
		int r = ctl_line(c, INTERRUPT_LOOK_MS, &ev);

		if (r < 0) {
			fprintf(stderr, "vmdefragctl: lost vmdefragd: %s\n",
				strerror(-r));
			return CTL_NO_DAEMON;
		}
		if (interrupted && !cancel_sent) {
			cancel_sent = true;
			fputs("cancelling\n", stderr);
			ctl_send(c, json_pack("{s:s}", "cmd", "cancel"));
		}
		if (!r)
			continue;
		show_event(c, ev);
		json_array_append_new(events, ev);
		if (!json_is_true(json_object_get(ev, "done")))
			continue;
		if (json_is_true(json_object_get(ev, "ok")))
			return CTL_OK;
		return ctl_error(ev);
	}
}

static int run_compact(struct ctl *c, const struct args *a)
{
	json_t *req = json_pack("{s:s, s:s, s:s?}", "cmd", "compact", "vm",
				a->vm, "backend", a->backend);
	json_t *events = json_array();
	int r;

	if (a->blocks)
		json_object_set_new(req, "blocks", json_integer(a->blocks));
	if (a->order)
		json_object_set_new(req, "order", json_integer(a->order));
	if (a->time_ms)
		json_object_set_new(req, "time_ms", json_integer(a->time_ms));
	if (a->hold_ms)
		json_object_set_new(req, "hold_ms", json_integer(a->hold_ms));
	ctl_catch_interrupt();
	r = ctl_send(c, req);
	if (r < 0) {
		fprintf(stderr, "vmdefragctl: %s\n", strerror(-r));
		r = CTL_NO_DAEMON;
	} else {
		r = follow(c, events);
	}
	if (c->json) {
		json_t *o = json_pack("{s:b, s:o}", "ok", r == CTL_OK, "events",
				      events);

		print_json(o);
		json_decref(o);
	} else {
		json_decref(events);
	}
	return r;
}

static int run_record(struct ctl *c, const struct args *a)
{
	return ctl_record(c, a->vm, a->file, a->time_ms);
}

static int run_replay(struct ctl *c, const struct args *a)
{
	struct replay_args r = {
		.path = a->vm,
		.config = a->config,
		.mode = a->mode,
	};

	return ctl_replay(&r, c->json);
}

/* What a verb is about, and whether it speaks to the daemon. */
enum verb_needs {
	NEEDS_NOTHING,
	NEEDS_VM,
	NEEDS_VM_FILE,
	NEEDS_FILE_ONLY,
};

static const struct {
	const char *name;
	enum verb_needs needs;
	int (*run)(struct ctl *c, const struct args *a);
	const char *help;
} verbs[] = {
	{"status", NEEDS_NOTHING, run_status, "all VMs, a line each"},
	{"top", NEEDS_NOTHING, run_top,
	 "the same, refreshed in place [--interval SEC] [--turns N]"},
	{"explain", NEEDS_VM, run_explain,
	 "VM: what is seen, what is wrong, what would mend it"},
	{"map", NEEDS_VM, run_map,
	 "VM: its memory block by block, both sides drawn"},
	{"history", NEEDS_VM, run_history,
	 "VM: decisions with their evidence, and results"},
	{"compact", NEEDS_VM, run_compact,
	 "VM [--blocks N] [--order N] [--backend NAME] [--time SEC]\n"
	 "               [--hold SEC]: of the blocks asked for, until needed"},
	{"nodes", NEEDS_NOTHING, run_nodes,
	 "the host's own memory: free blocks, pools, VMs by node\n"
	 "               [--pageblocks]: look at what all pageblocks hold"},
	{"compact-node", NEEDS_VM, run_compact_node,
	 "NODE of the host [--blocks N] [--time SEC]"},
	{"pause", NEEDS_NOTHING, run_pause,
	 "VM or --all: put knobs back, start nothing; survives restarts"},
	{"resume", NEEDS_NOTHING, run_resume, "VM or --all"},
	{"record", NEEDS_VM_FILE, run_record,
	 "VM FILE [--time SEC]: keep what its agent says, until Ctrl-C"},
	{"replay", NEEDS_FILE_ONLY, run_replay,
	 "FILE [--config FILE] [--mode MODE]: what the policy would decide"},
	{"dump-config", NEEDS_NOTHING, run_dump_config,
	 "the configuration in force"},
};

static void usage(FILE *f)
{
	fputs("usage: vmdefragctl [--socket PATH] [--json] COMMAND …\n\n", f);
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		fprintf(f, "  %-12s %s\n", verbs[i].name, verbs[i].help);
	fputs("\nexit status: 0 done, 1 refused or fell short, 2 usage, "
	      "3 no daemon\n",
	      f);
}

/* A positive number of an option, or exit. */
static long long number(const char *opt, const char *text, uint64_t max)
{
	uint64_t v;

	if (parse_u64(text, max, &v) < 0 || !v) {
		fprintf(stderr,
			"vmdefragctl: %s wants a whole number within "
			"1..%llu, not '%s'\n",
			opt, (unsigned long long)max, text);
		exit(CTL_USAGE);
	}
	return (long long)v;
}

static int mode_number(const char *text)
{
	int mode = name_lookup(vm_mode_name, VM_MODE_COUNT, text);

	if (mode < 0) {
		fprintf(stderr, "vmdefragctl: --mode: no mode '%s'\n", text);
		exit(CTL_USAGE);
	}
	return mode;
}

static int parse_args(int argc, char **argv, struct ctl *c, struct args *a)
{
	static const struct option options[] = {
		{"socket", required_argument, NULL, 's'},
		{"json", no_argument, NULL, 'j'},
		{"all", no_argument, NULL, 'a'},
		{"pageblocks", no_argument, NULL, 'P'},
		{"blocks", required_argument, NULL, 'b'},
		{"order", required_argument, NULL, 'o'},
		{"backend", required_argument, NULL, 'k'},
		{"time", required_argument, NULL, 't'},
		{"hold", required_argument, NULL, 'H'},
		{"interval", required_argument, NULL, 'i'},
		{"turns", required_argument, NULL, 'n'},
		{"config", required_argument, NULL, 'c'},
		{"mode", required_argument, NULL, 'm'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{NULL, 0, NULL, 0},
	};
	int o;

	while ((o = getopt_long(argc, argv, "hj", options, NULL)) >= 0) {
		switch (o) {
		case 's':
			c->socket = optarg;
			break;
		case 'j':
			c->json = true;
			break;
		case 'a':
			a->all = true;
			break;
		case 'P':
			a->look_blocks = true;
			break;
		case 'b':
			a->blocks = number("--blocks", optarg, UINT32_MAX - 1);
			break;
		case 'o':
			a->order =
				number("--order", optarg, PROTO_ORDERS_MAX - 1);
			break;
		case 'k':
			a->backend = optarg;
			break;
		case 't':
			a->time_ms = 1000 * number("--time", optarg, 3600);
			break;
		case 'H':
			a->hold_ms = 1000 * number("--hold", optarg, 3600);
			break;
		case 'i':
			a->interval_ms =
				(int)(1000 * number("--interval", optarg, 60));
			break;
		case 'n':
			a->turns = (int)number("--turns", optarg, 1000000);
			break;
		case 'c':
			a->config = optarg;
			break;
		case 'm':
			a->mode = mode_number(optarg);
			break;
		case 'h':
			usage(stdout);
			exit(CTL_OK);
		case 'V':
			puts("vmdefragctl " VMDEFRAG_VERSION);
			exit(CTL_OK);
		default:
			usage(stderr);
			return CTL_USAGE;
		}
	}
	return CTL_OK;
}

static int run_verb(int argc, char **argv, struct ctl *c, struct args *a)
{
	const char *verb = argv[optind];
	int rest = argc - optind - 1, r;

	if (rest > 0)
		a->vm = argv[optind + 1];
	if (rest > 1)
		a->file = argv[optind + 2];
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (strcmp(verbs[i].name, verb))
			continue;
		if (rest > 1 + (verbs[i].needs == NEEDS_VM_FILE) ||
		    (verbs[i].needs != NEEDS_NOTHING && !a->vm) ||
		    (verbs[i].needs == NEEDS_VM_FILE && !a->file) ||
		    (a->vm && a->all)) {
			fprintf(stderr, "usage: vmdefragctl %s %s\n", verb,
				verbs[i].help);
			return CTL_USAGE;
		}
		r = verbs[i].needs == NEEDS_FILE_ONLY ? CTL_OK : ctl_connect(c);
		return r == CTL_OK ? verbs[i].run(c, a) : r;
	}
	fprintf(stderr, "vmdefragctl: unknown command '%s'\n", verb);
	usage(stderr);
	return CTL_USAGE;
}

int main(int argc, char **argv)
{
	struct ctl c = {.socket = SOCKET_DEFAULT,
			.fd = -1,
			.answer_timeout_ms = ANSWER_TIMEOUT_MS};
	struct args a = {.interval_ms = 1000, .mode = -1};
	int r;

	r = parse_args(argc, argv, &c, &a);
	if (r != CTL_OK)
		return r;
	if (optind >= argc) {
		usage(stderr);
		return CTL_USAGE;
	}
	r = run_verb(argc, argv, &c, &a);
	if (c.fd >= 0)
		close(c.fd);
	free(c.buf);
	return r;
}
