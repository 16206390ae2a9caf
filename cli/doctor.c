// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap doctor: what this machine allows, whether programs can make pools, why,
 * and the one command that would improve it most.
 */
#include "doctor.h"
#include "cli.h"
#include "hugemap.h"

#include <string.h>
#include <unistd.h>

static const struct cli_option options[] = {
	{ "dir", "DIR", 'd', "where the files are that would be mapped (default: here)" },
	{ "json", NULL, 'j', "print JSON" },
	{},
};

static int run_doctor(int argc, char **argv);

const struct cli_command doctor_command = {
	.name = "doctor",
	.synopsis = "[--dir DIR] [--json]",
	.summary = "Say what this machine allows, and what would make HugeMap faster here.",
	.options = options,
	.notes = "Exit status: 0 if programs can make pools here, 1 if they cannot (everything\n"
		 "else works), 2 if the command line makes no sense.\n",
	.run = run_doctor,
};

/*
 * In the order of what matters most: of several remedies, one for something
 * that is BAD comes first, then one from further up.
 */
static const struct check {
	const char *name; /* in JSON */
	const char *title;
	void (*run)(const struct patient *patient, struct finding *finding);
} checks[] = {
	{ "kernel", "kernel", check_kernel },
	{ "steering", "steering", check_steering },
	{ "huge_files", "huge folios", check_huge_files },
	{ "userfaultfd", "userfaultfd", check_userfaultfd },
	{ "huge_pages", "2 MB pages", check_huge_pages },
	{ "io_uring", "io_uring", check_io_uring },
	{ "direct_io", "O_DIRECT", check_direct_io },
	{ "memory", "memory", check_memory },
	{ "pool", "a pool", check_pool },
	{ "kernel_engine", "mounts", check_kernel_engine },
};

#define NCHECKS (sizeof(checks) / sizeof(checks[0]))

struct diagnosis {
	struct finding findings[NCHECKS];
	const struct finding *best; /* what to do first; NULL = nothing */
	const char *engine, *io;
	const char *reason;
};

static const struct finding *finding_of(const struct diagnosis *diagnosis, const char *name)
{
	size_t i;

	for (i = 0; strcmp(checks[i].name, name); i++)
		;
	return &diagnosis->findings[i];
}

static void diagnose(const struct patient *patient, struct diagnosis *diagnosis)
{
	const struct finding *pool;
	size_t i;

	for (i = 0; i < NCHECKS; i++) {
		struct finding *finding = &diagnosis->findings[i];

		cli_progress("hugemap doctor: %s", checks[i].title);
		checks[i].run(patient, finding);
		if (finding->command[0] &&
		    (!diagnosis->best || finding->verdict > diagnosis->best->verdict))
			diagnosis->best = finding;
	}
	cli_progress_clear();
	pool = finding_of(diagnosis, "pool");
	diagnosis->engine = pool->verdict == BAD ? "steer" : "pool";
	diagnosis->io = finding_of(diagnosis, "io_uring")->verdict == GOOD ? "io_uring" : "threads";
	diagnosis->reason = pool->verdict == BAD ? pool->text :
						   "everything that a pool needs is there";
}

static void print_text(const struct diagnosis *diagnosis)
{
	static const char *const marks[] = { "ok", "slow", "NO" };
	const struct finding *best = diagnosis->best;
	bool pools = !strcmp(diagnosis->engine, "pool");
	size_t i;

	for (i = 0; i < NCHECKS; i++)
		printf("  %-4s  %-11s  %s\n", marks[diagnosis->findings[i].verdict],
		       checks[i].title, diagnosis->findings[i].text);
	if (pools)
		printf("\nMappings are steered; a program can make a pool, with %s.\n",
		       !strcmp(diagnosis->io, "io_uring") ? "io_uring" : "a pool of I/O threads");
	else
		printf("\nMappings are steered; a program cannot make a pool: %s.\n",
		       diagnosis->reason);
	if (best)
		printf("What would help most (it %s):\n\n    %s\n", best->benefit, best->command);
	else if (pools)
		printf("Nothing needs to be changed. Next: hugemap bench --quick\n");
	else
		printf("No single command is known that would change this.\n");
}

static int print_json(const struct diagnosis *diagnosis)
{
	static const char *const states[] = { "ok", "slow", "no" };
	const struct finding *best = diagnosis->best;
	json_t *root, *list = json_object();
	size_t i;
	int err;

	for (i = 0; i < NCHECKS; i++) {
		const struct finding *finding = &diagnosis->findings[i];
		json_t *entry = json_pack("{s:s, s:s}", "state", states[finding->verdict], "text",
					  finding->text);

		json_object_update(entry, finding->details);
		json_object_set_new(list, checks[i].name, entry);
	}
	root = json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "version", hugemap_version(), "engine",
			 diagnosis->engine, "io", diagnosis->io, "reason", diagnosis->reason,
			 "checks", list, "improve",
			 best ? json_pack("{s:s, s:s}", "command", best->command, "benefit",
					  best->benefit) :
				json_null());
	err = cli_write_json(stdout, root);
	json_decref(root);
	return err;
}

/* Docker, podman and the like leave a mark. */
static bool in_container(void)
{
	return !access("/.dockerenv", F_OK) || !access("/run/.containerenv", F_OK);
}

static int run_doctor(int argc, char **argv)
{
	struct diagnosis diagnosis = {};
	struct patient patient = { .root = geteuid() == 0, .container = in_container() };
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
	patient.volume = &volume;
	diagnose(&patient, &diagnosis);
	if (json)
		print_json(&diagnosis);
	else
		print_text(&diagnosis);
	for (i = 0; i < NCHECKS; i++)
		json_decref(diagnosis.findings[i].details);
	return strcmp(diagnosis.engine, "pool") ? CLI_FAILED : CLI_OK;
}
