// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * DOC: how many huge pages a guest asks for
 *
 * Demand is what faults ask of the allocator, whether they got it or not:
 * thp_fault_alloc + thp_fault_fallback. The counters are guest-wide, so a
 * delta is shared out over the nodes by their anonymous memory (where tasks
 * run that fault), or by size while there is none. It is gross: a task that
 * exits gives blocks back which the next one takes, and both takes count. The
 * reserve's upper bound keeps that in check.
 *
 * Rates are over the guest's own clock, so a late or repeated report, a
 * stopped VM or a busy host does not bend them. Counters that fall, or time
 * that runs backwards, mean a restored snapshot or a cheat: the baseline is
 * set anew and that interval is not counted. A reboot is seen by the boot id,
 * before anything comes here.
 */
#include "policy_priv.h"

/* Shorter intervals give noise, not rates: four of the kernel's jiffies at
 * HZ=100 are already 40 ms, and /proc/vmstat is folded once a second. */
#define WINDOW_MIN_MS 200u

/*
 * Quick up, slow down: a reserve that comes after the burst is useless, one
 * that is kept two minutes too long costs little. 10 s is a few reports.
 */
#define TAU_RISE_MS UINT64_C(10000)
#define TAU_FALL_MS UINT64_C(120000)

/*
 * Blocks a second, x 1000. 4 million 2 MiB blocks a second would be 8 TiB/s,
 * beyond any memory; products with a share in permille then fit.
 */
#define RATE_MAX_MILLI (UINT64_C(1) << 32)

/*
 * Direct reclaim entries a second that count as pressure where the guest has
 * no PSI. An entry costs its task in the order of 1 to 10 ms, so this is 1 to
 * 10 % of somebody's time, the range of the default PSI limit.
 */
#define STALLS_PRESSURE_MILLI UINT64_C(10000)

static uint64_t rate_milli(uint64_t count, uint64_t dt_ms)
{
	/* milli per second = count * 10^6 / ms */
	if (count > RATE_MAX_MILLI)
		count = RATE_MAX_MILLI;
	return MIN(count * 1000000 / dt_ms, RATE_MAX_MILLI);
}

/*
 * One step of dt against the time constant tau: weight dt / (tau + dt), which
 * is what 1 - exp(-dt/tau) is for small dt, and goes to 1 for large ones.
 */
static uint64_t ewma_step(uint64_t old, uint64_t sample, uint64_t dt_ms)
{
	uint64_t dt = MIN(dt_ms, UINT64_C(1) << 24); /* 4.6 h: weight is 1 */

	if (sample > old)
		return old + (sample - old) * dt / (TAU_RISE_MS + dt);
	/* rounded up, so that it does reach 0 */
	return old - ((old - sample) * dt + TAU_FALL_MS + dt - 1) /
			     (TAU_FALL_MS + dt);
}

static uint64_t node_weight(const struct node_view *nv, bool by_anon)
{
	return by_anon ? nv->anon_pages : nv->size_pages;
}

static void demand_share(const struct guest_view *v, uint64_t milli,
			 uint64_t dt_ms)
{
	uint64_t sum_anon = 0, sum_size = 0, sum;

	for (unsigned int i = 0; i < v->nr_nodes; i++) {
		sum_anon += v->node[i].anon_pages;
		sum_size += v->node[i].size_pages;
	}
	sum = sum_anon ? sum_anon : sum_size;
	for (unsigned int i = 0; i < v->nr_nodes; i++) {
		const struct node_view *nv = &v->node[i];
		uint64_t w = node_weight(nv, sum_anon != 0);
		uint64_t permille = sum ? w * 1000 / sum : 0;

		nv->st->demand_milli = ewma_step(
			nv->st->demand_milli, milli * permille / 1000, dt_ms);
	}
}

static bool ctr_exists(const struct msg_report *r, enum vmstat_ctr c)
{
	return r->ctr_valid >> c & 1;
}

/* Has nothing run backwards since the baseline? */
static bool baseline_holds(const struct policy_state *st,
			   const struct msg_report *r)
{
	return st->have_last && r->guest_us >= st->last_guest_us &&
	       r->ctr[CTR_THP_FAULT_ALLOC] >= st->last_thp_alloc &&
	       r->ctr[CTR_THP_FAULT_FALLBACK] >= st->last_thp_fallback &&
	       r->ctr[CTR_ALLOCSTALL] >= st->last_allocstall;
}

void demand_update(struct policy_state *st, const struct msg_report *r,
		   const struct guest_view *v)
{
	uint64_t faults, stalls, dt_ms;

	if (baseline_holds(st, r)) {
		dt_ms = (r->guest_us - st->last_guest_us) / MSEC_US;
		if (dt_ms < WINDOW_MIN_MS)
			return; /* the baseline stays, the interval grows */
		faults = sum_sat_u64(
			r->ctr[CTR_THP_FAULT_ALLOC] - st->last_thp_alloc,
			r->ctr[CTR_THP_FAULT_FALLBACK] - st->last_thp_fallback);
		stalls = r->ctr[CTR_ALLOCSTALL] - st->last_allocstall;
		if (ctr_exists(r, CTR_THP_FAULT_ALLOC) &&
		    ctr_exists(r, CTR_THP_FAULT_FALLBACK))
			demand_share(v, rate_milli(faults, dt_ms), dt_ms);
		st->stall_milli = ctr_exists(r, CTR_ALLOCSTALL)
					  ? rate_milli(stalls, dt_ms)
					  : 0;
	}
	st->have_last = true;
	st->last_guest_us = r->guest_us;
	st->last_thp_alloc = r->ctr[CTR_THP_FAULT_ALLOC];
	st->last_thp_fallback = r->ctr[CTR_THP_FAULT_FALLBACK];
	st->last_allocstall = r->ctr[CTR_ALLOCSTALL];
}

bool demand_pressure_guess(const struct policy_state *st)
{
	return st->stall_milli >= STALLS_PRESSURE_MILLI;
}
