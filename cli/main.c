// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap: run the subcommand. */
#include "cli.h"
#include "mount.h"

#include <string.h>
#include <jansson.h>

static const struct cli_option version_options[] = {
	{ "json", NULL, 'j', "print JSON" },
	{},
};

static int main_version(int argc, char **argv);

static const struct cli_command version_command = {
	.name = "version",
	.synopsis = "[--json]",
	.summary = "Print the version.",
	.page = "",
	.options = version_options,
	.run = main_version,
};

static int main_version(int argc, char **argv)
{
	struct cli_parser parser;
	bool json = false;

	cli_parse(&parser, &version_command, argc, argv);
	while (cli_next(&parser) >= 0)
		json = true;
	if (optind < argc)
		cli_usage(&version_command, "'%s' is not expected here", argv[optind]);
	if (json) {
		json_t *object = json_pack("{s:s}", "version", HUGEMAP_VERSION_STRING);

		cli_write_json(stdout, object);
		json_decref(object);
	} else {
		printf("hugemap %s\n", HUGEMAP_VERSION_STRING);
	}
	return CLI_OK;
}

static const struct cli_command *const commands[] = {
	&attach_command, &bench_command, &check_command, &doctor_command, &mount_command,
	&run_command,	 &stat_command,	 &top_command,	 &umount_command, &version_command,
};

#define NCOMMANDS (sizeof(commands) / sizeof(commands[0]))

static const struct cli_command *main_find(const char *name)
{
	size_t i;

	for (i = 0; i < NCOMMANDS; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

static void main_print_help(FILE *to)
{
	size_t i;

	fputs("usage: hugemap COMMAND [OPTION]...\n\n"
	      "HugeMap makes programs wait less for memory-mapped files. `hugemap run` starts\n"
	      "an unchanged program with a thread that advises Linux's page cache. Random\n"
	      "access gains most; streams gain if read_ahead_kb is small. `hugemap check`\n"
	      "measures the gain of a program of yours. `hugemap mount` uses a cache of its\n"
	      "own, in a kernel module.\n\n",
	      to);
	for (i = 0; i < NCOMMANDS; i++)
		fprintf(to, "  %-10s  %s\n", commands[i]->name, commands[i]->summary);
	fputs("  help        Print this, or the help of a command.\n\n"
	      "Exit status: 0 on success, 1 if something did not work, 2 if the command line is\n"
	      "wrong; see `hugemap help COMMAND` for others. More: man hugemap\n",
	      to);
}

static int main_help(int argc, char **argv)
{
	const struct cli_command *command;

	if (argc < 2 || !strcmp(argv[1], "--help")) {
		main_print_help(stdout);
		return CLI_OK;
	}
	command = main_find(argv[1]);
	if (!command)
		cli_usage(NULL, "there is no command '%s'", argv[1]);
	if (argc > 2 && cli_part(command, argv[2]))
		command = cli_part(command, argv[2]);
	cli_help(stdout, command);
	return CLI_OK;
}

/* Incomplete output, for example on a full disk, is a failure. */
static int main_check_output(const struct cli_command *command, int status)
{
	if ((fflush(stdout) || ferror(stdout)) && status == CLI_OK)
		return cli_fail(command, "the output could not be written");
	return status;
}

int main(int argc, char **argv)
{
	const struct cli_command *command;
	const char *name = argc > 1 ? argv[1] : NULL;

	if (argc && !strcmp(basename(argv[0]), "mount.hugemap"))
		return main_check_output(NULL, mount_helper(argc, argv));
	if (!name)
		cli_usage(NULL, "the command is missing");
	if (!strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h"))
		return main_check_output(NULL, main_help(argc - 1, argv + 1));
	if (!strcmp(name, "--version") || !strcmp(name, "-V"))
		name = "version";
	command = main_find(name);
	if (!command)
		cli_usage(NULL, "there is no command '%s'", name);
	return main_check_output(command, command->run(argc - 1, argv + 1));
}
