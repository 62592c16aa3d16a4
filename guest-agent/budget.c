// SPDX-License-Identifier: GPL-2.0-or-later
#include "budget.h"
#include "util.h"

void budget_init(struct budget *b, uint32_t rate_ppm, uint64_t burst_us,
		 uint64_t now_us)
{
	b->rate_ppm = rate_ppm;
	b->burst_us = burst_us;
	b->tokens_us = (int64_t)burst_us;
	b->filled_us = now_us;
}

uint64_t budget_left_us(struct budget *b, uint64_t now_us)
{
	uint64_t elapsed_us = now_us - b->filled_us;
	uint64_t gain_us;

	/* a day is plenty, and keeps the product far from overflow */
	elapsed_us = MIN(elapsed_us, 86400 * SEC_US);
	gain_us = elapsed_us * b->rate_ppm / 1000000;
	/* too short a time to gain anything must not be lost */
	if (gain_us) {
		b->tokens_us = MIN(b->tokens_us + (int64_t)gain_us,
				   (int64_t)b->burst_us);
		b->filled_us = now_us;
	}
	return (uint64_t)MAX(b->tokens_us, 0);
}

void budget_set_rate(struct budget *b, uint32_t rate_ppm, uint64_t now_us)
{
	if (rate_ppm == b->rate_ppm)
		return;
	(void)budget_left_us(b, now_us);
	b->filled_us = now_us;
	b->rate_ppm = rate_ppm;
}

void budget_spend(struct budget *b, uint64_t cpu_us)
{
	b->tokens_us -= (int64_t)MIN(cpu_us, 86400 * SEC_US);
}
