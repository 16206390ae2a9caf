// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap stat: print numbers of a process or a mount, or list all. */
#include "cli.h"
#include "process.h"
#include "stat_metrics.h"
#include "stat_mount.h"
#include "stat_process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <jansson.h>

static const struct cli_option options[] = {
	{ "interval", "S", 'i', "print again every S seconds" },
	{ "count", "N", 'c', "stop after N times" },
	{ "json", NULL, 'j', "print JSON; with --interval one object a line" },
	{ "openmetrics", NULL, 'o', "print all processes and mounts for Prometheus" },
	{},
};

static int stat_run(int argc, char **argv);

const struct cli_command stat_command = {
	.name = "stat",
	.synopsis = "[PID | PATH] [--interval S] [--count N]\n"
		    "                    [--json | --openmetrics]",
	.summary = "Print the numbers of a process or a mount, or list all of them.",
	.options = options,
	.notes = "PATH is a mount of the kernel engine, or any file there.\n\n"
		 "Exit status: 0 if numbers were printed, 1 if the process does not exist, does\n"
		 "not use HugeMap or belongs to another user, or PATH is on no mount of HugeMap,\n"
		 "2 if the command line is wrong.\n",
	.run = stat_run,
};

static int stat_fail_process(pid_t pid, int err)
{
	switch (err) {
	case -ESRCH:
		return cli_fail(&stat_command, "there is no process %d", pid);
	case -EACCES:
	case -EPERM:
		return cli_fail(&stat_command,
				"process %d belongs to another user: run this as that user, or as "
				"root",
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

static int stat_fail_mount(const char *path, int err)
{
	switch (err) {
	case -ENODEV:
		return cli_fail(
			&stat_command,
			"'%s' is not on a mount of HugeMap; `hugemap stat` lists all mounts", path);
	case -EPROTO:
		return cli_fail(&stat_command,
				"the kernel module is of another version of HugeMap: use the "
				"`hugemap` command of that version");
	default:
		return cli_fail(&stat_command, "'%s': %s", path, strerror(-err));
	}
}

/* --- one process --- */

static int stat_watch_process(pid_t pid, double interval, unsigned long long count, bool json)
{
	struct process *process = malloc(sizeof(*process));
	unsigned long long i;
	int err = process ? process_open(pid, process) : -ENOMEM;

	for (i = 0; !err && i < count; i++) {
		if (i)
			cli_sleep(interval);
		err = process_read(process);
		if (err)
			break;
		if (json) {
			cli_print_json(stat_process_json(process), interval > 0);
			continue;
		}
		if (i)
			putchar('\n');
		stat_process_print(process);
	}
	if (process)
		process_close(process);
	free(process);
	/* If numbers were printed before the process ended, the command succeeded. */
	if (err == -ESRCH && i)
		err = 0;
	return err ? stat_fail_process(pid, err) : CLI_OK;
}

static int stat_watch_mount(const char *path, double interval, unsigned long long count, bool json)
{
	int err = stat_mount_watch(path, interval, count, json);

	return err ? stat_fail_mount(path, err) : CLI_OK;
}

/* --- all processes and mounts --- */

struct listing {
	json_t *json; /* NULL = text */
	bool titled;
};

static void stat_list_process(const struct process *process, void *arg)
{
	struct listing *listing = arg;

	if (listing->json) {
		json_array_append_new(listing->json, stat_process_json(process));
		return;
	}
	if (!listing->titled)
		stat_process_list_title();
	listing->titled = true;
	stat_process_list_line(process);
}

static int stat_list(bool json)
{
	struct listing listing = { .json = json ? json_array() : NULL };
	int denied = process_each(stat_list_process, &listing);

	if (json) {
		cli_print_json(json_pack("{s:o, s:o, s:i}", "processes", listing.json, "mounts",
					 stat_mount_list_json(), "not_permitted", denied),
			       false);
		return CLI_OK;
	}
	if (!stat_mount_list() && !listing.titled)
		printf("No process here uses HugeMap now, and there is no mount of it.\n");
	if (denied)
		printf("%d more process%s of other users: only root can look into them.\n", denied,
		       denied == 1 ? "" : "es");
	return CLI_OK;
}

static bool stat_is_number(const char *text)
{
	return text[strspn(text, "0123456789")] == '\0';
}

static int stat_run(int argc, char **argv)
{
	unsigned long long count = 0;
	const char *what;
	struct cli_parser parser;
	double interval = 0;
	bool json = false, metrics = false;
	pid_t pid;
	int key;

	cli_parse(&parser, &stat_command, argc, argv);
	while ((key = cli_next(&parser)) >= 0) {
		if (key == 'i')
			interval = cli_seconds(&stat_command, "--interval", optarg);
		else if (key == 'c')
			count = cli_number(&stat_command, "--count", optarg, 1, 1ull << 40);
		else if (key == 'o')
			metrics = true;
		else
			json = true;
	}
	if (metrics && (json || interval > 0 || count || optind < argc))
		cli_usage(
			&stat_command,
			"--openmetrics prints all processes and mounts once, without other options");
	if (metrics)
		return stat_metrics_print() ? cli_fail(&stat_command, "too little memory") : CLI_OK;
	if (optind + 1 < argc)
		cli_usage(&stat_command, "'%s' is not expected after the PID or path",
			  argv[optind + 1]);
	if (optind == argc) {
		if (interval > 0 || count)
			cli_usage(&stat_command, "--interval and --count need a PID or a path");
		return stat_list(json);
	}
	if (count && interval <= 0)
		interval = 1;
	if (!count)
		count = interval > 0 ? ~0ull : 1;
	what = argv[optind];
	/* An operand of digits is a PID; ./4711 is a file. */
	if (!stat_is_number(what) && (strchr(what, '/') || !access(what, F_OK)))
		return stat_watch_mount(what, interval, count, json);
	pid = (pid_t)cli_number(&stat_command, "the PID", what, 1, 1 << 30);
	return stat_watch_process(pid, interval, count, json);
}
