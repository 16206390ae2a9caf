// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap bench graph: algorithms on a graph that is larger than memory. The program hugemap-graph
 * (bench/graph/) makes the graph and runs the algorithms.
 */
#include "graph.h"
#include "bench.h"
#include "cli.h"
#include "limit.h"
#include "program.h"

#include <string.h>

#define HANG_SECONDS 1200
#define SCALE_MIN 10u
#define SCALE_MAX 27u
/* The data of a vertex in the graph and in the arrays of an algorithm, and that of an edge. */
#define VERTEX_BYTES 16u
#define EDGE_BYTES 8u
/* Memory of the process itself, beside its arrays. */
#define OWN_BYTES (8 * MB)

enum mode {
	MODE_PLAIN,
	MODE_STOCK,
	MODE_RANDOM,
	MODE_HUGEPAGE,
	MODE_STEERED,
	MODE_SWAP,
	MODES,
	MODE_REFERENCE = MODES, /* all arrays in memory, without a limit: not in the tables */
};

static const char *const mode_names[MODES] = {
	[MODE_PLAIN] = "plain",	      [MODE_STOCK] = "plain-128", [MODE_RANDOM] = "random",
	[MODE_HUGEPAGE] = "hugepage", [MODE_STEERED] = "steered", [MODE_SWAP] = "swap",
};

static const char *const algorithm_names[] = { "bfs", "pagerank" };
#define ALGORITHMS (sizeof(algorithm_names) / sizeof(algorithm_names[0]))

/**
 * struct graph_bench - the settings, and the state of the benchmark
 * @place: see struct program_place
 * @program: hugemap-graph
 * @file: the graph
 * @bytes: size of the graph and of the arrays that an algorithm writes, or a little more
 * @pool: memory for the cache
 * @scale: the graph has 2^scale vertices
 * @degree: and this many times as many edges
 * @threads: of an algorithm
 * @runs: number of turns
 * @seconds: after which a run stops unfinished
 * @no_swap: the mode swap was wanted, but the machine has no swap space for it
 * @modes: bit for each of mode_names[]; likewise @algorithms
 */
struct graph_bench {
	struct program_place place;
	char program[PATH_MAX], file[PATH_MAX];
	uint64_t bytes, pool;
	unsigned int scale, degree, threads, runs, seconds, modes, algorithms;
	bool no_swap;
};

/* --- the command line --- */

enum {
	KEY_DIR = 1,
	KEY_SCALE,
	KEY_DEGREE,
	KEY_POOL,
	KEY_ALGORITHM,
	KEY_MODE,
	KEY_THREADS,
	KEY_RUNS,
	KEY_SECONDS,
	KEY_JSON,
};

static const struct cli_option options[] = {
	{ "dir", "DIR", KEY_DIR, "where to make the graph (default: here)" },
	{ "scale", "N", KEY_SCALE, "the graph has 2^N vertices (default: 21)" },
	{ "degree", "N", KEY_DEGREE, "edges for each vertex (default: 16)" },
	{ "pool", "SIZE", KEY_POOL, "memory for cached data (default: a third of the data)" },
	{ "algorithm", "NAME", KEY_ALGORITHM, "only this one; may be given several times" },
	{ "mode", "NAME", KEY_MODE, "only this one; may be given several times" },
	{ "threads", "N", KEY_THREADS, "with N threads (default: 1)" },
	{ "runs", "N", KEY_RUNS, "turns (default: 3)" },
	{ "seconds", "N", KEY_SECONDS, "stop a run after this time (default: 60)" },
	{ "json", "FILE", KEY_JSON, "write JSON; '-': to standard output, and nothing else" },
	{},
};

static int graph_main(int argc, char **argv);

const struct cli_command graph_command = {
	.name = "bench graph",
	.synopsis = "[OPTION]...",
	.summary = "Search and rank a graph in mapped files that are larger than memory.",
	.options = options,
	.notes = "Algorithms: bfs pagerank\n"
		 "Modes:      plain plain-128 random hugepage steered swap\n\n"
		 "Exit status: 0 if all was measured and all complete answers were right, 1 if\n"
		 "not, 2 if the command line is wrong, 130 if interrupted.\n",
	.page = "bench",
	.run = graph_main,
};

static unsigned int graph_parse_number(const char *option, const char *text, unsigned int low,
				       unsigned int high)
{
	return (unsigned int)cli_number(&graph_command, option, text, low, high);
}

static void graph_set(struct graph_bench *bench, int key, const char *text)
{
	switch (key) {
	case KEY_DIR:
		bench->place.dir = text;
		break;
	case KEY_SCALE:
		bench->scale = graph_parse_number("--scale", text, SCALE_MIN, SCALE_MAX);
		break;
	case KEY_DEGREE:
		bench->degree = graph_parse_number("--degree", text, 1, 1000);
		break;
	case KEY_POOL:
		bench->pool = cli_size(&graph_command, "--pool", text);
		if (bench->pool < POOL_MIN)
			cli_usage(&graph_command, "--pool must be 8M at least");
		break;
	case KEY_ALGORITHM:
		bench->algorithms |= program_choose(&graph_command, "algorithm", algorithm_names,
						    ALGORITHMS, text);
		break;
	case KEY_MODE:
		bench->modes |= program_choose(&graph_command, "mode", mode_names, MODES, text);
		break;
	case KEY_THREADS:
		bench->threads = graph_parse_number("--threads", text, 1, MAX_THREADS);
		break;
	case KEY_RUNS:
		bench->runs = graph_parse_number("--runs", text, 1, MAX_RUNS);
		break;
	case KEY_SECONDS:
		bench->seconds = graph_parse_number("--seconds", text, 1, 100000);
		break;
	case KEY_JSON:
		bench->place.json = text;
		break;
	}
}

static void graph_parse(struct graph_bench *bench, int argc, char **argv)
{
	struct cli_parser parser;
	int key;

	cli_parse(&parser, &graph_command, argc, argv);
	while ((key = cli_next(&parser)) >= 0)
		graph_set(bench, key, optarg);
	if (optind < argc)
		cli_usage(&graph_command, "'%s' is not expected here", argv[optind]);
	if (!bench->algorithms)
		bench->algorithms = ~0u;
	bench->bytes = (VERTEX_BYTES + EDGE_BYTES * (uint64_t)bench->degree) << bench->scale;
	if (!bench->pool)
		bench->pool = bench->bytes / 3;
	if (bench->pool < POOL_MIN)
		bench->pool = POOL_MIN;
}

/* --- runs --- */

/* The time in which the graph can be made, or an algorithm can run in memory. */
static unsigned int graph_patience(const struct graph_bench *bench)
{
	return HANG_SECONDS + (unsigned int)(bench->bytes / (1 * MB));
}

/* Returns the JSON of the run. NULL: place.result->error has the reason. */
static json_t *graph_run(struct graph_bench *bench, const char *algorithm, enum mode mode)
{
	char name[16], way[16], threads[16], seconds[16];
	char *argv[] = { bench->program, name, bench->file, way, threads, seconds, NULL };
	struct program program = {
		.argv = argv,
		.steered = mode == MODE_STEERED,
		.limit_bytes = mode == MODE_REFERENCE ? 0 : bench->pool + OWN_BYTES,
		.swap = mode == MODE_SWAP,
		.read_ahead_kb = mode == MODE_STOCK ? STOCK_READ_AHEAD_KB : 0,
		.timeout_s = graph_patience(bench) + bench->seconds,
	};
	bool named = mode == MODE_RANDOM || mode == MODE_HUGEPAGE;

	snprintf(name, sizeof(name), "%s", algorithm);
	snprintf(way, sizeof(way), "%s", named ? mode_names[mode] : "none");
	if (mode == MODE_SWAP || mode == MODE_REFERENCE)
		snprintf(way, sizeof(way), "memory");
	snprintf(threads, sizeof(threads), "%u", bench->threads);
	snprintf(seconds, sizeof(seconds), "%u",
		 mode == MODE_REFERENCE ? graph_patience(bench) : bench->seconds);
	return program_run(&bench->place, &program);
}

static bool graph_make(struct graph_bench *bench)
{
	char make[] = "make", scale[16], degree[16];
	char *argv[] = { bench->program, make, bench->file, scale, degree, NULL };
	struct program program = { .argv = argv, .timeout_s = graph_patience(bench) };

	snprintf(scale, sizeof(scale), "%u", bench->scale);
	snprintf(degree, sizeof(degree), "%u", bench->degree);
	snprintf(bench->file, sizeof(bench->file), "%s/graph", bench->place.top);
	cli_progress("making the graph");
	json_decref(program_run(&bench->place, &program));
	if (!bench->place.result->ok)
		program_error(&bench->place, "the graph could not be made: %s",
			      bench->place.result->error);
	return bench->place.result->ok;
}

/* Returns whether the machine has swap space for the data that is not in memory. */
static bool graph_can_swap(const struct graph_bench *bench)
{
	unsigned long long free_kb = 0;

	return read_field("/proc/meminfo", "SwapFree:", &free_kb) && free_kb << 10 > bench->bytes;
}

static void graph_choose_modes(struct graph_bench *bench)
{
	bench->modes =
		program_modes(&bench->place, bench->modes, 1u << MODE_PLAIN, 1u << MODE_STOCK);
	bench->no_swap = bench->modes & 1u << MODE_SWAP && !graph_can_swap(bench);
	if (bench->no_swap)
		bench->modes &= ~(1u << MODE_SWAP);
	if (!bench->modes)
		cli_usage(&graph_command,
			  "this mode cannot be measured here: the machine has no free swap "
			  "space of %llu MB, or read_ahead_kb is %u or cannot be changed",
			  (unsigned long long)(bench->bytes / MB),
			  limits_read_ahead(bench->place.limits));
}

/* --- the rows of an algorithm --- */

/* Returns an error of a result, or NULL. The answer of a stopped run is not known. */
static const char *graph_fault(const json_t *result, const json_t *expected)
{
	const json_t *digest = json_object_get(result, "digest");

	if (digest && !json_equal(digest, expected))
		return "the answer was wrong";
	return program_number(result, "edges") > 0 ? NULL : "no edge was followed in this time";
}

/* Was any run of the row stopped before its end? */
static bool graph_was_stopped(const struct program_row *row)
{
	json_t *run;
	size_t i;

	json_array_foreach(row->runs, i, run) {
		if (!json_object_get(run, "digest"))
			return true;
	}
	return false;
}

struct graph_rows {
	struct graph_bench *bench;
	const char *algorithm;
	const json_t *expected;
};

static json_t *graph_run_mode(void *arg, unsigned int mode, unsigned int turn, double *value)
{
	const struct graph_rows *mine = arg;
	struct graph_bench *bench = mine->bench;
	const char *why;
	json_t *result;

	cli_progress("%s, turn %u of %u: %s", mine->algorithm, turn + 1, bench->runs,
		     mode_names[mode]);
	files_evict(bench->file, bench->bytes);
	result = graph_run(bench, mine->algorithm, mode);
	why = result ? graph_fault(result, mine->expected) : bench->place.result->error;
	if (!why) {
		*value = program_number(result, "edges") / program_number(result, "seconds") / 1e6;
		return result;
	}
	program_error(&bench->place, "%s, %s: %s", mine->algorithm, mode_names[mode], why);
	json_decref(result);
	return NULL;
}

/* The fastest mode without HugeMap and without swap. */
static const struct program_row *graph_best(const struct program_row rows[MODES])
{
	const struct program_row *best = &rows[MODE_PLAIN];
	static const enum mode others[] = { MODE_RANDOM, MODE_HUGEPAGE };
	unsigned int i;

	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (rows[others[i]].value > best->value)
			best = &rows[others[i]];
	return best;
}

static void graph_finish_row(struct graph_bench *bench, const struct program_row *rows,
			     enum mode mode, const char *algorithm)
{
	const struct program_row *row = &rows[mode];
	double of_plain = program_ratio(row, &rows[MODE_PLAIN]);
	double of_best = program_ratio(row, graph_best(rows));
	char plain[CLI_TEXT], best[CLI_TEXT];

	json_array_append_new(bench->place.rows,
			      json_pack("{s:s, s:s, s:f, s:f, s:f, s:O}", "algorithm", algorithm,
					"mode", mode_names[mode], "medges_s", row->value,
					"ratio_plain", of_plain, "ratio_best", of_best, "runs",
					row->runs));
	if (program_is_alone(&bench->place))
		return;
	printf("%c %-9s %9.2f %8s %8s %8.1f %7.1f %9.0f %8.0f\n",
	       graph_was_stopped(row) ? '*' : ' ', mode_names[mode], row->value,
	       program_ratio_text(plain, of_plain), program_ratio_text(best, of_best),
	       program_median(row, NULL, "seconds"),
	       program_median(row, NULL, "user_s") + program_median(row, NULL, "sys_s"),
	       program_median(row, NULL, "faults"), program_median(row, NULL, "read_bytes") / MB);
}

static void graph_algorithm(struct graph_bench *bench, const char *algorithm)
{
	struct graph_rows mine = { .bench = bench, .algorithm = algorithm };
	struct program_row rows[MODES] = {};
	json_t *reference;
	unsigned int i;

	cli_progress("%s in memory", algorithm);
	reference = graph_run(bench, algorithm, MODE_REFERENCE);
	mine.expected = json_object_get(reference, "digest");
	if (!mine.expected) {
		program_error(&bench->place, "%s, in memory: %s", algorithm,
			      reference ? "it did not end" : bench->place.result->error);
		json_decref(reference);
		return;
	}
	program_run_turns(rows, MODES, bench->modes, bench->runs, graph_run_mode, &mine);
	if (!program_is_alone(&bench->place))
		printf("\n%s; with all data in memory: %.2f million edges/s\n"
		       "  %-9s %9s %8s %8s %8s %7s %9s %8s\n",
		       algorithm,
		       program_number(reference, "edges") / program_number(reference, "seconds") /
			       1e6,
		       "", "M edges/s", "of plain", "of best", "seconds", "CPU s", "faults",
		       "MB read");
	for (i = 0; i < MODES; i++)
		if (rows[i].n)
			graph_finish_row(bench, rows, i, algorithm);
	program_free_rows(rows, MODES);
	json_decref(reference);
	fflush(stdout);
}

/* --- the benchmark --- */

static json_t *graph_settings(const struct graph_bench *bench)
{
	return json_pack("{s:i, s:i, s:I, s:I, s:i, s:i}", "scale", bench->scale, "degree",
			 bench->degree, "data_bytes", (json_int_t)bench->bytes, "pool_bytes",
			 (json_int_t)bench->pool, "threads", bench->threads, "seconds",
			 bench->seconds);
}

static void graph_print_intro(const struct graph_bench *bench)
{
	char bytes[CLI_TEXT], pool[CLI_TEXT];

	if (program_is_alone(&bench->place))
		return;
	printf("hugemap bench graph: Kronecker graph, 2^%u vertices, %u edges each, %u thread%s\n"
	       "in %s (%s)\n"
	       "Data: %s. Memory: %s of cache and %llu MB beside it.\n"
	       "Medians of %u turn%s.\n"
	       "*: a run was stopped after %u s, and its answer was not checked.\n",
	       bench->scale, bench->degree, bench->threads, bench->threads == 1 ? "" : "s",
	       bench->place.volume.dir, bench->place.volume.type,
	       cli_bytes(bytes, (double)bench->bytes), cli_bytes(pool, (double)bench->pool),
	       OWN_BYTES / MB, bench->runs, bench->runs == 1 ? "" : "s", bench->seconds);
	if (bench->no_swap)
		printf("Without the mode swap: this machine has no free swap space of %s.\n",
		       cli_bytes(bytes, (double)bench->bytes));
}

static int graph_measure(struct graph_bench *bench)
{
	unsigned int i;

	graph_choose_modes(bench);
	if (graph_make(bench)) {
		graph_print_intro(bench);
		for (i = 0; i < ALGORITHMS && !bench_interrupted(); i++)
			if (bench->algorithms & 1u << i)
				graph_algorithm(bench, algorithm_names[i]);
	}
	return program_finish(&bench->place, graph_settings(bench));
}

static int graph_main(int argc, char **argv)
{
	struct graph_bench bench = {
		.place = { .command = &graph_command, .dir = "." },
		.scale = 21,
		.degree = 16,
		.threads = 1,
		.runs = 3,
		.seconds = 60,
	};
	int status;

	graph_parse(&bench, argc, argv);
	if (!files_find_helper("bench/graph/hugemap-graph", bench.program))
		return cli_fail(&graph_command, "hugemap-graph is not there: build again");
	status = program_begin(&bench.place);
	if (status == CLI_OK)
		status = graph_measure(&bench);
	program_end(&bench.place);
	return status;
}
