// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "caps.h"
#include "log.h"
#include "steer.h"
#include "util.h"

#define LOCK_NAME "lock"
/* managed knobs are looked at this often where no report does it */
#define HOUSEKEEP_US (1 * SEC_US)
/* a killed child is gone within 20 ms (measured), but D state has no bound */
#define CHILD_END_US  (2 * SEC_US)
#define CHILD_LOOK_MS 5

static int open_root(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return log_err_errno(-errno, "Failed to open '%s'", path);
	return fd;
}

/*
 * Only one agent may keep the journal. A POSIX lock, since children must not
 * inherit it: one that takes its time to die would keep out the next agent.
 */
static int lock_run_dir(struct agent *a)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	a->lock_fd = openat(a->run_fd, LOCK_NAME,
			    O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (a->lock_fd < 0) {
		(void)log_err_errno(-errno,
				    "Failed to create '%s/" LOCK_NAME
				    "': no knob will be touched",
				    a->cfg.run_dir);
		close(a->run_fd);
		a->run_fd = -1;
		return 0;
	}
	if (fcntl(a->lock_fd, F_SETLK, &lock) < 0)
		return log_err_errno(-EBUSY, "Another agent uses '%s'",
				     a->cfg.run_dir);
	return 0;
}

static int open_run_dir(struct agent *a)
{
	if (mkdir(a->cfg.run_dir, 0700) < 0 && errno != EEXIST) {
		(void)log_err_errno(-errno,
				    "Failed to create run directory '%s': no "
				    "knob will be touched",
				    a->cfg.run_dir);
		return 0;
	}
	a->run_fd = open(a->cfg.run_dir,
			 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (a->run_fd < 0) {
		(void)log_err_errno(-errno,
				    "Failed to open run directory '%s': no "
				    "knob will be touched",
				    a->cfg.run_dir);
		return 0;
	}
	return lock_run_dir(a);
}

static int probe(struct agent *a)
{
	char what[CONF_WHAT_MAX];
	int r = caps_probe(&a->cfg, a->observe, a->proc_fd, a->sys_fd, &a->caps,
			   a->boot_id, what);

	if (r < 0) {
		log_err("This kernel cannot be served: %s", what);
		return r;
	}
	if (getrandom(&a->caps.nonce, sizeof(a->caps.nonce), 0) !=
	    sizeof(a->caps.nonce))
		return log_err_errno(-EIO, "Failed to get a random number");
	r = sampler_open(&a->sampler, a->proc_fd, a->sys_fd, &a->caps);
	if (r < 0)
		return log_err_errno(r, "Failed to open the memory figures");
	return 0;
}

static void agent_blank(struct agent *a)
{
	memset(a, 0, sizeof(*a));
	a->proc_fd = a->sys_fd = a->run_fd = a->lock_fd = a->signal_fd = -1;
	a->link.fd = -1;
	a->sampler.vmstat_fd = a->sampler.buddyinfo_fd = -1;
	a->sampler.zoneinfo_fd = a->sampler.psi_fd = -1;
	a->sampler.statm_fd = a->sampler.thp_fd = -1;
	a->sampler.reporting_order_fd = -1;
	for (unsigned int i = 0; i < KNOB_ALL; i++)
		a->knobs.knob[i].fd = -1;
}

static int open_parts(struct agent *a, const struct agent_options *opt)
{
	int r;

	a->proc_fd = open_root(opt->proc_path);
	if (a->proc_fd < 0)
		return a->proc_fd;
	a->sys_fd = open_root(opt->sys_path);
	if (a->sys_fd < 0)
		return a->sys_fd;
	r = probe(a);
	if (!r && !opt->once)
		r = open_run_dir(a);
	return r;
}

int agent_open(struct agent *a, const struct agent_options *opt)
{
	uint64_t now = now_us();
	int r;

	agent_blank(a);
	a->cfg = opt->cfg;
	a->observe = opt->observe;
	r = open_parts(a, opt);
	if (r < 0) {
		agent_close(a);
		return r;
	}
	knobs_init(&a->knobs, a->proc_fd, a->sys_fd, a->run_fd, a->boot_id,
		   a->caps.knobs_missing, a->caps.knobs_denied);
	a->knobs.observe = a->observe || opt->once;
	if (!opt->once)
		(void)knobs_recover(&a->knobs); /* logs; serving goes on */
	loans_init(&a->loans, a->sys_fd, &a->knobs.journal, &a->knobs.data,
		   a->knobs.observe);
	if (!opt->once)
		(void)loans_recover(&a->loans, now); /* logs, too */
	budget_init(&a->budget, a->cfg.cpu_budget_pct * 10000,
		    a->cfg.cpu_burst_us, now);
	link_init(&a->link, &a->cfg.transport, a->sys_fd);
	session_init(&a->session, &a->caps, &steer_ops, a);
	return 0;
}

static uint64_t timeval_us(struct timeval tv)
{
	return (uint64_t)tv.tv_sec * SEC_US + (uint64_t)tv.tv_usec;
}

static uint64_t cpu_us_of(int who)
{
	struct rusage ru;

	if (getrusage(who, &ru) < 0)
		return 0;
	return timeval_us(ru.ru_utime) + timeval_us(ru.ru_stime);
}

static uint64_t own_cpu_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * SEC_US + (uint64_t)ts.tv_nsec / 1000;
}

static void report_agent(const struct agent *a, uint64_t now_us,
			 struct msg_report *r)
{
	const struct action *act = &a->action;

	r->guest_us = now_us;
	r->directive_id = a->directive.id;
	r->action_id = act->running ? act->result.id : 0;
	r->agent_cpu_us = cpu_us_of(RUSAGE_SELF) + cpu_us_of(RUSAGE_CHILDREN);
	/* children count only once they have been waited for */
	if (act->running)
		r->agent_cpu_us += act->ops->cpu_us(&act->job);
	r->sample_cpu_us = a->sample_cpu_us;
	r->bad_frames = a->session.bad_frames;
	r->kpageflags_words = act->kpageflags_words + a->mapper.words;
	if (act->running)
		r->kpageflags_words += act->job.kpageflags_words;
}

int agent_sample(struct agent *a, uint64_t now_us)
{
	uint64_t begun_us = own_cpu_us();
	struct msg_report *r = &a->report.report;
	int ret;

	memset(&a->report, 0, sizeof(a->report));
	a->report.type = MSG_REPORT;
	knobs_tick(&a->knobs, now_us);
	ret = sampler_report(&a->sampler, r);
	if (ret < 0)
		return ret;
	knobs_report(&a->knobs, r);
	for (unsigned int i = 0; i < r->nr_nodes; i++)
		r->node[i].held_pages = holds_pages(&a->holds, r->node[i].node);
	a->sample_cpu_us = own_cpu_us() - begun_us;
	report_agent(a, now_us, r);
	return 0;
}

static void send_report(struct agent *a, uint64_t now_us)
{
	int r = agent_sample(a, now_us);

	a->report_us += a->interval_us;
	if (a->report_us <= now_us)
		a->report_us = now_us + a->interval_us;
	if (!r)
		r = session_send(&a->session, &a->report);
	if (r < 0)
		(void)log_err_errno(r, "Failed to send a report");
}

static void link_lost(struct agent *a, int error, uint64_t now_us)
{
	link_failed(&a->link, error, now_us);
	session_down(&a->session, strerror(-error), now_us);
}

static void flush(struct agent *a, uint64_t now_us)
{
	int r;

	if (a->link.state != LINK_UP)
		return;
	r = outbox_flush(&a->session.out, a->link.fd);
	if (r < 0)
		link_lost(a, r, now_us);
}

/* All that depends on the time. */
static void tick(struct agent *a, uint64_t now_us)
{
	if (link_tick(&a->link, now_us))
		session_up(&a->session, now_us);
	session_tick(&a->session, now_us);
	steer_tick(a, now_us);
	if (!a->action.running)
		loans_tick(&a->loans, now_us);
	if (a->session.state == SESSION_OPEN) {
		if (now_us >= a->report_us)
			send_report(a, now_us);
	} else if (now_us >= a->housekeep_us) {
		knobs_tick(&a->knobs, now_us);
		a->housekeep_us = now_us + HOUSEKEEP_US;
	}
	flush(a, now_us);
}

static bool any_managed(const struct agent *a)
{
	for (unsigned int k = 0; k < KNOB_ALL; k++) {
		if (a->knobs.knob[k].managed)
			return true;
	}
	return false;
}

static uint64_t next_deadline_us(const struct agent *a)
{
	uint64_t at_us = MIN(link_deadline_us(&a->link),
			     session_deadline_us(&a->session));

	at_us = MIN(at_us, steer_deadline_us(a));
	if (a->session.state == SESSION_OPEN)
		return MIN(at_us, a->report_us);
	return any_managed(a) || loans_any(&a->loans)
		       ? MIN(at_us, a->housekeep_us)
		       : at_us;
}

static void read_signals(struct agent *a)
{
	struct signalfd_siginfo si;

	while (read(a->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		switch (si.ssi_signo) {
		case SIGTERM:
		case SIGINT:
			log_info("Ending on signal %u", si.ssi_signo);
			a->stop = true;
			break;
		case SIGCHLD:
			/* the tick that follows looks at the child */
			a->action.next_look_us = 0;
			break;
		default:
			break;
		}
	}
}

static void read_link(struct agent *a, uint64_t now_us)
{
	int r = session_read(&a->session, a->link.fd, now_us);

	if (r < 0 && r != -EAGAIN)
		link_lost(a, r, now_us);
}

/* Return: 0, or -errno. */
static int wait_for_events(struct agent *a)
{
	uint64_t now = now_us(), until_us = next_deadline_us(a);
	uint64_t wait_us = until_us > now ? until_us - now : 0;
	bool up = a->link.state == LINK_UP;
	struct pollfd p[] = {
		{.fd = a->signal_fd, .events = POLLIN},
		{.fd = up ? a->link.fd : -1,
		 .events =
			 (short)(POLLIN | (a->session.out.len ? POLLOUT : 0))},
	};
	struct timespec ts;

	wait_us = MIN(wait_us, 3600 * SEC_US);
	ts.tv_sec = (time_t)(wait_us / SEC_US);
	ts.tv_nsec = (long)(wait_us % SEC_US * 1000);
	if (ppoll(p, ARRAY_SIZE(p), &ts, NULL) < 0)
		return errno == EINTR ? 0 : -errno;
	if (p[0].revents)
		read_signals(a);
	if (p[1].revents & ~POLLOUT)
		read_link(a, now_us());
	return 0;
}

static int open_signals(struct agent *a)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGCHLD, SIGHUP,
				      SIGPIPE};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(&set, signals[i]);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return log_err_errno(-errno, "Failed to block signals");
	a->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (a->signal_fd < 0)
		return log_err_errno(-errno, "Failed to open a signalfd");
	return 0;
}

/* Orderly end: no child, a last word to the host, every knob put back. */
static void wind_up(struct agent *a)
{
	uint64_t until_us = now_us() + CHILD_END_US;

	action_stop(&a->action, WHY_SESSION, "agent ends");
	(void)holds_release(&a->holds, 0);
	while (a->action.running && now_us() < until_us) {
		steer_tick(a, now_us());
		(void)poll(NULL, 0, CHILD_LOOK_MS);
	}
	if (loans_restore_all(&a->loans, now_us()) < 0)
		log_err("Not every pool and memory block could be put back; "
			"the next start will try again");
	if (knobs_restore_all(&a->knobs, now_us()) < 0)
		log_err("Not every knob could be put back; the next start "
			"will try again");
	session_bye(&a->session, BYE_EXIT, "agent ends");
	flush(a, now_us());
}

int agent_run(struct agent *a)
{
	int r = open_signals(a);

	while (!r && !a->stop) {
		tick(a, now_us());
		r = wait_for_events(a);
	}
	wind_up(a);
	return r < 0 ? log_err_errno(r, "Main loop failed") : 0;
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void agent_close(struct agent *a)
{
	mapper_stop(&a->mapper);
	hint_free(&a->hint);
	link_close(&a->link);
	knobs_close(&a->knobs);
	sampler_close(&a->sampler);
	close_one(&a->signal_fd);
	close_one(&a->lock_fd);
	close_one(&a->run_fd);
	close_one(&a->sys_fd);
	close_one(&a->proc_fd);
}
