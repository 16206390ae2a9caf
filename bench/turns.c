// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Turns: every config runs once, then every config runs again. So changes on the machine
 * over the minutes affect all configs alike.
 */
#include "bench.h"
#include "child.h"
#include "limit.h"
#include "run.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK (2 * MB)
/* The most bytes that a scenario with many syncs writes: some hundred syncs are enough. */
#define LOG_MAX(bench) ((bench)->settings.quick ? 64 * MB : 256 * MB)

/* The most time of a run whose throughput is recorded over time. */
#define CURVE_SECONDS 30.0

/* Small enough for any memory limit, and large enough to be steered. */
#define COST_FILE (32 * MB)

struct turns {
	struct bench *bench;
	const struct scenario *scenario;
	struct group *group;
	unsigned int threads;
	uint64_t pool, bytes;
	uint64_t reference; /* the sum of the first run, if the content is not known */
	bool has_reference;
	const char *doing; /* shown as progress */
};

static void turns_progress(const struct turns *turns, const char *title)
{
	const struct bench *bench = turns->bench;
	double spent = cli_now() - bench->started;
	char left[48] = "";

	if (bench->runs_done >= 3) {
		double seconds =
			spent / bench->runs_done * (bench->runs_planned - bench->runs_done);

		if (seconds < 90)
			snprintf(left, sizeof(left), ", %.0f s left", seconds);
		else
			snprintf(left, sizeof(left), ", %.0f min left", seconds / 60);
	}
	cli_progress("[%u of %u%s] %s, %u %s, %s: %s", bench->runs_done, bench->runs_planned, left,
		     turns->scenario->name, turns->threads,
		     scenario_workers(turns->scenario, turns->threads), turns->doing, title);
}

/* --- a run --- */

static uint64_t turns_max_ops(const struct turns *turns, uint64_t bytes)
{
	const struct scenario *scenario = turns->scenario;
	bool quick = turns->bench->settings.quick;

	if (scenario->in_memory)
		return (quick ? 1ull << 22 : 1ull << 24) * turns->threads;
	return scenario->pages_an_op ? bytes / CONTENT_PAGE / scenario->pages_an_op : 0;
}

static struct run turns_make_run(const struct turns *turns, const struct config *config,
				 unsigned int turn)
{
	struct bench *bench = turns->bench;
	const struct scenario *scenario = turns->scenario;
	double pass = (double)turns->bytes / MB / bench->device_mb_s;

	return (struct run){
		.child = child_main,
		.scenario = scenario,
		.config = config,
		.content = scenario->writes ? bench->write_content : bench->read_content,
		.path = scenario->own_files ? bench->own_dir :
			scenario->writes    ? bench->write_path :
					      bench->read_path,
		.bytes = turns->bytes,
		.pool_bytes = turns->pool,
		.read_ahead_kb = config->read_ahead_kb,
		.limit_bytes = (config->engine == &engine_kernel ? 0 : turns->pool) + ALLOWANCE,
		.threads = turns->threads,
		/* The device is faster with larger pieces. */
		.op_bytes = config->engine == &engine_device && scenario->device_op_bytes ?
				    scenario->device_op_bytes :
				    scenario->op_bytes,
		.ops_max = turns_max_ops(turns, turns->bytes),
		/* In memory every run does the same number of loads: their sums are compared. */
		.seconds_max = scenario->in_memory ? 0 :
			       scenario->curve	   ? CURVE_SECONDS :
						     bench_run_seconds(bench),
		.timeout_s = 30 + CURVE_SECONDS + 20 * pass,
		.seed = scenario->in_memory ? 1 : turn + 1,
		.limits = bench->limits,
		.result = bench->shared,
	};
}

static bool turns_create_files(struct bench *bench, const struct run *run)
{
	bool fresh = run->scenario->fresh;

	if (run->scenario->own_files)
		return files_create_own(bench, run);
	if (!run->scenario->writes)
		return files_create_read(bench);
	return files_create_write(bench, fresh ? run->bytes : bench->settings.size, fresh);
}

/* Bring the file into the state in which the run has to find it. */
static bool turns_prepare(struct turns *turns, struct run *run)
{
	struct bench *bench = turns->bench;

	if (!run->scenario->writes) {
		run->result->warm = files_evict_run(run);
		return true;
	}
	run->generation = ++bench->generation;
	if (run->scenario->tail && !files_cut_tail(bench, run->bytes))
		return false;
	if (!turns_create_files(bench, run))
		return false;
	run->result->warm = run->scenario->fresh ? 0 : files_evict_run(run);
	return true;
}

static bool turns_check_sum(struct turns *turns, const struct run *run)
{
	struct result *result = run->result;
	bool unseen = run->config->engine->pump && run->scenario->deep;
	uint64_t want;

	if (run->scenario->in_memory && turns->bench->settings.file) {
		/* If the user provides the file, only the sums of whole pages are known. */
		if (!turns->has_reference)
			turns->reference = result->sum;
		turns->has_reference = true;
		want = turns->reference;
	} else {
		want = scenario_expect(run);
	}
	if (unseen || want == result->sum)
		return true;
	snprintf(result->error, sizeof(result->error),
		 "it has read wrong data: the sum is %016llx instead of %016llx",
		 (unsigned long long)result->sum, (unsigned long long)want);
	return false;
}

static bool turns_do_run(struct turns *turns, struct run *run)
{
	bool ok;

	if (!turns_prepare(turns, run)) {
		snprintf(run->result->error, sizeof(run->result->error),
			 "there is no file to work on");
		return false;
	}
	ok = run_carry_out(run) && turns_check_sum(turns, run);
	if (run->scenario->writes)
		run->content->known =
			ok && (run->content->known || run->bytes == turns->bench->settings.size);
	return ok;
}

/* --- a turn --- */

static void turns_fail_row(struct turns *turns, struct row *row, const char *title, const char *why)
{
	if (bench_interrupted())
		return;
	snprintf(row->failed, sizeof(row->failed), "%s", why);
	bench_error(turns->bench, "%s, %u %s, %s: %s", turns->scenario->name, turns->threads,
		    scenario_workers(turns->scenario, turns->threads), title, why);
}

static void turns_one_run(struct turns *turns, struct row *row, unsigned int turn, bool last)
{
	struct bench *bench = turns->bench;
	struct run run = turns_make_run(turns, &row->config, turn);
	char title[64], wrong[128];

	config_title(&row->config, turns->scenario, title, sizeof(title));
	turns_progress(turns, title);
	if (!turns_do_run(turns, &run)) {
		turns_fail_row(turns, row, title, run.result->error);
		return;
	}
	if (run.result->warm > 0.01 && !turns->scenario->in_memory)
		bench_note(bench,
			   "%.0f %% of the file could not be dropped from the page cache before "
			   "some runs: Linux was not quite cold there.",
			   100 * run.result->warm);
	if (run.result->left_s > 0)
		bench_note(
			bench,
			"In %s, the random part of some runs was ended by the clock; the rest is "
			"counted in as it would have gone on.",
			turns->scenario->name);
	if (last && turns->scenario->writes && !files_verify(bench, &run, wrong, sizeof(wrong))) {
		bench->write_content->known = false;
		turns_fail_row(turns, row, title, wrong);
		return;
	}
	row->results[row->nresults++] = *run.result;
	bench->runs_done++;
}

unsigned int turns_order(unsigned int turn, unsigned int i, unsigned int n)
{
	return ((turn & 1 ? n - i : i) + turn) % n;
}

/* Returns whether --quick has time for another turn. */
static bool turns_in_time(const struct bench *bench, double turn_seconds)
{
	return !bench->deadline || cli_now() + turn_seconds < bench->deadline;
}

static void turns_take(struct turns *turns)
{
	struct bench *bench = turns->bench;
	struct group *group = turns->group;
	unsigned int runs = bench->settings.runs, turn, i;
	double turn_seconds = 0;
	char doing[48];

	for (turn = 0; turn < runs && !bench_interrupted(); turn++) {
		double start = cli_now();

		if (turn && !turns_in_time(bench, turn_seconds)) {
			bench_note(bench,
				   "%s had %u turns instead of %u: the device is too slow for more "
				   "in the time of --quick.",
				   turns->scenario->name, turn, runs);
			bench->runs_planned -= (runs - turn) * group->nrows;
			return;
		}
		snprintf(doing, sizeof(doing), "turn %u of %u", turn + 1, runs);
		turns->doing = doing;
		for (i = 0; i < group->nrows && !bench_interrupted(); i++) {
			struct row *row = &group->rows[turns_order(turn, i, group->nrows)];

			if (!row->failed[0])
				turns_one_run(turns, row, turn, turn + 1 == runs);
		}
		turn_seconds = cli_now() - start;
	}
}

/* --- the depth at which the device is fastest --- */

static double turns_try_depth(struct turns *turns, struct config *config)
{
	struct run run = turns_make_run(turns, config, 0);

	if (!turns_do_run(turns, &run))
		return 0;
	return result_value(turns->scenario, run.result);
}

static unsigned int turns_best_depth(struct turns *turns)
{
	static const unsigned int depths[] = { 1, 2, 4, 8, 16 };
	bool quick = turns->bench->settings.quick;
	unsigned int times = quick ? 1 : 2, best = 1, i, n;
	uint64_t bytes = turns->bytes, max = quick ? 256 * MB : 1 * GB;
	double most_mb_s = 0;

	if (turns->bytes > max)
		turns->bytes = max;
	turns->doing = "trying depths";
	for (n = 0; n < times; n++) {
		for (i = 0; i < sizeof(depths) / sizeof(depths[0]) && !bench_interrupted(); i++) {
			struct config config = { .engine = &engine_device, .depth = depths[i] };
			double mb_s;

			turns_progress(turns, "device");
			mb_s = turns_try_depth(turns, &config);
			if (mb_s > most_mb_s) {
				most_mb_s = mb_s;
				best = depths[i];
			}
		}
	}
	turns->bytes = bytes;
	return best;
}

/* --- a scenario --- */

static struct group *turns_add_group(struct turns *turns)
{
	struct bench *bench = turns->bench;
	struct config configs[MAX_CONFIGS];
	struct group *group = calloc(1, sizeof(*group)), **at = &bench->groups;
	unsigned int i;

	if (!group)
		return NULL;
	group->scenario = turns->scenario;
	group->threads = turns->threads;
	group->nrows = plan_configs(bench, turns->scenario, configs);
	group->rows = calloc(group->nrows + 1, sizeof(*group->rows));
	if (!group->rows) {
		free(group);
		return NULL;
	}
	for (i = 0; i < group->nrows; i++) {
		struct row *row = &group->rows[i];

		row->config = configs[i];
		row->scenario = turns->scenario;
		row->threads = turns->threads;
		row->pool_bytes = turns->pool;
		row->limited = limits_work(bench->limits);
		row->read_ahead_kb = configs[i].read_ahead_kb ? configs[i].read_ahead_kb :
								limits_read_ahead(bench->limits);
	}
	while (*at)
		at = &(*at)->next;
	*at = group;
	return group;
}

static uint64_t turns_round_down(uint64_t bytes)
{
	return bytes / BLOCK * BLOCK;
}

void turns_run(struct bench *bench, const struct scenario *scenario, unsigned int threads)
{
	struct turns turns = {
		.bench = bench,
		.scenario = scenario,
		.threads = threads,
		.pool = turns_round_down(scenario->eighth ? bench->settings.size / 8 :
							    bench->settings.pool),
		.bytes = bench->settings.size,
	};
	struct run run;
	unsigned int i;

	if (turns.pool < POOL_MIN)
		turns.pool = POOL_MIN;
	if (scenario->cost && turns.bytes > COST_FILE)
		turns.bytes = COST_FILE;
	else if (scenario->in_memory && turns.bytes > turns.pool / 4 * 3)
		turns.bytes = turns_round_down(turns.pool / 4 * 3);
	if (scenario->sync_bytes && turns.bytes > LOG_MAX(bench))
		turns.bytes = LOG_MAX(bench);
	if (scenario->twice && turns.bytes > 2 * (turns.pool + ALLOWANCE))
		turns.bytes = 2 * (turns.pool + ALLOWANCE);
	turns.group = turns_add_group(&turns);
	if (!turns.group)
		return;
	run = turns_make_run(&turns, &turns.group->rows[0].config, 0);
	if (!turns_create_files(bench, &run))
		return;
	for (i = 0; i < turns.group->nrows; i++)
		if (turns.group->rows[i].config.engine == &engine_device && scenario->deep)
			turns.group->rows[i].config.depth = turns_best_depth(&turns);
	turns_take(&turns);
	/* The second half of the file is a hole, or the data is in files of the processes. */
	if (scenario->tail || (scenario->own_files && scenario->writes))
		bench->write_content->known = false;
	rows_sum_up(turns.group->rows, turns.group->nrows);
}
