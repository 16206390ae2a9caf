// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The results as JSON. MB are 2^20 bytes; times are seconds unless their name ends in ns. */
#include "bench.h"
#include "cost.h"
#include "limit.h"
#include "verdict.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/utsname.h>
#include <jansson.h>

#define FORMAT 3

static json_t *bench_json_number(double value)
{
	return value > 0 ? json_real(value) : json_null();
}

static json_t *bench_json_text(const char *text)
{
	return text && *text ? json_string(text) : json_null();
}

/* --- rows --- */

static json_t *bench_json_value(const struct scenario *scenario, double value, bool latency)
{
	return scenario->latency == latency ? bench_json_number(value) : json_null();
}

/* The calls and the bytes of each kind of advice that steering gave. */
static json_t *bench_json_steered(const struct steered *steered)
{
	json_t *acts = json_object();
	unsigned int act;

	for (act = 0; act < STEER_ACTS; act++)
		if (steered->count[act])
			json_object_set_new(acts, steer_act_names[act],
					    json_pack("{s:I, s:I}", "calls",
						      (json_int_t)steered->count[act], "bytes",
						      (json_int_t)steered->bytes[act]));
	return json_pack("{s:s, s:o, s:I, s:f, s:f, s:o}", "pattern",
			 steer_pattern_names[steered->pattern], "reason",
			 bench_json_text(steered->reason), "scans", (json_int_t)steered->scans,
			 "scan_s", (double)steered->scan_ns / 1e9, "advice_s",
			 (double)steered->advice_ns / 1e9, "advice", acts);
}

static json_t *bench_json_curve(const struct curve *curve)
{
	double before = 0, after = 0;
	json_t *samples = json_array();
	unsigned int i;

	curve_sides(curve, &before, &after);
	for (i = 0; i < curve->n; i++)
		json_array_append_new(samples, json_integer((json_int_t)curve->bytes[i]));
	return json_pack("{s:f, s:o, s:o, s:o, s:o, s:o}", "step_s", CURVE_STEP_S, "bytes", samples,
			 "full_s", bench_json_number(curve->full * CURVE_STEP_S), "before_mb_s",
			 bench_json_number(before), "after_mb_s", bench_json_number(after), "ratio",
			 before > 0 ? json_real(after / before) : json_null());
}

static json_t *bench_json_run(const struct row *row, const struct result *result)
{
	const struct scenario *scenario = row->scenario;
	double value = result_value(scenario, result);
	uint64_t ops = 0;
	unsigned int i;
	json_t *run;

	for (i = 0; i < row->threads; i++)
		ops += result->ops[i];
	run = json_pack(
		"{s:o, s:o, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f}",
		"mb_s", bench_json_value(scenario, value, false), "ns_op",
		bench_json_value(scenario, value, true), "seconds", result->seconds, "user_s",
		result->user_s, "sys_s", result->sys_s, "pool_s", result->pool_s, "bytes",
		(json_int_t)result->bytes, "ops", (json_int_t)ops, "faults",
		(json_int_t)result->faults, "hits", (json_int_t)result->hits, "ahead",
		(json_int_t)result->ahead, "ahead_used", (json_int_t)result->ahead_used, "peak_mb",
		(double)result->peak_bytes / MB, "group_peak_mb",
		(double)result->group_peak_bytes / MB, "warm", result->warm);
	if (result->instructions)
		json_object_set_new(run, "instructions",
				    json_integer((json_int_t)result->instructions));
	json_object_set_new(run, "machine_time",
			    json_pack("{s:f, s:f, s:f, s:f}", "user", result->machine.user,
				      "system", result->machine.system, "iowait",
				      result->machine.iowait, "idle", result->machine.idle));
	if (scenario->curve)
		json_object_set_new(run, "curve", bench_json_curve(&result->curve));
	if (result->left_s > 0)
		json_object_set_new(run, "left_s", json_real(result->left_s));
	if (row->config.engine == &engine_steer)
		json_object_set_new(run, "steered", bench_json_steered(&result->steered));
	return run;
}

static const char *bench_json_page(const struct row *row)
{
	if (row->config.engine != &engine_kernel)
		return NULL;
	return hugemap_page_names[row->config.page];
}

static json_t *bench_json_runs(const struct row *row)
{
	json_t *runs = json_array();
	unsigned int i;

	for (i = 0; i < row->nresults; i++)
		json_array_append_new(runs, bench_json_run(row, &row->results[i]));
	return runs;
}

static json_t *bench_json_row(const struct row *row)
{
	const struct scenario *scenario = row->scenario;
	bool mmap = row->config.engine == &engine_linux_mmap;
	bool device = row->config.engine == &engine_device;
	char title[64];
	json_t *object;

	object = json_pack("{s:s, s:s, s:s, s:o, s:o, s:i, s:i, s:o, s:I, s:b}", "scenario",
			   scenario->name, "engine", row->config.engine->name, "title",
			   config_title(&row->config, scenario, title, sizeof(title)), "page",
			   bench_json_text(bench_json_page(row)), "advice",
			   mmap ? json_string(advice_names[row->config.advice]) : json_null(),
			   "read_ahead_kb", row->read_ahead_kb, "threads", row->threads, "depth",
			   device ? json_integer(row->config.depth) : json_null(), "pool_bytes",
			   (json_int_t)row->pool_bytes, "limited", row->limited);
	json_object_set_new(object, "mb_s", bench_json_value(scenario, row->value, false));
	json_object_set_new(object, "ns_op", bench_json_value(scenario, row->value, true));
	json_object_set_new(object, "low", bench_json_number(row->low));
	json_object_set_new(object, "high", bench_json_number(row->high));
	json_object_set_new(object, "faults", json_real(ROW_MEDIAN(row, faults)));
	json_object_set_new(object, "user_s", json_real(ROW_MEDIAN(row, user_s)));
	json_object_set_new(object, "sys_s", json_real(ROW_MEDIAN(row, sys_s)));
	json_object_set_new(object, "seconds", json_real(ROW_MEDIAN(row, seconds)));
	json_object_set_new(object, "pool_s", json_real(ROW_MEDIAN(row, pool_s)));
	json_object_set_new(object, "bytes", json_integer((json_int_t)ROW_MEDIAN(row, bytes)));
	json_object_set_new(object, "peak_mb", json_real(row_peak_mb(row)));
	json_object_set_new(object, "huge_mb",
			    scenario->in_memory ? json_real(ROW_MEDIAN(row, huge_bytes) / MB) :
						  json_null());
	json_object_set_new(object, "ratio_device", bench_json_number(row->ratio_device));
	json_object_set_new(object, "ratio_best_linux", bench_json_number(row->ratio_best_linux));
	json_object_set_new(object, "ratio_default_linux",
			    bench_json_number(row->ratio_default_linux));
	json_object_set_new(object, "ratio_read_ahead", bench_json_number(row->ratio_read_ahead));
	json_object_set_new(object, "best_linux", json_boolean(row->best_linux));
	json_object_set_new(object, "error", bench_json_text(row->failed));
	json_object_set_new(object, "runs", bench_json_runs(row));
	return object;
}

static json_t *bench_json_rows(const struct bench *bench)
{
	const struct group *group;
	json_t *rows = json_array();
	unsigned int i;

	for (group = bench->groups; group; group = group->next)
		for (i = 0; i < group->nrows; i++)
			json_array_append_new(rows, bench_json_row(&group->rows[i]));
	return rows;
}

static json_t *bench_json_cost(const struct bench *bench)
{
	const struct group *group;
	json_t *list = json_array();
	struct cost cost;

	for (group = bench->groups; group; group = group->next)
		if (cost_find(group, &cost))
			json_array_append_new(list, json_pack("{s:i, s:o, s:o, s:o, s:o, s:b}",
							      "threads", group->threads, "time",
							      bench_json_number(cost.time), "cpu",
							      bench_json_number(cost.cpu), "faults",
							      bench_json_number(cost.faults),
							      "instructions",
							      bench_json_number(cost.instructions),
							      "met", cost_met(&cost)));
	return list;
}

static json_t *bench_json_verdicts(const struct bench *bench)
{
	struct verdicts sum = verdicts_sum_up(bench);
	const struct group *group;
	json_t *list = json_array();
	struct verdict verdict;
	char best[64];

	for (group = bench->groups; group; group = group->next) {
		if (!verdict_find(bench, group, &verdict))
			continue;
		config_title(&verdict.best->config, group->scenario, best, sizeof(best));
		json_array_append_new(
			list, json_pack("{s:s, s:i, s:s, s:o, s:o, s:o, s:f, s:o, s:b, s:b}",
					"scenario", group->scenario->name, "threads",
					group->threads, "best_linux", best, "ratio_best_linux",
					bench_json_number(verdict.row->ratio_best_linux),
					"ratio_default_linux",
					bench_json_number(verdict.row->ratio_default_linux),
					"ratio_read_ahead", bench_json_number(verdict.read_ahead),
					"wanted", verdict.wanted, "wanted_read_ahead",
					bench_json_number(verdict.wanted_read_ahead), "met",
					verdict.met, "better", verdict.better));
	}
	return json_pack("{s:o, s:o, s:i, s:i, s:i, s:b}", "each", list, "cost",
			 bench_json_cost(bench), "count", sum.n, "met", sum.met, "better",
			 sum.better, "all_met", sum.all_met);
}

/* --- the machine and the settings --- */

static void bench_json_cpu_name(char *name, size_t size)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[256];

	snprintf(name, size, "unknown");
	if (!file)
		return;
	while (fgets(line, sizeof(line), file)) {
		char *value = strchr(line, ':');

		if (strncmp(line, "model name", 10) || !value)
			continue;
		value[strcspn(value, "\n")] = '\0';
		snprintf(name, size, "%s", value + 2);
		break;
	}
	fclose(file);
}

static json_t *bench_json_machine(void)
{
	unsigned long long memory_kb = 0, swap_kb = 0;
	struct utsname uts;
	char cpu[128];

	uname(&uts);
	bench_json_cpu_name(cpu, sizeof(cpu));
	read_field("/proc/meminfo", "MemTotal:", &memory_kb);
	read_field("/proc/meminfo", "SwapTotal:", &swap_kb);
	return json_pack("{s:s, s:s, s:i, s:f, s:f}", "cpu", cpu, "architecture", uts.machine,
			 "cpus", (int)sysconf(_SC_NPROCESSORS_ONLN), "memory_mb",
			 (double)memory_kb / 1024, "swap_mb", (double)swap_kb / 1024);
}

static json_t *bench_json_device(const struct volume *volume, const struct limits *limits)
{
	return json_pack("{s:o, s:o, s:o, s:i}", "name", bench_json_text(volume->device), "model",
			 bench_json_text(volume->model), "scheduler",
			 bench_json_text(volume->scheduler), "read_ahead_kb",
			 limits_read_ahead(limits));
}

json_t *json_head(const char *program, int format, time_t start, const struct volume *volume,
		  const struct limits *limits)
{
	struct utsname uts;
	struct tm tm;
	char date[32];

	uname(&uts);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&start, &tm));
	return json_pack(
		"{s:s, s:i, s:s, s:s, s:o, s:s, s:{s:s, s:s, s:s}, s:o, s:{s:s, s:o, s:f}}",
		"program", program, "format", format, "version", HUGEMAP_VERSION_STRING, "date",
		date, "machine", bench_json_machine(), "kernel", uts.release, "file_system", "type",
		volume->type, "options", volume->options, "dir", volume->dir, "device",
		bench_json_device(volume, limits), "memory_limit", "kind", limits_kind(limits),
		"why", bench_json_text(limits_why(limits)), "allowance_mb", (double)ALLOWANCE / MB);
}

static json_t *bench_json_settings(const struct bench *bench)
{
	const struct settings *settings = &bench->settings;
	char enabled[32] = "", defrag[32] = "";
	json_t *threads = json_array();
	unsigned int i;

	for (i = 0; i < settings->nthreads; i++)
		json_array_append_new(threads, json_integer(settings->threads[i]));
	read_choice("/sys/kernel/mm/transparent_hugepage/enabled", enabled, sizeof(enabled));
	read_choice("/sys/kernel/mm/transparent_hugepage/defrag", defrag, sizeof(defrag));
	return json_pack("{s:I, s:I, s:i, s:o, s:b, s:b, s:b, s:o, s:o}", "size_bytes",
			 (json_int_t)settings->size, "pool_bytes", (json_int_t)settings->pool,
			 "runs", settings->runs, "threads", threads, "quick", settings->quick,
			 "own_file", !!settings->file, "fast_device", settings->fast, "thp_enabled",
			 bench_json_text(enabled), "thp_defrag", bench_json_text(defrag));
}

static json_t *bench_json_strings(const char (*strings)[256], unsigned int n)
{
	json_t *list = json_array();
	unsigned int i;

	for (i = 0; i < n; i++)
		json_array_append_new(list, json_string(strings[i]));
	return list;
}

int json_save(json_t *json, const char *path)
{
	FILE *to = strcmp(path, "-") ? fopen(path, "we") : stdout;
	int err;

	if (!to || !json) {
		err = to ? -EINVAL : -errno;
	} else {
		err = cli_write_json(to, json);
		if (to != stdout && fclose(to) && !err)
			err = -errno;
	}
	json_decref(json);
	return err;
}

int json_write(const struct bench *bench, const char *path)
{
	json_t *json =
		json_head("hugemap bench", FORMAT, bench->date, &bench->volume, bench->limits);

	json_object_set_new(json, "settings", bench_json_settings(bench));
	json_object_set_new(json, "kernel_engine_reason", bench_json_text(bench->kernel_reason));
	json_object_set_new(json, "rows", bench_json_rows(bench));
	json_object_set_new(json, "verdicts", bench_json_verdicts(bench));
	json_object_set_new(json, "notes", bench_json_strings(bench->notes, bench->nnotes));
	json_object_set_new(json, "errors", bench_json_strings(bench->errors, bench->nerrors));
	return json_save(json, path);
}
