// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Operations from end to end, or at random places. All pages are equally likely. */
#include "cli.h"
#include "engine.h"

/* The number of `mixed` operations in ten that change the page. */
#define MIXED_UPDATES 3

/* Loads of a chase between two checks of the time. */
#define CHASE_STRETCH 65536u

uint64_t next_random(struct worker *worker, uint64_t below)
{
	return random_below(&worker->random, below);
}

/* A worker that gets a CPU only after the time limit still does one operation: a run has a result. */
bool next_enough(const struct worker *worker)
{
	const struct run *run = worker->run;

	return worker->ops >= worker->ops_max ||
	       (worker->ops && run->seconds_max > 0 && cli_now() >= run->deadline);
}

static bool next_in_order(struct worker *worker, struct op *op, enum op_kind kind)
{
	uint32_t length = worker->run->op_bytes;

	if (worker->at >= worker->end)
		return false;
	*op = (struct op){ .kind = kind, .offset = worker->at, .length = length };
	worker->at += length;
	return true;
}

bool next_stream_read(struct worker *worker, struct op *op)
{
	return next_in_order(worker, op, OP_READ);
}

bool next_stream_write(struct worker *worker, struct op *op)
{
	return next_in_order(worker, op, OP_WRITE);
}

bool next_random_read(struct worker *worker, struct op *op)
{
	uint32_t length = worker->run->op_bytes;

	if (next_enough(worker))
		return false;
	*op = (struct op){
		.kind = OP_READ,
		.offset = next_random(worker, worker->run->bytes / length) * length,
		.length = length,
	};
	return true;
}

/* Each worker uses its own part, so that the data that it reads does not depend on timing. */
bool next_mixed(struct worker *worker, struct op *op)
{
	uint32_t length = worker->run->op_bytes;

	if (next_enough(worker))
		return false;
	op->offset = worker->start +
		     next_random(worker, (worker->end - worker->start) / length) * length;
	op->length = length;
	op->kind = next_random(worker, 10) < MIXED_UPDATES ? OP_UPDATE : OP_READ;
	return true;
}

bool next_chase(struct worker *worker, struct op *op)
{
	if (next_enough(worker))
		return false;
	*op = (struct op){ .kind = OP_CHASE, .length = CHASE_STRETCH };
	return true;
}

bool next_chase_faults(struct worker *worker, struct op *op)
{
	if (!next_chase(worker, op))
		return false;
	op->kind = OP_CHASE_FAULTS;
	return true;
}
