/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The base of all subcommands of `hugemap`: options, sizes, messages, progress.
 *
 * A subcommand is a struct cli_command. getopt_long() and --help use its table of options, and a
 * test compares the table with the manual page.
 */
#ifndef CLI_H
#define CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <getopt.h>

/* Exit statuses of all subcommands. bench/main.c has two more. */
enum {
	CLI_OK = 0,
	CLI_FAILED = 1, /* the command failed */
	CLI_USAGE = 2, /* the command line is wrong */
};

#define CLI_MAX_OPTIONS 32

/**
 * struct cli_option - an option of a subcommand
 * @name: without the dashes; NULL ends the table
 * @arg: name of its argument, or NULL
 * @key: the value that cli_next() returns for it; above 0, different for each option
 * @help: one line
 *
 * Every subcommand has --help; tables do not list it.
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
 * @letters: keys that are also short options ("-o"); NULL = none
 * @in_order: options end at the first operand
 * @parts: commands that its first operand can name, up to NULL; NULL = none
 * @page: the command whose manual page describes this one; NULL = its own; "" = hugemap(1)
 * @run: runs the command; argv[0] is its name; returns the exit status
 */
struct cli_command {
	const char *name;
	const char *synopsis;
	const char *summary;
	const struct cli_option *options;
	const char *notes;
	const char *letters;
	bool in_order;
	const struct cli_command *const *parts;
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
extern const struct cli_command check_command;
extern const struct cli_command doctor_command;
extern const struct cli_command mount_command;
extern const struct cli_command run_command;
extern const struct cli_command stat_command;
extern const struct cli_command top_command;
extern const struct cli_command umount_command;

/* --- options.c --- */
/* The part of a command that an operand names, or NULL. Its name is "COMMAND PART". */
const struct cli_command *cli_part(const struct cli_command *command, const char *operand);
void cli_parse(struct cli_parser *parser, const struct cli_command *command, int argc, char **argv);

/**
 * cli_next() - get the next option of the command line
 *
 * --help prints the help and exits. An unknown or incomplete option is a usage error and exits.
 *
 * Return: the option's key, with its argument in optarg; -1 after the last one,
 * with the first operand at argv[optind].
 */
int cli_next(struct cli_parser *parser);

void cli_help(FILE *to, const struct cli_command *command);

/* Print a sentence about the error in the command line, and exit. */
_Noreturn void cli_usage(const struct cli_command *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Print a sentence about the failure; returns CLI_FAILED. */
int cli_fail(const struct cli_command *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Parse the argument of an option. A value out of range is a usage error and exits. */
unsigned long long cli_number(const struct cli_command *command, const char *option,
			      const char *text, unsigned long long min, unsigned long long max);
double cli_seconds(const struct cli_command *command, const char *option, const char *text);
uint64_t cli_size(const struct cli_command *command, const char *option, const char *text);

/* --- grow.c --- */
/**
 * cli_grow() - make room for one more entry in a list
 * @list: the list
 * @count: number of entries
 * @room: number of entries that fit; updated
 * @size: bytes of an entry
 *
 * Return: the list, which may have moved; NULL if memory is short: then it is unchanged.
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

/* Write a JSON document to a stream; returns 0 or -errno. */
struct json_t;
int cli_write_json(FILE *to, const struct json_t *json);
/* Print an object and drop the reference. @line: on one line, since more objects follow. */
void cli_print_json(struct json_t *object, bool line);
/*
 * Make a JSON string from any bytes, such as a file name. If they are not UTF-8, "?" replaces each
 * byte outside ASCII.
 */
struct json_t *cli_json_text(const char *text);

/* --- words.c --- */
/*
 * Print words behind a title, which the caller has printed, and a newline. The title and the later
 * lines take @indent columns; no line is wider than 80.
 */
void cli_print_words(int indent, const char *text);

/* --- progress.c --- */

/**
 * cli_progress() - report progress on standard error
 * @format: one line
 *
 * On a terminal the line replaces the one before. Elsewhere the first line is printed after 2
 * seconds, and further ones every 30 seconds.
 */
void cli_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Remove the line before other output. */
void cli_progress_clear(void);

#endif /* CLI_H */
