// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "random.h"

#include <math.h>

#define GOLDEN 0x9e3779b97f4a7c15ull

/* The skew of YCSB. */
#define THETA 0.99

/* The number of terms of a zeta sum that are added up. An integral approximates the rest. */
#define TERMS 1024u

/* The high word of the product: a number below @below. */
static uint64_t random_scale(uint64_t x, uint64_t below)
{
	return (uint64_t)((unsigned __int128)x * below >> 64);
}

uint64_t random_mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

uint64_t random_below(uint64_t *state, uint64_t below)
{
	*state += GOLDEN;
	return random_scale(random_mix(*state), below);
}

static double zipf_zeta(uint64_t n)
{
	double sum = 0, from = TERMS, to = (double)n;
	uint64_t i;

	for (i = 1; i <= n && i <= TERMS; i++)
		sum += pow((double)i, -THETA);
	if (n > TERMS)
		sum += (pow(to, 1 - THETA) - pow(from, 1 - THETA)) / (1 - THETA) +
		       (pow(to, -THETA) - pow(from, -THETA)) / 2;
	return sum;
}

void zipf_init(struct zipf *zipf, uint64_t n)
{
	zipf->n = n;
	zipf->zeta = zipf_zeta(n);
	zipf->eta = (1 - pow(2.0 / (double)n, 1 - THETA)) / (1 - zipf_zeta(2) / zipf->zeta);
}

/* From Gray et al., "Quickly generating billion-record synthetic databases" (1994). */
uint64_t zipf_rank(const struct zipf *zipf, uint64_t *state)
{
	double u = (double)random_below(state, 1ull << 53) / (double)(1ull << 53);
	double uz = u * zipf->zeta;
	uint64_t rank;

	if (uz < 1)
		return 0;
	if (uz < 1 + pow(0.5, THETA))
		return 1;
	rank = (uint64_t)((double)zipf->n * pow(zipf->eta * u - zipf->eta + 1, 1 / (1 - THETA)));
	return rank < zipf->n ? rank : zipf->n - 1;
}

uint64_t zipf_scramble(uint64_t rank, uint64_t n)
{
	uint64_t x = (rank + 1) * GOLDEN;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x ^= x >> 31;
	return random_scale(x, n);
}
