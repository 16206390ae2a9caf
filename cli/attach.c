// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap attach: watch a running program, and read ahead for it. */
#include "attach_print.h"
#include "attach_state.h"
#include "attach_watch.h"
#include "cli.h"
#include "lines.h"
#include "screen.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIN_SIZE_DEFAULT (16ull << 20)
#define PLAIN_WIDTH 200 /* width of lines without a terminal: paths are long */
#define DRAW_SECONDS 0.5
#define HELP "q)uit  arrows and page keys scroll"

static const struct cli_option options[] = {
	{ "for", "TIME", 'f', "end after that time: seconds, or 90s, 5m, 2h" },
	{ "dry-run", NULL, 'n', "only watch, and print which advice would help" },
	{ "min-size", "SIZE", 'm', "leave shorter mappings alone (default: 16M)" },
	{ "json", NULL, 'j', "print the summary as JSON" },
	{},
};

static int attach_run(int argc, char **argv);

const struct cli_command attach_command = {
	.name = "attach",
	.synopsis = "[--for TIME] [--dry-run] [--min-size SIZE] [--json] PID",
	.summary = "Watch how a running program uses its files, and advise Linux.",
	.options = options,
	.letters = "n",
	.notes = "It ends with the program, after --for, by q or by Ctrl-C, and prints a summary.\n"
		 "It watches programs of the same user, and advises only as root.\n",
	.run = attach_run,
};

static volatile sig_atomic_t stopped;

static void attach_on_signal(int number)
{
	stopped = number;
}

static double attach_duration(const char *text)
{
	static const char units[] = "smh";
	static const double factor[] = { 1, 60, 3600 };
	char *end;
	double value = strtod(text, &end);
	const char *unit = *end ? strchr(units, *end) : units;

	if (end == text || !unit || (*end && end[1]) || !(value > 0) || value > 1e7)
		cli_usage(&attach_command, "--for must be a time like 60s, 5m or 2h, not '%s'",
			  text);
	return value * factor[unit - units];
}

/* --- on a terminal --- */

struct screen {
	bool used;
	double draw_at;
	size_t first; /* first line drawn below the head */
	struct text_settings settings;
};

static void attach_draw(const struct attach *attach, struct screen *screen)
{
	struct lines lines = {};

	screen->settings.width = screen_width();
	text_build(attach, &screen->settings, &lines);
	screen_draw(&lines, &screen->first, HELP);
	lines_free(&lines);
	screen->draw_at = cli_now() + DRAW_SECONDS;
}

/* Handle all keys that were pressed; false: the user ends the command. */
static bool attach_type(struct screen *screen)
{
	int key;

	while ((key = screen_key(0)) != SCREEN_NO_KEY) {
		if (key == 'q' || key == 'Q')
			return false;
		screen_scroll(key, &screen->first);
		screen->draw_at = 0;
	}
	return true;
}

/* --- the loop --- */

/* Wait until the time is over, a key is pressed, a signal comes or the process ends. */
static bool attach_wait(const struct attach *attach, const struct screen *screen, uint64_t ns)
{
	struct timespec time = { .tv_sec = (time_t)(ns / 1000000000u),
				 .tv_nsec = (long)(ns % 1000000000u) };
	struct pollfd fds[] = {
		{ .fd = attach->pidfd, .events = POLLIN },
		{ .fd = screen->used ? STDIN_FILENO : -1, .events = POLLIN },
	};
	sigset_t none;

	/* Signals arrive only here, so the loop sees each of them. */
	sigemptyset(&none);
	ppoll(fds, 2, &time, &none);
	return !fds[0].revents;
}

static void attach_follow(struct attach *attach, struct screen *screen, double end)
{
	uint64_t wait;
	double left;

	for (;;) {
		wait = attach_step(attach);
		if (screen->used && (!attach_type(screen) || stopped))
			return;
		if (screen->used && cli_now() >= screen->draw_at)
			attach_draw(attach, screen);
		left = end - cli_now();
		if (stopped || left <= 0)
			return;
		if (screen->used && wait > 1e9 * DRAW_SECONDS)
			wait = (uint64_t)(1e9 * DRAW_SECONDS);
		if ((double)wait > left * 1e9)
			wait = (uint64_t)(left * 1e9) + 1;
		if (!attach_wait(attach, screen, wait))
			return;
	}
}

static void attach_catch_signals(void)
{
	struct sigaction action = { .sa_handler = attach_on_signal };
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	sigset_t set;
	size_t i;

	sigemptyset(&set);
	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		sigaction(signals[i], &action, NULL);
		sigaddset(&set, signals[i]);
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static void attach_print_summary(const struct attach *attach, bool unicode)
{
	struct text_settings settings = {
		.width = PLAIN_WIDTH, .unicode = unicode, .final = true, .maps = 12, .pictures = 4
	};
	struct lines lines = {};
	size_t i;

	text_build(attach, &settings, &lines);
	for (i = 0; i < lines.count; i++)
		puts(lines.list[i].text);
	lines_free(&lines);
}

static int attach_process(pid_t pid, const struct attach_settings *settings, double length,
			  bool json)
{
	bool terminal = !json && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
	bool unicode = terminal && !strcmp(nl_langinfo(CODESET), "UTF-8");
	struct screen screen = { .settings = { .unicode = unicode, .maps = 12, .pictures = 4 } };
	struct attach attach;
	char why[256];
	int err;

	err = attach_open(pid, settings, &attach, why);
	if (!err && attach.steered && settings->advise) {
		snprintf(why, sizeof(why),
			 "process %d runs under `hugemap run`, which helps it from within already: "
			 "see `hugemap stat %d`",
			 pid, pid);
		err = -EBUSY;
	}
	if (err) {
		attach_close(&attach);
		return cli_fail(&attach_command, "%s", why);
	}
	attach_catch_signals();
	screen.used = terminal && !screen_open();
	if (!screen.used)
		fprintf(stderr, "hugemap attach: watching %s (%d); Ctrl-C ends it\n", attach.name,
			pid);
	attach_follow(&attach, &screen, cli_now() + length);
	if (screen.used)
		screen_close();
	attach_finish(&attach);
	if (json)
		attach_write_json(&attach);
	else
		attach_print_summary(&attach, unicode);
	attach_close(&attach);
	return CLI_OK;
}

static int attach_run(int argc, char **argv)
{
	struct attach_settings settings = { .min_size = MIN_SIZE_DEFAULT, .advise = true };
	struct cli_parser parser;
	double length = 1e9;
	bool json = false;
	unsigned long long pid;
	int key;

	cli_parse(&parser, &attach_command, argc, argv);
	while ((key = cli_next(&parser)) >= 0) {
		if (key == 'f')
			length = attach_duration(optarg);
		else if (key == 'm')
			settings.min_size = cli_size(&attach_command, "--min-size", optarg);
		else if (key == 'j')
			json = true;
		else
			settings.advise = false;
	}
	if (optind == argc)
		cli_usage(&attach_command, "the PID of the process is missing");
	if (optind + 1 < argc)
		cli_usage(&attach_command, "'%s' is not expected here", argv[optind + 1]);
	pid = cli_number(&attach_command, "PID", argv[optind], 1, 0x7fffffff);
	/* Names of files are in the character set of the terminal. */
	setlocale(LC_CTYPE, "");
	return attach_process((pid_t)pid, &settings, length, json);
}
