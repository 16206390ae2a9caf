// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap-sim-kernel: kernel/, tortured by a seed. See README.md. */
#include "world.h"

#include <getopt.h>
#include <stdio.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_STEPS 1000000u
#define UNMOUNT_STEPS 20000000u /* though there is progress all the time */

static void usage(FILE *out)
{
	fputs("usage: hugemap-sim-kernel [--seed N | --seeds A..B] [--steps M] [--verbose]\n"
	      "\n"
	      "Run the kernel engine in a simulated Linux, with power cuts, for M steps for each\n"
	      "seed (default: 1000000). The same seed does the same again.\n"
	      "\n"
	      "Exit status: 0 if all checks held, 1 if one failed, 2 for a wrong command line.\n",
	      out);
}

/* The power fails now: what the disk has left must be what was promised. */
static void cut_power(void)
{
	u32 i;

	for (i = 0; i < w.s.nfiles; i++) {
		below_lose_power(&w.disk[i]);
		model_after_power_cut(&w.file[i]);
	}
	w.counts[C_CUTS]++;
}

static void run_seed(u64 seed, u64 steps)
{
	struct timespec start, end;
	u64 unmounts;
	double seconds;

	clock_gettime(CLOCK_MONOTONIC, &start);
	sched_seed(seed);
	world_new(true);
	while (sched_steps() < steps) {
		sched_run(2000 + sim_below(sim_chance(10) ? 500000 : 100000));
		if (sim_chance(30)) {
			unmounts = w.counts[C_UNMOUNTS];
			sched_spawn("unmount", world_unmount, NULL);
			sched_run(UNMOUNT_STEPS);
			sim_check(w.counts[C_UNMOUNTS] != unmounts,
				  "an unmount waits for I/O without end");
		} else {
			cut_power();
		}
		world_new(false);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	seconds = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
	if (!sim_verbose)
		return;
	printf("seed %llu: %llu steps (%.1f million a minute), %llu stores, %llu loads, "
	       "%llu reads, "
	       "%llu writes, %llu syncs, %llu transfers of devices, %llu resizes, %llu errors, "
	       "%llu power cuts, %llu unmounts\n",
	       (unsigned long long)seed, (unsigned long long)sched_steps(),
	       (double)sched_steps() / seconds * 60 / 1e6, (unsigned long long)w.counts[C_STORES],
	       (unsigned long long)w.counts[C_LOADS], (unsigned long long)w.counts[C_READS],
	       (unsigned long long)w.counts[C_WRITES], (unsigned long long)w.counts[C_SYNCS],
	       (unsigned long long)w.counts[C_DMAS], (unsigned long long)w.counts[C_RESIZES],
	       (unsigned long long)w.counts[C_ERRORS], (unsigned long long)w.counts[C_CUTS],
	       (unsigned long long)w.counts[C_UNMOUNTS]);
	fflush(stdout);
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

/* Some of what kernel/ does depends on addresses: the same seed has the same ones. */
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
	for (seed = from; seed <= to; seed++)
		if (!in_child(seed, steps))
			return 1;
	printf("%llu seeds, %llu steps each: all checks held\n", to - from + 1, steps);
	return 0;
}
