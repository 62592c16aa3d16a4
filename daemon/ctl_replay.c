// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vmdefragctl replay: the policy over recorded telemetry, without a daemon.
 *
 * What it would have decided at each moment, given what was seen then; not
 * what would have become of the guest, since nothing that it plans here is
 * carried out. An action whose result is not in the recording counts as one
 * that brought nothing, as it does for a guest that is only observed.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "config.h"
#include "ctl.h"
#include "recording.h"
#include "status_policy.h"
#include "util.h"

struct replay {
	struct config cfg;
	bool have_cfg, have_header;
	struct policy_cfg pcfg;
	struct policy_state pst;
	struct msg_hello hello;
	struct msg_report report;
	bool have_hello, have_report;
	uint64_t report_us, first_us, last_us;
	/* sums */
	uint64_t decides, same, recorded, actions, blocks, directives;
	json_t *decisions;
};

static int config_of_text(struct config *cfg, const char *text, char *what)
{
	auto_close int fd = memfd_create("recording", MFD_CLOEXEC);
	size_t len = strlen(text);

	if (fd < 0 || write(fd, text, len) != (ssize_t)len) {
		snprintf(what, CONF_WHAT_MAX, "no memory for it");
		return -ENOMEM;
	}
	return config_read_fd(fd, cfg, what);
}

static int config_of_file(struct config *cfg, const char *path, char *what)
{
	int r = config_init(cfg);

	if (r < 0) {
		snprintf(what, CONF_WHAT_MAX, "no memory for it");
		return r;
	}
	r = config_load(cfg, path, what);
	return r < 0 ? r : config_validate(cfg, what);
}

/* The file's word on this VM, or what it says for all. */
static uint32_t mode_of(const struct config *cfg, const char *vm)
{
	for (size_t i = 0; i < cfg->nr_vms; i++) {
		if (!strcmp(cfg->vm[i].name, vm))
			return cfg->vm[i].mode;
	}
	return cfg->policy.mode;
}

static int on_header(struct replay *p, const struct replay_args *a,
		     const struct recording_line *l, char *what)
{
	const char *vm = json_string_value(json_object_get(l->json, "vm"));
	int r;

	if (p->have_header) {
		snprintf(what, CONF_WHAT_MAX, "a second header");
		return -EPROTO;
	}
	p->have_header = p->have_cfg = true;
	if (a->config)
		r = config_of_file(&p->cfg, a->config, what);
	else
		r = config_of_text(
			&p->cfg,
			json_string_value(json_object_get(l->json, "config")),
			what);
	if (r < 0)
		return r;
	p->pcfg = p->cfg.policy;
	p->pcfg.mode = a->config ? mode_of(&p->cfg, vm ? vm : "") : l->mode;
	if (a->mode >= 0)
		p->pcfg.mode = (uint32_t)a->mode;
	return 0;
}

static void on_frame(struct replay *p, const struct recording_line *l)
{
	switch (l->msg.type) {
	case MSG_HELLO:
		p->hello = l->msg.hello;
		p->have_hello = true;
		p->have_report = false;
		break;
	case MSG_REPORT:
		p->report = l->msg.report;
		p->report_us = l->t_us;
		p->have_report = true;
		break;
	case MSG_RESULT:
		policy_result(&p->pcfg, &p->pst, &l->msg.result, l->t_us);
		break;
	default:
		break;
	}
}

static void plan_note(struct replay *p, const struct policy_plan *plan,
		      const struct recording_line *l)
{
	const json_t *then = json_object_get(l->json, "decisions");
	json_t *now = json_array(), *d;
	size_t at;

	for (size_t i = 0; i < plan->nr_decisions; i++) {
		const struct decision *dec = &plan->decision[i];

		if (!plan->changed[i])
			continue;
		p->directives += dec->kind == DECISION_DIRECTIVE;
		p->actions += dec->kind == DECISION_ACTION;
		p->blocks += dec->kind == DECISION_ACTION ? dec->blocks : 0;
		json_array_append_new(now, status_decision(dec));
	}
	p->recorded += json_array_size(then) != 0;
	p->same += json_array_size(then) && json_equal(now, then);
	json_array_foreach(now, at, d)
	{
		json_object_set_new(
			d, "at_us",
			json_integer((json_int_t)(l->t_us - p->first_us)));
		json_array_append(p->decisions, d);
	}
	json_decref(now);
}

static void on_decide(struct replay *p, const struct recording_line *l)
{
	static struct policy_plan plan; /* large */
	struct policy_snapshot s = {
		.hello = p->have_hello ? &p->hello : NULL,
		.report = p->have_report ? &p->report : NULL,
		.report_age_us = p->have_report ? l->t_us - p->report_us : 0,
		.user_paused = l->paused,
		.vm_stopped = l->stopped,
		.vm_migrating = l->migrating,
		.action_running = l->running,
	};

	if (!s.hello)
		return; /* begun before the session */
	policy_decide(&p->pcfg, &p->pst, &s, l->t_us, &plan);
	p->decides++;
	plan_note(p, &plan, l);
}

static int on_line(struct replay *p, const struct replay_args *a,
		   const struct recording_line *l, char *what)
{
	if (l->kind == RECORDING_HEADER)
		return on_header(p, a, l, what);
	if (!p->have_header) {
		snprintf(what, CONF_WHAT_MAX, "the first line is no header");
		return -EPROTO;
	}
	if (l->kind == RECORDING_OTHER)
		return 0;
	if (l->t_us < p->last_us) {
		snprintf(what, CONF_WHAT_MAX, "time runs backwards");
		return -EPROTO;
	}
	if (!p->last_us)
		p->first_us = l->t_us;
	p->last_us = l->t_us;
	if (l->kind == RECORDING_FRAME)
		on_frame(p, l);
	else
		on_decide(p, l);
	return 0;
}

/* Return: enum ctl_exit. */
static int read_all(struct replay *p, const struct replay_args *a, FILE *f)
{
	auto_free char *line = NULL;
	static struct recording_line l; /* large */
	char what[CONF_WHAT_MAX];
	unsigned long number = 0;
	size_t size = 0;
	ssize_t n;

	while ((n = getline(&line, &size, f)) > 0) {
		const char *why;
		int r;

		number++;
		/* a recorder that was killed leaves a line without an end */
		if (line[n - 1] != '\n') {
			fprintf(stderr,
				"vmdefragctl: %s:%lu: cut off here; what was "
				"whole is used\n",
				a->path, number);
			break;
		}
		what[0] = '\0';
		r = recording_parse(line, (size_t)n, &l, &why);
		if (r < 0)
			snprintf(what, sizeof(what), "%s", why);
		else
			r = on_line(p, a, &l, what);
		json_decref(l.json);
		if (r < 0) {
			fprintf(stderr, "vmdefragctl: %s:%lu: %s\n", a->path,
				number, what);
			return CTL_FAILED;
		}
	}
	if (ferror(f) || !p->have_header) {
		fprintf(stderr, "vmdefragctl: %s: %s\n", a->path,
			ferror(f) ? strerror(errno) : "no recording in it");
		return CTL_FAILED;
	}
	return CTL_OK;
}

static void show(const struct replay *p)
{
	uint64_t us = p->last_us - p->first_us;
	json_t *d;
	size_t i;

	json_array_foreach(p->decisions, i, d) table_decision(d);
	printf("%" PRIu64 " s of telemetry as mode %s: asked %" PRIu64
	       " times, %" PRIu64 " actions for %" PRIu64
	       " blocks, knobs changed %" PRIu64 " times; "
	       "%" PRIu64 " of %" PRIu64 " recorded decisions came out the "
	       "same\n",
	       us / SEC_US, vm_mode_name(p->pcfg.mode), p->decides, p->actions,
	       p->blocks, p->directives, p->same, p->recorded);
}

static void show_json(const struct replay *p)
{
	json_t *o = json_pack(
		"{s:b, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:O}", "ok",
		true, "mode", vm_mode_name(p->pcfg.mode), "span_us",
		(json_int_t)(p->last_us - p->first_us), "decides",
		(json_int_t)p->decides, "actions", (json_int_t)p->actions,
		"blocks_asked", (json_int_t)p->blocks, "directives",
		(json_int_t)p->directives, "recorded_decisions",
		(json_int_t)p->recorded, "same_decisions", (json_int_t)p->same,
		"decisions", p->decisions);

	json_dumpf(o, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(o);
}

int ctl_replay(const struct replay_args *a, bool json)
{
	static struct replay p; /* large */
	FILE *f = fopen(a->path, "re");
	int r;

	if (!f) {
		fprintf(stderr, "vmdefragctl: cannot read %s: %s\n", a->path,
			strerror(errno));
		return CTL_FAILED;
	}
	p.decisions = json_array();
	r = read_all(&p, a, f);
	fclose(f);
	if (r == CTL_OK && json)
		show_json(&p);
	else if (r == CTL_OK)
		show(&p);
	json_decref(p.decisions);
	if (p.have_cfg)
		config_free(&p.cfg);
	return r;
}
