// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap_truncate() and hugemap_punch() on a file that is mapped through a pool.
 *
 * The system call is made while maps_lock is held for writing and no I/O on the store is
 * under way: no fault is served then, and nothing is written. What is dropped is dropped
 * after it has succeeded, so that a call that fails has changed nothing.
 */
#include "frames.h"
#include "handler.h"
#include "linux.h"
#include "mapping.h"
#include "reason.h"
#include "store.h"
#include "write.h"

#include <errno.h>
#include <fcntl.h>

#define MOST_DROPPED 16u

/*
 * Take a block, or what there is of a range, out of the cache. A block that is pinned
 * is forgotten if it is not wanted, as a page of a file is by Linux: what the device
 * stores there afterwards goes nowhere. False: some are busy.
 */
static bool drop(struct store *store, u64 pos, u64 end, bool discard)
{
	struct pool *pool = store->pool;
	bool all = true;

	while (pos < end) {
		enum hm_evict_result result = HM_EVICT_DISCARD;
		struct hm_unit unit;
		bool stored;
		int err;

		switch (hm_invalidate(store->core, &pos, end, discard, &unit)) {
		case HM_INV_DONE:
			return all;
		case HM_INV_BUSY:
			all = false;
			pos = block_of(pos) + HM_BLOCK_PAGES;
			continue;
		case HM_INV_UNIT:
			break;
		}
		if (discard)
			page_changed(pool, &unit); /* whatever it is: no need to look */
		err = page_remove(pool, &unit);
		stored = page_take_stored(pool, &unit);
		if (!discard && stored && err == -ENOENT)
			hm_store_error(store->core, -EIO); /* zapped with a store in it */
		if (discard && err == -EBUSY)
			page_forget(pool, &unit);
		else if (!discard && stored && err != -ENOENT)
			result = HM_EVICT_DIRTY;
		else if (!discard && err == -EBUSY)
			result = HM_EVICT_BUSY;
		if (result != HM_EVICT_DISCARD)
			all = false;
		if (hm_evict_done(&unit, result))
			page_wake(store, unit.pgoff);
	}
	if (discard)
		write_works(store); /* what cannot be written may be gone */
	return all;
}

/* Drop what is clean of a range, a part at a time: faults wait meanwhile. No lock is held. */
void resize_drop_clean(struct store *store, u64 pos, u64 end)
{
	u64 next, limit = store_limit(store);

	if (end > limit)
		end = limit;
	for (pos = block_of(pos); pos < end; pos = next) {
		next = pos + MOST_DROPPED * HM_BLOCK_PAGES;
		pthread_rwlock_wrlock(&store->pool->maps_lock);
		drop(store, pos, next < end ? next : end, false);
		pthread_rwlock_unlock(&store->pool->maps_lock);
	}
	handler_news(store->pool); /* some may be dirty after all */
}

static enum hm_state state_of(struct store *store, u64 pgoff)
{
	struct hm_unit unit;

	return pgoff >= store_limit(store) ? HM_ABSENT : hm_peek(store->core, pgoff, &unit);
}

enum left {
	LEFT_NOTHING,
	LEFT_BUSY,
	LEFT_PINNED, /* it was written and dropped, and is mapped: it cannot be moved away */
	LEFT_WRITING, /* from where it is mapped, as it was pinned */
};

/* What is there of a block that is to go? maps_lock is held for writing. */
static enum left what_is_left(struct store *store, u64 pgoff)
{
	struct hm_unit unit;
	enum hm_state state;
	bool mapped;

	if (pgoff >= store_limit(store))
		return LEFT_NOTHING;
	state = hm_peek(store->core, pgoff, &unit);
	mapped = (state == HM_CLEAN || state == HM_DIRTY || state == HM_WRITING) &&
		 page_mapping(store->pool, &unit);
	if (mapped)
		return state == HM_WRITING ? LEFT_WRITING : LEFT_PINNED;
	return state == HM_ABSENT ? LEFT_NOTHING : LEFT_BUSY;
}

/*
 * Drop what was read of a range before somebody wrote the file, or is being read. -EBUSY:
 * of what is pinned for long the cache keeps what the file had before. No lock is held.
 */
int resize_drop_read(struct store *store, u64 pos, u64 end)
{
	struct patience patience = { 0 };
	enum left left;
	int err = 0;
	bool all;

	for (pos = block_of(pos); pos < end; pos += HM_BLOCK_PAGES) {
		do {
			pthread_rwlock_wrlock(&store->pool->maps_lock);
			all = drop(store, pos, pos + 1, false);
			left = what_is_left(store, pos);
			pthread_rwlock_unlock(&store->pool->maps_lock);
		} while (!all && look_again(&patience, left == LEFT_PINNED));
		if (!all)
			err = fail(-EBUSY, "the file is written, but a page of a mapping of it is "
					   "pinned by direct I/O, and keeps what was there");
	}
	handler_news(store->pool);
	return err;
}

/* @give_up: what is stored there, too; who syncs next is told. */
static void drop_edge(struct store *store, u64 pgoff, bool give_up)
{
	if (give_up && state_of(store, pgoff) == HM_DIRTY)
		hm_store_error(store->core, -EIO);
	drop(store, block_of(pgoff), block_of(pgoff) + 1, give_up);
}

static bool look_again_at(struct patience *patience, enum left a, enum left b)
{
	if (a == LEFT_PINNED || b == LEFT_PINNED)
		return look_again(patience, true);
	return a == LEFT_WRITING || b == LEFT_WRITING ? look_again_unsure(patience) :
							look_again(patience, false);
}

/*
 * Blocks that lie in a range in part are written and dropped, and no I/O is under way;
 * maps_lock is held for writing when this returns 0, until end().
 * @a, @b: pages of such blocks; may be the same, or beyond the limit: none
 * @lost: if the file is cut already, what is cached has to go in any case: why it is given
 * up, if it cannot be written, or is pinned; NULL: then this fails
 */
static int begin(struct store *store, u64 a, u64 b, int *lost)
{
	struct pool *pool = store->pool;
	struct patience patience = { 0 };
	enum left left_a, left_b;
	int err = 0, given_up = 0;

	pthread_mutex_lock(&store->resize_lock);
	atomic_store(&store->resizing, true);
	for (;;) {
		if (store->writable && !given_up) {
			err = sync_range(store, block_of(a), block_of(a) + HM_BLOCK_PAGES);
			if (!err && b != a)
				err = sync_range(store, block_of(b), block_of(b) + HM_BLOCK_PAGES);
		}
		if (err && lost) {
			given_up = err;
			err = 0;
		}
		if (err) {
			fail(err, "writing to the file failed (%s): nothing is changed",
			     strerror(-err));
			break;
		}
		pthread_rwlock_wrlock(&pool->maps_lock);
		drop_edge(store, a, given_up);
		drop_edge(store, b, given_up);
		left_a = what_is_left(store, a);
		left_b = what_is_left(store, b);
		if (left_a == LEFT_NOTHING && left_b == LEFT_NOTHING && !atomic_load(&store->ops)) {
			if (lost)
				*lost = given_up;
			return 0;
		}
		pthread_rwlock_unlock(&pool->maps_lock);
		handlers_kick(pool);
		if (look_again_at(&patience, left_a, left_b))
			continue;
		err = fail(-EBUSY, "a page there is pinned by direct I/O: wait for that to end");
		if (!lost)
			break;
		given_up = err;
		err = 0;
	}
	atomic_store(&store->resizing, false);
	pthread_mutex_unlock(&store->resize_lock);
	handlers_kick(pool);
	return err;
}

static void end(struct store *store)
{
	atomic_store(&store->resizing, false);
	pthread_rwlock_unlock(&store->pool->maps_lock);
	pthread_mutex_unlock(&store->resize_lock);
	handlers_kick(store->pool);
}

/* The file has become shorter: what is above is the kernel's from now on. */
static void lower_limit(struct store *store, u64 size)
{
	struct pool *pool = store->pool;
	u64 limit = size >> HM_BLOCK_SHIFT << HM_BLOCK_ORDER, old = store_limit(store);
	bool all;
	u32 i;

	if (limit >= old)
		return;
	all = drop(store, limit, old, true);
	hm_assert(all); /* no I/O is under way, and nobody evicts */
	hm_store_set_size(store->core, limit << HM_PAGE_SHIFT);
	for (i = 0; i < pool->nmaps; i++)
		if (pool->maps[i]->store == store)
			mapping_lower_limit(pool->maps[i]);
}

/**
 * resize_truncate() - ftruncate() of a file that is mapped
 * @store: held by a reference; no lock is held
 * @again: it was done already, before anybody knew that it is mapped
 */
int resize_truncate(struct store *store, int fd, u64 size, bool again)
{
	u64 last = size >> HM_PAGE_SHIFT;
	int err = again ? 0 : store_check_writable(store), lost = 0;

	if (!err && store->block_device)
		err = fail(-EINVAL, "a block device has the length that it has");
	/* A block that keeps its first part, only. */
	if (!err)
		err = begin(store, size & (HM_BLOCK_SIZE - 1) ? last : ALL_PAGES - 1,
			    size & (HM_BLOCK_SIZE - 1) ? last : ALL_PAGES - 1,
			    again ? &lost : NULL);
	if (err)
		return err;
	err = sys_ftruncate(fd, size);
	if (again)
		err = 0; /* what is cached above is not in the file, in any case */
	if (!err)
		lower_limit(store, size);
	end(store);
	return err ? err : lost;
}

static void punched(struct store *store, u64 start, u64 end)
{
	u64 first = (start + HM_PAGE_SIZE - 1) >> HM_PAGE_SHIFT, last = end >> HM_PAGE_SHIFT;

	if (first < last)
		hm_store_set_hollow(store->core, first, last - first, true);
}

/**
 * resize_punch() - fallocate(PUNCH_HOLE) of a file that is mapped
 * @store: held by a reference; no lock is held
 * @again: as above
 */
int resize_punch(struct store *store, int fd, u64 offset, u64 length, bool again)
{
	u64 last = offset + length, limit = hm_store_size(store->core);
	u64 first_block = (offset + HM_BLOCK_SIZE - 1) >> HM_BLOCK_SHIFT << HM_BLOCK_ORDER;
	u64 end_block = (last < limit ? last : limit) >> HM_BLOCK_SHIFT << HM_BLOCK_ORDER;
	int err = again ? 0 : store_check_writable(store), lost = 0;
	bool all;

	if (!err)
		err = begin(store,
			    offset & (HM_BLOCK_SIZE - 1) ? offset >> HM_PAGE_SHIFT : ALL_PAGES - 1,
			    last & (HM_BLOCK_SIZE - 1) ? last >> HM_PAGE_SHIFT : ALL_PAGES - 1,
			    again ? &lost : NULL);
	if (err)
		return err;
	err = sys_fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length);
	/* Done already, its blocks are not what is cached, in any case. */
	if ((!err || again) && first_block < end_block) {
		all = drop(store, first_block, end_block, true);
		hm_assert(all);
	}
	/* Of blocks at the edges it is known that they have holes. */
	if (!err || again)
		punched(store, offset, last < limit ? last : limit);
	end(store);
	return err ? err : lost;
}
