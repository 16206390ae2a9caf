// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Writing: runs of dirty units go to the store from where they are mapped,
 * after they are protected against stores. Never outside of the file: the
 * length is looked up for each write, and the part of the last page that direct
 * I/O cannot write goes through the page cache.
 */
#include "engine.h"
#include "races.h"

#include <errno.h>

#define BACKGROUND_OPS 8u
#define FIRST_BACKOFF_MS 100u
#define LAST_BACKOFF_MS 5000u

/*
 * Protect the units of a run that lie in one block, and list their buffers.
 * Sets op->lost if the program has zapped one of them.
 */
static void collect_block(struct handler *h, struct io_op *op, u64 pgoff, u64 end)
{
	struct store *store = op->store;
	pthread_mutex_t *lock = block_lock(store, pgoff);
	struct mapping *map = NULL;
	u64 protect = pgoff;

	pthread_mutex_lock(lock);
	while (pgoff < end) {
		struct mapping *at;
		struct hm_unit unit;

		hm_peek(store->core, pgoff, &unit);
		at = page_mapping(h->pool, &unit);
		if (at != map) {
			if (map)
				page_protect(map, protect, (u32)(pgoff - protect));
			map = at;
			protect = pgoff;
		}
		if (at && !page_present(at, &unit))
			op->lost = true;
		io_add_buffer(op, page_data(h->pool, &unit), unit_bytes(&unit));
		pgoff += unit.npages;
	}
	if (map)
		page_protect(map, protect, (u32)(pgoff - protect));
	pthread_mutex_unlock(lock);
}

/*
 * The program has zapped dirty units: what was stored there is gone, which the
 * next sync tells. The other units of the run are tried again.
 */
static void give_up_lost(struct handler *h, struct io_op *op)
{
	struct store *store = op->store;
	u64 end = op->pgoff + op->npages, pgoff = op->pgoff;

	while (pgoff < end) {
		pthread_mutex_t *lock = block_lock(store, pgoff);
		struct mapping *at;
		struct hm_unit unit;

		pthread_mutex_lock(lock);
		hm_peek(store->core, pgoff, &unit);
		at = page_mapping(h->pool, &unit);
		if (at && !page_present(at, &unit)) {
			page_zapped(at, &unit);
			hm_writeback_done(store->core, pgoff, unit.npages, HM_WB_UNCHANGED);
			fault_lost(store, &unit);
			hm_store_error(store->core, -EIO);
		} else {
			hm_writeback_done(store->core, pgoff, unit.npages, HM_WB_AGAIN);
		}
		pthread_mutex_unlock(lock);
		pgoff += unit.npages;
	}
}

static bool is_zero(const char *buffer, size_t bytes)
{
	bool zero;

	program_memory_begin();
	zero = !buffer[0] && !memcmp(buffer, buffer + 1, bytes - 1);
	program_memory_end();
	return zero;
}

/* Nothing was stored to this unit, and the store holds no data there either. */
static bool nothing_to_write(const struct io_op *op)
{
	u32 unit_pages = op->kind == HM_BASE ? 1 : HM_BLOCK_PAGES;
	u64 pgoff;
	u32 i;

	for (pgoff = op->pgoff; pgoff < op->pgoff + op->npages; pgoff += unit_pages)
		if (!hm_hollow(op->store->core, pgoff))
			return false;
	for (i = 0; i < op->nbuffers; i++)
		if (!is_zero(op->buffers[i].iov_base, op->buffers[i].iov_len))
			return false;
	return true;
}

/*
 * How much of a run lies within the file, and how much of that needs buffered
 * I/O because it does not end where a direct write may end.
 */
static void clamp(struct io_op *op)
{
	struct store *store = op->store;
	u64 size = store_file_size(store);
	u64 start = op->pgoff << HM_PAGE_SHIFT;
	size_t bytes = (size_t)op->npages << HM_PAGE_SHIFT;
	u32 granule = store->block_device ? store->align : HM_PAGE_SIZE;

	if (size < hm_store_size(store->core))
		resize_noticed(store);
	else
		size = hm_store_size(store->core);
	if (start >= size)
		bytes = 0;
	else if (bytes > size - start)
		bytes = size - start;
	op->len = bytes;
	op->tail = store->direct ? bytes % granule : 0;
}

/*
 * Writes fail: background write-back pauses, longer each time, and tries again.
 * It goes on at full speed when what failed last has been written.
 */
static void back_off(struct handler *h, struct store *store, u64 pgoff)
{
	u32 backoff = atomic_load(&store->wb_backoff_ms) * 2;

	if (h->now_ms < atomic_load(&store->wb_retry_ms))
		return; /* one of many that were under way when the first one failed */
	if (backoff < FIRST_BACKOFF_MS)
		backoff = FIRST_BACKOFF_MS;
	if (backoff > LAST_BACKOFF_MS)
		backoff = LAST_BACKOFF_MS;
	atomic_store(&store->wb_bad_pgoff, pgoff);
	atomic_store(&store->wb_backoff_ms, backoff);
	atomic_store(&store->wb_retry_ms, h->now_ms + backoff);
}

/* It works again, or there is nothing left that failed. */
void write_works(struct store *store)
{
	atomic_store(&store->wb_backoff_ms, 0);
	atomic_store(&store->wb_retry_ms, 0);
}

static void finish(struct handler *h, struct io_op *op, int err)
{
	struct store *store = op->store;

	if (op->lost)
		give_up_lost(h, op);
	else
		hm_writeback_done(store->core, op->pgoff, op->npages, err);
	if (err < 0) {
		back_off(h, store, op->pgoff);
		atomic_store(&store->wb_pass, true);
	} else if (atomic_load(&store->wb_backoff_ms)) {
		u64 bad = atomic_load(&store->wb_bad_pgoff);

		if (bad >= op->pgoff && bad < op->pgoff + op->npages)
			write_works(store);
	}
	if (err == HM_WB_UNCHANGED) {
		stats_add(h->pool->stats, STATS_UNWRITTEN_BYTES, (s64)op->npages << HM_PAGE_SHIFT);
	} else if (!err) {
		stats_add(h->pool->stats, STATS_WRITTEN_BYTES, (s64)op->len);
		hm_hist_record(&h->pool->stats->write_ns, clock_ns() - op->start_ns);
	}
	if (op->background)
		h->wb_ops--;
	if (op->sync)
		sync_op_done(h, op->sync, err < 0 ? err : 0);
	atomic_fetch_sub(&store->ops, 1);
	io_give(&h->io, op);
}

/* Queue what is left: first the part for direct I/O, then the tail. */
static void queue_rest(struct handler *h, struct io_op *op)
{
	size_t direct = op->len - op->tail;

	if (op->done < direct) {
		op->fd = op->store->fd;
		io_choose(op, op->done, direct);
	} else {
		op->fd = op->store->fd_buffered;
		io_choose(op, op->done, op->len);
	}
	h->io.backend->queue(&h->io, op);
}

void write_complete(struct handler *h, struct io_op *op)
{
	if (op->result <= 0) {
		finish(h, op, op->result ? (int)op->result : -EIO);
		return;
	}
	op->done += (size_t)op->result;
	if (op->done == op->len) {
		finish(h, op, 0);
		return;
	}
	/* Short: write the rest, from where direct I/O may start. */
	if (op->done < op->len - op->tail)
		op->done -= op->done % op->store->align;
	queue_rest(h, op);
}

/**
 * write_next() - start to write the next dirty run of a range
 * @pos: where to look from; moved past the run
 * @wait: stop at units that somebody else is writing (HM_WB_BUSY)
 * @sync: who is told when it is done; NULL: nobody
 *
 * An operation must be free. Return: as hm_writeback().
 */
enum hm_wb write_next(struct handler *h, struct store *store, u64 *pos, u64 end, bool wait,
		      struct sync_request *sync, bool background)
{
	struct hm_run run;
	struct io_op *op;
	enum hm_wb got;
	u64 at, run_end;

	got = hm_writeback(store->core, pos, end, HM_BLOCK_PAGES, wait, &run);
	if (got != HM_WB_RUN)
		return got;
	op = io_take(&h->io, 0);
	hm_assert(op);
	op->type = IO_WRITE;
	op->store = store;
	op->pgoff = run.pgoff;
	op->npages = run.npages;
	op->kind = run.kind;
	op->background = background;
	op->sync = sync;
	op->done = 0;
	op->nbuffers = 0;
	op->lost = false;
	op->start_ns = clock_ns();
	atomic_fetch_add(&store->ops, 1);
	if (background)
		h->wb_ops++;
	if (sync)
		sync->ops++;

	run_end = run.pgoff + run.npages;
	for (at = run.pgoff; at < run_end;) {
		u64 block_end = (at | (HM_BLOCK_PAGES - 1)) + 1;

		if (block_end > run_end)
			block_end = run_end;
		collect_block(h, op, at, block_end);
		at = block_end;
	}
	clamp(op);
	if (op->lost)
		finish(h, op, -EIO);
	else if (!op->len || nothing_to_write(op))
		finish(h, op, HM_WB_UNCHANGED);
	else
		queue_rest(h, op);
	return got;
}

/* The store that has most to write, whatever the dirty share is. */
static struct store *dirtiest(struct handler *h)
{
	struct store *best = NULL, *store;
	u64 most = 0;

	for (store = h->pool->stores; store; store = store->next) {
		u64 dirty = hm_store_dirty_pages(store->core);

		if (dirty > most && atomic_load(&store->wb_retry_ms) <= h->now_ms) {
			best = store;
			most = dirty;
		}
	}
	return best;
}

static struct store *choose(struct handler *h, bool pressed)
{
	struct hm_store *core;
	struct store *store;
	bool expired;

	for (store = h->pool->stores; store; store = store->next)
		if (atomic_load(&store->wb_pass) && atomic_load(&store->wb_retry_ms) <= h->now_ms)
			return store;
	core = hm_writeback_pick(h->pool->cache, &expired);
	if (!core)
		return pressed ? dirtiest(h) : NULL;
	for (store = h->pool->stores; store && store->core != core; store = store->next)
		;
	if (!store || atomic_load(&store->wb_retry_ms) > h->now_ms)
		return dirtiest(h); /* another one that can be written */
	atomic_store(&store->wb_pass, expired);
	return store;
}

/* Write-back that nobody asked for: too much is dirty, or it is old. */
void write_background(struct handler *h)
{
	bool pressed = atomic_exchange(&h->pool->pressed, false);
	bool restarted = false;

	while (h->wb_ops < BACKGROUND_OPS && h->io.nfree > h->io.depth / 4) {
		struct store *store = choose(h, pressed);

		if (!store)
			break;
		if (write_next(h, store, &store->wb_pos, ~0ull, false, NULL, true) != HM_WB_DONE)
			continue;
		store->wb_pos = 0;
		atomic_store(&store->wb_pass, false);
		if (!hm_store_dirty_pages(store->core))
			write_works(store);
		if (restarted)
			break;
		restarted = true;
	}
}
