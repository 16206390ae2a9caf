// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Rows: medians over the turns, and ratios of runs of the same turn. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

/* Returns MB/s, or the ns per operation of one worker. */
double result_value(const struct scenario *scenario, const struct result *result)
{
	uint64_t ops = 0;
	unsigned int i, workers = 0;

	if (!scenario->latency)
		return result->seconds > 0 ? (double)(result->bytes + result->left_bytes) / MB /
						     (result->seconds + result->left_s) :
					     0;
	for (i = 0; i < MAX_THREADS; i++) {
		ops += result->ops[i];
		workers += result->ops[i] > 0;
	}
	return ops ? result->seconds * workers / (double)ops * 1e9 : 0;
}

static int row_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double median(const double *values, unsigned int n)
{
	double sorted[MAX_RUNS];

	if (!n)
		return 0;
	memcpy(sorted, values, n * sizeof(*values));
	qsort(sorted, n, sizeof(*sorted), row_compare);
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* Performance of a row relative to another: the median over the turns; 0 = unknown. */
static double row_ratio(const struct row *row, const struct row *other)
{
	unsigned int n, i, valid = 0;
	double ratios[MAX_RUNS];

	if (!row || !other)
		return 0;
	n = row->nresults < other->nresults ? row->nresults : other->nresults;
	for (i = 0; i < n; i++) {
		double mine = result_value(row->scenario, &row->results[i]);
		double its = result_value(row->scenario, &other->results[i]);

		if (mine > 0 && its > 0)
			ratios[valid++] = row->scenario->latency ? its / mine : mine / its;
	}
	return median(ratios, valid);
}

static bool row_is_better(const struct row *row, const struct row *than)
{
	if (!row->value)
		return false;
	if (!than)
		return true;
	return row->scenario->latency ? row->value < than->value : row->value > than->value;
}

static bool row_is_engine(const struct row *row, const char *name)
{
	return !strcmp(row->config.engine->name, name);
}

bool config_is_hugemap(const struct config *config)
{
	return config->engine == &engine_steer || config->engine == &engine_kernel;
}

static bool row_is_default(const struct row *row)
{
	return row_is_engine(row, "linux-mmap") && row->config.advice == ADVICE_DEFAULT &&
	       !row->config.read_ahead_kb;
}

static void row_sum_up(struct row *row)
{
	double values[MAX_RUNS];
	unsigned int i;

	for (i = 0; i < row->nresults; i++) {
		values[i] = result_value(row->scenario, &row->results[i]);
		if (!i || values[i] < row->low)
			row->low = values[i];
		if (!i || values[i] > row->high)
			row->high = values[i];
	}
	row->value = median(values, row->nresults);
}

static const struct row *row_with_stock(const struct row *rows, unsigned int n, const char *engine)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (row_is_engine(&rows[i], engine) && rows[i].config.read_ahead_kb)
			return &rows[i];
	return NULL;
}

void rows_sum_up(struct row *rows, unsigned int n)
{
	const struct row *stock_linux = row_with_stock(rows, n, "linux-mmap");
	const struct row *stock_steer = row_with_stock(rows, n, "hugemap-steer");
	struct row *best = NULL, *usual = NULL, *device = NULL;
	unsigned int i;

	for (i = 0; i < n; i++) {
		row_sum_up(&rows[i]);
		/* Only root can set read_ahead_kb, so it does not count as advice. */
		if (row_is_engine(&rows[i], "linux-mmap") && !rows[i].config.read_ahead_kb &&
		    row_is_better(&rows[i], best))
			best = &rows[i];
		if (row_is_default(&rows[i]))
			usual = &rows[i];
		if (row_is_engine(&rows[i], "device"))
			device = &rows[i];
	}
	if (best)
		best->best_linux = true;
	for (i = 0; i < n; i++) {
		if (!config_is_hugemap(&rows[i].config) || rows[i].config.read_ahead_kb)
			continue;
		rows[i].ratio_device = row_ratio(&rows[i], device);
		rows[i].ratio_best_linux = row_ratio(&rows[i], best);
		rows[i].ratio_default_linux = row_ratio(&rows[i], usual);
		/* The kernel engine ignores read_ahead_kb. */
		rows[i].ratio_read_ahead =
			row_ratio(row_is_engine(&rows[i], "hugemap-steer") ? stock_steer : &rows[i],
				  stock_linux);
	}
}

double row_peak_mb(const struct row *row)
{
	uint64_t peak = 0;
	unsigned int i;

	for (i = 0; i < row->nresults; i++)
		if (row->results[i].peak_bytes > peak)
			peak = row->results[i].peak_bytes;
	return (double)peak / MB;
}

double row_ops(const struct row *row)
{
	double ops[MAX_RUNS] = {};
	unsigned int i, w;

	for (i = 0; i < row->nresults; i++)
		for (w = 0; w < row->threads; w++)
			ops[i] += (double)row->results[i].ops[w];
	return median(ops, row->nresults);
}

const struct row *group_default_linux(const struct group *group)
{
	unsigned int i;

	for (i = 0; i < group->nrows; i++)
		if (row_is_default(&group->rows[i]) && group->rows[i].nresults)
			return &group->rows[i];
	return NULL;
}

const struct row *group_best_linux(const struct group *group)
{
	unsigned int i;

	for (i = 0; i < group->nrows; i++)
		if (group->rows[i].best_linux)
			return &group->rows[i];
	return NULL;
}

/* The best row of an engine, with read_ahead_kb as found. */
const struct row *group_of_engine(const struct group *group, const char *name)
{
	const struct row *best = NULL;
	unsigned int i;

	for (i = 0; i < group->nrows; i++)
		if (row_is_engine(&group->rows[i], name) && !group->rows[i].config.read_ahead_kb &&
		    row_is_better(&group->rows[i], best))
			best = &group->rows[i];
	return best;
}

const struct row *group_hugemap(const struct group *group)
{
	const struct row *best = group_of_engine(group, "hugemap-steer");
	unsigned int i;

	if (best)
		return best;
	for (i = 0; i < group->nrows; i++)
		if (config_is_hugemap(&group->rows[i].config) &&
		    row_is_better(&group->rows[i], best))
			best = &group->rows[i];
	return best;
}
