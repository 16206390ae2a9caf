// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap run: start a program with libhugemap-run.so preloaded, which has its mappings
 * steered. The command reads settings from files, the environment and options, in this order,
 * and passes them to the library in the environment. A program that cannot load the library is
 * started without it, and a second process advises it as `hugemap attach` does.
 */
#include "attach_state.h"
#include "cli.h"
#include "run_tally.h"
#include "run_outside.h"
#include "steer.h"
#include "tally.h"
#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define LIBRARY "libhugemap-run.so"
#define CANNOT_EXECUTE 126
#define NOT_FOUND 127

static const struct cli_option options[] = {
	{ "verbose", NULL, 'v', "print each decision with its reason" },
	{ "summary", NULL, 's', "print faults, bytes read and advice at the end" },
	{ "include", "GLOB", 'i', "only files whose name matches; may be given again" },
	{ "exclude", "GLOB", 'x', "not these; may be given again" },
	{ "min-size", "SIZE", 'm', "leave smaller mappings alone (default: 16M)" },
	{ "override-hints", NULL, 'o', "replace madvise() hints that make the program slower" },
	{},
};

static int run_main(int argc, char **argv);

const struct cli_command run_command = {
	.name = "run",
	.synopsis = "[OPTION]... [--] PROGRAM [ARGUMENT]...",
	.summary = "Run a program, and steer its mappings of large files.",
	.options = options,
	.notes =
		"Each option is also a line in /etc/hugemap/run.conf and\n"
		"~/.config/hugemap/run.conf (min-size = 64M) and a variable\n"
		"(HUGEMAP_RUN_MIN_SIZE).\n\n"
		"Exit status: that of PROGRAM; 1 if the library to be loaded is missing, 2 if the\n"
		"command line is wrong, 126 or 127 if PROGRAM cannot be started or found.\n",
	.letters = "v",
	.in_order = true,
	.run = run_main,
};

enum kind {
	FLAG,
	LIST,
	SIZE,
};

/* The keys are those of options[]. */
static struct setting {
	int key;
	enum kind kind;
	const char *name, *variable;
	char *value; /* NULL = not set */
} settings[] = {
	{ 'v', FLAG, "verbose", "HUGEMAP_RUN_VERBOSE", NULL },
	{ 's', FLAG, "summary", "HUGEMAP_RUN_SUMMARY", NULL },
	{ 'i', LIST, "include", "HUGEMAP_RUN_INCLUDE", NULL },
	{ 'x', LIST, "exclude", "HUGEMAP_RUN_EXCLUDE", NULL },
	{ 'm', SIZE, "min-size", "HUGEMAP_RUN_MIN_SIZE", NULL },
	{ 'o', FLAG, "override-hints", "HUGEMAP_RUN_OVERRIDE_HINTS", NULL },
};

#define NSETTINGS (sizeof(settings) / sizeof(settings[0]))

static void *run_need(void *memory)
{
	if (!memory)
		exit(cli_fail(&run_command, "there is no memory left"));
	return memory;
}

static bool run_is_flag(const char *text)
{
	return !strcmp(text, "0") || !strcmp(text, "1") || !strcasecmp(text, "yes") ||
	       !strcasecmp(text, "no");
}

/*
 * @where: the setting's name in error messages. @add: append to a list. A size is stored in
 * bytes, since the library reads no fractions.
 */
static void run_set(struct setting *setting, const char *text, const char *where, bool add)
{
	char bytes[32], *value;

	switch (setting->kind) {
	case FLAG:
		if (!run_is_flag(text))
			cli_usage(&run_command, "%s must be yes or no, not '%s'", where, text);
		break;
	case SIZE:
		snprintf(bytes, sizeof(bytes), "%llu",
			 (unsigned long long)cli_size(&run_command, where, text));
		text = bytes;
		break;
	default:
		break;
	}
	if (add && setting->kind == LIST && setting->value) {
		if (asprintf(&value, "%s:%s", setting->value, text) < 0)
			value = NULL;
	} else {
		value = strdup(text);
	}
	run_need(value);
	free(setting->value);
	setting->value = value;
}

static struct setting *run_setting_by_name(const char *name)
{
	size_t i;

	for (i = 0; i < NSETTINGS; i++)
		if (!strcmp(settings[i].name, name))
			return &settings[i];
	return NULL;
}

static struct setting *run_setting_by_key(int key)
{
	size_t i;

	for (i = 0; settings[i].key != key; i++)
		;
	return &settings[i];
}

static char *run_trim(char *text)
{
	char *end;

	text += strspn(text, " \t");
	end = text + strlen(text);
	while (end > text && strchr(" \t\n\r", end[-1]))
		*--end = '\0';
	return text;
}

/* Lines are "name = value"; a # begins a comment. */
static void run_read_file(const char *path)
{
	char line[PATH_MAX + 64], where[PATH_MAX + 96];
	FILE *file = fopen(path, "re");
	unsigned int number = 0;

	if (!file) {
		/* After su, HOME may be another user's directory, which this user cannot read. */
		if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
			exit(cli_fail(&run_command, "%s: %s", path, strerror(errno)));
		return;
	}
	while (fgets(line, sizeof(line), file)) {
		char *name, *value;
		struct setting *setting;

		number++;
		line[strcspn(line, "#")] = '\0';
		name = run_trim(line);
		if (!*name)
			continue;
		value = strchr(name, '=');
		if (value)
			*value++ = '\0';
		name = run_trim(name);
		snprintf(where, sizeof(where), "%s, line %u: %s", path, number, name);
		setting = run_setting_by_name(name);
		if (!setting || !value)
			cli_usage(&run_command, "%s, line %u: '%s' is no setting", path, number,
				  name);
		run_set(setting, run_trim(value), where, true);
	}
	fclose(file);
}

static void run_read_files(void)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char path[PATH_MAX];

	run_read_file("/etc/hugemap/run.conf");
	if (config && *config)
		snprintf(path, sizeof(path), "%s/hugemap/run.conf", config);
	else if (home && *home)
		snprintf(path, sizeof(path), "%s/.config/hugemap/run.conf", home);
	else
		return;
	run_read_file(path);
}

static void run_read_environment(void)
{
	size_t i;

	for (i = 0; i < NSETTINGS; i++) {
		const char *value = getenv(settings[i].variable);

		if (value && *value)
			run_set(&settings[i], value, settings[i].variable, false);
	}
}

/* The library is beside this command in a build directory, or else where it was installed. */
static bool run_find_library(char *path, size_t size)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (n > 0) {
		self[n] = '\0';
		slash = strrchr(self, '/');
		if (slash)
			*slash = '\0';
		snprintf(path, size, "%s/%s", self, LIBRARY);
		if (!access(path, R_OK))
			return true;
	}
	snprintf(path, size, "%s/%s", HUGEMAP_LIBDIR, LIBRARY);
	return !access(path, R_OK);
}

/*
 * The library is the last entry of LD_PRELOAD. Another library that replaces the same functions
 * then calls this one, and the address sanitizer accepts no library before its own.
 */
static int run_preload(void)
{
	const char *already = getenv("LD_PRELOAD");
	char library[2 * PATH_MAX], *all;
	size_t i;

	if (!run_find_library(library, sizeof(library)))
		return cli_fail(&run_command, "%s is not there: is HugeMap installed?", library);
	/* Spaces and colons separate the entries of LD_PRELOAD and cannot be escaped. */
	if (strpbrk(library, " :"))
		return cli_fail(&run_command,
				"the directory of %s must not have a space or a colon", library);
	for (i = 0; i < NSETTINGS; i++)
		if (settings[i].value)
			setenv(settings[i].variable, settings[i].value, 1);
	if (already && strstr(already, library))
		return CLI_OK;
	if (asprintf(&all, "%s%s%s", already ? already : "", already && *already ? ":" : "",
		     library) < 0)
		all = NULL;
	run_need(all);
	setenv("LD_PRELOAD", all, 1);
	free(all);
	return CLI_OK;
}

/* --- programs that do not load the library --- */

static bool run_is_set(const char *value)
{
	return value && *value && !strchr("0nN", *value);
}

/* Is a line printed for each program that is not steered? */
static bool run_reports(void)
{
	return run_is_set(run_setting_by_key('v')->value) ||
	       run_is_set(run_setting_by_key('s')->value);
}

static uint64_t run_least(void)
{
	const char *size = run_setting_by_key('m')->value;

	return size ? strtoull(size, NULL, 10) : STEER_LEAST_DEFAULT;
}

/* For --summary */
static void run_count(char **argv)
{
	char least[CLI_TEXT];

	run_tally(argv, cli_bytes(least, (double)run_least()));
}

static void run_help_outside(char **argv, enum target target)
{
	struct attach_settings outside = {
		.min_size = run_least(),
		.advise = true,
		.include = run_setting_by_key('i')->value,
		.exclude = run_setting_by_key('x')->value,
	};
	char why[256];
	bool helped;

	if (run_is_set(getenv("HUGEMAP_RUN_OFF")))
		return;
	helped = run_outside(&outside, argv, why);
	tally_add(getenv(TALLY_VARIABLE), helped ? TALLY_OUTSIDE : (unsigned char)target);
	if (run_reports())
		fprintf(stderr, "hugemap run: %d: %s %s from within; %s%s\n", getpid(), argv[0],
			target_reason(target),
			helped ? "it is helped from outside" : "it is not helped from outside: ",
			helped ? "" : why);
}

static void run_report_go(const char *name)
{
	tally_add(getenv(TALLY_VARIABLE), TARGET_GO);
	fprintf(stderr, "hugemap run: %d: %s %s\n", getpid(), name, target_reason(TARGET_GO));
}

static int run_main(int argc, char **argv)
{
	char where[32];
	struct cli_parser parser;
	bool given[NSETTINGS] = {};
	enum target target;
	int key, err;

	run_read_files();
	run_read_environment();
	cli_parse(&parser, &run_command, argc, argv);
	while ((key = cli_next(&parser)) >= 0) {
		struct setting *setting = run_setting_by_key(key);

		snprintf(where, sizeof(where), "--%s", setting->name);
		run_set(setting, setting->kind == FLAG ? "1" : optarg, where,
			given[setting - settings]);
		given[setting - settings] = true;
	}
	if (optind == argc)
		cli_usage(&run_command, "the program is missing");
	argv += optind;
	if (run_is_set(run_setting_by_key('s')->value) && !run_is_set(getenv("HUGEMAP_RUN_OFF")))
		run_count(argv);
	target = run_target(argv[0]);
	err = target_loads(target) ? run_preload() : CLI_OK;
	if (err)
		return err;
	if (!target_loads(target))
		run_help_outside(argv, target);
	else if (target == TARGET_GO && run_reports())
		run_report_go(argv[0]);
	fflush(NULL);
	execvp(argv[0], argv);
	err = errno;
	tally_add(getenv(TALLY_VARIABLE), TALLY_MAPPED);
	cli_fail(&run_command, "%s: %s", argv[0], strerror(err));
	return err == ENOENT ? NOT_FOUND : CANNOT_EXECUTE;
}
