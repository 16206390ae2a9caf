// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Random pages, some of which are read far more often than others. */
#include "content.h"
#include "engine.h"

/* In tenths: the start of the hot tenth of the file, and its share of the reads. */
#define HOT_TENTH 4u
#define HOT_SHARE 9u

/* `hot-limit` reads COLD_SHARE pages in a thousand outside its hot part. */
#define COLD_SHARE 5u

void init_zipf(struct worker *worker)
{
	zipf_init(&worker->zipf, worker->run->bytes / CONTENT_PAGE);
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
	if (next_enough(worker))
		return false;
	skew_read_page(worker, op,
		       zipf_scramble(zipf_rank(&worker->zipf, &worker->random), worker->zipf.n));
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

/*
 * The hot part is a little smaller than the cache. The workers first read it in order, each its
 * share, so that it is in memory when the random reads begin.
 */
bool next_hot_limit(struct worker *worker, struct op *op)
{
	const struct run *run = worker->run;
	uint64_t pages = run->bytes / CONTENT_PAGE;
	uint64_t hot = run->pool_bytes / 16 * 15 / CONTENT_PAGE, share = hot / run->threads;
	uint64_t first = pages / 10 * HOT_TENTH;

	if (next_enough(worker))
		return false;
	if (worker->step < share)
		skew_read_page(worker, op, first + worker->index * share + worker->step++);
	else if (next_random(worker, 1000) < COLD_SHARE)
		skew_read_page(worker, op, next_random(worker, pages));
	else
		skew_read_page(worker, op, first + next_random(worker, hot));
	return true;
}
