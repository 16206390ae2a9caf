// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The command line of a simulator: seeds, steps, and what came of them. */
#include "sim.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sched.h"

#define DEFAULT_STEPS 1000000u

bool sim_break_rules;

static void usage(FILE *out)
{
	fprintf(out,
		"usage: %s [--seed N | --seeds A..B] [--steps M] [--verbose]%s\n"
		"\n"
		"Run %s in a simulated Linux, with power cuts, for M steps for each\n"
		"seed (default: 1000000). The same seed does the same again.%s\n"
		"\n"
		"Exit status: 0 if all checks held, 1 if one failed, 2 for a wrong command line.\n",
		sim_program.name, sim_program.has_rules ? " [--break-rules]" : "", sim_program.what,
		sim_program.has_rules ? " With --break-rules\n"
					"some programs do what they should not: see README.md." :
					"");
}

static void tell(u64 seed, double seconds)
{
	const struct sim_count *count;

	printf("seed %llu: %llu steps (%.1f million a minute)", (unsigned long long)seed,
	       (unsigned long long)sched_steps(), (double)sched_steps() / seconds * 60 / 1e6);
	for (count = sim_program.counts; count->what; count++)
		printf(", %llu %s", (unsigned long long)*count->value, count->what);
	putchar('\n');
	fflush(stdout);
}

static void run_seed(u64 seed, u64 steps)
{
	struct timespec start, end;

	clock_gettime(CLOCK_MONOTONIC, &start);
	sched_seed(seed);
	sim_program.run(steps);
	clock_gettime(CLOCK_MONOTONIC, &end);
	if (sim_verbose)
		tell(seed, (double)(end.tv_sec - start.tv_sec) +
				   (double)(end.tv_nsec - start.tv_nsec) / 1e9);
}

/* Each seed begins with the same memory, whichever came before it. */
static bool in_child(u64 seed, u64 steps)
{
	int status = 0;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		run_seed(seed, steps);
		exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return false;
	if (WIFSIGNALED(status))
		fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed,
			strsignal(WTERMSIG(status)));
	return !status;
}

/* Some of what is done depends on addresses: the same seed has the same ones. */
static void fix_addresses(char **argv)
{
	int now = personality(0xffffffff);

	if (now >= 0 && !(now & ADDR_NO_RANDOMIZE) && personality(now | ADDR_NO_RANDOMIZE) >= 0)
		execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "seeds", required_argument, NULL, 'r' },
		{ "steps", required_argument, NULL, 'n' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "break-rules", no_argument, NULL, 'b' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	unsigned long long from = 1, to = 1, steps = DEFAULT_STEPS, seed;
	static char replay[512];
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		char junk;
		bool good = true;

		switch (c) {
		case 's':
			good = sscanf(optarg, "%llu%c", &from, &junk) == 1;
			to = from;
			break;
		case 'r':
			good = sscanf(optarg, "%llu..%llu%c", &from, &to, &junk) == 2 && from <= to;
			break;
		case 'n':
			good = sscanf(optarg, "%llu%c", &steps, &junk) == 1;
			break;
		case 'v':
			sim_verbose = true;
			break;
		case 'b':
			good = sim_break_rules = sim_program.has_rules;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			good = false;
		}
		if (!good) {
			usage(stderr);
			return 2;
		}
	}
	if (sim_program.apart)
		fix_addresses(argv);
	snprintf(replay, sizeof(replay), "%s --steps %llu", argv[0], steps);
	sim_replay = replay;
	for (seed = from; seed <= to; seed++) {
		if (!sim_program.apart)
			run_seed(seed, steps);
		else if (!in_child(seed, steps))
			return 1;
	}
	printf("%llu seeds, %llu steps each: all checks held\n", to - from + 1, steps);
	return 0;
}
