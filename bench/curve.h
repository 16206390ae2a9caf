/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Throughput over time, while the memory of a run fills and afterwards. A thread of the child takes
 * samples. The curve ends when the first worker has finished, since fewer workers are slower.
 */
#ifndef BENCH_CURVE_H
#define BENCH_CURVE_H

#include <stdbool.h>
#include <stdint.h>

#define CURVE_SAMPLES 2048u /* 40 seconds */
#define CURVE_STEP_S 0.02

/**
 * struct curve - the bytes that all workers have read, at equal intervals
 * @n: number of samples
 * @bytes: bytes so far
 * @full: number of samples before the memory was full; 0 = it was never full
 */
struct curve {
	unsigned int n;
	uint64_t bytes[CURVE_SAMPLES];
	unsigned int full;
};

/* Add the sample of the next step. Samples after the last one that fits are dropped. */
void curve_add(struct curve *curve, uint64_t bytes, bool full);
/* MB/s before and after the memory was full; false: the run was too short on one side. */
bool curve_sides(const struct curve *curve, double *before, double *after);

#endif /* BENCH_CURVE_H */
