// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap stat: live numbers from a running process. */
#include "stat.h"
#include "cli.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <jansson.h>

#define SHORT_WAIT 0.5 /* seconds; for rates, when no interval is given */

static const struct cli_option options[] = {
	{ "interval", "S", 'i', "print again every S seconds" },
	{ "count", "N", 'c', "stop after N times" },
	{ "json", NULL, 'j', "print JSON; with --interval one object a line" },
	{},
};

static int run_stat(int argc, char **argv);

const struct cli_command stat_command = {
	.name = "stat",
	.synopsis = "[PID] [--interval S] [--count N] [--json]",
	.summary = "Print live numbers of a process that uses HugeMap, or list such processes.",
	.options = options,
	.notes =
		"Exit status: 0 if numbers were printed, 1 if the process does not exist, does not\n"
		"use HugeMap or may not be looked into, 2 if the command line makes no sense.\n",
	.run = run_stat,
};

static int explain(pid_t pid, int err)
{
	switch (err) {
	case -ESRCH:
		return cli_fail(&stat_command, "there is no process %d", pid);
	case -EACCES:
	case -EPERM:
		return cli_fail(&stat_command,
				"process %d belongs to somebody else: run this as the same user, "
				"or as root",
				pid);
	case -ENOENT:
		return cli_fail(
			&stat_command,
			"process %d does not use HugeMap; `hugemap stat` lists those that do", pid);
	case -EPROTO:
		return cli_fail(&stat_command,
				"process %d uses another version of HugeMap: use the `hugemap` "
				"command of that version",
				pid);
	default:
		return cli_fail(&stat_command, "process %d: %s", pid, strerror(-err));
	}
}

/* --- one process --- */

static void wait_for(double seconds)
{
	struct timespec ts = {
		.tv_sec = (time_t)seconds,
		.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9),
	};

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

static void print_one(const struct target *target, bool json, bool line)
{
	json_t *object;

	if (!json) {
		stat_print(target);
		return;
	}
	object = stat_json(target);
	if (line) {
		json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
		putchar('\n');
		fflush(stdout);
	} else {
		cli_write_json(stdout, object);
	}
	json_decref(object);
}

static int watch(pid_t pid, double interval, unsigned long long count, bool json)
{
	struct target *target = malloc(sizeof(*target));
	unsigned long long i;
	int err = target ? stat_open(pid, target) : -ENOMEM;

	for (i = 0; !err && i < count; i++) {
		double start = cli_now();

		wait_for(interval > 0 ? interval : SHORT_WAIT);
		err = stat_read(target);
		if (err)
			break;
		target->seconds = cli_now() - start;
		if (i && !json)
			putchar('\n');
		print_one(target, json, interval > 0);
	}
	if (target)
		stat_close(target);
	free(target);
	/* That it has ended is no failure once there were numbers. */
	if (err == -ESRCH && i)
		err = 0;
	return err ? explain(pid, err) : CLI_OK;
}

/* --- all processes --- */

struct listing {
	json_t *json; /* NULL = text */
	bool titled;
};

static void list_one(const struct target *target, void *arg)
{
	struct listing *listing = arg;

	if (listing->json) {
		json_array_append_new(listing->json, stat_json(target));
		return;
	}
	if (!listing->titled)
		stat_list_title();
	listing->titled = true;
	stat_list_print(target);
}

static int list(bool json)
{
	struct listing listing = { .json = json ? json_array() : NULL };
	int closed = stat_each(list_one, &listing);

	if (json) {
		json_t *object =
			json_pack("{s:o, s:i}", "processes", listing.json, "not_permitted", closed);

		cli_write_json(stdout, object);
		json_decref(object);
		return CLI_OK;
	}
	if (!listing.titled)
		printf("No process here uses HugeMap now.\n");
	if (closed)
		printf("%d processes belong to others and could not be looked into: as root, you "
		       "could.\n",
		       closed);
	return CLI_OK;
}

static int run_stat(int argc, char **argv)
{
	unsigned long long count = 0;
	struct cli_parser parser;
	double interval = 0;
	bool json = false;
	pid_t pid;
	int key;

	cli_parse(&parser, &stat_command, argc, argv);
	while ((key = cli_next(&parser)) >= 0) {
		if (key == 'i')
			interval = cli_seconds(&stat_command, "--interval", optarg);
		else if (key == 'c')
			count = cli_number(&stat_command, "--count", optarg, 1, 1ull << 40);
		else
			json = true;
	}
	if (optind + 1 < argc)
		cli_usage(&stat_command, "'%s' is not expected after the PID", argv[optind + 1]);
	if (optind == argc) {
		if (interval > 0 || count)
			cli_usage(&stat_command, "--interval and --count need a PID");
		return list(json);
	}
	pid = (pid_t)cli_number(&stat_command, "the PID", argv[optind], 1, 1 << 30);
	if (count && interval <= 0)
		interval = 1;
	if (!count)
		count = interval > 0 ? ~0ull : 1;
	return watch(pid, interval, count, json);
}
