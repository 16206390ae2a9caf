// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The short form, for a first impression: a line for each scenario. */
#include "bench.h"

#include <string.h>

static const struct {
	const char *scenario;
	const char *words;
} words[] = {
	{ "seq-read", "read a file from end to end" },
	{ "seq-write", "write a new file" },
	{ "rewrite", "rewrite a file" },
	{ "rand-4k", "read 4 KB here and there" },
	{ "rand-1m", "read 1 MB here and there" },
	{ "loads", "look up words in memory" },
	{ "mixed", "read and change 4 KB here and there" },
	{ "checkpoint", "save a state" },
	{ "restore", "load it again" },
	{ "log", "append records to a log" },
	{ "zipf-4k", "read 4 KB, some far more often" },
	{ "hot-tenth", "read 4 KB, most in a tenth" },
	{ "strided", "read 4 KB of every 256 KB" },
	{ "backward", "read a file backward" },
	{ "four-streams", "read four parts at a time" },
	{ "scan-twice", "read more than memory, twice" },
	{ "scan-random-scan", "read, look up, read on" },
	{ "log-read", "append to a log and read it" },
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
		return "-";
	if (row->scenario->latency)
		return cli_time(text, row->value);
	snprintf(text, CLI_TEXT, "%.0f MB/s", row->value);
	return text;
}

static const char *demo_ratio(double ratio, char text[CLI_TEXT])
{
	if (ratio <= 0)
		return "-";
	snprintf(text, CLI_TEXT, "%.2f x", ratio);
	return text;
}

/* The name of the best Linux mmap row. */
static const char *demo_best_name(const struct row *row, char *text, size_t size)
{
	if (!row)
		return "";
	if (row->config.read_ahead_kb)
		snprintf(text, size, "read-ahead %u KB", row->config.read_ahead_kb);
	else
		snprintf(text, size, "%s%s", row->config.advice ? "advice " : "",
			 advice_names[row->config.advice]);
	return text;
}

static void demo_print_line(const struct group *group)
{
	const struct row *ours = group_hugemap(group);
	const struct row *best = group_best_linux(group);
	char a[CLI_TEXT], b[CLI_TEXT], c[CLI_TEXT], d[CLI_TEXT], e[CLI_TEXT], f[CLI_TEXT];
	char g[CLI_TEXT], name[48];

	printf("  %-28s %10s  %10s  %10s  %10s   %7s  %7s  %7s   %s\n", demo_title(group->scenario),
	       demo_cell(ours, a), demo_cell(group_default_linux(group), b), demo_cell(best, c),
	       demo_cell(group_of_engine(group, "device"), d),
	       demo_ratio(ours ? ours->ratio_default_linux : 0, e),
	       demo_ratio(ours ? ours->ratio_best_linux : 0, f),
	       demo_ratio(ours ? ours->ratio_device : 0, g),
	       demo_best_name(best, name, sizeof(name)));
}

void demo_print(const struct bench *bench)
{
	const struct group *group;
	char size[CLI_TEXT], cache[CLI_TEXT];

	cli_progress_clear();
	printf("\n  %-28s %10s  %10s  %10s  %10s   %s\n", "", "", "Linux", "best Linux", "limit of",
	       "HugeMap is better than");
	printf("  %-28s %10s  %10s  %10s  %10s   %7s  %7s  %7s   %s\n", "", "HugeMap", "mmap",
	       "mmap", "the device", "Linux", "best", "limit", "best Linux mmap was");
	for (group = bench->groups; group; group = group->next)
		demo_print_line(group);
	printf("\nMedians of %u runs of each in turn, on a file of %s with %s of cache for each "
	       "side.\n",
	       bench->settings.runs, cli_bytes(size, (double)bench->settings.size),
	       cli_bytes(cache, (double)bench->settings.pool));
	printf("HugeMap is the steered page cache, without a hint. Without --demo there are more "
	       "rows.\n");
	printf("\"Look up words\" is compared with anonymous memory in 2 MB pages instead of the "
	       "device.\n");
	fflush(stdout);
}
