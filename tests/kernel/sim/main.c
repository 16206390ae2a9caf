// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap-sim-kernel: the data path of the module in a simulated Linux. See README.md. */
#include "world.h"

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
#define UNMOUNT_STEPS 20000000u /* limit of an unmount that makes progress all the time */

/* Cut the power. The disk must have all synced data. */
static void cut_power(void)
{
	u32 i;

	for (i = 0; i < w.s.nfiles; i++) {
		lower_lose_power(&w.disk[i]);
		model_after_power_cut(&w.file[i]);
	}
	world_count();
	w.counts[C_CUTS]++;
}

/* Run a fresh world for @steps, with power cuts and unmounts. */
static void run(u64 steps)
{
	u64 unmounts;

	world_new(true);
	while (sched_steps() < steps) {
		sched_run(2000 + sim_lower(sim_chance(10) ? 500000 : 100000));
		if (sim_chance(30)) {
			unmounts = w.counts[C_UNMOUNTS];
			sched_spawn("unmount", world_unmount, NULL);
			sched_run(UNMOUNT_STEPS);
			sim_check(w.counts[C_UNMOUNTS] != unmounts,
				  "an unmount did not end in %u steps", UNMOUNT_STEPS);
		} else {
			cut_power();
		}
		world_new(false);
	}
}

/* The counters that --verbose prints for each seed. */
static const struct {
	const char *what;
	const u64 *value;
} counts[] = {
	{ "stores", &w.counts[C_STORES] },
	{ "loads", &w.counts[C_LOADS] },
	{ "reads", &w.counts[C_READS] },
	{ "writes", &w.counts[C_WRITES] },
	{ "syncs", &w.counts[C_SYNCS] },
	{ "device transfers", &w.counts[C_DMAS] },
	{ "private copies", &w.counts[C_COPIES] },
	{ "inodes", &w.counts[C_INODES] },
	{ "resizes", &w.counts[C_RESIZES] },
	{ "errors", &w.counts[C_ERRORS] },
	{ "power cuts", &w.counts[C_CUTS] },
	{ "unmounts", &w.counts[C_UNMOUNTS] },
	{ "promotions", &w.counts[C_PROMOTIONS] },
	{ "failed promotions", &w.counts[C_REFUSED] },
	{ "partial write-backs", &w.counts[C_PARTS] },
};

static void usage(FILE *out)
{
	fputs("usage: hugemap-sim-kernel [--seed N | --seeds A..B] [--steps M] [--verbose]\n"
	      "       hugemap-sim-kernel --progress [--seed N | --seeds A..B] [--verbose]\n"
	      "       hugemap-sim-kernel --claims [--seed N | --seeds A..B] [--verbose]\n"
	      "       hugemap-sim-kernel --full [--seed N | --seeds A..B] [--verbose]\n"
	      "       hugemap-sim-kernel --pinned [--seed N | --seeds A..B] [--verbose]\n"
	      "       hugemap-sim-kernel --around [--seed N | --seeds A..B] [--verbose]\n"
	      "\n"
	      "Run the kernel engine in a simulated Linux with power cuts, M steps for each seed\n"
	      "(default: 1000000). The same seed repeats the same run.\n"
	      "--progress: starve a task beside others, and check that its operations end.\n"
	      "--claims: claim a page twice, and check that a sync misses no store of a device.\n"
	      "--full: store to a huge page for which the disk has no room, but for one page.\n"
	      "--pinned: evict while all pages are pinned.\n"
	      "--around: map a dirty huge page by its page table beside a write-back.\n"
	      "\n"
	      "Exit status: 0 if all checks held, 1 if a check failed, 2 for a wrong command line.\n",
	      out);
}

static void print_counts(u64 seed, double seconds)
{
	u32 i;

	printf("seed %llu: %llu steps (%.1f million a minute)", (unsigned long long)seed,
	       (unsigned long long)sched_steps(), (double)sched_steps() / seconds * 60 / 1e6);
	for (i = 0; i < ARRAY_SIZE(counts); i++)
		printf(", %llu %s", (unsigned long long)*counts[i].value, counts[i].what);
	putchar('\n');
	fflush(stdout);
}

static void run_seed(u64 seed, u64 steps)
{
	struct timespec start, end;

	clock_gettime(CLOCK_MONOTONIC, &start);
	sched_seed(seed);
	run(steps);
	clock_gettime(CLOCK_MONOTONIC, &end);
	if (sim_verbose)
		print_counts(seed, (double)(end.tv_sec - start.tv_sec) +
					   (double)(end.tv_nsec - start.tv_nsec) / 1e9);
}

/* Run each seed in its own process, so that each starts with the same memory. */
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

/* Some choices depend on addresses, so turn off address space randomization. */
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
		{ "progress", no_argument, NULL, 'p' },
		{ "claims", no_argument, NULL, 'c' },
		{ "full", no_argument, NULL, 'f' },
		{ "pinned", no_argument, NULL, 'i' },
		{ "around", no_argument, NULL, 'a' },
		{ "verbose", no_argument, NULL, 'v' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	unsigned long long from = 1, to = 1, steps = DEFAULT_STEPS, seed;
	static char replay[512];
	bool progress = false, claims = false, full = false, pinned = false, around = false;
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		char junk;
		bool good = true;

		switch (c) {
		case 'p':
			progress = true;
			break;
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
		case 'c':
			claims = true;
			break;
		case 'f':
			full = true;
			break;
		case 'i':
			pinned = true;
			break;
		case 'a':
			around = true;
			break;
		case 'v':
			sim_verbose = true;
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
	fix_addresses(argv);
	snprintf(replay, sizeof(replay), "%s --steps %llu", argv[0], steps);
	sim_replay = replay;
	if (progress)
		return !progress_run(from, to);
	if (claims)
		return !claims_run(from, to);
	if (full)
		return !full_run(from, to);
	if (pinned)
		return !pinned_run(from, to);
	if (around)
		return !around_run(from, to);
	for (seed = from; seed <= to; seed++) {
		if (!in_child(seed, steps))
			return 1;
	}
	printf("%llu seeds, %llu steps each: all checks held\n", to - from + 1, steps);
	return 0;
}
