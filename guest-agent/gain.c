// SPDX-License-Identifier: GPL-2.0-or-later
#include "gain.h"
#include "util.h"

/* A new figure counts a quarter: a single one varies by a factor of two. */
#define LEARN_DEN 4

/* After this a figure counts half: what fragmented the guest has changed. */
#define HALF_LIFE_US (1800 * SEC_US)

/* Bounds of a sample, so that one lucky or hopeless action cannot keep a
 * backend chosen or banned until its figure has faded. */
#define SAMPLE_TIMES 16

/*
 * Measured: a 2 GiB guest, 2 vCPUs, 6.12 under emulation, 1.1 GiB of its
 * memory free in random pages, 100 MiB wanted. The CPU times are those of
 * emulation (fault: mostly the clearing of what it takes): only how they
 * compare matters, and what this guest shows replaces them. Small orders were
 * not measured apart; hugetlb allocates as fault does, but clears nothing;
 * memblock reads a word of kpageflags for each page of the guest first; kmod
 * by its moves alone.
 */
static const struct gain seed[BACKEND_COUNT][GAIN_CLASS_COUNT] = {
	[BACKEND_COMPACT] = {{670, 3400}, {670, 3400}, {700, 3600}},
	[BACKEND_FAULT] = {{2660, 30000}, {2660, 30000}, {1320, 29000}},
	[BACKEND_HUGETLB] = {{1320, 5000}, {1320, 5000}, {1320, 5000}},
	[BACKEND_MEMBLOCK] = {{4200, 4400}, {4200, 4400}, {4200, 4400}},
	[BACKEND_PROACTIVE] = {{2000, 17000}, {2000, 17000}, {2000, 17000}},
	[BACKEND_KMOD] = {{21, 1700}, {21, 1700}, {21, 1700}},
};

enum gain_class gain_class_of(unsigned int order, unsigned int pmd_order)
{
	if (order >= pmd_order)
		return GAIN_PMD;
	return order > 3 ? GAIN_MIDDLE : GAIN_SMALL;
}

static uint64_t faded(uint64_t seen, uint64_t lab, uint64_t age_us)
{
	uint64_t halves = age_us / HALF_LIFE_US;
	uint64_t rest_us = age_us % HALF_LIFE_US;
	uint64_t apart = seen > lab ? seen - lab : lab - seen;

	apart = halves < 64 ? apart >> halves : 0;
	/* linear between two halvings */
	apart -= apart * rest_us / (2 * HALF_LIFE_US);
	return seen > lab ? lab + apart : lab - apart;
}

struct gain gains_get(const struct gains *g, enum backend backend,
		      enum gain_class class, uint64_t now_us)
{
	const struct gain_seen *s = &g->seen[backend][class];
	const struct gain *lab = &seed[backend][class];
	uint64_t age_us = now_us - MIN(now_us, s->when_us);

	if (!s->when_us)
		return *lab;
	return (struct gain){
		.work_pages =
			faded(s->gain.work_pages, lab->work_pages, age_us),
		.cpu_us = faded(s->gain.cpu_us, lab->cpu_us, age_us),
	};
}

static uint64_t learned(uint64_t old, uint64_t sample, uint64_t lab)
{
	sample = CLAMP(sample, lab / SAMPLE_TIMES, lab * SAMPLE_TIMES);
	return (old * (LEARN_DEN - 1) + sample) / LEARN_DEN;
}

/* Does how it ended tell something about the backend? */
static bool tells(const struct msg_result *r)
{
	if (r->backend >= BACKEND_COUNT || r->status == RESULT_REFUSED ||
	    r->status == RESULT_FAILED)
		return false;
	return r->blocks_after > r->blocks_before || r->why == WHY_EXHAUSTED ||
	       r->why == WHY_CPU || r->why == WHY_PAGES || r->why == WHY_TIME;
}

void gains_learn(struct gains *g, const struct msg_result *r,
		 unsigned int pmd_order, uint32_t page_size, uint64_t now_us)
{
	enum gain_class class = gain_class_of(r->order, pmd_order);
	uint64_t work, gained_kib;
	struct gain_seen *s;
	struct gain old;

	if (!tells(r))
		return;
	s = &g->seen[r->backend][class];
	old = gains_get(g, r->backend, class, now_us);
	/* a word of kpageflags is a page looked at, by whoever does it */
	work = r->migrated + r->reclaimed + r->migrate_scanned +
	       r->free_scanned + r->kpageflags_words;
	/* nothing for its work: as if it had brought a single block */
	gained_kib = r->blocks_after - MIN(r->blocks_after, r->blocks_before);
	gained_kib = MAX(gained_kib, 1) * (page_size / 1024) << r->order;
	s->gain.work_pages = learned(old.work_pages, work * 1024 / gained_kib,
				     seed[r->backend][class].work_pages);
	s->gain.cpu_us = learned(old.cpu_us, r->cpu_us * 1024 / gained_kib,
				 seed[r->backend][class].cpu_us);
	s->when_us = MAX(now_us, 1);
}
