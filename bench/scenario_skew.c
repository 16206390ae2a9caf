// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Random pages, some of which are read far more often than others. */
#include "content.h"
#include "engine.h"

#include <math.h>

/* The skew of YCSB. */
#define THETA 0.99

/* In tenths: the start of the hot tenth of the file, and its share of the reads. */
#define HOT_TENTH 4u
#define HOT_SHARE 9u

/* The number of terms of a zeta sum that are added up. An integral approximates the rest. */
#define TERMS 1024u

static double skew_zeta(uint64_t n)
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

void init_zipf(struct worker *worker)
{
	uint64_t pages = worker->run->bytes / CONTENT_PAGE;

	worker->zipf.zeta = skew_zeta(pages);
	worker->zipf.eta =
		(1 - pow(2.0 / (double)pages, 1 - THETA)) / (1 - skew_zeta(2) / worker->zipf.zeta);
}

/* From Gray et al., "Quickly generating billion-record synthetic databases" (1994). */
static uint64_t skew_next_rank(struct worker *worker, uint64_t n)
{
	double u = (double)next_random(worker, 1ull << 53) / (double)(1ull << 53);
	double uz = u * worker->zipf.zeta;
	uint64_t rank;

	if (uz < 1)
		return 0;
	if (uz < 1 + pow(0.5, THETA))
		return 1;
	rank = (uint64_t)((double)n *
			  pow(worker->zipf.eta * u - worker->zipf.eta + 1, 1 / (1 - THETA)));
	return rank < n ? rank : n - 1;
}

/* Scatter the ranks, so that pages that are read equally often are not neighbours. */
static uint64_t skew_scramble(uint64_t rank, uint64_t n)
{
	uint64_t x = (rank + 1) * 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x ^= x >> 31;
	return (uint64_t)((unsigned __int128)x * n >> 64);
}

static void skew_read_page(struct worker *worker, struct op *op, uint64_t page)
{
	*op = (struct op){
		.kind = OP_READ,
		.offset = page * CONTENT_PAGE,
		.length = worker->run->op_bytes,
	};
}

bool next_zipf(struct worker *worker, struct op *op)
{
	uint64_t pages = worker->run->bytes / CONTENT_PAGE;

	if (next_enough(worker))
		return false;
	skew_read_page(worker, op, skew_scramble(skew_next_rank(worker, pages), pages));
	return true;
}

bool next_hot_tenth(struct worker *worker, struct op *op)
{
	uint64_t pages = worker->run->bytes / CONTENT_PAGE, tenth = pages / 10;

	if (next_enough(worker))
		return false;
	if (next_random(worker, 10) < HOT_SHARE)
		skew_read_page(worker, op, tenth * HOT_TENTH + next_random(worker, tenth));
	else
		skew_read_page(worker, op, next_random(worker, pages));
	return true;
}
