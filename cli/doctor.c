// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap doctor: report whether mappings can be steered here, and what else works. */
#include "doctor_check.h"
#include "cli.h"

#include <string.h>
#include <unistd.h>

#define INDENT 21 /* columns of the mark and the title of a check */

static const struct cli_option options[] = {
	{ "dir", "DIR", 'd', "directory of the files to be mapped (default: here)" },
	{ "json", NULL, 'j', "print JSON" },
	{},
};

static int doctor_run(int argc, char **argv);

const struct cli_command doctor_command = {
	.name = "doctor",
	.synopsis = "[--dir DIR] [--json]",
	.summary = "Report what this machine allows HugeMap to do.",
	.options = options,
	.notes = "Exit status: 0 if mappings can be steered here, 1 if they cannot, 2 if the\n"
		 "command line is wrong.\n",
	.run = doctor_run,
};

static const struct check {
	const char *name; /* the key in JSON */
	const char *title;
	void (*run)(const struct machine *machine, struct finding *finding);
} checks[] = {
	{ "kernel", "kernel", check_kernel },
	{ "steering", "steering", check_steering },
	{ "huge_files", "huge folios", check_huge_files },
	{ "read_ahead", "read-ahead", check_read_ahead },
	{ "memory", "memory", check_memory },
	{ "kernel_engine", "mounts", check_kernel_engine },
	{ "direct_io", "O_DIRECT", check_direct_io },
};

#define NCHECKS (sizeof(checks) / sizeof(checks[0]))

struct diagnosis {
	struct finding findings[NCHECKS];
	bool works; /* no finding is BAD */
};

static void doctor_diagnose(const struct machine *machine, struct diagnosis *diagnosis)
{
	size_t i;

	diagnosis->works = true;
	for (i = 0; i < NCHECKS; i++) {
		cli_progress("hugemap doctor: %s", checks[i].title);
		checks[i].run(machine, &diagnosis->findings[i]);
		diagnosis->works &= diagnosis->findings[i].verdict != BAD;
	}
	cli_progress_clear();
}

static void doctor_print_text(const struct diagnosis *diagnosis)
{
	static const char *const marks[] = { "ok", "slow", "NO" };
	size_t i;

	for (i = 0; i < NCHECKS; i++) {
		printf("  %-4s  %-11s  ", marks[diagnosis->findings[i].verdict], checks[i].title);
		cli_print_words(INDENT, diagnosis->findings[i].text);
	}
	if (diagnosis->works)
		printf("\nMappings can be steered here. Next: hugemap check PROGRAM\n"
		       "Without a program to check: hugemap bench --quick --demo\n");
	else
		printf("\nMappings cannot be steered here: programs have Linux's mmap as it is.\n");
}

static void doctor_print_json(const struct diagnosis *diagnosis)
{
	static const char *const states[] = { "ok", "slow", "no" };
	json_t *root, *list = json_object();
	size_t i;

	for (i = 0; i < NCHECKS; i++) {
		const struct finding *finding = &diagnosis->findings[i];
		json_t *entry = json_pack("{s:s, s:s}", "state", states[finding->verdict], "text",
					  finding->text);

		json_object_update(entry, finding->details);
		json_object_set_new(list, checks[i].name, entry);
	}
	root = json_pack("{s:s, s:b, s:o}", "version", HUGEMAP_VERSION_STRING, "works",
			 diagnosis->works, "checks", list);
	cli_write_json(stdout, root);
	json_decref(root);
}

/* Docker and podman create these files. */
static bool doctor_in_container(void)
{
	return !access("/.dockerenv", F_OK) || !access("/run/.containerenv", F_OK);
}

static int doctor_run(int argc, char **argv)
{
	struct machine machine = { .container = doctor_in_container() };
	struct diagnosis diagnosis = {};
	struct cli_parser parser;
	struct volume volume;
	const char *dir = ".";
	bool json = false;
	int key, err;
	size_t i;

	cli_parse(&parser, &doctor_command, argc, argv);
	while ((key = cli_next(&parser)) >= 0) {
		if (key == 'd')
			dir = optarg;
		else
			json = true;
	}
	if (optind < argc)
		cli_usage(&doctor_command, "'%s' is not expected here", argv[optind]);
	err = volume_find(dir, &volume);
	if (err)
		cli_usage(&doctor_command, "--dir %s: %s", dir, strerror(-err));
	machine.volume = &volume;
	doctor_diagnose(&machine, &diagnosis);
	if (json)
		doctor_print_json(&diagnosis);
	else
		doctor_print_text(&diagnosis);
	for (i = 0; i < NCHECKS; i++)
		json_decref(diagnosis.findings[i].details);
	return diagnosis.works ? CLI_OK : CLI_FAILED;
}
