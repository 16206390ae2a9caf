// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The short form, for a first impression: a line for each scenario. */
#include "bench.h"
#include "limit.h"

#include <string.h>

#define TITLE_WIDTH 25 /* of the longest words below: a line has 80 columns */

static const struct {
	const char *scenario;
	const char *words;
} words[] = {
	{ "seq-read", "read a file end to end" },
	{ "seq-write", "write a new file" },
	{ "rewrite", "rewrite a file" },
	{ "rand-4k", "read 4 KB here and there" },
	{ "rand-1m", "read 1 MB here and there" },
	{ "loads", "look up words in memory" },
	{ "mixed", "read and change 4 KB" },
	{ "checkpoint", "save a state" },
	{ "restore", "load it again" },
	{ "log", "append records to a log" },
	{ "zipf-4k", "read 4 KB, some often" },
	{ "hot-tenth", "read 4 KB, most in 1/10" },
	{ "strided", "read 4 KB of each 256 KB" },
	{ "backward", "read a file backward" },
	{ "four-streams", "read four parts at a time" },
	{ "scan-twice", "read a file twice" },
	{ "scan-random-scan", "read, look up, read on" },
	{ "log-read", "append to a log, read it" },
	{ "cost", "work that gains nothing" },
};

static const char *demo_title(const struct scenario *scenario)
{
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(words[i].scenario, scenario->name))
			return words[i].words;
	return scenario->title;
}

static const char *demo_cell(const struct row *row, char text[CLI_TEXT])
{
	if (!row || !row->nresults)
		return "failed";
	if (row->scenario->latency)
		return cli_time(text, row->value);
	snprintf(text, CLI_TEXT, "%.0f MB/s", row->value);
	return text;
}

static const char *demo_ratio(double ratio, char text[CLI_TEXT])
{
	if (ratio <= 0)
		return "";
	snprintf(text, CLI_TEXT, ratio < 100 ? "%.2f" : "%.0f", ratio);
	return text;
}

/* Nothing is read ahead in a new file or in memory: both settings are the same there. */
static double demo_stock_ratio(const struct row *ours)
{
	const struct scenario *scenario = ours->scenario;

	return scenario->fresh || scenario->in_memory ? ours->ratio_default_linux :
							ours->ratio_read_ahead;
}

static void demo_print_line(const struct bench *bench, const struct group *group)
{
	const struct row *ours = group_hugemap(group);
	char a[CLI_TEXT], b[CLI_TEXT], c[CLI_TEXT];

	printf("  %-*s %9s %9s", TITLE_WIDTH, demo_title(group->scenario), demo_cell(ours, a),
	       demo_cell(group_default_linux(group), b));
	printf(" %8s", demo_ratio(ours ? ours->ratio_default_linux : 0, c));
	if (limits_try_stock(bench->limits))
		printf(" %7s", demo_ratio(ours ? demo_stock_ratio(ours) : 0, c));
	printf(" %7s", demo_ratio(ours ? ours->ratio_best_linux : 0, c));
	printf(" %7s\n", demo_ratio(ours ? ours->ratio_device : 0, c));
}

static void demo_print_titles(const struct bench *bench)
{
	bool stock = limits_try_stock(bench->limits);
	unsigned int found = limits_read_ahead(bench->limits);
	char here[CLI_TEXT] = "default";

	if (found)
		snprintf(here, sizeof(here), "at %u", found);
	printf("\n  %-*s %9s %9s %*s\n", TITLE_WIDTH, "", "", "Linux", stock ? 32 : 24,
	       "HugeMap relative to Linux mmap");
	printf("  %-*s %9s %9s %8s", TITLE_WIDTH, "", "HugeMap", "mmap", here);
	if (stock)
		printf(" %4s%u", "at ", STOCK_READ_AHEAD_KB);
	printf(" %7s %7s\n", "advised", "device");
}

static void demo_explain_read_ahead(const struct bench *bench)
{
	unsigned int found = limits_read_ahead(bench->limits);

	if (!found)
		return;
	printf("\"At %u\": read_ahead_kb of this device is %u", found, found);
	if (found != STOCK_READ_AHEAD_KB)
		printf(", %.3g times Linux's usual %u", (double)found / STOCK_READ_AHEAD_KB,
		       STOCK_READ_AHEAD_KB);
	printf(".\n");
	if (limits_try_stock(bench->limits))
		printf("\"At %u\": both with the usual setting: the gain on most machines.\n",
		       STOCK_READ_AHEAD_KB);
}

void demo_print(const struct bench *bench)
{
	const struct group *group;
	char size[CLI_TEXT], cache[CLI_TEXT];

	cli_progress_clear();
	demo_print_titles(bench);
	for (group = bench->groups; group; group = group->next)
		demo_print_line(bench, group);
	printf("\nHugeMap is the steered page cache, without a hint. Above 1, it is faster.\n");
	demo_explain_read_ahead(bench);
	printf("\"Advised\": Linux's mmap with the best madvise() for the whole file.\n"
	       "\"Device\": direct I/O; in \"look up words\", anonymous memory in 2 MB pages.\n"
	       "Medians of %u run%s of each in turn; a file of %s; %s of cache for each.\n"
	       "Without --demo there are more rows.\n",
	       bench->settings.runs, bench->settings.runs == 1 ? "" : "s",
	       cli_bytes(size, (double)bench->settings.size),
	       cli_bytes(cache, (double)bench->settings.pool));
	fflush(stdout);
}
