// SPDX-License-Identifier: GPL-2.0-or-later
/* What vmdefragctl shows to people. */
#include <inttypes.h>
#include <string.h>

#include "ctl.h"
#include "util.h"

static const char *str(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "-";
}

static long long num(const json_t *o, const char *key)
{
	return (long long)json_integer_value(json_object_get(o, key));
}

/* "63 MiB", "1.4 GiB" */
static const char *size_text(char *buf, size_t size, long long kib)
{
	if (kib >= 10LL * 1024 * 1024)
		snprintf(buf, size, "%lld GiB", kib / 1024 / 1024);
	else if (kib >= 1024LL * 1024)
		snprintf(buf, size, "%.1f GiB", (double)kib / 1024 / 1024);
	else
		snprintf(buf, size, "%lld MiB", kib / 1024);
	return buf;
}

/* Sums over the guest's nodes. */
struct sums {
	long long total_kib, free_kib, in_blocks_kib, blocks;
};

static struct sums sum_nodes(const json_t *vm)
{
	const json_t *nodes =
		json_object_get(json_object_get(vm, "report"), "nodes");
	struct sums s = {0};
	const json_t *n;
	size_t i;

	json_array_foreach(nodes, i, n)
	{
		s.total_kib += num(n, "total_kib");
		s.free_kib += num(n, "free_kib");
		s.in_blocks_kib += num(n, "free_in_blocks_kib");
		s.blocks += num(n, "free_blocks");
	}
	return s;
}

static const char *age_text(char *buf, size_t size, const json_t *vm)
{
	const json_t *age = json_object_get(vm, "report_age_ms");

	if (!age)
		return "-";
	snprintf(buf, size, "%.1f s", (double)json_integer_value(age) / 1000);
	return buf;
}

static void status_row(const json_t *vm)
{
	struct sums s = sum_nodes(vm);
	bool known = json_object_get(vm, "report") != NULL;
	const json_t *host = json_object_get(vm, "host");
	const json_t *d = json_object_get(vm, "decision");
	char free[24], rss[24], age[24], pct[8] = "-", blocks[24] = "-";
	bool paused = json_is_true(json_object_get(vm, "paused"));

	if (known && s.free_kib)
		snprintf(pct, sizeof(pct), "%lld %%",
			 s.in_blocks_kib * 100 / s.free_kib);
	if (known)
		snprintf(blocks, sizeof(blocks), "%lld", s.blocks);
	printf("%-16.16s %-11s %-8s %7s %9s %7s %7s %9s  %s\n", str(vm, "name"),
	       paused ? "paused" : str(vm, "mode"), str(vm, "session"),
	       age_text(age, sizeof(age), vm),
	       known ? size_text(free, sizeof(free), s.free_kib) : "-", blocks,
	       pct,
	       json_object_get(host, "rss_kib")
		       ? size_text(rss, sizeof(rss), num(host, "rss_kib"))
		       : "-",
	       json_is_object(d) ? str(d, "reason") : "-");
}

void table_status(const json_t *answer)
{
	const json_t *vms = json_object_get(answer, "vms");
	const json_t *d = json_object_get(answer, "daemon");
	const json_t *vm;
	size_t i;

	if (json_is_true(json_object_get(d, "all_paused")))
		puts("all VMs are paused; 'vmdefragctl resume --all' goes on");
	printf("%-16s %-11s %-8s %7s %9s %7s %7s %9s  %s\n", "VM", "MODE",
	       "SESSION", "AGE", "FREE", "BLOCKS", "USABLE", "HOST RSS",
	       "DECISION");
	json_array_foreach(vms, i, vm) status_row(vm);
	if (!json_array_size(vms))
		puts("no VM is known: name one in vmdefragd.conf, or by --vm");
}

static void node_row(const json_t *n)
{
	const json_t *orders = json_object_get(n, "free_blocks_by_order");
	const json_t *o;
	char free[24];
	size_t i;

	printf("  node %lld: %s free, %lld blocks;  by order:", num(n, "node"),
	       size_text(free, sizeof(free), num(n, "free_kib")),
	       num(n, "free_blocks"));
	json_array_foreach(orders, i, o)
		printf(" %lld", (long long)json_integer_value(o));
	putchar('\n');
}

void table_vm(const json_t *vm)
{
	const json_t *nodes =
		json_object_get(json_object_get(vm, "report"), "nodes");
	const json_t *d = json_object_get(vm, "decision");
	const json_t *n;
	size_t i;

	printf("%s\n", str(vm, "name"));
	json_array_foreach(nodes, i, n) node_row(n);
	if (json_is_object(d))
		printf("  decision: %s, %s: %s\n", str(d, "decision"),
		       str(d, "reason"), str(d, "text"));
}

void table_explain(const json_t *answer)
{
	static const struct {
		const char *level, *mark;
	} marks[] = {{"ok", "ok"}, {"note", "--"}, {"problem", "!!"}};
	const json_t *lines = json_object_get(answer, "lines");
	const json_t *l;
	size_t i;

	printf("%s\n", str(answer, "vm"));
	json_array_foreach(lines, i, l)
	{
		const char *mark = "--";

		for (size_t k = 0; k < ARRAY_SIZE(marks); k++) {
			if (!strcmp(marks[k].level, str(l, "level")))
				mark = marks[k].mark;
		}
		printf(" %s %s\n", mark, str(l, "text"));
		if (*str(l, "cure"))
			printf("      cure: %s\n", str(l, "cure"));
	}
}

static void decision_rest(const json_t *e)
{
	const json_t *rejected = json_object_get(e, "rejected");
	const char *name;
	json_t *value;
	size_t i;

	printf(" (node %lld)", num(e, "node"));
	if (num(e, "blocks") > 0)
		printf(", %lld blocks", num(e, "blocks"));
	printf("\n    ");
	json_object_foreach(json_object_get(e, "evidence"), name, value)
		printf(" %s=%lld", name, (long long)json_integer_value(value));
	putchar('\n');
	json_array_foreach(rejected, i, value) printf(
		"     not %s: %s\n", str(value, "what"), str(value, "why"));
}

static void history_decision(const json_t *e)
{
	printf("%s  %s: %s%s", str(e, "time"), str(e, "decision"),
	       str(e, "reason"),
	       json_is_true(json_object_get(e, "carried_out"))
		       ? ""
		       : ", observed only");
	decision_rest(e);
}

void table_decision(const json_t *e)
{
	printf("%10.3f s  %s: %s", (double)num(e, "at_us") / 1e6,
	       str(e, "decision"), str(e, "reason"));
	decision_rest(e);
}

void table_result(const json_t *e)
{
	const json_t *c = json_object_get(e, "cost");

	printf("  %s %s (%s): blocks %lld -> %lld; %lld pages migrated, "
	       "%lld reclaimed, %lld + %lld scanned, %lld stalls of others, "
	       "%lld ms CPU, %lld ms%s%s\n",
	       str(e, "backend"), str(e, "result"), str(e, "why"),
	       num(e, "blocks_before"), num(e, "blocks_after"),
	       num(c, "pages_migrated"), num(c, "pages_reclaimed"),
	       num(c, "migrate_scanned"), num(c, "free_scanned"),
	       num(c, "allocstall"), num(c, "cpu_us") / 1000,
	       num(c, "elapsed_us") / 1000, *str(e, "text") ? ": " : "",
	       str(e, "text"));
}

void table_history(const json_t *answer)
{
	const json_t *all = json_object_get(answer, "history");
	const json_t *e;
	size_t i;

	json_array_foreach(all, i, e)
	{
		const char *kind = str(e, "kind");

		if (!strcmp(kind, "decision")) {
			history_decision(e);
		} else if (!strcmp(kind, "result")) {
			printf("%s", str(e, "time"));
			table_result(e);
		} else {
			printf("%s  %s\n", str(e, "time"), str(e, "text"));
		}
	}
	if (!json_array_size(all))
		puts("nothing yet");
}

static void pool_row(const json_t *p)
{
	printf("  pool of %lld kB pages: %lld, %lld free", num(p, "page_kib"),
	       num(p, "pages"), num(p, "free"));
	if (json_object_get(p, "reserved"))
		printf(", %lld reserved, %lld usable", num(p, "reserved"),
		       num(p, "usable"));
	if (num(p, "surplus"))
		printf(", %lld surplus", num(p, "surplus"));
	putchar('\n');
}

/* What the pageblocks of a node hold, where somebody asked for it. */
static void blocks_row(const json_t *b)
{
	if (!b)
		return;
	if (json_object_get(b, "error")) {
		printf("  pageblocks: not seen: %s\n", str(b, "error"));
		return;
	}
	printf("  pageblocks: %lld free, %lld movable, %lld hugetlb, "
	       "%lld with unmovable pages; seen %lld s ago%s\n",
	       num(b, "free"), num(b, "movable"), num(b, "hugetlb"),
	       num(b, "unmovable"), num(b, "age_ms") / 1000,
	       json_is_true(json_object_get(b, "whole"))
		       ? ""
		       : ", in part (BlocksMaxWords)");
}

static void host_node(const json_t *n, long long order)
{
	const json_t *trend = json_object_get(n, "trend_blocks_per_min");
	const json_t *unusable = json_object_get(n, "unusable_permille");
	const json_t *p;
	char total[24], spare[24];
	size_t i;

	printf("node %lld: %s of %s free, %lld blocks of order %lld",
	       num(n, "node"),
	       size_text(spare, sizeof(spare), num(n, "free_kib")),
	       size_text(total, sizeof(total), num(n, "total_kib")),
	       num(n, "free_blocks"), order);
	if (trend)
		printf(" (%+lld a minute)",
		       (long long)json_integer_value(trend));
	printf(", unusable %.1f %%\n",
	       (double)json_integer_value(
		       json_array_get(unusable, (size_t)order)) /
		       10);
	blocks_row(json_object_get(n, "blocks"));
	json_array_foreach(json_object_get(n, "pools"), i, p)
	{
		if (num(p, "pages"))
			pool_row(p);
	}
}

static void vm_backing(const json_t *vm)
{
	const json_t *n;
	size_t i;

	printf("%s:", str(vm, "name"));
	if (json_object_get(vm, "unknown"))
		printf(" by node unknown: %s", str(vm, "unknown"));
	json_array_foreach(json_object_get(vm, "nodes"), i, n)
	{
		char kib[24], huge[24];

		printf("  node %lld %s, %s of it huge", num(n, "node"),
		       size_text(kib, sizeof(kib), num(n, "kib")),
		       size_text(huge, sizeof(huge), num(n, "huge_kib")));
	}
	putchar('\n');
}

void table_nodes(const json_t *answer)
{
	const json_t *o;
	size_t i;

	json_array_foreach(json_object_get(answer, "nodes"), i, o)
		host_node(o, num(answer, "pmd_order"));
	json_array_foreach(json_object_get(answer, "pools"), i, o)
	{
		if (num(o, "pages"))
			pool_row(o);
	}
	json_array_foreach(json_object_get(answer, "vms"), i, o) vm_backing(o);
	if (json_object_get(answer, "error"))
		printf("the host cannot be read: %s\n", str(answer, "error"));
}
