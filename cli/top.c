// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap top: a live view of all mounts and of all processes whose mappings are steered. */
#include "cli.h"
#include "screen.h"
#include "top_model.h"
#include "top_view.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <jansson.h>

#define PLAIN_WIDTH 100 /* of lines of plain text */
#define FOREVER (~0ull)
#define HELP "q)uit sort: r)ead w)rite f)aults h)its d)irty e)vict l)atency n)ame m)aps p)ages"

static const struct cli_option options[] = {
	{ "interval", "S", 'i', "refresh every S seconds (default: 2)" },
	{ "count", "N", 'c', "stop after N times" },
	{ "sort", "WORD", 's', "read write faults hits dirty evictions latency name" },
	{ "json", NULL, 'j', "print JSON, one object a line" },
	{},
};

static int top_run(int argc, char **argv);

const struct cli_command top_command = {
	.name = "top",
	.synopsis = "[--interval S] [--count N] [--sort WORD] [--json] [FILE...]",
	.summary = "Watch all mounts and all processes that use HugeMap, live.",
	.options = options,
	.notes = "Keys: q ends the program; r, w, f, h, d, e, l and n sort; m hides or shows\n"
		 "mappings; p hides or shows which pages are cached, of mapped files and of each\n"
		 "FILE; arrows and page keys scroll. Without a terminal, plain text is printed.\n",
	.run = top_run,
};

struct top {
	struct top_settings settings;
	struct top_model now, before;
	char **files; /* of the command line; NULL ends the list */
	unsigned long long count;
	size_t first; /* first line drawn below the head */
};

static volatile sig_atomic_t stopped; /* the number of the signal */

static void top_on_signal(int number)
{
	stopped = number;
}

/* Read the strips of files. Files that cannot be opened, or may not be inspected, are left out. */
static void top_read_strips(struct top *top)
{
	const struct users *users = &top->now.users;
	char **file;
	size_t i;

	for (file = top->files; *file; file++)
		top_strips_add(&top->now.strips, *file, 0);
	for (i = 0; i < users->count; i++)
		top_strips_add(&top->now.strips, users->list[i].path, users->list[i].dev);
}

static void top_read(struct top *top)
{
	top_model_free(&top->before);
	top->before = top->now;
	top_model_read(&top->now, &top->before);
	if (top->settings.strips)
		top_read_strips(top);
}

/* Check that a file of the command line has a strip. */
static int top_check_file(const char *path)
{
	struct top_strips strips = {};
	int err = top_strips_add(&strips, path, 0);

	top_strips_free(&strips);
	if (err == -ENOTTY || err == -EINVAL)
		return cli_fail(&top_command, "%s is no file of a mount of HugeMap", path);
	if (err == -EPERM)
		return cli_fail(&top_command,
				"%s: only the owner of the file, or a user who may write it, can "
				"see what is cached",
				path);
	if (err)
		return cli_fail(&top_command, "%s: %s", path, strerror(-err));
	return CLI_OK;
}

/* --- without a terminal --- */

static void top_print_plain(struct top *top)
{
	struct lines lines = {};
	size_t i;

	top_view_build(&top->now, &top->settings, &lines);
	for (i = 0; i < lines.count; i++)
		puts(lines.list[i].text);
	fflush(stdout);
	lines_free(&lines);
}

static int top_run_plain(struct top *top, bool json)
{
	unsigned long long i;

	for (i = 0; i < top->count; i++) {
		double start = cli_now();

		cli_sleep(top->settings.interval);
		top_read(top);
		if (json) {
			cli_print_json(top_model_json(&top->now, cli_now() - start), true);
		} else {
			if (i)
				putchar('\n');
			top_print_plain(top);
		}
		if (ferror(stdout))
			return cli_fail(&top_command, "the output could not be written");
	}
	return CLI_OK;
}

/* --- on a terminal --- */

static void top_draw(struct top *top)
{
	struct lines lines = {};

	top->settings.width = screen_width();
	top_view_build(&top->now, &top->settings, &lines);
	screen_draw(&lines, &top->first, HELP);
	lines_free(&lines);
}

/* Handle a key; false: the user ends the command. */
static bool top_handle_key(struct top *top, int key)
{
	int i;

	for (i = 0; i < TOP_SORTS; i++)
		if (key == top_keys[i].key)
			top->settings.sort = (enum top_sort)i;
	if (key == 'm')
		top->settings.mappings = !top->settings.mappings;
	if (key == 'p')
		top->settings.strips = !top->settings.strips;
	screen_scroll(key, &top->first);
	return key != 'q' && key != 'Q';
}

/* Show the view until it is time for the next sample; false: the user ends the command. */
static bool top_show_until(struct top *top, double end)
{
	top_draw(top);
	while (!stopped) {
		double left = end - cli_now();
		int key;

		if (left <= 0)
			return true;
		key = screen_key(left);
		if (key == SCREEN_NO_KEY)
			continue;
		if (!top_handle_key(top, key))
			return false;
		top_draw(top);
	}
	return false;
}

static int top_run_screen(struct top *top)
{
	/* Without SA_RESTART, a signal interrupts the wait for a key. */
	struct sigaction action = { .sa_handler = top_on_signal };
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	unsigned long long i;
	size_t s;

	for (s = 0; s < sizeof(signals) / sizeof(signals[0]); s++)
		sigaction(signals[s], &action, NULL);
	if (screen_open()) {
		const char *type = getenv("TERM");

		return cli_fail(&top_command,
				"the terminal type '%s' is not known here: set TERM, or use "
				"`hugemap top | cat` for plain text",
				type ? type : "");
	}
	/* Show the first view at once, without rates, and the second one after half a second. */
	top_read(top);
	if (top_show_until(top, cli_now() + SAMPLE_SHORT_SECONDS))
		for (i = 0; i < top->count; i++) {
			top_read(top);
			if (!top_show_until(top, cli_now() + top->settings.interval))
				break;
		}
	screen_close();
	if (stopped && stopped != SIGINT) {
		signal(stopped, SIG_DFL);
		raise(stopped);
	}
	return CLI_OK;
}

static int top_run(int argc, char **argv)
{
	struct top top = {
		.settings = { .width = PLAIN_WIDTH,
			      .mappings = true,
			      .strips = true,
			      .interval = 2 },
		.count = FOREVER,
	};
	struct cli_parser parser;
	bool json = false;
	int key, i, status = CLI_OK;

	cli_parse(&parser, &top_command, argc, argv);
	while ((key = cli_next(&parser)) >= 0) {
		if (key == 'i')
			top.settings.interval = cli_seconds(&top_command, "--interval", optarg);
		else if (key == 'c')
			top.count = cli_number(&top_command, "--count", optarg, 1, 1ull << 40);
		else if (key == 's' && !top_sort_of(optarg, &top.settings.sort))
			cli_usage(&top_command, "--sort does not know '%s'", optarg);
		else if (key == 'j')
			json = true;
	}
	for (i = optind; i < argc && status == CLI_OK; i++)
		status = top_check_file(argv[i]);
	if (status != CLI_OK)
		return status;
	top.files = argv + optind;
	/* Names of files are in the character set of the terminal. */
	setlocale(LC_CTYPE, "");
	top.settings.unicode = !strcmp(nl_langinfo(CODESET), "UTF-8");
	if (json || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO)) {
		top_model_read(&top.now, NULL);
		status = top_run_plain(&top, json);
	} else {
		status = top_run_screen(&top);
	}
	top_model_free(&top.now);
	top_model_free(&top.before);
	return status;
}
