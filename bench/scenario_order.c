// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Regular orders of operations other than one pass from end to end: several streams, strides,
 * backward, and scans with random accesses between them.
 */
#include "cli.h"
#include "content.h"
#include "engine.h"

#define STREAMS 4u
/* Bytes that one stream reads before the next stream continues. */
#define TURN (64 * KB)

/* `strided` reads one page of each STRIDE bytes. Each pass over the file reads other pages. */
#define STRIDE (256 * KB)
#define STRIDE_PAGES (STRIDE / CONTENT_PAGE)
/*
 * The number is odd, so that the passes read all pages, and large, so that no pass reads the
 * neighbours of the last one.
 */
#define STRIDE_STEP 37u

/* In all scenarios of this file, worker->step is the number of operations so far. */

static void order_read(struct worker *worker, struct op *op, uint64_t offset, uint32_t length)
{
	*op = (struct op){ .kind = OP_READ, .offset = offset, .length = length };
	worker->step++;
}

/* One thread merges four parts of the file: it reads some bytes of each in turn. */
bool next_four_streams(struct worker *worker, struct op *op)
{
	uint32_t length = worker->run->op_bytes;
	uint64_t part = (worker->end - worker->start) / STREAMS / length * length;
	uint64_t stream = worker->step % STREAMS, at = worker->step / STREAMS * length;

	if (at >= part)
		return false;
	order_read(worker, op, worker->start + stream * part + at, length);
	return true;
}

bool next_strided(struct worker *worker, struct op *op)
{
	uint64_t strides = (worker->end - worker->start) / STRIDE;
	uint64_t page = worker->step / strides * STRIDE_STEP % STRIDE_PAGES;

	if (next_enough(worker))
		return false;
	order_read(worker, op,
		   worker->start + worker->step % strides * STRIDE + page * CONTENT_PAGE,
		   worker->run->op_bytes);
	return true;
}

bool next_backward(struct worker *worker, struct op *op)
{
	uint32_t length = worker->run->op_bytes;
	uint64_t done = worker->step * length;

	if (done >= worker->end - worker->start || next_enough(worker))
		return false;
	order_read(worker, op, worker->end - done - length, length);
	return true;
}

bool next_scan_twice(struct worker *worker, struct op *op)
{
	uint32_t length = worker->run->op_bytes;
	uint64_t pieces = (worker->end - worker->start) / length;

	if (worker->step >= 2 * pieces)
		return false;
	order_read(worker, op, worker->start + worker->step % pieces * length, length);
	return true;
}

/* --- a scan of one half of the file, random pages, a scan of the other half --- */

static uint64_t order_scan_pieces(const struct worker *worker)
{
	return (worker->end - worker->start) / worker->run->op_bytes;
}

void init_scan_random_scan(struct worker *worker)
{
	worker->ops_max += order_scan_pieces(worker);
}

/* The time limit has ended a part: estimate the time for its remaining operations. */
static void order_leave_out(struct worker *worker, uint64_t done, uint64_t left)
{
	worker->left_s = (cli_now() - worker->since) / (double)done * (double)left;
	worker->left_bytes = left * CONTENT_PAGE;
}

/* The time limit of a run ends the part with random pages, which is the slow one. */
bool next_scan_random_scan(struct worker *worker, struct op *op)
{
	const struct run *run = worker->run;
	uint64_t pieces = order_scan_pieces(worker), half = pieces / 2;
	uint64_t random = worker->ops_max - pieces, done = worker->step - half;

	if (worker->step < half) {
		order_read(worker, op, worker->start + worker->step * run->op_bytes, run->op_bytes);
		return true;
	}
	if (!done)
		worker->since = cli_now();
	if (worker->at == worker->start && done < random) {
		if (!done || !run->seconds_max || cli_now() - worker->since < run->seconds_max) {
			order_read(worker, op,
				   worker->start + next_random(worker, pieces * run->op_bytes /
									       CONTENT_PAGE) *
							   CONTENT_PAGE,
				   CONTENT_PAGE);
			return true;
		}
		order_leave_out(worker, done, random - done);
	}
	/* From here on worker->at is the position of the second scan. */
	if (worker->at == worker->start)
		worker->at += half * run->op_bytes;
	return next_stream_read(worker, op);
}
