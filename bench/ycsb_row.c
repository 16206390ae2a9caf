// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The rows of `hugemap bench ycsb`: medians and ratios of the runs of a workload. */
#include "ycsb_state.h"

#include <string.h>

static void ycsb_print_row(const struct program_row *row, enum mode mode, double of_plain,
			   double of_random)
{
	const char *side = program_median(row, "read_us", "p50") > 0 ? "read_us" : "write_us";
	double cpu = program_median(row, NULL, "user_s") + program_median(row, NULL, "sys_s");
	char p50[CLI_TEXT], p99[CLI_TEXT], plain[CLI_TEXT], random[CLI_TEXT];

	printf("  %-9s %8.0f %8s %8s %8s %8s %6.1f %8.0f %7.0f\n", ycsb_mode_names[mode],
	       row->value, program_ratio_text(plain, of_plain),
	       program_ratio_text(random, of_random),
	       cli_time(p50, 1e3 * program_median(row, side, "p50")),
	       cli_time(p99, 1e3 * program_median(row, side, "p99")),
	       1e6 * cpu / program_median(row, NULL, "ops"), program_median(row, NULL, "faults"),
	       program_median(row, NULL, "read_bytes") / MB);
}

static void ycsb_finish_row(struct ycsb *ycsb, const struct program_row *rows, enum mode mode,
			    unsigned int workload, unsigned int store)
{
	const struct program_row *row = &rows[mode];
	double of_plain = program_ratio(row, &rows[MODE_PLAIN]);
	double of_random = program_ratio(row, &rows[MODE_RANDOM]);

	json_array_append_new(ycsb->place.rows,
			      json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:b, s:O}", "workload",
					ycsb_workload_names[workload], "store",
					ycsb_store_names[store], "mode", ycsb_mode_names[mode],
					"ops_s", row->value, "ratio_plain", of_plain,
					"ratio_random", of_random, "warm",
					ycsb_is_warm(ycsb, workload, store), "runs", row->runs));
	if (!program_is_alone(&ycsb->place))
		ycsb_print_row(row, mode, of_plain, of_random);
}

struct ycsb_rows {
	struct ycsb *ycsb;
	unsigned int workload, store;
};

static json_t *ycsb_run_mode(void *arg, unsigned int mode, unsigned int turn, double *value)
{
	const struct ycsb_rows *mine = arg;
	json_t *result = ycsb_run_once(mine->ycsb, mode, mine->workload, mine->store, turn);

	if (result)
		*value = program_number(result, "ops") / program_number(result, "seconds");
	return result;
}

void ycsb_workload(struct ycsb *ycsb, unsigned int workload, unsigned int store)
{
	struct ycsb_rows mine = { ycsb, workload, store };
	unsigned int modes = ycsb->modes, i;
	struct program_row rows[MODES] = {};

	if (store == YCSB_LMDB)
		modes &= ~(1u << MODE_PREAD);
	program_run_turns(rows, MODES, modes, ycsb->runs, ycsb_run_mode, &mine);
	if (!program_is_alone(&ycsb->place))
		printf("\n%s, %s%s\n  %-9s %8s %8s %8s %8s %8s %6s %8s %7s\n",
		       ycsb_workload_names[workload], ycsb_store_names[store],
		       ycsb_is_warm(ycsb, workload, store) ? ", in memory" : "", "", "ops/s",
		       "of plain", "of rand.", "p50", "p99", "CPU us", "faults", "MB read");
	for (i = 0; i < MODES; i++)
		if (rows[i].n)
			ycsb_finish_row(ycsb, rows, i, workload, store);
	program_free_rows(rows, MODES);
	fflush(stdout);
}
