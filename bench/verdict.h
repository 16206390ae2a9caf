/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The verdict compares the steered page cache, which gets no hint, with Linux's mmap and its best
 * advice.
 */
#ifndef BENCH_VERDICT_H
#define BENCH_VERDICT_H

#include <stdbool.h>

struct bench;
struct group;
struct row;

/**
 * struct verdict - on one scenario with one number of threads
 * @row: the results of the steered page cache
 * @best: the best row of Linux's mmap
 * @wanted: the least ratio of @row to @best that HugeMap should reach
 * @wanted_read_ahead: the least ratio of @row to mmap with read_ahead_kb 128; 0 = none is required
 * @read_ahead: the measured ratio to mmap with read_ahead_kb 128; 0 = not measured
 * @met: @row reaches all wanted ratios, and is not worse than mmap without advice
 * @better: @row is better than @best
 */
struct verdict {
	const struct row *row, *best;
	double wanted;
	double wanted_read_ahead, read_ahead;
	bool met, better;
};

/* Return false if the group has no row to compare. */
bool verdict_find(const struct bench *bench, const struct group *group, struct verdict *verdict);

/* The verdicts on all scenarios together. */
struct verdicts {
	unsigned int n, met, better;
	bool all_met; /* all verdicts are met, and at least half of them are @better */
};

struct verdicts verdicts_sum_up(const struct bench *bench);
void verdicts_print(const struct bench *bench);

#endif /* BENCH_VERDICT_H */
