// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Writing. A dirty block is moved out of its mapping and written from its slot, where
 * nobody can change it meanwhile; a fault on it waits until it is written. If it cannot be
 * moved, a page of it is pinned, by a read(2) with O_DIRECT, say, that stores to it
 * without a fault, now or later. Then a sync writes it from where it is, and it stays
 * dirty; write-back that nobody waits for leaves it for later.
 */
#include "evict.h"
#include "frames.h"
#include "linux.h"
#include "races.h"
#include "stats.h"
#include "store.h"
#include "write.h"

#include <errno.h>

#define BACKGROUND_OPS 8u
#define MOST_AT_ONCE 16u
#define FIRST_BACKOFF_MS 100u
#define LAST_BACKOFF_MS 5000u

/* Where to write a block from. 0; -EBUSY: where it is mapped; -ENOENT: it is gone. */
static int collect(struct handler *h, struct io_op *op)
{
	struct store *store = op->store;
	pthread_mutex_t *lock = block_lock(store, op->pgoff);
	struct hm_unit unit;
	int err;

	pthread_mutex_lock(lock);
	hm_peek(store->core, op->pgoff, &unit);
	op->frame = unit.frame;
	err = page_remove(h->pool, &unit);
	op->buffer = page_data(h->pool, &unit);
	pthread_mutex_unlock(lock);
	return err;
}

/* The program has zapped what it stored: it is gone, which the next sync tells. */
static void give_up_lost(struct store *store, u64 pgoff)
{
	pthread_mutex_t *lock = block_lock(store, pgoff);
	struct hm_unit unit;

	pthread_mutex_lock(lock);
	hm_writeback_done(store->core, pgoff, HM_BLOCK_PAGES, HM_WB_UNCHANGED);
	hm_peek(store->core, pgoff, &unit);
	evict_lost(store, &unit);
	hm_store_error(store->core, -EIO);
	pthread_mutex_unlock(lock);
}

static bool is_zero(const char *buffer, size_t bytes)
{
	bool zero;

	hm_touch(buffer, bytes);
	program_memory_begin();
	zero = !buffer[0] && !memcmp(buffer, buffer + 1, bytes - 1);
	program_memory_end();
	return zero;
}

/* Nothing was stored to this block, and the store holds no data there either. */
static bool nothing_to_write(const struct io_op *op)
{
	if (op->store->pool->places[op->frame].guessed)
		return false;
	return hm_hollow(op->store->core, op->pgoff) && is_zero(op->buffer, HM_BLOCK_SIZE);
}

/*
 * How much of a block lies within the file: all of it, unless somebody has cut the file
 * off, whatever its lock says. Then it is not made longer again. Where the length cannot be
 * found out the write tells what is wrong.
 */
static void clamp(struct io_op *op)
{
	u64 start = op->pgoff << HM_PAGE_SHIFT, size;

	op->len = HM_BLOCK_SIZE;
	op->fd = op->store->fd;
	if (store_file_size(op->store, &size) || start + HM_BLOCK_SIZE <= size)
		return;
	op->len = size > start ? size - start : 0;
	op->fd = op->store->fd_buffered;
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

static void sync_op_done(struct sync_request *sync, int err)
{
	hm_assert(sync->ops > 0);
	sync->ops--;
	if (err)
		sync->err = err;
}

static void finish(struct handler *h, struct io_op *op, int err)
{
	struct store *store = op->store;

	if (err > 0)
		h->at_once++;
	if (op->lost)
		give_up_lost(store, op->pgoff);
	else
		hm_writeback_done(store->core, op->pgoff, HM_BLOCK_PAGES,
				  err || !op->pinned ? err : HM_WB_AGAIN);
	if (err < 0 && !op->lost) {
		back_off(h, store, op->pgoff);
		atomic_fetch_add(&store->wb_asked, 1);
	} else if (op->pgoff == atomic_load(&store->wb_bad_pgoff)) {
		write_works(store);
	}
	if (err == HM_WB_UNCHANGED) {
		stats_add(h->pool->stats, STATS_UNWRITTEN_BYTES, HM_BLOCK_SIZE);
	} else if (!err) {
		stats_add(h->pool->stats, STATS_WRITTEN_BYTES, (s64)op->len);
		hm_hist_record(&h->pool->stats->write_ns, sys_clock_ns() - op->start_ns);
	}
	if (err >= 0 && !op->pinned)
		evict_progress(h->pool);
	if (op->background)
		h->wb_ops--;
	if (op->sync)
		sync_op_done(op->sync, err < 0 ? err : 0);
	atomic_fetch_sub(&store->ops, 1);
	io_give(&h->io, op);
}

void write_complete(struct handler *h, struct io_op *op)
{
	size_t begun = op->done;

	if (io_again(&h->io, op))
		return;
	/* A write that failed may have written a part: zeros must be written over it. */
	hm_store_set_hollow(op->store->core, op->pgoff, HM_BLOCK_PAGES, false);
	if (op->result <= 0) {
		finish(h, op, io_error(op->result));
		return;
	}
	op->done += (size_t)op->result;
	if (op->done == op->len) {
		finish(h, op, 0);
		return;
	}
	/* Short: write the rest, from where direct I/O may start, if that is any further. */
	op->done -= op->done % op->store->align;
	if (op->done > begun)
		io_queue(&h->io, op);
	else
		finish(h, op, -EIO);
}

/*
 * May a handler go on with write-back in this round? A block that is pinned, or was never
 * stored to, takes a while without any operation: there may be thousands, and faults wait.
 */
bool write_may_go_on(struct handler *h)
{
	if (h->at_once < MOST_AT_ONCE)
		return true;
	h->again = true;
	return false;
}

/**
 * write_next() - start to write the next dirty block of a range
 * @pos: where to look from; moved past the block
 * @wait: stop at blocks that somebody else is writing (HM_WB_BUSY)
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
	int err;

	got = hm_writeback(store->core, pos, end, HM_BLOCK_PAGES, wait, &run);
	if (got != HM_WB_RUN)
		return got;
	hm_assert(run.npages == HM_BLOCK_PAGES);
	op = io_take(&h->io, 0);
	hm_assert(op);
	*op = (struct io_op){
		.type = IO_WRITE,
		.store = store,
		.pgoff = run.pgoff,
		.background = background,
		.sync = sync,
		.start_ns = sys_clock_ns(),
	};
	atomic_fetch_add(&store->ops, 1);
	if (background)
		h->wb_ops++;
	if (sync)
		sync->ops++;
	err = collect(h, op);
	op->pinned = err == -EBUSY;
	op->lost = err == -ENOENT;
	clamp(op);
	if (op->lost)
		finish(h, op, -EIO);
	else if (op->pinned && !sync)
		finish(h, op, HM_WB_AGAIN);
	else if (!op->len) /* beyond the end: pinned, it may still be stored to */
		finish(h, op, op->pinned ? HM_WB_AGAIN : HM_WB_UNCHANGED);
	else if (!op->pinned && nothing_to_write(op))
		finish(h, op, HM_WB_UNCHANGED);
	else
		io_queue(&h->io, op);
	return got;
}

/* Not while writes fail, nor while somebody waits for the last one to end. */
static bool may_write(const struct handler *h, const struct store *store)
{
	return atomic_load(&store->wb_retry_ms) <= h->now_ms && !atomic_load(&store->resizing);
}

/* The store that has most to write, whatever the dirty share is. */
static struct store *dirtiest(struct handler *h)
{
	struct store *best = NULL, *store;
	u64 most = 0;

	for (store = h->pool->stores; store; store = store->next) {
		u64 dirty = hm_store_dirty_pages(store->core);

		if (dirty > most && may_write(h, store)) {
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
		if (atomic_load(&store->wb_asked) != store->wb_passed && may_write(h, store))
			return store;
	core = hm_writeback_pick(h->pool->cache, &expired);
	if (!core)
		return pressed ? dirtiest(h) : NULL;
	for (store = h->pool->stores; store && store->core != core; store = store->next)
		;
	if (!store || !may_write(h, store))
		return dirtiest(h); /* another one that can be written */
	if (expired)
		atomic_fetch_add(&store->wb_asked, 1);
	return store;
}

/* Write-back that nobody asked for: too much is dirty, or it is old. */
void write_background(struct handler *h)
{
	bool pressed = atomic_exchange(&h->pool->pressed, false);

	if (!h->wb_goes_on)
		h->wb_passes = 0;
	h->wb_goes_on = false;
	while (h->wb_ops < BACKGROUND_OPS && h->io.nfree > h->io.depth / 4) {
		struct store *store = choose(h, pressed);

		if (!store)
			break;
		if (!write_may_go_on(h)) {
			h->wb_goes_on = true;
			break;
		}
		if (!store->wb_pos)
			store->wb_begun = atomic_load(&store->wb_asked);
		if (write_next(h, store, &store->wb_pos, ~0ull, false, NULL, true) != HM_WB_DONE)
			continue;
		store->wb_pos = 0;
		store->wb_passed = store->wb_begun;
		if (!hm_store_dirty_pages(store->core))
			write_works(store);
		if (++h->wb_passes > 1)
			break;
	}
}
