// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "fault_child.h"
#include "hold.h"
#include "log.h"
#include "util.h"

bool holds_room(const struct holds *h)
{
	for (unsigned int i = 0; i < HOLDS_MAX; i++) {
		if (!h->hold[i].pid)
			return true;
	}
	return false;
}

void holds_add(struct holds *h, const struct hold *what)
{
	for (unsigned int i = 0; i < HOLDS_MAX; i++) {
		if (h->hold[i].pid)
			continue;
		h->hold[i] = *what;
		return;
	}
}

unsigned int holds_release(struct holds *h, uint64_t action_id)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < HOLDS_MAX; i++) {
		const struct hold *o = &h->hold[i];

		if (!o->pid || (action_id && o->action_id != action_id))
			continue;
		(void)kill(o->pid, SIGKILL); /* ESRCH: it ended */
		n++;
	}
	return n;
}

static const char *why_ended(const struct hold *o, int status)
{
	if (WIFSIGNALED(status))
		return "told to";
	switch (atomic_load(&o->share->end)) {
	case FAULT_NEEDED:
		return "somebody needs it";
	case FAULT_FLOOR:
		return "free memory is near the high watermark";
	default:
		return "its time is over";
	}
}

static uint64_t timeval_us(struct timeval tv)
{
	return (uint64_t)tv.tv_sec * SEC_US + (uint64_t)tv.tv_usec;
}

uint64_t holds_tick(struct holds *h)
{
	uint64_t cpu_us = 0;

	for (unsigned int i = 0; i < HOLDS_MAX; i++) {
		struct hold *o = &h->hold[i];
		uint64_t took_us;
		struct rusage ru;
		int status;

		if (!o->pid || wait4(o->pid, &status, WNOHANG, &ru) <= 0)
			continue;
		took_us = timeval_us(ru.ru_utime) + timeval_us(ru.ru_stime);
		cpu_us += took_us - MIN(took_us, o->charged_us);
		log_info(
			"Gave back %llu blocks of order %u held on node %u: "
			"%s",
			(unsigned long long)atomic_load(&o->share->held_blocks),
			o->folio_order, o->node, why_ended(o, status));
		(void)munmap(o->share, sizeof(*o->share));
		memset(o, 0, sizeof(*o));
	}
	return cpu_us;
}

uint64_t holds_pages(const struct holds *h, unsigned int node)
{
	uint64_t pages = 0;

	for (unsigned int i = 0; i < HOLDS_MAX; i++) {
		const struct hold *o = &h->hold[i];

		if (o->pid && o->node == node)
			pages += atomic_load(&o->share->held_blocks)
				 << o->folio_order;
	}
	return pages;
}
