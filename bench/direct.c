// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap bench direct: asynchronous direct reads into memory of several kinds. The program
 * hugemap-direct (bench/direct/) reads a file with io_uring, and checks the data.
 */
#include "direct.h"
#include "bench.h"
#include "cli.h"
#include "program.h"

#include <string.h>

#define HANG_SECONDS 120
#define SIZE_MIN (64 * MB)
#define DEPTH_MAX 32u /* so many reads of the largest block have room in hugemap-direct's memory */

static const char *const block_names[] = { "64K", "1M" };
static const char *const block_bytes[] = { "65536", "1048576" };
#define BLOCKS (sizeof(block_names) / sizeof(block_names[0]))

enum target {
	TARGET_SMALL,
	TARGET_THP,
	TARGET_HUGETLB,
	TARGET_MAPPING,
	TARGETS,
};

static const char *const target_names[TARGETS] = { "small", "thp", "hugetlb", "mapping" };
static const char *const buffer_names[] = { "plain", "registered" };
#define BUFFERS (sizeof(buffer_names) / sizeof(buffer_names[0]))
#define WAYS (TARGETS * BUFFERS)

/**
 * struct direct_bench - the settings, and the state of the benchmark
 * @place: see struct program_place
 * @program: hugemap-direct
 * @size: of the file that is read
 * @depth: reads in flight
 * @runs: number of turns
 * @blocks: bit for each of block_names[]; likewise @targets
 * @seconds: time of a run
 */
struct direct_bench {
	struct program_place place;
	char program[PATH_MAX];
	uint64_t size;
	unsigned int depth, runs, blocks, targets;
	double seconds;
};

/* --- the command line --- */

enum {
	KEY_DIR = 1,
	KEY_SIZE,
	KEY_BLOCK,
	KEY_TARGET,
	KEY_DEPTH,
	KEY_SECONDS,
	KEY_RUNS,
	KEY_JSON,
};

static const struct cli_option options[] = {
	{ "dir", "DIR", KEY_DIR, "where to make the files (default: here)" },
	{ "size", "SIZE", KEY_SIZE, "size of the file that is read (default: 1G)" },
	{ "block", "64K|1M", KEY_BLOCK, "only this size of a read; may be given several times" },
	{ "target", "NAME", KEY_TARGET, "only this memory; may be given several times" },
	{ "depth", "N", KEY_DEPTH, "reads in flight (default: 16)" },
	{ "seconds", "SECONDS", KEY_SECONDS, "time of a run (default: 2)" },
	{ "runs", "N", KEY_RUNS, "turns (default: 3)" },
	{ "json", "FILE", KEY_JSON, "write JSON; '-': to standard output, and nothing else" },
	{},
};

static int direct_main(int argc, char **argv);

const struct cli_command direct_command = {
	.name = "bench direct",
	.synopsis = "[OPTION]...",
	.summary = "Read a file by asynchronous direct I/O into pages of several sizes.",
	.options = options,
	.notes = "Targets: small thp hugetlb mapping\n\n"
		 "Exit status: 0 if all was measured and all data was right, 1 if not, 2 if the\n"
		 "command line is wrong, 130 if interrupted.\n",
	.page = "bench",
	.run = direct_main,
};

static void direct_set(struct direct_bench *bench, int key, const char *text)
{
	const struct cli_command *command = &direct_command;

	switch (key) {
	case KEY_DIR:
		bench->place.dir = text;
		break;
	case KEY_SIZE:
		bench->size = cli_size(command, "--size", text) / (2 * MB) * (2 * MB);
		if (bench->size < SIZE_MIN)
			cli_usage(command, "--size must be 64M at least");
		break;
	case KEY_BLOCK:
		bench->blocks |= program_choose(command, "block", block_names, BLOCKS, text);
		break;
	case KEY_TARGET:
		bench->targets |= program_choose(command, "target", target_names, TARGETS, text);
		break;
	case KEY_DEPTH:
		bench->depth = (unsigned int)cli_number(command, "--depth", text, 1, DEPTH_MAX);
		break;
	case KEY_SECONDS:
		bench->seconds = cli_seconds(command, "--seconds", text);
		break;
	case KEY_RUNS:
		bench->runs = (unsigned int)cli_number(command, "--runs", text, 1, MAX_RUNS);
		break;
	case KEY_JSON:
		bench->place.json = text;
		break;
	}
}

static void direct_parse(struct direct_bench *bench, int argc, char **argv)
{
	struct cli_parser parser;
	int key;

	cli_parse(&parser, &direct_command, argc, argv);
	while ((key = cli_next(&parser)) >= 0)
		direct_set(bench, key, optarg);
	if (optind < argc)
		cli_usage(&direct_command, "'%s' is not expected here", argv[optind]);
	if (!bench->blocks)
		bench->blocks = ~0u;
	if (!bench->targets)
		bench->targets = ~0u;
}

/* --- runs --- */

static void direct_path(const struct direct_bench *bench, const char *name, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s", bench->place.top, name);
}

static bool direct_make(struct direct_bench *bench)
{
	char make[] = "make", file[PATH_MAX], size[32];
	char *argv[] = { bench->program, make, file, size, NULL };
	struct program program = {
		.argv = argv,
		.timeout_s = HANG_SECONDS + (double)(bench->size / (10 * MB)),
	};

	direct_path(bench, "file", file);
	snprintf(size, sizeof(size), "%llu", (unsigned long long)bench->size);
	cli_progress("making the file");
	json_decref(program_run(&bench->place, &program));
	if (!bench->place.result->ok)
		program_error(&bench->place, "the file could not be made: %s",
			      bench->place.result->error);
	return bench->place.result->ok;
}

static json_t *direct_run(struct direct_bench *bench, unsigned int block, enum target target,
			  unsigned int buffers)
{
	char read[] = "read", file[PATH_MAX], memory[PATH_MAX];
	char bytes[16], depth[16], name[16], seconds[16];
	char *argv[] = { bench->program, read, file, memory, bytes, depth, name, seconds, NULL };
	struct program program = { .argv = argv, .timeout_s = HANG_SECONDS + bench->seconds };

	direct_path(bench, "file", file);
	direct_path(bench, "memory", memory);
	if (target != TARGET_MAPPING)
		snprintf(memory, sizeof(memory), "%s", target_names[target]);
	snprintf(bytes, sizeof(bytes), "%s", block_bytes[block]);
	snprintf(depth, sizeof(depth), "%u", bench->depth);
	snprintf(name, sizeof(name), "%s", buffer_names[buffers]);
	snprintf(seconds, sizeof(seconds), "%.3f", bench->seconds);
	return program_run(&bench->place, &program);
}

struct direct_rows {
	struct direct_bench *bench;
	unsigned int block;
};

static json_t *direct_run_way(void *arg, unsigned int way, unsigned int turn, double *value)
{
	const struct direct_rows *mine = arg;
	struct direct_bench *bench = mine->bench;
	const char *block = block_names[mine->block], *target = target_names[way / BUFFERS];
	const char *buffers = buffer_names[way % BUFFERS];
	double seconds;
	json_t *result;

	cli_progress("%s, turn %u of %u: %s, %s", block, turn + 1, bench->runs, target, buffers);
	result = direct_run(bench, mine->block, way / BUFFERS, way % BUFFERS);
	if (!result)
		program_error(&bench->place, "%s, %s, %s: %s", block, target, buffers,
			      bench->place.result->error);
	seconds = program_number(result, "seconds");
	if (seconds > 0) /* the kernel has not refused the memory */
		*value = program_number(result, "bytes") / seconds / MB;
	return result;
}

/* --- the rows of a block size --- */

/* Why the kernel refused the memory of a run; NULL = it did not. */
static const char *direct_refused(const struct program_row *row)
{
	const char *refused = NULL;
	json_t *run;
	size_t i;

	json_array_foreach(row->runs, i, run)
		if (!refused)
			refused = json_string_value(json_object_get(run, "refused"));
	return refused;
}

/* The row with the most MB/s. */
static const struct program_row *direct_best(const struct program_row rows[WAYS])
{
	const struct program_row *best = &rows[0];
	unsigned int i;

	for (i = 1; i < WAYS; i++)
		if (rows[i].n && !direct_refused(&rows[i]) &&
		    (!best->n || rows[i].value > best->value))
			best = &rows[i];
	return best;
}

static void direct_finish_row(struct direct_bench *bench, const struct program_row rows[WAYS],
			      unsigned int way, unsigned int block)
{
	const char *target = target_names[way / BUFFERS], *buffers = buffer_names[way % BUFFERS];
	const struct program_row *row = &rows[way];
	const char *refused = direct_refused(row);
	double value = refused ? 0 : row->value;
	double ratio = refused ? 0 : program_ratio(row, direct_best(rows));
	double us_mb = refused ? 0 :
				 1e6 * program_median(row, NULL, "sys_s") /
					 (program_median(row, NULL, "bytes") / MB);
	char text[CLI_TEXT];

	json_array_append_new(bench->place.rows,
			      json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:s?, s:O}", "block",
					block_names[block], "target", target, "buffers", buffers,
					"mb_s", value, "ratio_best", ratio, "system_us_mb", us_mb,
					"refused", refused, "runs", row->runs));
	if (program_is_alone(&bench->place))
		return;
	if (refused)
		printf("  %-9s %-10s  refused: %s\n", target, buffers, refused);
	else
		printf("  %-9s %-10s %8.0f %8s %12.1f\n", target, buffers, value,
		       program_ratio_text(text, ratio), us_mb);
}

static void direct_block(struct direct_bench *bench, unsigned int block)
{
	struct direct_rows mine = { bench, block };
	struct program_row rows[WAYS] = {};
	unsigned int i, ways = 0;

	for (i = 0; i < WAYS; i++)
		if (bench->targets & 1u << i / BUFFERS)
			ways |= 1u << i;
	program_run_turns(rows, WAYS, ways, bench->runs, direct_run_way, &mine);
	if (!program_is_alone(&bench->place))
		printf("\nreads of %s\n  %-9s %-10s %8s %8s %12s\n", block_names[block], "memory",
		       "buffers", "MB/s", "of best", "system us/MB");
	for (i = 0; i < WAYS; i++)
		if (rows[i].n)
			direct_finish_row(bench, rows, i, block);
	program_free_rows(rows, WAYS);
	fflush(stdout);
}

/* --- the benchmark --- */

static int direct_measure(struct direct_bench *bench)
{
	char size[CLI_TEXT];
	unsigned int i;

	if (!program_is_alone(&bench->place))
		printf("hugemap bench direct: O_DIRECT reads of a file of %s, %u in flight\n"
		       "in %s (%s)\n"
		       "Medians of %u turn%s of %.1f s.\n",
		       cli_bytes(size, (double)bench->size), bench->depth, bench->place.volume.dir,
		       bench->place.volume.type, bench->runs, bench->runs == 1 ? "" : "s",
		       bench->seconds);
	if (direct_make(bench))
		for (i = 0; i < BLOCKS && !bench_interrupted(); i++)
			if (bench->blocks & 1u << i)
				direct_block(bench, i);
	return program_finish(&bench->place,
			      json_pack("{s:I, s:i, s:f}", "size_bytes", (json_int_t)bench->size,
					"depth", bench->depth, "seconds", bench->seconds));
}

static int direct_main(int argc, char **argv)
{
	struct direct_bench bench = {
		.place = { .command = &direct_command, .dir = "." },
		.size = 1024 * MB,
		.depth = 16,
		.seconds = 2,
		.runs = 3,
	};
	int status;

	direct_parse(&bench, argc, argv);
	if (!files_find_helper("bench/direct/hugemap-direct", bench.program))
		return cli_fail(&direct_command,
				"hugemap-direct is not there: it is built if liburing is found "
				"(apt-get install liburing-dev, then build again)");
	status = program_begin(&bench.place);
	if (status == CLI_OK)
		status = direct_measure(&bench);
	program_end(&bench.place);
	return status;
}
