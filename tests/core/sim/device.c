// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The device: a volatile cache over what survives a power cut, operations that
 * end in any order, short or with an error, and a file that must not be written
 * beyond its end.
 */
#include "world.h"

void device_write(struct file *file, u64 page, u32 value)
{
	struct disk_page *p = &file->page[page];

	sim_check(page < file_pages(file), "page %llu is written, beyond the end of the file",
		  (unsigned long long)page);
	if (p->npending < PENDING)
		p->pending[p->npending++] = value;
	else
		p->pending[sim_below(PENDING)] = value;
	p->value = value;
	p->hole = false;
}

void device_zero(struct file *file, u64 page)
{
	struct disk_page *p = &file->page[page];

	if (p->npending < PENDING)
		p->pending[p->npending++] = 0;
	else
		p->pending[sim_below(PENDING)] = 0;
	p->value = 0;
	p->hole = true;
}

void device_flush(struct file *file)
{
	u32 i;

	for (i = 0; i < MAX_PAGES; i++) {
		file->page[i].safe = file->page[i].value;
		file->page[i].npending = 0;
	}
}

/* Of what was not flushed, any part survives, in any order. */
void device_lose_power(struct file *file)
{
	u32 i;

	for (i = 0; i < MAX_PAGES; i++) {
		struct disk_page *p = &file->page[i];
		u32 n = sim_below(p->npending + 2);

		if (n < p->npending)
			p->safe = p->pending[n];
		else if (n == p->npending + 1)
			p->safe = p->value;
		if (i >= file_pages(file)) {
			/* Freed: if the file grows again, there are zeros. */
			p->safe = 0;
			p->hole = true;
		}
		p->value = p->safe;
		p->npending = 0;
		p->hole = p->hole && !p->value;
	}
}

bool device_block_is_hole(const struct file *file, u64 pgoff)
{
	u64 block = pgoff & ~(u64)(HM_BLOCK_PAGES - 1), i;

	for (i = block; i < block + HM_BLOCK_PAGES && i < MAX_PAGES; i++)
		if (!file->page[i].hole)
			return false;
	return true;
}

/* One page of an operation, in the order that the device likes. */
static void advance(struct op *op)
{
	struct file *file = op->store->file;
	u64 page = op->pgoff + op->done;

	if (op->type == OP_READ) {
		bool there = page < file_pages(file);

		w.content[op->frame[op->done]] = there ? file->page[page].value : 0;
	} else {
		op->sent[op->done] = w.content[op->frame[op->done]];
		device_write(file, page, op->sent[op->done]);
	}
	op->done++;
}

/* The persistent kind of read error. */
static bool is_bad(const struct op *op)
{
	u64 bad = op->store->file->bad_read;

	return op->type == OP_READ && bad >= op->pgoff && bad < op->pgoff + op->npages;
}

static struct op *any_under_way(void)
{
	u32 start = sim_below(MAX_OPS), i;

	for (i = 0; i < MAX_OPS; i++) {
		struct op *op = &w.op[(start + i) % MAX_OPS];

		if (op->used && !op->finished)
			return op;
	}
	return NULL;
}

void device_main(void *arg)
{
	(void)arg;
	for (;;) {
		struct op *op;

		sim_yield();
		op = any_under_way();
		if (!op)
			continue;
		sim_progress();
		if (is_bad(op) || (op->fails && sim_chance(40))) {
			op->fails = true;
			op->finished = true;
		} else if (op->done < op->limit) {
			advance(op);
			if (op->ends_short && op->done < op->limit && sim_chance(30))
				op->finished = true;
		} else {
			op->finished = true;
			op->fails = false;
		}
	}
}
