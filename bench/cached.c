// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap bench cached: write, rewrite, read and reread of files that stay in memory, as IOzone does
 * it, on a file system and on tmpfs. The program hugemap-cached (bench/cached/) does the calls, and
 * checks the data.
 */
#include "cached.h"
#include "bench.h"
#include "cli.h"
#include "guard.h"
#include "program.h"

#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define HANG_SECONDS 120
#define RECORD (4 * MB)
#define SIZE_STEP 4 /* each file is so many times as large as the one before */
#define WORK (64 * MB) /* small files are made several times, until so much is written */

/* Where the files are. */
enum cached_place {
	PLACE_DIR,
	PLACE_TMPFS,
	PLACES,
};

static const char *const operation_names[] = { "write", "rewrite", "read", "reread" };
static const char *const operation_keys[] = { "write_s", "rewrite_s", "read_s", "reread_s" };
#define OPERATIONS (sizeof(operation_names) / sizeof(operation_names[0]))

/**
 * struct cached_bench - the settings, and the state of the benchmark
 * @place: see struct program_place
 * @beside: a directory on tmpfs
 * @program: hugemap-cached
 * @paths: of the file in each place; empty: there is no such place
 * @types: the file system of each place
 * @max: size of the largest file
 * @size: size of the current file
 * @runs: number of turns
 */
struct cached_bench {
	struct program_place place;
	const char *beside;
	char program[PATH_MAX];
	char paths[PLACES][PATH_MAX];
	char types[PLACES][32];
	uint64_t max, size;
	unsigned int runs;
};

/* --- the command line --- */

enum {
	KEY_DIR = 1,
	KEY_BESIDE,
	KEY_SIZE,
	KEY_RUNS,
	KEY_JSON,
};

static const struct cli_option options[] = {
	{ "dir", "DIR", KEY_DIR, "where to make the files (default: here)" },
	{ "beside", "DIR", KEY_BESIDE, "and here, on a tmpfs, to compare (default: /dev/shm)" },
	{ "size", "SIZE", KEY_SIZE, "of the largest file (default: 1G)" },
	{ "runs", "N", KEY_RUNS, "turns (default: 3)" },
	{ "json", "FILE", KEY_JSON, "write JSON; '-': to standard output, and nothing else" },
	{},
};

static int cached_main(int argc, char **argv);

const struct cli_command cached_command = {
	.name = "bench cached",
	.synopsis = "[OPTION]...",
	.summary = "Write and read files that stay in memory, by calls of write and read.",
	.options = options,
	.notes = "Exit status: 0 if all was measured and all data was right, 1 if not, 2 if the\n"
		 "command line is wrong, 130 if interrupted.\n",
	.page = "bench",
	.run = cached_main,
};

static void cached_parse(struct cached_bench *bench, int argc, char **argv)
{
	struct cli_parser parser;
	int key;

	cli_parse(&parser, &cached_command, argc, argv);
	while ((key = cli_next(&parser)) >= 0)
		switch (key) {
		case KEY_DIR:
			bench->place.dir = optarg;
			break;
		case KEY_BESIDE:
			bench->beside = optarg;
			break;
		case KEY_SIZE:
			bench->max = cli_size(&cached_command, "--size", optarg);
			if (bench->max < RECORD)
				cli_usage(&cached_command, "--size must be 4M at least");
			break;
		case KEY_RUNS:
			bench->runs = (unsigned int)cli_number(&cached_command, "--runs", optarg, 1,
							       MAX_RUNS);
			break;
		case KEY_JSON:
			bench->place.json = optarg;
			break;
		}
	if (optind < argc)
		cli_usage(&cached_command, "'%s' is not expected here", argv[optind]);
}

/* --- the places --- */

/* The reason why files cannot be made on the tmpfs; NULL = they can. */
static const char *cached_find_tmpfs(struct cached_bench *bench)
{
	struct statvfs space;
	struct volume volume;

	if (volume_find(bench->beside, &volume))
		return "there is no such directory";
	if (strcmp(volume.type, "tmpfs"))
		return "it is not on a tmpfs";
	if (statvfs(volume.dir, &space) || space.f_bavail * space.f_frsize < bench->max)
		return "it has too little space";
	snprintf(bench->types[PLACE_TMPFS], sizeof(bench->types[0]), "%s", volume.type);
	snprintf(bench->paths[PLACE_TMPFS], PATH_MAX, "%.4000s/hugemap-bench.%d", volume.dir,
		 getpid());
	guard_file(bench->paths[PLACE_TMPFS]);
	return NULL;
}

static void cached_find_places(struct cached_bench *bench)
{
	const char *why = cached_find_tmpfs(bench);

	snprintf(bench->types[PLACE_DIR], sizeof(bench->types[0]), "%s", bench->place.volume.type);
	snprintf(bench->paths[PLACE_DIR], PATH_MAX, "%s/file", bench->place.top);
	if (why)
		cli_fail(&cached_command, "no rows of tmpfs: %s: %s", bench->beside, why);
}

/* --- runs --- */

static json_t *cached_run_way(void *arg, unsigned int way, unsigned int turn, double *value)
{
	struct cached_bench *bench = arg;
	char bytes[32], record[32], repeats[32], text[CLI_TEXT];
	char *argv[] = { bench->program, bench->paths[way], bytes, record, repeats, NULL };
	struct program program = {
		.argv = argv,
		.timeout_s = HANG_SECONDS + (double)(bench->size / (5 * MB)),
	};
	json_t *result;

	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)bench->size);
	snprintf(record, sizeof(record), "%llu", (unsigned long long)RECORD);
	snprintf(repeats, sizeof(repeats), "%llu",
		 (unsigned long long)(bench->size < WORK ? WORK / bench->size : 1));
	cli_progress("%s, turn %u of %u: %s", cli_bytes(text, (double)bench->size), turn + 1,
		     bench->runs, bench->types[way]);
	result = program_run(&bench->place, &program);
	unlink(bench->paths[way]); /* a killed program leaves it */
	if (!result)
		program_error(&bench->place, "%s, %s: %s", text, bench->types[way],
			      bench->place.result->error);
	*value = program_number(result, "bytes") / MB;
	return result;
}

/* --- the rows of a size --- */

/* Make the MB/s of an operation the values of a row. */
static void cached_choose(struct program_row *row, unsigned int operation)
{
	unsigned int i;

	for (i = 0; i < row->n; i++) {
		const json_t *run = json_array_get(row->runs, i);

		row->values[i] = program_number(run, "bytes") / MB /
				 program_number(run, operation_keys[operation]);
	}
	row->value = median(row->values, row->n);
}

static void cached_finish_row(struct cached_bench *bench, struct program_row rows[PLACES],
			      unsigned int way, unsigned int operation)
{
	char size[CLI_TEXT], text[CLI_TEXT];
	double ratio;

	cached_choose(&rows[PLACE_TMPFS], operation);
	cached_choose(&rows[way], operation);
	ratio = program_ratio(&rows[way], &rows[PLACE_TMPFS]);
	json_array_append_new(
		bench->place.rows,
		json_pack("{s:I, s:s, s:s, s:f, s:f, s:O}", "size_bytes", (json_int_t)bench->size,
			  "operation", operation_names[operation], "file_system", bench->types[way],
			  "mb_s", rows[way].value, "ratio_tmpfs", ratio, "runs", rows[way].runs));
	if (!program_is_alone(&bench->place))
		printf("  %-9s %-8s %-10s %8.0f %8s\n", cli_bytes(size, (double)bench->size),
		       operation_names[operation], bench->types[way], rows[way].value,
		       program_ratio_text(text, ratio));
}

static void cached_size(struct cached_bench *bench)
{
	struct program_row rows[PLACES] = {};
	unsigned int way, operation, ways = 0;

	for (way = 0; way < PLACES; way++)
		if (bench->paths[way][0])
			ways |= 1u << way;
	program_run_turns(rows, PLACES, ways, bench->runs, cached_run_way, bench);
	for (operation = 0; operation < OPERATIONS; operation++)
		for (way = 0; way < PLACES; way++)
			if (rows[way].n)
				cached_finish_row(bench, rows, way, operation);
	program_free_rows(rows, PLACES);
	fflush(stdout);
}

/* --- the benchmark --- */

static int cached_measure(struct cached_bench *bench)
{
	if (!program_is_alone(&bench->place))
		printf("hugemap bench cached: files that stay in memory, by calls of 4 MB\n"
		       "in %s (%s)\n"
		       "Medians of %u turn%s.\n\n"
		       "  %-9s %-8s %-10s %8s %8s\n",
		       bench->place.volume.dir, bench->place.volume.type, bench->runs,
		       bench->runs == 1 ? "" : "s", "file", "call", "on", "MB/s", "of tmpfs");
	for (bench->size = RECORD; bench->size <= bench->max && !bench_interrupted();
	     bench->size *= SIZE_STEP)
		cached_size(bench);
	return program_finish(&bench->place,
			      json_pack("{s:I, s:I}", "size_bytes", (json_int_t)bench->max,
					"record_bytes", (json_int_t)RECORD));
}

static int cached_main(int argc, char **argv)
{
	struct cached_bench bench = {
		.place = { .command = &cached_command, .dir = "." },
		.beside = "/dev/shm",
		.max = 1024 * MB,
		.runs = 3,
	};
	int status;

	cached_parse(&bench, argc, argv);
	if (!files_find_helper("bench/cached/hugemap-cached", bench.program))
		return cli_fail(&cached_command,
				"hugemap-cached is not there: install it beside the command, or "
				"build again");
	status = program_begin(&bench.place);
	if (status == CLI_OK) {
		cached_find_places(&bench);
		status = cached_measure(&bench);
	}
	program_end(&bench.place);
	return status;
}
