/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the subcommands of `hugemap` share: options, sizes, progress.
 *
 * A subcommand is a struct cli_command. Its table of options is the one source
 * for getopt_long(), for --help, and (by a test) for the man page.
 */
#ifndef CLI_H
#define CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <getopt.h>

/* Exit statuses, for all subcommands; those of bench are in bench.h. */
enum {
	CLI_OK = 0,
	CLI_FAILED = 1, /* it was tried and did not work */
	CLI_USAGE = 2, /* the command line makes no sense */
};

#define CLI_MAX_OPTIONS 32

/**
 * struct cli_option - an option of a subcommand
 * @name: without the dashes; NULL ends the table
 * @arg: name of its argument, or NULL
 * @key: what cli_next() returns for it; above 0; all different
 * @help: one line; NULL = it is not shown: the command says why it is gone
 *
 * --help need not be listed: every subcommand has it.
 */
struct cli_option {
	const char *name;
	const char *arg;
	int key;
	const char *help;
};

/**
 * struct cli_command - a subcommand
 * @name: as typed
 * @synopsis: arguments, as in a man page
 * @summary: one line, for `hugemap help`
 * @options: see struct cli_option
 * @notes: text below the options in --help, or NULL
 * @letters: keys that may also be typed as "-o"; NULL = none
 * @in_order: what follows the first operand is no option
 * @page: of another command, if its manual page tells about this one too; "": hugemap(1)
 * @run: with argv[0] being the subcommand; returns the exit status
 */
struct cli_command {
	const char *name;
	const char *synopsis;
	const char *summary;
	const struct cli_option *options;
	const char *notes;
	const char *letters;
	bool in_order;
	const char *page;
	int (*run)(int argc, char **argv);
};

struct cli_parser {
	const struct cli_command *command;
	struct option options[CLI_MAX_OPTIONS + 1];
	char letters[2 * CLI_MAX_OPTIONS + 5]; /* for getopt_long() */
	int argc;
	char **argv;
};

extern const struct cli_command attach_command;
extern const struct cli_command bench_command;
extern const struct cli_command doctor_command;
extern const struct cli_command mount_command;
extern const struct cli_command run_command;
extern const struct cli_command stat_command;
extern const struct cli_command top_command;
extern const struct cli_command umount_command;

/* --- options.c --- */
void cli_parse(struct cli_parser *parser, const struct cli_command *command, int argc, char **argv);

/**
 * cli_next() - the next option of the command line
 *
 * --help is carried out, and what makes no sense is told: neither returns.
 *
 * Return: the option's key, with its argument in optarg; -1 after the last one,
 * with the first operand at argv[optind].
 */
int cli_next(struct cli_parser *parser);

/* Print the help of a subcommand. */
void cli_help(FILE *to, const struct cli_command *command);

/* Say in a sentence what is wrong with the command line, and exit. */
_Noreturn void cli_usage(const struct cli_command *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Say in a sentence what did not work; returns CLI_FAILED. */
int cli_fail(const struct cli_command *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Arguments of options: a value in range, or cli_usage(). */
unsigned long long cli_number(const struct cli_command *command, const char *option,
			      const char *text, unsigned long long min, unsigned long long max);
double cli_seconds(const struct cli_command *command, const char *option, const char *text);
uint64_t cli_size(const struct cli_command *command, const char *option, const char *text);

/* --- grow.c --- */
/**
 * cli_grow() - room for one more in a list
 * @list: of @count entries of @size bytes, with room for @room
 *
 * Return: the list, perhaps elsewhere; NULL: no memory, and it is as it was.
 */
void *cli_grow(void *list, size_t count, size_t *room, size_t size);

/* --- units.c --- */
#define CLI_TEXT 24
/* "4.0 GB"; K, M and G are powers of 1024. */
const char *cli_bytes(char text[CLI_TEXT], double bytes);
/* "1.2 ms" */
const char *cli_time(char text[CLI_TEXT], double ns);
double cli_now(void); /* seconds, monotonic */
void cli_sleep(double seconds);

/* Write a JSON document (a json_t) to a stream; returns 0 or -errno. */
struct json_t;
int cli_write_json(FILE *to, const struct json_t *json);
/* Print an object to standard output and drop it. @line: on one line, as there will be several. */
void cli_print_json(struct json_t *object, bool line);
/* A string of any bytes, as names of files are; what JSON cannot hold becomes "?". */
struct json_t *cli_json_text(const char *text);

/* --- progress.c --- */

/**
 * cli_progress() - say how far it has got, on standard error
 * @format: less than a line
 *
 * On a terminal one line is rewritten; elsewhere a line is printed when two
 * seconds have passed, and then every half a minute.
 */
void cli_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Take the line away, before anything else is printed. */
void cli_progress_clear(void);

#endif /* CLI_H */
