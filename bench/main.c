// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap bench: the command line, and the order of work. */
#include "bench.h"
#include "cached.h"
#include "cost.h"
#include "direct.h"
#include "fast.h"
#include "graph.h"
#include "guard.h"
#include "kernel_mount.h"
#include "limit.h"
#include "memory.h" /* of steer/ */
#include "verdict.h"
#include "ycsb.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* Exit statuses beside those of cli.h. */
#define EXIT_NO_REPORT 3

#define STEP (16 * MB) /* sizes are multiples of this */
#define QUICK_PASS 1.2 /* seconds that reading the file may take with --quick */
#define QUICK_TIME 140.0 /* seconds; no new turn is begun that would end later */
#define SIZE_MIN (64 * MB)

enum {
	KEY_QUICK = 1,
	KEY_DIR,
	KEY_FAST_DEVICE,
	KEY_FILE,
	KEY_SIZE,
	KEY_POOL,
	KEY_SCENARIO,
	KEY_ENGINE,
	KEY_PAGE,
	KEY_THREADS,
	KEY_RUNS,
	KEY_JSON,
	KEY_REPORT,
	KEY_KEEP,
	KEY_DEMO,
};

static const struct cli_option options[] = {
	{ "quick", NULL, KEY_QUICK, "main scenarios, 1 thread, 3 turns, 1 GB: under 3 minutes" },
	{ "dir", "DIR", KEY_DIR, "where to make the files (default: here)" },
	{ "fast-device", NULL, KEY_FAST_DEVICE, "on a zram device, made for this (root)" },
	{ "file", "PATH", KEY_FILE, "read a file of yours instead; it is never written to" },
	{ "size", "SIZE", KEY_SIZE, "size of the file (default: 4G; --quick: at most 1G)" },
	{ "pool", "SIZE", KEY_POOL, "memory for the data of each engine (default: size/8)" },
	{ "scenario", "NAME", KEY_SCENARIO, "only this one; may be given several times" },
	{ "engine", "NAME", KEY_ENGINE, "only this one; may be given several times" },
	{ "page", "auto|2M|4K", KEY_PAGE, "of hugemap-kernel (default: auto, 2M, 4K if it suits)" },
	{ "threads", "N", KEY_THREADS, "with N threads; several times, or 1,2,4 (default: 1)" },
	{ "runs", "N", KEY_RUNS, "turns (default: 5; --quick: 3)" },
	{ "json", "FILE", KEY_JSON, "write JSON; '-': to standard output, and nothing else" },
	{ "report", "FILE", KEY_REPORT, "write a page with tables and charts (HTML)" },
	{ "keep", NULL, KEY_KEEP, "do not delete the files in the end" },
	{ "demo", NULL, KEY_DEMO, "print the short table only" },
	{},
};

static int bench_run(int argc, char **argv);

static int bench_run_curve(int argc, char **argv);

static const struct cli_command curve_command = {
	.name = "bench curve",
	.synopsis = "[OPTION]...",
	.summary = "Record throughput over time, until memory is full and afterwards.",
	.options = options,
	.notes = "Scenarios, engines and exit statuses: `hugemap help bench`\n",
	.page = "bench",
	.run = bench_run_curve,
};

static const struct cli_command *const parts[] = { &ycsb_command,   &graph_command, &direct_command,
						   &cached_command, &curve_command, NULL };

const struct cli_command bench_command = {
	.name = "bench",
	.synopsis = "[ycsb | graph | direct | cached | curve] [OPTION]...",
	.summary = "Compare HugeMap with Linux mmap, read/write and the device.",
	.options = options,
	.parts = parts,
	.notes = "Commands:  ycsb graph direct cached curve\n"
		 "Scenarios: seq-read seq-write rewrite rand-4k rand-1m loads mixed checkpoint\n"
		 "           restore checkpoint-own restore-own log zipf-4k hot-tenth hot-limit\n"
		 "           strided backward four-streams scan-twice scan-random-scan\n"
		 "           load-shuffled load-sparse log-read curve-seq curve-rand cost\n"
		 "Engines:   hugemap-steer hugemap-kernel linux-mmap linux-rw device\n"
		 "Sizes:     512M, 4G; K, M and G are powers of 1024\n\n"
		 "`hugemap bench ycsb` measures key-value stores; it has options of its own.\n"
		 "`hugemap bench graph` searches and ranks a graph; it has options of its own.\n"
		 "`hugemap bench direct` reads into pages of several sizes by direct I/O.\n"
		 "`hugemap bench cached` writes and reads files that stay in memory.\n"
		 "`hugemap bench curve` runs curve-seq and curve-rand with 1 to 16 threads.\n"
		 "Exit status: 0 if all was measured and right, 1 if something failed or showed\n"
		 "wrong data, 2 if the command line is wrong, 3 if only the report could not be\n"
		 "written, 130 if interrupted.\n",
	.run = bench_run,
};

/* --- the command line --- */

static void bench_choose_scenario(struct settings *settings, const char *name)
{
	const struct scenario *scenario = scenario_find(name);

	if (!scenario)
		cli_usage(&bench_command, "there is no scenario '%s'", name);
	settings->scenarios |= 1u << (scenario - scenarios);
}

static void bench_choose_engine(struct settings *settings, const char *name)
{
	unsigned int i;

	for (i = 0; i < nengines; i++)
		if (!strcmp(engine_list[i]->name, name)) {
			settings->engines |= 1u << i;
			return;
		}
	cli_usage(&bench_command, "there is no engine '%s'", name);
}

static void bench_choose_page(struct settings *settings, const char *name)
{
	unsigned int page;

	for (page = 0; page < HUGEMAP_PAGES; page++)
		if (!strcasecmp(name, hugemap_page_names[page])) {
			settings->pages |= 1u << page;
			return;
		}
	cli_usage(&bench_command, "--page must be auto, 2M or 4K, not '%s'", name);
}

/* One number, or several separated by commas. */
static void bench_choose_threads(struct settings *settings, char *text)
{
	char *word;

	while ((word = strsep(&text, ","))) {
		if (settings->nthreads == MAX_THREAD_COUNTS)
			cli_usage(&bench_command, "--threads takes %u numbers at most",
				  MAX_THREAD_COUNTS);
		settings->threads[settings->nthreads++] =
			(unsigned int)cli_number(&bench_command, "--threads", word, 1, MAX_THREADS);
	}
}

static const char *bench_parse(const struct cli_command *command, struct settings *settings,
			       int argc, char **argv)
{
	struct cli_parser parser;
	const char *dir = NULL;
	int key;

	cli_parse(&parser, command, argc, argv);
	while ((key = cli_next(&parser)) >= 0) {
		switch (key) {
		case KEY_QUICK:
			settings->quick = true;
			break;
		case KEY_DIR:
			dir = optarg;
			break;
		case KEY_FAST_DEVICE:
			settings->fast = true;
			break;
		case KEY_FILE:
			settings->file = optarg;
			break;
		case KEY_SIZE:
			settings->size = cli_size(&bench_command, "--size", optarg);
			break;
		case KEY_POOL:
			settings->pool = cli_size(&bench_command, "--pool", optarg);
			break;
		case KEY_SCENARIO:
			bench_choose_scenario(settings, optarg);
			break;
		case KEY_ENGINE:
			bench_choose_engine(settings, optarg);
			break;
		case KEY_PAGE:
			bench_choose_page(settings, optarg);
			break;
		case KEY_THREADS:
			bench_choose_threads(settings, optarg);
			break;
		case KEY_RUNS:
			settings->runs = (unsigned int)cli_number(&bench_command, "--runs", optarg,
								  1, MAX_RUNS);
			break;
		case KEY_JSON:
			settings->json = optarg;
			break;
		case KEY_REPORT:
			settings->report = optarg;
			break;
		case KEY_KEEP:
			settings->keep = true;
			break;
		case KEY_DEMO:
			settings->demo = true;
			break;
		}
	}
	if (optind < argc)
		cli_usage(&bench_command, "'%s' is not expected here", argv[optind]);
	if (settings->file && dir)
		cli_usage(&bench_command, "--file and --dir exclude each other");
	if (settings->fast && (settings->file || dir || settings->keep))
		cli_usage(&bench_command,
			  "--fast-device brings its own place for files: leave --dir, --file and "
			  "--keep out");
	return dir ? dir : ".";
}

/* The device has no memory that could be full. */
static unsigned int bench_curve_engines(void)
{
	unsigned int i, engines = 0;

	for (i = 0; i < nengines; i++)
		if (engine_list[i] == &engine_steer || engine_list[i] == &engine_linux_mmap)
			engines |= 1u << i;
	return engines;
}

/* Fill in defaults, and refuse options that exclude each other. */
static void bench_complete(struct settings *settings, bool curve)
{
	unsigned int i;

	settings->size_given = settings->size;
	if (!settings->runs)
		settings->runs = settings->quick ? 3 : 5;
	if (!settings->engines && curve)
		settings->engines = bench_curve_engines();
	if (!settings->engines)
		settings->engines = ~0u;
	for (i = 0; i < nscenarios; i++) {
		if (!settings->file || !(settings->scenarios & 1u << i))
			continue;
		if (scenarios[i].writes)
			cli_usage(&bench_command,
				  "%s writes, and --file names a file that is only read",
				  scenarios[i].name);
		if (scenarios[i].own_files)
			cli_usage(&bench_command, "%s reads several files, and --file names one",
				  scenarios[i].name);
	}
	if (!settings->scenarios)
		for (i = 0; i < nscenarios; i++)
			if (scenarios[i].curve == curve && !scenarios[i].own_files &&
			    (!settings->quick || scenarios[i].quick || curve) &&
			    !(settings->file && scenarios[i].writes))
				settings->scenarios |= 1u << i;
	if (!settings->nthreads && curve) {
		for (i = 1; i <= 16; i *= 2)
			settings->threads[settings->nthreads++] = i;
	}
	if (!settings->nthreads)
		settings->threads[settings->nthreads++] = 1;
	if (settings->size && settings->size < SIZE_MIN)
		cli_usage(&bench_command, "--size must be 64M at least");
	if (settings->pool && settings->pool < POOL_MIN)
		cli_usage(&bench_command, "--pool must be 8M at least");
}

/* --- files of the command line, before anything is measured --- */

static int bench_check_input(const char *path, uint64_t *size)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), err = errno;
	struct stat st = {};

	if (fd < 0)
		return cli_fail(&bench_command, "--file %s: %s", path, strerror(err));
	fstat(fd, &st);
	close(fd);
	if (!S_ISREG(st.st_mode))
		return cli_fail(&bench_command, "--file %s: this is not a regular file", path);
	if ((uint64_t)st.st_size < SIZE_MIN)
		return cli_fail(&bench_command,
				"--file %s: the file is too small, 64 MB are needed to measure",
				path);
	*size = (uint64_t)st.st_size;
	return CLI_OK;
}

static int bench_check_output(const char *option, const char *path)
{
	char dir[PATH_MAX];
	struct stat st;
	int err = 0;

	if (!stat(path, &st)) {
		if (S_ISDIR(st.st_mode))
			err = EISDIR;
		else if (access(path, W_OK))
			err = errno;
	} else {
		snprintf(dir, sizeof(dir), "%s", path);
		if (access(dirname(dir), W_OK | X_OK))
			err = errno;
	}
	if (!err)
		return CLI_OK;
	return cli_fail(&bench_command, "%s %s: %s", option, path, strerror(err));
}

static int bench_check_files(struct bench *bench)
{
	const struct settings *settings = &bench->settings;

	if (settings->file && bench_check_input(settings->file, &bench->file_size))
		return CLI_FAILED;
	if (settings->report && bench_check_output("--report", settings->report))
		return CLI_FAILED;
	if (settings->json && strcmp(settings->json, "-") &&
	    bench_check_output("--json", settings->json))
		return CLI_FAILED;
	return CLI_OK;
}

/* --- sizes --- */

static bool bench_writes_any(const struct settings *settings)
{
	unsigned int i;

	for (i = 0; i < nscenarios; i++)
		if (settings->scenarios & 1u << i && scenarios[i].writes)
			return true;
	return false;
}

static bool bench_reads_any(const struct settings *settings)
{
	unsigned int i;

	for (i = 0; i < nscenarios; i++)
		if (settings->scenarios & 1u << i && !scenarios[i].writes)
			return true;
	return false;
}

static uint64_t bench_free_bytes(const char *dir)
{
	struct statvfs st;

	return statvfs(dir, &st) < 0 ? 0 : (uint64_t)st.f_bavail * st.f_frsize;
}

static int bench_choose_sizes(struct bench *bench)
{
	struct settings *settings = &bench->settings;
	unsigned int files = bench_writes_any(settings) + bench_reads_any(settings);
	uint64_t room = bench_free_bytes(bench->volume.dir), memory = memory_for_cache();
	char a[CLI_TEXT], b[CLI_TEXT];

	if (!settings->size)
		settings->size = settings->quick ? 1 * GB : 4 * GB;
	if (settings->file && settings->size > bench->file_size)
		settings->size = bench->file_size;
	if (settings->quick && !settings->size_given) {
		uint64_t max = (uint64_t)(bench->device_mb_s * QUICK_PASS) * MB;

		if (!settings->file && max > room / 2 / files)
			max = room / 2 / files;
		if (max < SIZE_MIN)
			max = SIZE_MIN;
		if (max < settings->size) {
			settings->size = max;
			bench_note(bench,
				   "The file has %s only, so that this is quick on this device "
				   "(about %.0f MB/s).",
				   cli_bytes(a, (double)(max / STEP * STEP)), bench->device_mb_s);
		}
	}
	settings->size = settings->size / STEP * STEP;
	if (!settings->file && settings->size * files + settings->size / 16 > room)
		return cli_fail(&bench_command,
				"files of %s are needed in %s, but only %s are free: use --size or "
				"--dir",
				cli_bytes(a, (double)(settings->size * files)), bench->volume.dir,
				cli_bytes(b, (double)room));
	if (!settings->pool)
		settings->pool = settings->size / 8;
	settings->pool = settings->pool / (2 * MB) * (2 * MB);
	if (memory && settings->pool + ALLOWANCE > memory)
		return cli_fail(&bench_command,
				"a cache of %s does not fit into the %s of memory that are "
				"available: use --pool or --size",
				cli_bytes(a, (double)settings->pool), cli_bytes(b, (double)memory));
	return CLI_OK;
}

/*
 * The files of a device made of memory have to fit into memory, with the page cache beside
 * them. The device itself may be a bit larger: only data that was written takes memory.
 */
static int bench_choose_size_of_fast(struct settings *settings, uint64_t *disk)
{
	unsigned int files = bench_writes_any(settings) + bench_reads_any(settings);
	uint64_t size = settings->size ? settings->size : settings->quick ? 1 * GB : 4 * GB;
	uint64_t max = memory_for_cache() / 4 * 3 / (8 * files + 1) * 8;
	char a[CLI_TEXT], b[CLI_TEXT];

	if (settings->size && size > max)
		return cli_fail(&bench_command,
				"files of %s do not fit into memory: use --size with %s or less",
				cli_bytes(a, (double)size * files), cli_bytes(b, (double)max));
	settings->size = (size < max ? size : max) / STEP * STEP;
	*disk = settings->size * files / 8 * 9 + 256 * MB;
	return CLI_OK;
}

/* --- the work --- */

static bool bench_has_scenario(const struct bench *bench, const struct scenario *scenario)
{
	return bench->settings.scenarios & 1u << (scenario - scenarios);
}

static bool bench_has_engine(const struct bench *bench, const struct engine *engine)
{
	unsigned int i;

	for (i = 0; i < nengines; i++)
		if (engine_list[i] == engine)
			return bench->settings.engines & 1u << i;
	return false;
}

static void bench_note_circumstances(struct bench *bench)
{
	unsigned int found = limits_read_ahead(bench->limits);

	if (!limits_work(bench->limits))
		bench_note(bench, "%s.", limits_why(bench->limits));
	if (found && !limits_can_read_ahead(bench->limits))
		bench_note(bench,
			   "read_ahead_kb of the device could not be changed%s: Linux was measured "
			   "at %u only, as found.",
			   geteuid() ? " (root could)" : "", found);
	if (bench->kernel_reason)
		bench_note(bench, "HugeMap's kernel engine cannot work here: %s.",
			   bench->kernel_reason);
}

static void bench_count_runs(struct bench *bench)
{
	struct config configs[MAX_CONFIGS];
	const struct settings *settings = &bench->settings;
	unsigned int i, t;

	for (i = 0; i < nscenarios; i++)
		for (t = 0; bench_has_scenario(bench, &scenarios[i]) && t < settings->nthreads; t++)
			bench->runs_planned +=
				plan_configs(bench, &scenarios[i], configs) * settings->runs;
}

static void bench_measure(struct bench *bench, bool tables)
{
	struct settings *settings = &bench->settings;
	const struct group *last = NULL;
	unsigned int i, t;

	for (i = 0; i < nscenarios; i++)
		for (t = 0; t < settings->nthreads; t++) {
			if (!bench_has_scenario(bench, &scenarios[i]) || bench_interrupted())
				continue;
			turns_run(bench, &scenarios[i], settings->threads[t]);
			last = last ? last->next : bench->groups;
			if (last && tables && !bench_interrupted())
				table_print(bench, last);
		}
	cli_progress_clear();
}

static void bench_print_next_command(const struct bench *bench)
{
	if (bench->settings.file)
		return;
	printf("Next, on a file of your own, which is only read:\n\n"
	       "    %s bench --quick --demo --file PATH\n",
	       program_invocation_name);
}

/* Print or write everything; returns the exit status. */
static int bench_print_results(struct bench *bench)
{
	const struct settings *settings = &bench->settings;
	bool alone = settings->json && !strcmp(settings->json, "-");
	int status = bench->nerrors ? CLI_FAILED : CLI_OK, err;
	bool charts;
	char *path;

	if (bench_interrupted()) {
		cli_fail(&bench_command, "interrupted; files and settings are put back");
		return EXIT_INTERRUPTED;
	}
	if (settings->demo && !alone)
		demo_print(bench);
	if (!alone && !settings->demo) {
		verdicts_print(bench);
		cost_print(bench);
	}
	if (!alone)
		table_notes(bench);
	if (settings->json) {
		err = json_write(bench, settings->json);
		if (err)
			status = cli_fail(&bench_command, "--json %s: %s", settings->json,
					  strerror(-err));
	}
	if (settings->report) {
		if (report_write(&bench_command, bench, settings->report, &charts)) {
			if (status == CLI_OK)
				status = EXIT_NO_REPORT;
		} else if (!alone) {
			path = realpath(settings->report, NULL);
			printf("\nThe report%s: %s\n", charts ? ", with charts" : "",
			       path ? path : settings->report);
			if (!charts)
				printf("With matplotlib (apt-get install python3-matplotlib) it "
				       "has charts.\n");
			free(path);
		}
	}
	if (settings->demo && !alone)
		bench_print_next_command(bench);
	return status;
}

static int bench_prepare(struct bench *bench, const char *dir)
{
	char *parent = NULL, why[256];
	uint64_t disk = 0;
	int err;

	if (bench->settings.file) {
		parent = strdup(bench->settings.file);
		if (parent && strrchr(parent, '/'))
			strrchr(parent, '/')[1] = '\0';
		dir = parent && strchr(parent, '/') ? parent : ".";
	}
	if (bench->settings.fast && !fast_apart(why, sizeof(why)))
		return cli_fail(&bench_command, "--fast-device: %s", why);
	if (!bench->settings.fast) {
		err = volume_find(dir, &bench->volume);
		if (err)
			cli_usage(&bench_command, "%s: %s", dir, strerror(-err));
		limits_lock(&bench->volume);
	}
	limits_prepare();
	bench->shared = mmap(NULL, sizeof(*bench->shared), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (bench->shared == MAP_FAILED || !guard_start())
		return cli_fail(&bench_command, "too little memory: %s", strerror(errno));
	if (bench->settings.fast) {
		if (bench_choose_size_of_fast(&bench->settings, &disk))
			return CLI_FAILED;
		dir = fast_create(disk, why, sizeof(why));
		err = dir ? volume_find(dir, &bench->volume) : 0;
		if (!dir || err)
			return cli_fail(&bench_command, "--fast-device: %s",
					dir ? strerror(-err) : why);
	}
	free(parent);
	bench_catch_signals();
	err = files_prepare(bench);
	if (err)
		return cli_fail(&bench_command, "%s: %s", bench->volume.dir, strerror(-err));
	files_measure(bench);
	if (bench->nerrors)
		return cli_fail(&bench_command, "%s", bench->errors[0]);
	if (bench_interrupted())
		return EXIT_INTERRUPTED;
	if (bench_choose_sizes(bench))
		return CLI_FAILED;
	bench->limits = limits_create(&bench->volume);
	if (!bench->limits)
		return cli_fail(&bench_command, "too little memory");
	/* The check loads the module, so it is left out if the engine was not chosen. */
	if (bench_has_engine(bench, &engine_kernel))
		bench->kernel_reason = kernel_unusable(bench->shared, &bench->volume);
	bench_note_circumstances(bench);
	return CLI_OK;
}

static void bench_free(struct bench *bench)
{
	struct group *group;

	while ((group = bench->groups)) {
		bench->groups = group->next;
		free(group->rows);
		free(group);
	}
	content_destroy(bench->read_content);
	content_destroy(bench->write_content);
	limits_destroy(bench->limits);
	free(bench);
}

static int bench_run_all(const struct cli_command *command, int argc, char **argv)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	bool alone, tables;
	const char *dir;
	int status;

	if (!bench)
		return cli_fail(&bench_command, "too little memory");
	setlocale(LC_CTYPE, "");
	dir = bench_parse(command, &bench->settings, argc, argv);
	bench_complete(&bench->settings, command == &curve_command);
	alone = bench->settings.json && !strcmp(bench->settings.json, "-");
	tables = !alone && !bench->settings.demo;
	status = bench_check_files(bench);
	if (status == CLI_OK)
		status = bench_prepare(bench, dir);
	if (status == CLI_OK) {
		if (!alone)
			table_intro(bench);
		bench->date = time(NULL);
		bench->started = cli_now();
		if (bench->settings.quick)
			bench->deadline = bench->started + QUICK_TIME;
		bench_count_runs(bench);
		bench_measure(bench, tables);
		status = bench_print_results(bench);
	}
	bench_free(bench);
	return status;
}

static int bench_run_curve(int argc, char **argv)
{
	return bench_run_all(&curve_command, argc, argv);
}

static int bench_run(int argc, char **argv)
{
	const struct cli_command *part = argc > 1 ? cli_part(&bench_command, argv[1]) : NULL;

	return part ? part->run(argc - 1, argv + 1) : bench_run_all(&bench_command, argc, argv);
}
