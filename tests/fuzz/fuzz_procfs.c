// SPDX-License-Identifier: GPL-2.0-or-later
/* Every parser of kernel text, over the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "frag.h"
#include "fuzz.h"
#include "knob_info.h"
#include "procfs.h"

static void check(int condition)
{
	if (!condition)
		abort();
}

static void check_zones(const char *text, size_t size)
{
	uint32_t blocks[PROTO_ORDERS_MAX];
	struct zones z = {0};

	lines_each(text, size, zoneinfo_line, &z);
	lines_each(text, size, buddyinfo_line, &z);
	check(z.nr <= PROTO_ZONES_MAX && z.nr_orders <= PROTO_ORDERS_MAX);
	for (unsigned int i = 0; i < z.nr; i++)
		check(z.zone[i].kind < ZONE_KIND_COUNT);
	zones_sum_node(&z, 0, blocks);
	for (unsigned int o = 0; o < PROTO_ORDERS_MAX; o++) {
		check(frag_ext_pct(blocks, o) <= 100);
		check(frag_unusable_permille(blocks, o) <= 1000);
		(void)frag_index_permille(blocks, o);
	}
}

static void check_texts(const char *text)
{
	struct psi_report psi;
	uint8_t ids[PROTO_NODES_MAX];
	int64_t value;

	if (psi_parse(text, &psi) == 0)
		check(psi.some_avg10_centi <= 10000 &&
		      psi.full_avg10_centi <= 10000);
	(void)id_list_parse(text, ids, PROTO_NODES_MAX);
	check(pageblock_order_parse(text) < (int)PROTO_ORDERS_MAX);
	for (unsigned int k = 0; k < KNOB_COUNT; k++)
		(void)knob_parse(k, text, &value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct node_mem mem = {0};
	struct vmstat vs = {0};

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	lines_each(text, size, vmstat_line, &vs);
	check(!(vs.valid >> CTR_COUNT));
	lines_each(text, size, node_mem_line, &mem);
	check_zones(text, size);
	check_texts(text);
	free(text);
	return 0;
}
