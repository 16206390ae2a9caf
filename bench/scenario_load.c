// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Programs that copy arrays out of a file: tensors of a model, columns of a table. Each array is a
 * run of bytes that is read from its start to its end.
 */
#include "content.h"
#include "engine.h"

#define LOAD_RUN (4 * MB)

static bool load_read(struct worker *worker, struct op *op, uint64_t array, uint64_t piece)
{
	uint32_t length = worker->run->op_bytes;

	*op = (struct op){
		.kind = OP_READ,
		.offset = worker->start + array * LOAD_RUN + piece * length,
		.length = length,
	};
	worker->step++;
	return true;
}

/*
 * A permutation of 0 to n - 1: bijections of the numbers of some bits, until the result is below n.
 */
static uint64_t load_shuffle(uint64_t i, uint64_t n, uint64_t seed)
{
	unsigned int bits = n > 1 ? 64 - (unsigned int)__builtin_clzll(n - 1) : 1;
	uint64_t mask = (1ull << bits) - 1;

	do {
		i = (i + seed) * 0x9e3779b97f4a7c15ull & mask;
		i ^= i >> (bits + 1) / 2;
		i = i * 0xbf58476d1ce4e5b9ull & mask;
		i ^= i >> (bits + 1) / 2;
	} while (i >= n);
	return i;
}

bool next_load_shuffled(struct worker *worker, struct op *op)
{
	uint64_t pieces = LOAD_RUN / worker->run->op_bytes;
	uint64_t arrays = (worker->end - worker->start) / LOAD_RUN, nth = worker->step / pieces;

	return nth < arrays && load_read(worker, op, load_shuffle(nth, arrays, worker->run->seed),
					 worker->step % pieces);
}

bool next_load_sparse(struct worker *worker, struct op *op)
{
	uint64_t pieces = LOAD_RUN / worker->run->op_bytes;
	uint64_t arrays = (worker->end - worker->start) / LOAD_RUN, array;

	array = worker->step / pieces * 2;
	return array < arrays && load_read(worker, op, array, worker->step % pieces);
}
