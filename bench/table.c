// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The results as tables. */
#include "bench.h"
#include "limit.h"

#include <langinfo.h>
#include <string.h>
#include <sys/utsname.h>

#define BAR 24

static const char *table_value(const struct scenario *scenario, double value, char text[CLI_TEXT])
{
	if (scenario->latency)
		return cli_time(text, value);
	snprintf(text, CLI_TEXT, "%.0f", value);
	return text;
}

/* The best row has a full bar. The longer a bar, the better its row. */
static const char *table_bar(const struct row *row, double best, char text[3 * BAR + 1])
{
	const char *mark = strcmp(nl_langinfo(CODESET), "UTF-8") ? "#" : "\xe2\x96\x88";
	double share = 0;
	unsigned int n, i;

	if (row->value > 0 && best > 0)
		share = row->scenario->latency ? best / row->value : row->value / best;
	n = (unsigned int)(share * BAR + 0.5);
	text[0] = '\0';
	for (i = 0; i < n && i < BAR; i++)
		strcat(text, mark);
	for (; i < BAR; i++)
		strcat(text, " ");
	return text;
}

/* CPU time for the work: ms a GB, or us an operation. */
static double table_cpu_cost(const struct row *row)
{
	double cpu = ROW_MEDIAN(row, user_s) + ROW_MEDIAN(row, sys_s);
	double amount;

	if (row->scenario->latency) {
		amount = row_ops(row);
		return amount > 0 ? cpu / amount * 1e6 : 0;
	}
	amount = ROW_MEDIAN(row, bytes) / GB;
	return amount > 0 ? cpu / amount * 1e3 : 0;
}

static double table_best_value(const struct group *group)
{
	double best = 0;
	unsigned int i;

	for (i = 0; i < group->nrows; i++) {
		double value = group->rows[i].value;

		if (value > 0 &&
		    (!best || (group->scenario->latency ? value < best : value > best)))
			best = value;
	}
	return best;
}

static void table_print_row(const struct row *row, double best)
{
	char title[64], low[CLI_TEXT], high[CLI_TEXT], value[CLI_TEXT], range[2 * CLI_TEXT + 4];
	char line[3 * BAR + 1];

	config_title(&row->config, row->scenario, title, sizeof(title));
	if (!row->nresults) {
		printf("  %-32s  failed: %s\n", title, row->failed);
		return;
	}
	snprintf(range, sizeof(range), "%s - %s", table_value(row->scenario, row->low, low),
		 table_value(row->scenario, row->high, high));
	printf("  %-32s %9s  %-19s  %s %8.*f %9.0f\n", title,
	       table_value(row->scenario, row->value, value), range, table_bar(row, best, line),
	       row->scenario->latency ? 2 : 0, table_cpu_cost(row), ROW_MEDIAN(row, faults));
}

/* Print the scans, the access pattern and the advice of steering in the last run. */
static void table_print_steered(const struct steered *steered)
{
	unsigned int act;

	if (!steered->scans)
		return;
	printf("    seen as %s; %llu scans, %.1f ms; advice %.1f ms:",
	       steer_pattern_names[steered->pattern], (unsigned long long)steered->scans,
	       (double)steered->scan_ns / 1e6, (double)steered->advice_ns / 1e6);
	for (act = 0; act < STEER_ACTS; act++)
		if (steered->count[act])
			printf(" %s %llu x, %.0f MB;", steer_act_names[act],
			       (unsigned long long)steered->count[act],
			       (double)steered->bytes[act] / MB);
	printf(" %s\n", steered->reason);
}

static void table_print_verdict(const struct row *row)
{
	char title[64];

	if (!row->nresults || !config_is_hugemap(&row->config) || row->config.read_ahead_kb)
		return;
	config_title(&row->config, row->scenario, title, sizeof(title));
	printf("  %s:", title);
	if (row->ratio_best_linux > 0)
		printf(" %.2f x the best Linux mmap,", row->ratio_best_linux);
	if (row->ratio_default_linux > 0)
		printf(" %.2f x the default,", row->ratio_default_linux);
	if (row->ratio_read_ahead > 0)
		printf(" %.2f x the default if read_ahead_kb is %u,", row->ratio_read_ahead,
		       STOCK_READ_AHEAD_KB);
	if (row->ratio_device > 0)
		printf(" %.2f of %s,", row->ratio_device,
		       row->scenario->in_memory ? "anonymous memory" : "the device");
	printf(" peak %.0f MB\n", row_peak_mb(row));
	if (row->config.engine == &engine_steer)
		table_print_steered(&row->results[row->nresults - 1].steered);
	if (row->scenario->in_memory && !row->scenario->cost)
		printf("  %.0f of %.0f MB of the data are mapped by 2 MB pages\n",
		       ROW_MEDIAN(row, huge_bytes) / MB, (double)(row->pool_bytes / 4 * 3) / MB);
}

static void table_print_curve(const struct row *row)
{
	double before[MAX_RUNS], after[MAX_RUNS], ratio[MAX_RUNS];
	unsigned int i, n = 0;
	char title[64];

	if (!row->nresults)
		return;
	for (i = 0; i < row->nresults; i++)
		if (curve_sides(&row->results[i].curve, &before[n], &after[n])) {
			ratio[n] = after[n] / before[n];
			n++;
		}
	config_title(&row->config, row->scenario, title, sizeof(title));
	if (n)
		printf("  %-32s %9.0f MB/s until full, %.0f after: %.2f\n", title,
		       median(before, n), median(after, n), median(ratio, n));
	else
		printf("  %-32s memory was full too early, or never\n", title);
}

void table_intro(const struct bench *bench)
{
	const struct settings *settings = &bench->settings;
	char size[CLI_TEXT], cache[CLI_TEXT];
	struct utsname name;

	uname(&name);
	printf("hugemap bench: %s of %s in %s (%s%s%s), Linux %s, %u turn%s\n",
	       cli_bytes(size, (double)settings->size), settings->file ? settings->file : "data",
	       bench->volume.dir, bench->volume.type, bench->volume.device[0] ? " on " : "",
	       bench->volume.device, name.release, settings->runs, settings->runs == 1 ? "" : "s");
	printf("Memory: %s of cache and %llu MB beside it for every run%s.\n",
	       cli_bytes(cache, (double)settings->pool), ALLOWANCE / MB,
	       limits_work(bench->limits) ? "" : ", NOT enforced");
	if (!limits_work(bench->limits))
		printf("%s.\n", limits_why(bench->limits));
	if (limits_read_ahead(bench->limits))
		printf("read_ahead_kb of the device is %u; most machines have %u.\n",
		       limits_read_ahead(bench->limits), STOCK_READ_AHEAD_KB);
	printf("Memory of this size is touched before each run, as a virtual machine gets it only "
	       "then.\n");
	printf("A run of single operations ends after a number of them, or after %.1f s.\n",
	       bench_run_seconds(bench));
	printf("Numbers are medians over the turns.\n");
}

void table_print(const struct bench *bench, const struct group *group)
{
	const struct scenario *scenario = group->scenario;
	double best = table_best_value(group);
	unsigned int i;

	cli_progress_clear();
	printf("\n%s: %s, %u %s\n", scenario->name, scenario->title, group->threads,
	       scenario_workers(scenario, group->threads));
	printf("  %-32s %9s  %-19s  %-*s %8s %9s\n", "", scenario->latency ? "time" : "MB/s",
	       "lowest - highest", BAR, "", scenario->latency ? "CPU us" : "CPU ms/GB", "faults");
	for (i = 0; i < group->nrows; i++)
		table_print_row(&group->rows[i], best);
	for (i = 0; scenario->curve && i < group->nrows; i++)
		table_print_curve(&group->rows[i]);
	for (i = 0; i < group->nrows; i++)
		table_print_verdict(&group->rows[i]);
	fflush(stdout);
}

void table_notes(const struct bench *bench)
{
	unsigned int i;

	cli_progress_clear();
	for (i = 0; i < bench->nnotes; i++)
		printf("%sNote: %s\n", i ? "" : "\n", bench->notes[i]);
	for (i = 0; i < bench->nerrors; i++)
		printf("%sFAILED: %s\n", i ? "" : "\n", bench->errors[i]);
	fflush(stdout);
}
