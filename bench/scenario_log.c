// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Append records of any length to a file. */
#include "content.h"
#include "engine.h"

/* The smallest and the largest record, and the step between two lengths. */
#define RECORD_MIN 1024u
#define RECORD_MAX 4096u
#define RECORD_STEP 8u

/* In `log_read`, one page is read per this many appended bytes. */
#define BYTES_A_READ (32 * KB)

static uint32_t log_record_length(struct worker *worker, uint32_t max)
{
	uint32_t length = RECORD_MIN +
			  (uint32_t)next_random(worker, (RECORD_MAX - RECORD_MIN) / RECORD_STEP) *
				  RECORD_STEP;

	return length < max ? length : max;
}

/* Append the next record. The device takes only whole sectors, so it gets @batch bytes. */
static void log_append(struct worker *worker, struct op *op, uint32_t batch)
{
	uint32_t left = batch - (uint32_t)(worker->at % batch);

	*op = (struct op){ .kind = OP_WRITE, .offset = worker->at, .length = batch };
	if (worker->run->op_bytes < batch) {
		op->kind = OP_APPEND;
		op->length = log_record_length(worker, left);
	}
	worker->at += op->length;
}

/* The device writes at once the bytes that other engines make durable at once. */
bool next_log(struct worker *worker, struct op *op)
{
	uint32_t batch = worker->run->scenario->sync_bytes;

	if (worker->at >= worker->end)
		return false;
	log_append(worker, op, batch);
	op->sync = worker->at % batch == 0;
	return true;
}

/* The log is the second half of the file. Each worker has its own part of it. */
void init_log_read(struct worker *worker)
{
	const struct run *run = worker->run;
	uint64_t half = run->bytes / 2, pieces = half / CONTENT_BLOCK;

	worker->start = half + pieces * worker->index / run->threads * CONTENT_BLOCK;
	worker->end = half + pieces * (worker->index + 1) / run->threads * CONTENT_BLOCK;
	worker->at = worker->synced = worker->start;
	worker->ops_max = UINT64_MAX;
}

/* Choose a page of the first half, or a page that this worker has filled. */
static uint64_t log_written_page(struct worker *worker)
{
	uint64_t half = worker->run->bytes / 2 / CONTENT_PAGE;
	uint64_t own = (worker->at - worker->start) / CONTENT_PAGE;
	uint64_t page = next_random(worker, half + own);

	return page < half ? page : worker->start / CONTENT_PAGE + page - half;
}

/* worker->step is the number of pages that were read. */
bool next_log_read(struct worker *worker, struct op *op)
{
	if (worker->step < (worker->at - worker->start) / BYTES_A_READ) {
		*op = (struct op){
			.kind = OP_READ,
			.offset = log_written_page(worker) * CONTENT_PAGE,
			.length = CONTENT_PAGE,
		};
		worker->step++;
		return true;
	}
	if (worker->at >= worker->end || (worker->at % CONTENT_BLOCK == 0 && next_enough(worker)))
		return false;
	log_append(worker, op, CONTENT_BLOCK);
	return true;
}
