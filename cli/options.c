// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Parsing the command line by tables of options, and error messages. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define KEY_HELP 0x7fffffff

static bool options_has_letter(const struct cli_command *command, const struct cli_option *option)
{
	return command->letters && strchr(command->letters, option->key);
}

const struct cli_command *cli_part(const struct cli_command *command, const char *operand)
{
	const struct cli_command *const *part;

	for (part = command->parts; part && *part; part++)
		if (!strcmp((*part)->name + strlen(command->name) + 1, operand))
			return *part;
	return NULL;
}

void cli_parse(struct cli_parser *parser, const struct cli_command *command, int argc, char **argv)
{
	const struct cli_option *option;
	struct option *to = parser->options;
	char *letter;

	*parser = (struct cli_parser){ .command = command, .argc = argc, .argv = argv };
	letter = stpcpy(parser->letters, command->in_order ? "+:h" : ":h");
	for (option = command->options; option->name; option++) {
		*to++ = (struct option){
			.name = option->name,
			.has_arg = option->arg ? required_argument : no_argument,
			.val = option->key,
		};
		if (!options_has_letter(command, option))
			continue;
		*letter++ = (char)option->key;
		if (option->arg)
			*letter++ = ':';
	}
	*to = (struct option){ .name = "help", .val = KEY_HELP };
	optind = 0; /* GNU getopt starts again */
	opterr = 0;
}

int cli_next(struct cli_parser *parser)
{
	int key = getopt_long(parser->argc, parser->argv, parser->letters, parser->options, NULL);
	const char *word = parser->argv[optind - 1];

	switch (key) {
	case 'h':
	case KEY_HELP:
		cli_help(stdout, parser->command);
		exit(CLI_OK);
	case ':':
		cli_usage(parser->command, "%s needs an argument", word);
	case '?':
		if (!optopt)
			cli_usage(parser->command, "there is no option %s", word);
		if (!strncmp(word, "--", 2))
			cli_usage(parser->command, "%s: this option takes no argument", word);
		cli_usage(parser->command, "there is no option -%c", optopt);
	default:
		return key;
	}
}

void cli_help(FILE *to, const struct cli_command *command)
{
	const struct cli_option *option;
	const char *page;
	char left[64];

	fprintf(to, "usage: hugemap %s %s\n\n%s\n\n", command->name, command->synopsis,
		command->summary);
	for (option = command->options; option->name; option++) {
		bool letter = options_has_letter(command, option);

		if (!option->help)
			continue;
		if (letter)
			fprintf(to, "  -%c, ", option->key);
		else
			fputs("  ", to);
		snprintf(left, sizeof(left), "--%s%s%s", option->name, option->arg ? " " : "",
			 option->arg ? option->arg : "");
		fprintf(to, "%-*s  %s\n", letter ? 16 : 20, left, option->help);
	}
	fprintf(to, "  %-20s  %s\n", "--help", "print this");
	if (command->notes)
		fprintf(to, "\n%s", command->notes);
	page = command->page ? command->page : command->name;
	fprintf(to, "\nMore: man hugemap%s%s\n", *page ? "-" : "", page);
}

static void options_print_error(const struct cli_command *command, const char *format, va_list args)
{
	cli_progress_clear();
	fprintf(stderr, "hugemap%s%s: ", command ? " " : "", command ? command->name : "");
	vfprintf(stderr, format, args);
}

void cli_usage(const struct cli_command *command, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	options_print_error(command, format, args);
	va_end(args);
	fprintf(stderr, "; `hugemap%s%s --help` shows what is possible\n", command ? " " : "",
		command ? command->name : "");
	exit(CLI_USAGE);
}

int cli_fail(const struct cli_command *command, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	options_print_error(command, format, args);
	va_end(args);
	fputc('\n', stderr);
	return CLI_FAILED;
}

unsigned long long cli_number(const struct cli_command *command, const char *option,
			      const char *text, unsigned long long min, unsigned long long max)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (end == text || *end || errno || text[0] == '-' || value < min || value > max)
		cli_usage(command, "%s must be a number from %llu to %llu, not '%s'", option, min,
			  max, text);
	return value;
}

double cli_seconds(const struct cli_command *command, const char *option, const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !isfinite(value) || value < 0.05 || value > 86400)
		cli_usage(command, "%s must be seconds from 0.05 to 86400, not '%s'", option, text);
	return value;
}

uint64_t cli_size(const struct cli_command *command, const char *option, const char *text)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end;
	double value = strtod(text, &end);
	int shift = 0;

	if (end == text || !isfinite(value) || value <= 0)
		goto wrong;
	if (*end) {
		unit = strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end);
		if (!unit)
			goto wrong;
		shift = 10 * ((int)(unit - units) + 1);
		end++;
		if (!strcmp(end, "B") || !strcmp(end, "iB"))
			end += strlen(end);
	}
	value = ldexp(value, shift);
	if (*end || value < 1 || value > 0x1p62)
		goto wrong;
	return (uint64_t)value;
wrong:
	cli_usage(command, "%s must be a size like 512M or 4G, not '%s'", option, text);
}
