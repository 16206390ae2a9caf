// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap check: run a program plain and steered in turns, and report whether steering helps it.
 *
 * The first run is steered and not counted. It shows which files the program maps, so that they
 * can be dropped from the page cache before each other run.
 */
#include "attach_maps.h"
#include "check_run.h"
#include "cli.h"
#include "device.h"
#include "run_outside.h"

#include <string.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <jansson.h>

#define TURNS_DEFAULT 3
#define TURNS_LEAST 3u /* with fewer turns, the spread of the runs is not known */
#define TURNS_MAX 20u
#define NOISE 0.05 /* a smaller difference counts as none */
#define WARM 0.02 /* share of the files that may stay in the page cache */
#define INDENT 22 /* columns that the titles take */

static const struct cli_option options[] = {
	{ "turns", "N", 't', "measured runs of each kind: 1 to 20 (default: 3)" },
	{ "json", NULL, 'j', "print JSON" },
	{},
};

static int check_main(int argc, char **argv);

const struct cli_command check_command = {
	.name = "check",
	.synopsis = "[--turns N] [--json] [--] PROGRAM [ARGUMENT]...",
	.summary = "Run a program with and without steering, and report the gain.",
	.options = options,
	.notes =
		"It runs PROGRAM 2 N + 1 times, with an empty standard input. It discards\n"
		"PROGRAM's standard output and shows its standard error. PROGRAM must do the same\n"
		"work each time. Before each run, the files that it maps are dropped from the\n"
		"page cache.\n\n"
		"Exit status: 0 if it was measured, 1 if it could not be measured, 2 if the\n"
		"command line is wrong.\n",
	.in_order = true,
	.run = check_main,
};

enum way {
	PLAIN,
	STEERED,
	WAYS,
};

struct check {
	char **argv;
	unsigned int turns;
	struct check_files files;
	struct check_result results[WAYS][TURNS_MAX];
	enum target target; /* whether the program loads the library */
	double warm; /* the largest share of the files that stayed in the page cache */
};

/* --- sums --- */

struct range {
	double low, median, high;
};

static int check_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static struct range check_range(double *values, unsigned int n)
{
	qsort(values, n, sizeof(*values), check_compare);
	return (struct range){ values[0], (values[(n - 1) / 2] + values[n / 2]) / 2,
			       values[n - 1] };
}

#define CHECK_RANGE(check, way, field)                                         \
	({                                                                     \
		double values_[TURNS_MAX];                                     \
		unsigned int i_;                                               \
                                                                               \
		for (i_ = 0; i_ < (check)->turns; i_++)                        \
			values_[i_] = (double)(check)->results[way][i_].field; \
		check_range(values_, (check)->turns);                          \
	})

static double check_ratio(const struct check *check)
{
	return CHECK_RANGE(check, PLAIN, seconds).median /
	       CHECK_RANGE(check, STEERED, seconds).median;
}

/* Return whether the runs differ by more than NOISE, and by more than their spread explains. */
static bool check_differs(const struct check *check)
{
	struct range plain = CHECK_RANGE(check, PLAIN, seconds);
	struct range steered = CHECK_RANGE(check, STEERED, seconds);
	double ratio = check_ratio(check);

	return (ratio > 1 + NOISE && steered.high < plain.low) ||
	       (ratio < 1 - NOISE && steered.low > plain.high);
}

/*
 * Return whether the plain runs wait. If they keep the processor busy all the time, steering can
 * remove hardly any wait.
 */
static bool check_waits(const struct check *check)
{
	return CHECK_RANGE(check, PLAIN, cpu_seconds).median <
	       (1 - NOISE) * CHECK_RANGE(check, PLAIN, seconds).median;
}

/* Return whether any steered run got advice. */
static bool check_is_advised(const struct check *check)
{
	unsigned int turn, act;

	for (turn = 0; turn < check->turns; turn++)
		for (act = 0; act < STEER_ACTS; act++)
			if (act != STEER_ACT_NORMAL && check->results[STEERED][turn].count[act])
				return true;
	return false;
}

/*
 * Return whether `hugemap run` helped the program from outside. This help has no page with the
 * numbers of its advice, so that only the times show a gain.
 */
static bool check_is_outside(const struct check *check)
{
	return !target_loads(check->target) && !check->results[STEERED][0].missed;
}

enum verdict {
	VERDICT_NOTHING, /* no mapping was steered */
	VERDICT_FASTER,
	VERDICT_SLOWER,
	VERDICT_SAME,
	VERDICT_UNCLEAR, /* too few turns */
};

static enum verdict check_verdict(const struct check *check)
{
	bool outside = check_is_outside(check);

	if (!check->results[STEERED][0].maps && !outside)
		return VERDICT_NOTHING;
	if (!check_is_advised(check) && !outside)
		return VERDICT_SAME; /* the runs are the same: their times differ by noise */
	if (check->turns < TURNS_LEAST)
		return VERDICT_UNCLEAR;
	if (!check_differs(check))
		return VERDICT_SAME;
	return check_ratio(check) > 1 ? VERDICT_FASTER : VERDICT_SLOWER;
}

static void check_put_same(const struct check *check, char text[400])
{
	char hints[64];

	if (check_is_advised(check) || check_is_outside(check))
		snprintf(text, 400,
			 "No difference: %.2f times as fast, which is within the spread of the "
			 "runs.%s",
			 check_ratio(check),
			 check_waits(check) ? "" : " The program hardly waits for its files.");
	else if (check->results[STEERED][0].hinted)
		snprintf(text, 400,
			 "No difference: nothing was advised. The program advises Linux itself "
			 "(%s), and HugeMap leaves its mapping alone.",
			 check->files.hints ? hints_text(check->files.hints, hints) : "madvise");
	else
		snprintf(text, 400,
			 "No difference: nothing was advised. Linux's own read-ahead "
			 "suits the program.");
}

static void check_put_nothing(const struct check *check, char text[400])
{
	if (check->target != TARGET_LOADS)
		snprintf(text, 400, "No gain: %s %s.%s", check->argv[0],
			 target_reason(check->target),
			 target_loads(check->target) ?
				 "" :
				 " With CAP_SYS_NICE, `hugemap run` helps it from outside.");
	else
		snprintf(text, 400,
			 "No gain: no file mapping of 16 MB or more on a disk of this machine was "
			 "steered. \"Troubleshooting\" in hugemap(1) has the reasons.");
}

static void check_put_verdict(const struct check *check, char text[400])
{
	double ratio = check_ratio(check);

	switch (check_verdict(check)) {
	case VERDICT_NOTHING:
		check_put_nothing(check, text);
		break;
	case VERDICT_FASTER:
		snprintf(text, 400, "Steering helps: the program is %.2f times as fast.", ratio);
		break;
	case VERDICT_SLOWER:
		snprintf(text, 400,
			 "Steering harms: the program is %.2f times as fast. Do not use it here.",
			 ratio);
		break;
	case VERDICT_UNCLEAR:
		snprintf(text, 400,
			 "Not clear: %.2f times as fast, which may be noise. A verdict takes "
			 "--turns %u or more.",
			 ratio, TURNS_LEAST);
		break;
	default:
		check_put_same(check, text);
	}
}

/* --- text --- */

static void check_print_words(const char *title, const char *text)
{
	printf("  %-*s", INDENT - 2, title);
	cli_print_words(INDENT, text);
}

static const char *check_seconds(struct range range, bool several, char text[64])
{
	if (several)
		snprintf(text, 64, "%.3g s (%.3g - %.3g)", range.median, range.low, range.high);
	else
		snprintf(text, 64, "%.3g s", range.median);
	return text;
}

static void check_print_time(const struct check *check)
{
	char text[WAYS][64];
	enum way way;

	for (way = PLAIN; way < WAYS; way++)
		check_seconds(CHECK_RANGE(check, way, seconds), check->turns > 1, text[way]);
	printf("  %-20s%28s%28s\n", "time", text[PLAIN], text[STEERED]);
}

static void check_print_bytes(const struct check *check)
{
	double used = CHECK_RANGE(check, STEERED, used_bytes).median, bytes;
	char text[WAYS][64], size[CLI_TEXT];
	enum way way;

	for (way = PLAIN; way < WAYS; way++) {
		bytes = CHECK_RANGE(check, way, read_bytes).median;
		cli_bytes(size, bytes);
		if (used > 0)
			snprintf(text[way], sizeof(text[way]), "%s, %.2f per byte used", size,
				 bytes / used);
		else
			snprintf(text[way], sizeof(text[way]), "%s", size);
	}
	printf("  %-20s%28s%28s\n", "read", text[PLAIN], text[STEERED]);
}

static void check_print_advice(const struct check *check)
{
	const struct check_result *result = &check->results[STEERED][check->turns - 1];
	char text[600] = "nothing", size[CLI_TEXT];
	size_t used = 0;
	unsigned int act;

	if (check_is_outside(check)) {
		snprintf(text, sizeof(text),
			 "from outside, where it is not counted: %s %s from within", check->argv[0],
			 target_reason(check->target));
		check_print_words("advised", text);
		return;
	}
	for (act = 0; act < STEER_ACTS; act++)
		if (result->count[act])
			used += (size_t)snprintf(text + used, sizeof(text) - used,
						 "%s%s %s in %llu call%s", used ? ", " : "",
						 steer_act_names[act],
						 cli_bytes(size, (double)result->amount[act]),
						 (unsigned long long)result->count[act],
						 result->count[act] == 1 ? "" : "s");
	if (result->why[0])
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "; %s", result->why);
	check_print_words("advised", text);
}

static void check_print_notes(const struct check *check)
{
	uint64_t kb = check->files.count ? device_read_ahead_kb(check->files.dev) : 0;

	if (check->files.count && kb != DEVICE_READ_AHEAD_KB)
		printf("\nread_ahead_kb of the device is %llu here, and %u on most machines, where "
		       "the\ngain is different.\n",
		       (unsigned long long)kb, DEVICE_READ_AHEAD_KB);
	if (check->warm > WARM)
		printf("\nNot quite cold: up to %.0f %% of the files stayed in the page cache. "
		       "Another\nprogram uses them.\n",
		       100 * check->warm);
}

static void check_print(const struct check *check)
{
	char verdict[400];

	printf("  %-20s%28s%28s\n", "", "plain", "steered");
	check_print_time(check);
	printf("  %-20s%28.0f%28.0f\n", "faults that wait", CHECK_RANGE(check, PLAIN, major).median,
	       CHECK_RANGE(check, STEERED, major).median);
	check_print_bytes(check);
	check_print_advice(check);
	check_put_verdict(check, verdict);
	check_print_words("verdict", verdict);
	check_print_notes(check);
}

/* --- JSON --- */

static json_t *check_way_json(const struct check *check, enum way way)
{
	json_t *list = json_array();
	unsigned int i;

	for (i = 0; i < check->turns; i++) {
		const struct check_result *result = &check->results[way][i];

		json_array_append_new(list,
				      json_pack("{s:f, s:f, s:I, s:I}", "seconds", result->seconds,
						"cpu_seconds", result->cpu_seconds, "major_faults",
						(json_int_t)result->major, "read_bytes",
						(json_int_t)result->read_bytes));
	}
	return list;
}

static void check_print_json(const struct check *check)
{
	static const char *const verdicts[] = { "nothing steered", "faster", "slower", "same",
						"unclear" };
	const struct check_result *last = &check->results[STEERED][check->turns - 1];
	const char *reason = check->target == TARGET_LOADS ? last->why :
							     target_reason(check->target);
	json_t *files = json_array(), *advice = json_object();
	unsigned int act;
	size_t i;

	for (i = 0; i < check->files.count; i++)
		json_array_append_new(files, cli_json_text(check->files.paths[i]));
	for (act = 0; act < STEER_ACTS; act++)
		json_object_set_new(advice, steer_act_names[act],
				    json_pack("{s:I, s:I}", "calls", (json_int_t)last->count[act],
					      "bytes", (json_int_t)last->amount[act]));
	cli_print_json(json_pack("{s:s, s:f, s:o, s:o, s:o, s:I, s:o, s:o, s:f}", "verdict",
				 verdicts[check_verdict(check)], "ratio", check_ratio(check),
				 "plain", check_way_json(check, PLAIN), "steered",
				 check_way_json(check, STEERED), "files", files, "used_bytes",
				 (json_int_t)last->used_bytes, "advice", advice, "reason",
				 cli_json_text(reason), "warm_share", check->warm),
		       false);
}

/* --- runs --- */

/* Run the program once. Return an error if it fails, because then the runs cannot be compared. */
static int check_do(struct check *check, enum way way, struct check_files *files,
		    struct check_result *result)
{
	int err;

	if (!files) {
		double warm = check_drop(&check->files);

		check->warm = warm > check->warm ? warm : check->warm;
	}
	err = check_run(check->argv, way == STEERED, files, result);
	if (err)
		return cli_fail(&check_command, "%s: %s", check->argv[0], strerror(-err));
	if (WIFSIGNALED(result->status))
		return cli_fail(&check_command, "%s was ended by signal %d in a %s run",
				check->argv[0], WTERMSIG(result->status),
				way == STEERED ? "steered" : "plain");
	if (WEXITSTATUS(result->status))
		return cli_fail(&check_command, "%s ended with exit status %d in a %s run",
				check->argv[0], WEXITSTATUS(result->status),
				way == STEERED ? "steered" : "plain");
	return CLI_OK;
}

static int check_measure(struct check *check)
{
	struct check_result unused;
	unsigned int turn, i;
	int status;

	cli_progress("hugemap check: a first run, to find the files");
	status = check_do(check, STEERED, &check->files, &unused);
	for (turn = 0; status == CLI_OK && turn < check->turns; turn++)
		for (i = 0; status == CLI_OK && i < WAYS; i++) {
			enum way way = (turn + i) % WAYS;

			cli_progress("hugemap check: turn %u of %u, %s", turn + 1, check->turns,
				     way == PLAIN ? "plain" : "steered");
			status = check_do(check, way, NULL, &check->results[way][turn]);
		}
	cli_progress_clear();
	return status;
}

static int check_main(int argc, char **argv)
{
	struct check check = { .turns = TURNS_DEFAULT };
	struct cli_parser parser;
	bool json = false;
	int key, status;

	cli_parse(&parser, &check_command, argc, argv);
	while ((key = cli_next(&parser)) >= 0) {
		if (key == 't')
			check.turns = (unsigned int)cli_number(&check_command, "--turns", optarg, 1,
							       TURNS_MAX);
		else
			json = true;
	}
	if (optind == argc)
		cli_usage(&check_command, "the program is missing");
	check.argv = argv + optind;
	check.target = run_target(check.argv[0]);
	status = check_measure(&check);
	if (status == CLI_OK && json)
		check_print_json(&check);
	else if (status == CLI_OK)
		check_print(&check);
	check_files_free(&check.files);
	return status;
}
