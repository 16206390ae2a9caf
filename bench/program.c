// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "program.h"
#include "guard.h"
#include "limit.h"
#include "run.h"
#include "undo.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_ARGS 16u
#define FORMAT 1

int program_begin(struct program_place *place)
{
	const struct cli_command *command = place->command;
	int err = volume_find(place->dir, &place->volume), n;

	place->start = time(NULL);
	place->rows = json_array();
	place->errors = json_array();
	if (err)
		cli_usage(command, "%s: %s", place->dir, strerror(-err));
	limits_lock(&place->volume);
	limits_prepare();
	place->result = mmap(NULL, sizeof(*place->result), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (place->result == MAP_FAILED || !guard_start())
		return cli_fail(command, "too little memory");
	bench_catch_signals();
	place->limits = limits_create(&place->volume);
	if (!place->limits)
		return cli_fail(command, "too little memory");
	if (!limits_work(place->limits))
		cli_fail(command, "%s", limits_why(place->limits));
	n = snprintf(place->top, sizeof(place->top), "%s/hugemap-bench.XXXXXX", place->volume.dir);
	if (n < (int)sizeof(place->top) && mkdtemp(place->top)) {
		guard_tree(place->top);
		return CLI_OK;
	}
	place->top[0] = '\0'; /* program_end() must not remove it */
	return cli_fail(command, "no directory can be made in %s: %s", place->dir,
			n < (int)sizeof(place->top) ? strerror(errno) : "the name is too long");
}

static int program_write_json(const struct program_place *place, json_t *settings)
{
	char name[64];
	json_t *json;

	snprintf(name, sizeof(name), "hugemap %s", place->command->name);
	json = json_head(name, FORMAT, place->start, &place->volume, place->limits);
	json_object_set(json, "settings", settings);
	json_object_set(json, "rows", place->rows);
	json_object_set(json, "errors", place->errors);
	return json_save(json, place->json);
}

int program_finish(struct program_place *place, json_t *settings)
{
	int status = json_array_size(place->errors) ? CLI_FAILED : CLI_OK, err;

	cli_progress_clear();
	if (bench_interrupted()) {
		cli_fail(place->command, "interrupted; files are removed");
		status = EXIT_INTERRUPTED;
	} else if (place->json) {
		err = program_write_json(place, settings);
		if (err)
			status = cli_fail(place->command, "--json %s: %s", place->json,
					  strerror(-err));
	}
	json_decref(settings);
	return status;
}

bool program_is_alone(const struct program_place *place)
{
	return place->json && !strcmp(place->json, "-");
}

void program_error(struct program_place *place, const char *format, ...)
{
	char text[512];
	va_list args;

	if (bench_interrupted())
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	json_array_append_new(place->errors, json_string(text));
	cli_fail(place->command, "%s", text);
}

unsigned int program_modes(const struct program_place *place, unsigned int chosen,
			   unsigned int on_hugemap, unsigned int stock)
{
	if (!chosen)
		chosen = strcmp(place->volume.type, "hugemap") ? ~0u : on_hugemap;
	return limits_try_stock(place->limits) ? chosen : chosen & ~stock;
}

unsigned int program_choose(const struct cli_command *command, const char *option,
			    const char *const *names, unsigned int n, const char *name)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (!strcmp(names[i], name))
			return 1u << i;
	cli_usage(command, "there is no %s '%s'", option, name);
}

void program_end(struct program_place *place)
{
	json_decref(place->rows);
	json_decref(place->errors);
	if (place->top[0])
		tree_remove(place->top);
	limits_destroy(place->limits);
}

struct program_run {
	const struct program *program;
	int out; /* the program writes its JSON to it */
};

static void program_exec(struct run *run)
{
	const struct program_run *mine = run->private;
	char hugemap[] = "/proc/self/exe", name[] = "run", end[] = "--";
	char *args[3 + MAX_ARGS + 1] = { hugemap, name, end };
	char **argv = mine->program->steered ? args : args + 3;
	unsigned int i;

	for (i = 0; mine->program->argv[i] && i < MAX_ARGS; i++)
		args[3 + i] = mine->program->argv[i];
	dup2(mine->out, STDOUT_FILENO);
	run->result->ok = true;
	execv(argv[0], argv);
	die(run, "%s: %s", argv[0], strerror(errno));
}

json_t *program_run(const struct program_place *place, const struct program *program)
{
	struct result *result = place->result;
	struct program_run mine = {
		.program = program,
		.out = memfd_create("hugemap-bench", MFD_CLOEXEC),
	};
	struct run run = {
		.child = program_exec,
		.private = &mine,
		.limit_bytes = program->limit_bytes,
		.swap = program->swap,
		.read_ahead_kb = program->read_ahead_kb,
		.timeout_s = program->timeout_s,
		.limits = place->limits,
		.result = result,
	};
	json_t *json = NULL;

	snprintf(result->error, sizeof(result->error), "memfd_create: %s", strerror(errno));
	if (mine.out < 0)
		return NULL;
	if (run_carry_out(&run) && !lseek(mine.out, 0, SEEK_SET)) {
		snprintf(result->error, sizeof(result->error), "it has no result");
		json = json_loadfd(mine.out, 0, NULL);
	}
	close(mine.out);
	return json;
}

double program_number(const json_t *result, const char *key)
{
	return json_number_value(json_object_get(result, key));
}

static void program_add_run(struct program_row *row, json_t *result, double value)
{
	row->failed = !result;
	if (!result)
		return;
	row->values[row->n++] = value;
	row->value = median(row->values, row->n);
	json_array_append_new(row->runs, result);
}

void program_run_turns(struct program_row *rows, unsigned int n, unsigned int ways,
		       unsigned int turns, program_way *run, void *arg)
{
	unsigned int turn, i, way;
	json_t *result;
	double value;

	for (i = 0; i < n; i++)
		rows[i].runs = json_array();
	for (turn = 0; turn < turns; turn++)
		for (i = 0; i < n && !bench_interrupted(); i++) {
			way = turns_order(turn, i, n);
			if (!(ways & 1u << way) || rows[way].failed)
				continue;
			value = 0;
			result = run(arg, way, turn, &value);
			program_add_run(&rows[way], result, value);
		}
	cli_progress_clear();
}

void program_free_rows(struct program_row *rows, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		json_decref(rows[i].runs);
}

double program_ratio(const struct program_row *row, const struct program_row *other)
{
	unsigned int n = row->n < other->n ? row->n : other->n, i;
	double ratios[MAX_RUNS];

	for (i = 0; i < n; i++)
		ratios[i] = other->values[i] > 0 ? row->values[i] / other->values[i] : 0;
	return median(ratios, n);
}

double program_median(const struct program_row *row, const char *object, const char *key)
{
	double values[MAX_RUNS];
	unsigned int i;

	for (i = 0; i < row->n; i++) {
		const json_t *run = json_array_get(row->runs, i);

		values[i] = program_number(object ? json_object_get(run, object) : run, key);
	}
	return median(values, row->n);
}

const char *program_ratio_text(char text[CLI_TEXT], double ratio)
{
	if (ratio > 0)
		snprintf(text, CLI_TEXT, "%.2f", ratio);
	else
		snprintf(text, CLI_TEXT, "-");
	return text;
}
