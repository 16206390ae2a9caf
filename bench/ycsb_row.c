// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The rows of `hugemap bench ycsb`: medians and ratios of the runs of a workload. */
#include "ycsb_state.h"

#include <string.h>

struct ycsb_row {
	enum mode mode;
	json_t *runs;
	double ops_s[MAX_RUNS], value;
	unsigned int n;
	bool failed;
};

static void ycsb_add_run(struct ycsb_row *row, json_t *result)
{
	row->failed = !result;
	if (!result)
		return;
	row->ops_s[row->n++] = ycsb_number(result, "ops") / ycsb_number(result, "seconds");
	json_array_append_new(row->runs, result);
}

static double ycsb_ratio(const struct ycsb_row *row, const struct ycsb_row *other)
{
	unsigned int n = row->n < other->n ? row->n : other->n, i;
	double ratios[MAX_RUNS];

	for (i = 0; i < n; i++)
		ratios[i] = row->ops_s[i] / other->ops_s[i];
	return median(ratios, n);
}

static double ycsb_median(const struct ycsb_row *row, const char *object, const char *key)
{
	double values[MAX_RUNS];
	unsigned int i;

	for (i = 0; i < row->n; i++) {
		const json_t *run = json_array_get(row->runs, i);

		values[i] = ycsb_number(object ? json_object_get(run, object) : run, key);
	}
	return median(values, row->n);
}

static void ycsb_print_row(const struct ycsb_row *row, double of_plain, double of_random)
{
	const char *side = ycsb_median(row, "read_us", "p50") > 0 ? "read_us" : "write_us";
	double cpu = ycsb_median(row, NULL, "user_s") + ycsb_median(row, NULL, "sys_s");
	char p50[CLI_TEXT], p99[CLI_TEXT], plain[CLI_TEXT] = "-", random[CLI_TEXT] = "-";

	if (of_plain > 0)
		snprintf(plain, sizeof(plain), "%.2f", of_plain);
	if (of_random > 0)
		snprintf(random, sizeof(random), "%.2f", of_random);
	printf("  %-9s %8.0f %8s %8s %8s %8s %6.1f %8.0f %7.0f\n", ycsb_mode_names[row->mode],
	       row->value, plain, random, cli_time(p50, 1e3 * ycsb_median(row, side, "p50")),
	       cli_time(p99, 1e3 * ycsb_median(row, side, "p99")),
	       1e6 * cpu / ycsb_median(row, NULL, "ops"), ycsb_median(row, NULL, "faults"),
	       ycsb_median(row, NULL, "read_bytes") / MB);
}

static void ycsb_finish_row(struct ycsb *ycsb, struct ycsb_row *row, const struct ycsb_row *rows,
			    unsigned int workload, unsigned int store)
{
	const struct ycsb_row *plain = &rows[MODE_PLAIN], *random = &rows[MODE_RANDOM];
	double of_plain = ycsb_ratio(row, plain), of_random = ycsb_ratio(row, random);

	json_array_append_new(ycsb->rows,
			      json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:b, s:o}", "workload",
					ycsb_workload_names[workload], "store",
					ycsb_store_names[store], "mode", ycsb_mode_names[row->mode],
					"ops_s", row->value, "ratio_plain", of_plain,
					"ratio_random", of_random, "warm",
					ycsb_is_warm(ycsb, workload, store), "runs", row->runs));
	if (!ycsb_alone(ycsb) && row->n)
		ycsb_print_row(row, of_plain, of_random);
}

void ycsb_workload(struct ycsb *ycsb, unsigned int workload, unsigned int store)
{
	struct ycsb_row rows[MODES] = {}, *row;
	unsigned int turn, i;

	for (i = 0; i < MODES; i++)
		rows[i] = (struct ycsb_row){ .mode = i, .runs = json_array() };
	for (turn = 0; turn < ycsb->runs; turn++)
		for (i = 0; i < MODES && !bench_interrupted(); i++) {
			row = &rows[turns_order(turn, i, MODES)];
			if (ycsb->modes & 1u << row->mode && !row->failed &&
			    (row->mode != MODE_PREAD || store != YCSB_LMDB))
				ycsb_add_run(row,
					     ycsb_run_once(ycsb, row->mode, workload, store, turn));
		}
	cli_progress_clear();
	if (!ycsb_alone(ycsb))
		printf("\n%s, %s%s\n  %-9s %8s %8s %8s %8s %8s %6s %8s %7s\n",
		       ycsb_workload_names[workload], ycsb_store_names[store],
		       ycsb_is_warm(ycsb, workload, store) ? ", in memory" : "", "", "ops/s",
		       "of plain", "of rand.", "p50", "p99", "CPU us", "faults", "MB read");
	for (i = 0; i < MODES; i++)
		rows[i].value = median(rows[i].ops_s, rows[i].n);
	for (i = 0; i < MODES; i++) {
		if (rows[i].n)
			ycsb_finish_row(ycsb, &rows[i], rows, workload, store);
		else
			json_decref(rows[i].runs);
	}
	fflush(stdout);
}
