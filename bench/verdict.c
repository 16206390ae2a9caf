// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "verdict.h"
#include "bench.h"
#include "limit.h"

#include <string.h>

/* A row with this ratio to another one is as good: the difference is noise. */
#define AS_GOOD 0.97
/* For a stream into a new file, because write-behind gains more than any advice of Linux. */
#define NEW_FILE 1.4
/* Random pieces of 1 MB: the share of their speed with a short read-ahead, which root can set. */
#define PIECES_READ_AHEAD 0.8

static bool verdict_has_pieces(const struct scenario *scenario)
{
	return !strcmp(scenario->name, "rand-1m");
}

/* Round as printf() does: a ratio that is printed as 0.97 reaches 0.97. */
static bool verdict_reaches(double ratio, double wanted)
{
	return ratio + 0.005 >= wanted;
}

bool verdict_find(const struct bench *bench, const struct group *group, struct verdict *verdict)
{
	const struct row *row = group_of_engine(group, engine_steer.name);
	const struct scenario *scenario = group->scenario;

	if (scenario->cost || scenario->curve || !row || !(row->ratio_best_linux > 0))
		return false;
	*verdict = (struct verdict){
		.row = row,
		.best = group_best_linux(group),
		.wanted = scenario->fresh && !scenario->sync_bytes ? NEW_FILE : AS_GOOD,
		.wanted_read_ahead = verdict_has_pieces(scenario) ? PIECES_READ_AHEAD : 0,
		.read_ahead = row->ratio_read_ahead,
		.better = row->ratio_best_linux > 1,
	};
	if (verdict_has_pieces(scenario) && limits_read_ahead(bench->limits) == STOCK_READ_AHEAD_KB)
		verdict->read_ahead = row->ratio_default_linux;
	verdict->met = verdict_reaches(row->ratio_best_linux, verdict->wanted) &&
		       verdict_reaches(row->ratio_default_linux, AS_GOOD) &&
		       (!(verdict->read_ahead > 0) ||
			verdict_reaches(verdict->read_ahead, verdict->wanted_read_ahead));
	return true;
}

struct verdicts verdicts_sum_up(const struct bench *bench)
{
	struct verdicts sum = {};
	const struct group *group;
	struct verdict verdict;

	for (group = bench->groups; group; group = group->next) {
		if (!verdict_find(bench, group, &verdict))
			continue;
		sum.n++;
		sum.met += verdict.met;
		sum.better += verdict.better;
	}
	sum.all_met = sum.n && sum.met == sum.n && 2 * sum.better >= sum.n;
	return sum;
}

static void verdict_print_one(const struct verdict *verdict, const struct group *group)
{
	const struct row *row = verdict->row;
	char name[48], best[64], stock[CLI_TEXT] = "";

	snprintf(name, sizeof(name), "%s, %u %s", group->scenario->name, group->threads,
		 scenario_workers(group->scenario, group->threads));
	config_title(&verdict->best->config, group->scenario, best, sizeof(best));
	if (row->ratio_read_ahead > 0)
		snprintf(stock, sizeof(stock), "%.2f", row->ratio_read_ahead);
	printf("  %-26s %8.2f %6s %6.2f %6.2f  %-3s  %s", name, row->ratio_default_linux, stock,
	       row->ratio_best_linux, verdict->wanted, verdict->met ? "yes" : "NO", best);
	if (verdict->wanted_read_ahead > 0 && verdict->read_ahead > 0)
		printf(" (at %u wanted %.2f)", STOCK_READ_AHEAD_KB, verdict->wanted_read_ahead);
	printf("\n");
}

void verdicts_print(const struct bench *bench)
{
	struct verdicts sum = verdicts_sum_up(bench);
	const struct group *group;
	char here[CLI_TEXT] = "default";
	struct verdict verdict;

	if (!sum.n)
		return;
	if (limits_read_ahead(bench->limits))
		snprintf(here, sizeof(here), "at %u", limits_read_ahead(bench->limits));
	printf("\nHugeMap without a hint, relative to Linux mmap (\"at\": with this "
	       "read_ahead_kb):\n");
	printf("  %-26s %8s %6s %6s %6s  %-3s  %s\n", "", here,
	       limits_try_stock(bench->limits) ? "at 128" : "", "best", "wanted", "met",
	       "best was");
	for (group = bench->groups; group; group = group->next)
		if (verdict_find(bench, group, &verdict))
			verdict_print_one(&verdict, group);
	printf("  As wanted in %u of %u; better than the best advice in %u (wanted: half). Below "
	       "%.2f of\n  the default counts as worse than it.\n",
	       sum.met, sum.n, sum.better, AS_GOOD);
	fflush(stdout);
}
