/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Random numbers that depend only on a seed, uniform or by Zipf's distribution. */
#ifndef BENCH_RANDOM_H
#define BENCH_RANDOM_H

#include <stdint.h>

/* A bijection of 64-bit numbers that scatters neighbours. */
uint64_t random_mix(uint64_t x);
/* The next number below @below, all equally likely. */
uint64_t random_below(uint64_t *state, uint64_t below);

/**
 * struct zipf - Zipf's distribution over ranks, with the skew of YCSB
 * @n: number of ranks; rank 0 is the most frequent
 * @zeta: constant of the distribution
 * @eta: constant of the distribution
 */
struct zipf {
	uint64_t n;
	double zeta, eta;
};

void zipf_init(struct zipf *zipf, uint64_t n);
uint64_t zipf_rank(const struct zipf *zipf, uint64_t *state);
/* Scatter the ranks, so that items that are used equally often are not neighbours. */
uint64_t zipf_scramble(uint64_t rank, uint64_t n);

#endif /* BENCH_RANDOM_H */
