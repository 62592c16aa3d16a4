// SPDX-License-Identifier: GPL-2.0-or-later
#include <fcntl.h>
#include <string.h>

#include "hostmm.h"
#include "manager.h"
#include "qmp.h"
#include "util.h"
#include "vm_causes.h"

#define THP_DIR "/sys/kernel/mm/transparent_hugepage/"
#define NX_FILE "/sys/module/kvm/parameters/nx_huge_pages"
/* Every process of the host is looked at: 10 us each. */
#define RIVALS_AGE_US (60 * SEC_US)

static uint8_t thp_of(const char *file)
{
	char word[32];

	if (hostmm_read_choice(file, word, sizeof(word)) < 0)
		return HOST_THP_UNKNOWN;
	if (!strcmp(word, "never") || !strcmp(word, "deny"))
		return HOST_THP_NEVER;
	if (!strcmp(word, "always") || !strcmp(word, "force") ||
	    !strcmp(word, "within_size"))
		return HOST_THP_ALWAYS;
	return HOST_THP_ADVISE;
}

static bool nx_on(void)
{
	char text[16];

	return read_text_at(AT_FDCWD, NX_FILE, text, sizeof(text)) > 0 &&
	       (text[0] == 'Y' || !strncmp(text, "force", 5));
}

static uint32_t rivals(const struct vm *v, uint64_t now_us)
{
	static uint32_t found;
	static uint64_t at_us;
	const char *names[RIVAL_COUNT];
	int fd;

	if (at_us && now_us - at_us < RIVALS_AGE_US)
		return found;
	for (unsigned int i = 0; i < RIVAL_COUNT; i++)
		names[i] = rival_name(i);
	fd = open(v->m->cfg->proc_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	found = hostmm_programs(fd, names, RIVAL_COUNT);
	close(fd);
	at_us = now_us;
	return found;
}

static uint64_t off_node_blocks(const struct vmmap *m)
{
	uint64_t n = 0;

	for (uint32_t i = 0; m->host && i < m->nr; i++) {
		uint32_t slot;
		uint8_t node = m->host[i].node;

		if (node >= 64 ||
		    memslots_block(&m->slots, i, &slot) == UINT64_MAX)
			continue;
		n += m->slots.slot[slot].host_nodes &&
		     !(m->slots.slot[slot].host_nodes >> node & 1);
	}
	return n;
}

void vm_cause_facts(const struct vm *v, uint64_t now_us,
		    struct cause_facts *ret_facts)
{
	struct policy_snapshot s = vm_snapshot(v, now_us);
	const struct vmmap *m = &v->map;

	*ret_facts = (struct cause_facts){
		.host_known = m->host_us != 0 && m->nr,
		.guest_known = m->alignment.guest_known,
		.stale_ms = m->last_error && m->host_us
				    ? (now_us - m->host_us) / MSEC_US + 1
				    : 0,
		.scan_error = m->last_error,
		.layout = m->facts,
		.thp_disabled = m->thp_disabled,
		.migrating = s.vm_migrating,
		.came_by_migration = m->facts >> LAYOUT_INCOMING & 1,
		.ballooned_kib = v->ballooned_kib,
		.ksm = m->ksm,
		.thp = thp_of(THP_DIR "enabled"),
		.shmem_thp = thp_of(THP_DIR "shmem_enabled"),
		.nx_huge_pages = nx_on(),
		.rivals = rivals(v, now_us),
		.reporting_order =
			v->have_report ? v->report.reporting_order : UINT16_MAX,
		.guest_thp_never =
			v->have_report && v->report.thp_enabled == MTHP_NEVER,
		.locked_kib = v->proc.locked_kib,
		.rss_kib = v->proc.rss_kib,
		.off_node_blocks = off_node_blocks(m),
		.hold = v->collapse_hold,
		.collapse_mode = (uint8_t)v->cfg.collapse,
		.acts = vm_is_active(v),
		.slots = &m->slots,
		.all = m->alignment.all,
	};
}
