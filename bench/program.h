/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Benchmarks of programs: `hugemap bench ycsb` and `hugemap bench graph` run another program in a
 * memory group, and compare the results of several ways to run it.
 */
#ifndef BENCH_PROGRAM_H
#define BENCH_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#include "bench.h"
#include "cli.h"

/**
 * struct program_place - where runs take place, and their results
 * @command: for messages
 * @dir: a directory of the user's
 * @json: where to write JSON; NULL = nowhere
 * @volume: the file system and the device of @dir
 * @limits: of memory
 * @result: shared with children; result->error has the reason of a failure
 * @top: a directory for all files of the benchmark, removed at the end
 * @start: the date
 * @rows: as in the JSON
 * @errors: as in the JSON
 */
struct program_place {
	const struct cli_command *command;
	const char *dir, *json;
	struct volume volume;
	struct limits *limits;
	struct result *result;
	char top[PATH_MAX - 64];
	time_t start;
	json_t *rows, *errors;
};

/* Fill in the place from @command and @dir. Returns CLI_OK, or CLI_FAILED after a message. */
int program_begin(struct program_place *place);
/* Write the JSON with these settings, which are taken over. Returns the exit status. */
int program_finish(struct program_place *place, json_t *settings);
void program_end(struct program_place *place);

/* Is only JSON written to standard output? */
bool program_is_alone(const struct program_place *place);
/* Record an error, and print it, unless the user has interrupted. */
void program_error(struct program_place *place, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Return the bit of a name that the user has chosen. A wrong name ends the command. */
unsigned int program_choose(const struct cli_command *command, const char *option,
			    const char *const *names, unsigned int n, const char *name);

/**
 * struct program - a run of a program that prints its results as JSON
 * @argv: the command line; argv[0] is the path of the program
 * @steered: `hugemap run` starts it
 * @limit_bytes: memory of its group; 0 = no limit
 * @swap: the memory of the group may be swapped
 * @read_ahead_kb: of the device during the run; 0 = as found
 * @timeout_s: seconds after which the run counts as hung
 */
struct program {
	char *const *argv;
	bool steered;
	uint64_t limit_bytes;
	bool swap;
	unsigned int read_ahead_kb;
	double timeout_s;
};

/*
 * The modes of a table: those that the user has chosen, or all; on a mount of HugeMap
 * @on_hugemap, because the kernel engine ignores advice and read_ahead_kb. Without @stock, the mode
 * with STOCK_READ_AHEAD_KB, where that cannot be set. Each mode is a bit.
 */
unsigned int program_modes(const struct program_place *place, unsigned int chosen,
			   unsigned int on_hugemap, unsigned int stock);

/*
 * Run a program. Returns the JSON that it has printed; NULL after an error, with the reason in
 * place->result->error.
 */
json_t *program_run(const struct program_place *place, const struct program *program);

/* Returns 0 if there is no such number. */
double program_number(const json_t *result, const char *key);

/**
 * struct program_row - the runs of a program in one way, one in each turn
 * @runs: the JSON of each run
 * @values: of each run, where more is better
 * @value: the median of @values
 * @n: number of runs
 * @failed: a run has failed, so no more runs are made
 */
struct program_row {
	json_t *runs;
	double values[MAX_RUNS], value;
	unsigned int n;
	bool failed;
};

/*
 * Run a program in one of several ways. Returns the JSON of the run, and its value in *@value; NULL
 * after an error, which is recorded.
 */
typedef json_t *program_way(void *arg, unsigned int way, unsigned int turn, double *value);
/*
 * Fill in @n empty rows, one for each way. Each way with a bit in @ways runs once in each turn,
 * until one of its runs fails. The user may interrupt.
 */
void program_run_turns(struct program_row *rows, unsigned int n, unsigned int ways,
		       unsigned int turns, program_way *run, void *arg);
void program_free_rows(struct program_row *rows, unsigned int n);
/* The median of the ratios to the runs of another row in the same turns; 0 = it has none. */
double program_ratio(const struct program_row *row, const struct program_row *other);
/* The median of a number, in an object of the JSON if @object is not NULL. */
double program_median(const struct program_row *row, const char *object, const char *key);
/* The text of a ratio for a table: "1.20", or "-" for 0. */
const char *program_ratio_text(char text[CLI_TEXT], double ratio);

#endif /* BENCH_PROGRAM_H */
