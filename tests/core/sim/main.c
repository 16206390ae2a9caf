// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap-sim: the core, tortured by a seed. See README.md. */
#include "world.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define DEFAULT_STEPS 1000000u

static void usage(FILE *out)
{
	fputs("usage: hugemap-sim [--seed N | --seeds A..B] [--steps M] [--verbose]\n"
	      "\n"
	      "Run the cache core in a simulated world, with power cuts, for M steps for each\n"
	      "seed (default: 1000000). The same seed does the same again.\n"
	      "\n"
	      "Exit status: 0 if all checks held, 1 if one failed, 2 for a wrong command line.\n",
	      out);
}

/* The power fails now: what the device has left must be what was promised. */
static void cut_power(u64 seed)
{
	u32 i;

	for (i = 0; i < w.s.nfiles; i++) {
		/* A file's length is metadata, which its journal keeps in order. */
		device_lose_power(&w.files[i]);
		model_after_power_cut(&w.files[i], w.stores[i].model);
	}
	w.counts[C_CUTS]++;
	world_new(seed, false);
}

static void run_seed(u64 seed, u64 steps)
{
	u64 first = sched_steps();
	struct timespec start, end;
	u64 faults = 0, evictions = 0, written = 0;
	double seconds;
	u64 ran;

	clock_gettime(CLOCK_MONOTONIC, &start);
	sched_seed(seed);
	world_new(seed, true);
	while (sched_steps() - first < steps) {
		u64 left = steps - (sched_steps() - first);

		actors_spawn();
		sched_run(left < 2000 ? left : 2000 + sim_below(sim_chance(10) ? 500000 : 100000));
		faults += hm_cache_count(w.cache, HM_C_FAULTS);
		evictions += hm_cache_count(w.cache, HM_C_EVICTED);
		written += hm_cache_count(w.cache, HM_C_WRITTEN);
		cut_power(seed);
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	seconds = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
	ran = sched_steps() - first;
	if (!sim_verbose)
		return;
	printf("seed %llu: %llu steps (%.1f million a minute), %llu faults, %llu evictions, "
	       "%llu pages written, %llu stores, %llu loads, %llu syncs, %llu power cuts, %llu forks, "
	       "%llu resizes, %llu reopens, %llu errors, %llu audits\n",
	       (unsigned long long)seed, (unsigned long long)ran, (double)ran / seconds * 60 / 1e6,
	       (unsigned long long)faults, (unsigned long long)evictions,
	       (unsigned long long)written, (unsigned long long)w.counts[C_STORES],
	       (unsigned long long)w.counts[C_LOADS], (unsigned long long)w.counts[C_SYNCS],
	       (unsigned long long)w.counts[C_CUTS], (unsigned long long)w.counts[C_FORKS],
	       (unsigned long long)w.counts[C_RESIZES], (unsigned long long)w.counts[C_REOPENS],
	       (unsigned long long)w.counts[C_ERRORS], (unsigned long long)w.counts[C_AUDITS]);
	fflush(stdout);
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
	snprintf(replay, sizeof(replay), "%s --steps %llu", argv[0], steps);
	sim_replay = replay;
	for (seed = from; seed <= to; seed++)
		run_seed(seed, steps);
	printf("%llu seeds, %llu steps each: all checks held\n", to - from + 1, steps);
	return 0;
}
