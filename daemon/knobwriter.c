// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The knob writer: the host's hugetlb pools and nodeN/compact, nothing else.
 * What takes long runs in a worker (worker.h), one for pools and one for
 * compaction, so that a stop is heard at any time.
 *
 * Pools are put back when the core says so, when its link ends, at exit, and
 * at the start for a process that was killed. Only one knob writer is at work
 * on a run directory: a lock, since a killed one can live on in the kernel.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/signalfd.h>

#include "config.h"
#include "hostpool.h"
#include "log.h"
#include "pools.h"
#include "roles.h"
#include "util.h"

#define LOCK_NAME    "knobs.lock"
#define LOCK_WAIT_US (5 * SEC_US)
#define LOCK_POLL_MS 50
/* Below the supervisor's 5 s for the whole phase. */
#define RESTORE_MAX_US (3 * SEC_US)
/* Then the core is told how far it came, and can ask for the rest. */
#define POOL_WRITE_MAX_US (10 * SEC_US)
#define WORKER_END_US	  (500 * MSEC_US)
/* Free blocks are looked at this often: FACTS, "compact cancelled, each 5 ms"
 */
#define COMPACT_TICK_US (5 * MSEC_US)

enum job_kind {
	JOB_POOL,
	JOB_COMPACT,
	JOB_COUNT,
};

struct job {
	struct worker worker;
	struct ipc_msg m; /* the request, and its answer */
	uint64_t end_us;
	bool stopped; /* by us, which is what result says: */
	int stop_result;
};

struct knobs {
	int sup_fd, core_fd, node_fd, proc_fd, run_fd, lock_fd, signal_fd;
	struct pools pools;
	struct job job[JOB_COUNT];
	bool stop;
};

static void drop_link(struct knobs *k)
{
	close_fd_ptr(&k->core_fd);
	k->core_fd = -1;
}

static void answer(struct knobs *k, struct ipc_msg *m, int result)
{
	int r;

	if (k->core_fd < 0)
		return;
	r = ipc_answer(k->core_fd, m, result, -1);
	/* a core that is gone is the supervisor's to report */
	if (r < 0 && r != -EPIPE)
		log_err_errno(r, "Cannot answer the core");
}

static int read_pool(const struct knobs *k, struct ipc_msg *m)
{
	struct hostpool p;
	int r = hostpool_read(k->node_fd, m->pool.node, m->pool.page_kib, &p);

	if (r < 0)
		return r;
	m->pool.nr = p.nr;
	m->pool.free = p.free;
	m->pool.surplus = p.surplus;
	return 0;
}

static void finish_pool(struct knobs *k, struct job *j, int result)
{
	uint64_t asked = j->m.pool.nr;
	int r = pools_set_end(&k->pools, j->m.pool.node, j->m.pool.page_kib);

	if (r < 0)
		log_warn_errno(r, "Pools' journal is behind");
	r = read_pool(k, &j->m);
	log_info("Pool of %" PRIu64 " kB pages on node %u: asked for %" PRIu64
		 ", has %" PRIu64 " (%" PRIu64 " free)",
		 j->m.pool.page_kib, j->m.pool.node, asked, j->m.pool.nr,
		 j->m.pool.free);
	answer(k, &j->m, result ? result : r);
}

static void finish_compact(struct knobs *k, struct job *j, int result,
			   uint64_t cpu_us)
{
	uint64_t after = j->m.compact.blocks_before;

	(void)hostpool_free_blocks(k->proc_fd, j->m.compact.node,
				   j->m.compact.order, &after);
	j->m.compact.blocks_after = after;
	j->m.compact.cpu_us = cpu_us;
	log_info("Compacted node %u: free blocks of order %u %" PRIu64
		 " -> %" PRIu64 ", %" PRIu64 " ms CPU",
		 j->m.compact.node, j->m.compact.order,
		 j->m.compact.blocks_before, after, cpu_us / MSEC_US);
	answer(k, &j->m, result);
}

static void finish_job(struct knobs *k, enum job_kind kind, int result,
		       uint64_t cpu_us)
{
	struct job *j = &k->job[kind];

	if (j->stopped)
		result = j->stop_result;
	if (kind == JOB_POOL)
		finish_pool(k, j, result);
	else
		finish_compact(k, j, result, cpu_us);
}

static void stop_job(struct job *j, int result)
{
	if (j->stopped)
		return;
	j->stopped = true;
	j->stop_result = result;
	worker_kill(&j->worker);
}

/* At once; one that hangs is left to itself, "pending" in the journal. */
static void end_job(struct knobs *k, enum job_kind kind)
{
	struct job *j = &k->job[kind];
	uint64_t cpu_us;
	int result;

	if (!j->worker.pid)
		return;
	stop_job(j, -ECANCELED);
	if (worker_end(&j->worker, WORKER_END_US, &result, &cpu_us))
		finish_job(k, kind, result, cpu_us);
	else
		log_err("A write to node %u does not end, not even killed",
			kind == JOB_POOL ? j->m.pool.node : j->m.compact.node);
}

static void begin_job(struct job *j, const struct ipc_msg *m, uint64_t end_us)
{
	j->m = *m;
	j->end_us = end_us;
	j->stopped = false;
	j->stop_result = 0;
}

static void serve_pool_set(struct knobs *k, struct ipc_msg *m)
{
	struct job *j = &k->job[JOB_POOL];
	int r = -EBUSY;

	if (!j->worker.pid)
		r = pools_set_begin(&k->pools, m->pool.node, m->pool.page_kib,
				    m->pool.nr, &j->worker);
	if (r > 0) {
		begin_job(j, m, now_us() + POOL_WRITE_MAX_US);
		return;
	}
	if (!r || r == -ESTALE)
		(void)read_pool(k, m);
	answer(k, m, r);
}

static void serve_compact(struct knobs *k, struct ipc_msg *m)
{
	struct job *j = &k->job[JOB_COMPACT];
	char path[64];
	int r = -EBUSY;

	if (!j->worker.pid)
		r = hostpool_free_blocks(k->proc_fd, m->compact.node,
					 m->compact.order,
					 &m->compact.blocks_before);
	if (!r) {
		snprintf(path, sizeof(path), "node%u/compact", m->compact.node);
		r = worker_start(k->node_fd, path, "1", &j->worker);
	}
	if (r < 0)
		answer(k, m, r);
	else
		begin_job(j, m, now_us() + m->compact.max_time_us);
}

static void serve_cancel(struct knobs *k, struct ipc_msg *m)
{
	struct job *j = &k->job[JOB_COMPACT];
	bool runs = j->worker.pid != 0;

	if (runs)
		stop_job(j, -ECANCELED);
	answer(k, m, runs ? 0 : -ESRCH);
}

static void serve_restore(struct knobs *k, struct ipc_msg *m)
{
	end_job(k, JOB_POOL);
	answer(k, m, pools_restore(&k->pools, RESTORE_MAX_US));
}

/* Return: 0, or -EPROTO. */
static int serve(struct knobs *k, struct ipc_msg *m)
{
	switch (m->op) {
	case IPC_POOL_READ:
		answer(k, m, read_pool(k, m));
		return 0;
	case IPC_POOL_SET:
		serve_pool_set(k, m);
		return 0;
	case IPC_POOL_RESTORE:
		serve_restore(k, m);
		return 0;
	case IPC_NODE_COMPACT:
		serve_compact(k, m);
		return 0;
	case IPC_NODE_CANCEL:
		serve_cancel(k, m);
		return 0;
	default:
		return -EPROTO;
	}
}

/* Nobody is there who wants things the way they are. */
static void end_core(struct knobs *k)
{
	drop_link(k);
	for (unsigned int i = 0; i < JOB_COUNT; i++)
		end_job(k, i);
	(void)pools_restore(&k->pools, RESTORE_MAX_US);
}

static void take_core(struct knobs *k)
{
	auto_close int fd = -1;
	struct ipc_msg m;
	int r = ipc_recv(k->core_fd, &m, &fd);

	if (r == -EAGAIN)
		return;
	if (r > 0)
		r = serve(k, &m) < 0 ? -EPROTO : 1;
	if (r < 0)
		log_err_errno(r, "Giving up the link to the core");
	if (r <= 0)
		end_core(k);
}

/* Return: 0, or -errno at which the process should end. */
static int take_supervisor(struct knobs *k)
{
	auto_close int fd = -1;
	struct ipc_msg m;
	int r = ipc_recv(k->sup_fd, &m, &fd);

	if (r == -EAGAIN)
		return 0;
	if (r < 0)
		return log_err_errno(r, "Bad message from the supervisor");
	if (!r || m.op == IPC_STOP) {
		k->stop = true;
		return 0;
	}
	if (m.op == IPC_LINK && m.link.role == ROLE_CORE) {
		/* another core: what the one before asked for is over */
		if (k->core_fd >= 0)
			end_core(k);
		k->core_fd = take_fd(&fd);
		return 0;
	}
	return log_err_errno(-EPROTO, "Supervisor sent %s", ipc_op_name(m.op));
}

static bool target_reached(const struct knobs *k, const struct job *j)
{
	uint64_t blocks;

	if (hostpool_free_blocks(k->proc_fd, j->m.compact.node,
				 j->m.compact.order, &blocks) < 0)
		return false;
	return blocks >=
	       sum_sat_u64(j->m.compact.blocks_before, j->m.compact.blocks);
}

static void look_after_jobs(struct knobs *k, uint64_t now)
{
	for (unsigned int i = 0; i < JOB_COUNT; i++) {
		struct job *j = &k->job[i];
		uint64_t cpu_us;
		int result;

		if (!j->worker.pid)
			continue;
		if (worker_reap(&j->worker, &result, &cpu_us)) {
			finish_job(k, i, result, cpu_us);
			continue;
		}
		/* all of a compaction's answer is in how far it came */
		if (now >= j->end_us)
			stop_job(j, i == JOB_POOL ? -ETIMEDOUT : 0);
		else if (i == JOB_COMPACT && target_reached(k, j))
			stop_job(j, 0);
	}
}

static int timeout_ms(const struct knobs *k, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (unsigned int i = 0; i < JOB_COUNT; i++) {
		const struct job *j = &k->job[i];

		if (!j->worker.pid || j->stopped)
			continue;
		next = MIN(next, j->end_us);
		if (i == JOB_COMPACT)
			next = MIN(next, now + COMPACT_TICK_US);
	}
	if (next == UINT64_MAX)
		return -1;
	return next <= now ? 0 : (int)((next - now + MSEC_US - 1) / MSEC_US);
}

static int worker_fd(const struct worker *w)
{
	return w->pid ? w->pidfd : -1;
}

static int loop_once(struct knobs *k)
{
	struct pollfd p[] = {
		{k->sup_fd, POLLIN, 0},
		{k->core_fd, POLLIN, 0},
		{k->signal_fd, POLLIN, 0},
		{worker_fd(&k->job[JOB_POOL].worker), POLLIN, 0},
		{worker_fd(&k->job[JOB_COMPACT].worker), POLLIN, 0},
	};

	if (poll(p, ARRAY_SIZE(p), timeout_ms(k, now_us())) < 0 &&
	    errno != EINTR)
		return log_err_errno(-errno, "poll failed");
	look_after_jobs(k, now_us());
	if (p[2].revents)
		k->stop = true;
	if (p[1].revents)
		take_core(k);
	if (p[0].revents)
		return take_supervisor(k);
	return 0;
}

/* One at a time; waits for a predecessor that is putting things back. */
static int lock(struct knobs *k)
{
	uint64_t end_us = now_us() + LOCK_WAIT_US;

	k->lock_fd = openat(k->run_fd, LOCK_NAME,
			    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (k->lock_fd < 0)
		return -errno;
	while (flock(k->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK || now_us() >= end_us)
			return -errno;
		(void)poll(NULL, 0, LOCK_POLL_MS);
	}
	return 0;
}

static int open_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? log_err_errno(-errno, "Cannot open %s", path) : fd;
}

static int open_signal(void)
{
	sigset_t mask;
	int fd;

	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static int set_up(struct knobs *k, const struct config *cfg)
{
	char boot_id[POOLJOURNAL_BOOT_ID_SIZE + 1];
	ssize_t n;
	int r;

	k->node_fd = open_dir(cfg->node_dir);
	k->proc_fd = open_dir(cfg->proc_dir);
	k->run_fd = open_dir(cfg->run_dir);
	if (k->node_fd < 0 || k->proc_fd < 0 || k->run_fd < 0)
		return -ENOENT;
	n = read_text_at(k->proc_fd, "sys/kernel/random/boot_id", boot_id,
			 sizeof(boot_id));
	if (n < 0)
		return log_err_errno((int)n, "Cannot read the boot id");
	boot_id[strcspn(boot_id, "\n")] = '\0';
	k->signal_fd = open_signal();
	if (k->signal_fd < 0)
		return log_err_errno(k->signal_fd, "Cannot take signals");
	r = lock(k);
	if (r < 0)
		return log_err_errno(r,
				     "Cannot lock %s/" LOCK_NAME
				     " (another knob writer at work?)",
				     cfg->run_dir);
	r = pools_open(&k->pools, k->node_fd, k->run_fd, boot_id,
		       RESTORE_MAX_US);
	if (r < 0)
		return log_err_errno(r, "Cannot use %s/" POOLJOURNAL_NAME,
				     cfg->run_dir);
	return 0;
}

static void tear_down(struct knobs *k)
{
	close_fd_ptr(&k->core_fd);
	close_fd_ptr(&k->node_fd);
	close_fd_ptr(&k->proc_fd);
	close_fd_ptr(&k->run_fd);
	close_fd_ptr(&k->signal_fd);
	close_fd_ptr(&k->lock_fd);
}

int knobs_main(const struct config *cfg, int sup_fd, int listen_fd)
{
	struct knobs k = {
		.sup_fd = sup_fd,
		.core_fd = -1,
		.node_fd = -1,
		.proc_fd = -1,
		.run_fd = -1,
		.lock_fd = -1,
		.signal_fd = -1,
	};
	int r;

	(void)listen_fd;
	r = set_up(&k, cfg);
	if (!r) {
		while (!r && !k.stop)
			r = loop_once(&k);
		end_core(&k);
	}
	tear_down(&k);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
