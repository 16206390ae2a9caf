/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* HugeMap without a hint, beside the best that a person could have set. */
#ifndef BENCH_VERDICT_H
#define BENCH_VERDICT_H

#include <stdbool.h>

struct bench;
struct group;
struct row;

/**
 * struct verdict - on one scenario with one number of threads
 * @row: the steered page cache
 * @best: the best advice
 * @wanted: so many times as good as that it should be
 * @wanted_read_ahead: the same, of the row with read_ahead_kb at 128; 0 = not required
 * @read_ahead: the ratio to that row; 0 = not measured
 * @met: it is as good as it should be, and not worse than Linux's default
 * @better: better than the best advice
 */
struct verdict {
	const struct row *row, *best;
	double wanted;
	double wanted_read_ahead, read_ahead;
	bool met, better;
};

/* False: there is nothing to compare. */
bool verdict_find(const struct bench *bench, const struct group *group, struct verdict *verdict);

/* The verdicts on all scenarios together. */
struct verdicts {
	unsigned int n, met, better;
	bool all_met; /* each of them, and half of them better than the best advice */
};

struct verdicts verdicts_sum_up(const struct bench *bench);
void verdicts_print(const struct bench *bench);

#endif /* BENCH_VERDICT_H */
