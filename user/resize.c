// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Files that grow, shrink or get holes under their mappings. A call of the
 * library (hugemap_truncate, hugemap_punch) is exact. A plain ftruncate(2) is
 * noticed by inotify, by a fault beyond the end, or when something is written,
 * and dealt with by handler 0.
 *
 * Steps are taken under maps_lock for writing: no fault is being served then.
 * What is being read, written or evicted meanwhile makes a step incomplete; it
 * is tried again until it is done, and faults on the store wait.
 */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define PAGE_MASK ((u64)HM_PAGE_SIZE - 1)

static u64 pages(u64 bytes)
{
	return (bytes + PAGE_MASK) >> HM_PAGE_SHIFT;
}

/*
 * Zero a part of a page that is cached, because the file has no bytes there.
 * The page is unmapped for it. False: not now.
 */
static bool zero_in_page(struct store *store, u64 pgoff, u32 from, u32 to)
{
	struct hm_unit unit;
	u32 removed;
	char *page;
	int err;

	switch (hm_peek(store->core, pgoff, &unit)) {
	case HM_CLEAN:
	case HM_DIRTY:
		break;
	case HM_FILLING:
	case HM_WRITING:
	case HM_EVICTING:
		return false;
	default:
		return true;
	}
	err = page_remove(store->pool, &unit, 1, &removed);
	if (err == -ENOENT)
		fault_lost(store, &unit);
	if (err)
		return false;
	page = slot_of(store->pool, unit.frame) + ((pgoff - unit.pgoff) << HM_PAGE_SHIFT);
	memset(page + from, 0, to - from);
	if (unit.npages > 1)
		store->pool->hashes[unit.frame].valid = false;
	return true;
}

/* Take whole units of a range out of the cache. False: some are busy. */
static bool drop(struct store *store, u64 pos, u64 end, bool discard)
{
	bool all = true;

	while (pos < end) {
		struct hm_unit unit;
		u32 removed;
		bool busy;

		switch (hm_invalidate(store->core, &pos, end, discard, &unit)) {
		case HM_INV_DONE:
			return all;
		case HM_INV_BUSY:
			all = false;
			pos++;
			continue;
		case HM_INV_UNIT:
			break;
		}
		busy = page_remove(store->pool, &unit, 1, &removed) == -EBUSY;
		if (busy)
			all = false;
		if (hm_evict_done(&unit, busy ? HM_EVICT_BUSY : HM_EVICT_DISCARD))
			page_wake(store, unit.pgoff, unit.npages);
		if (discard)
			write_works(store); /* what cannot be written may be gone */
	}
	return all;
}

/* Drop what is clean of a range; maps_lock is held for writing. */
void resize_drop_clean(struct store *store, u64 pos, u64 end)
{
	drop(store, pos, end, false);
}

/* Pages that raised SIGBUS because the file ended before them may be touched. */
static void heal_grown(struct store *store, u64 from, u64 to)
{
	struct pool *pool = store->pool;
	u32 i;

	for (i = 0; i < pool->nmaps; i++) {
		struct mapping *map = pool->maps[i];
		u64 first = from > map->pgoff ? from : map->pgoff;
		u64 last = to < map_end_pgoff(map) ? to : map_end_pgoff(map);

		if (map->store != store || first >= last || !atomic_load(&map->poisoned))
			continue;
		madvise(map_addr(map, first), (size_t)(last - first) << HM_PAGE_SHIFT,
			MADV_DONTNEED);
	}
}

static bool grow(struct store *store, u64 old_size, u64 size)
{
	u64 blocks = (old_size + HM_BLOCK_SIZE - 1) >> HM_BLOCK_SHIFT;
	u64 first = blocks << HM_BLOCK_ORDER;

	if (old_size & PAGE_MASK &&
	    !zero_in_page(store, old_size >> HM_PAGE_SHIFT, old_size & PAGE_MASK, HM_PAGE_SIZE))
		return false;
	if (first < pages(size))
		hm_store_set_hollow(store->core, first, pages(size) - first, true);
	heal_grown(store, pages(old_size), pages(size));
	return hm_store_set_size(store->core, size);
}

/*
 * The new last block may be cached as a whole: it must fall into base pages,
 * so that pages beyond the end can raise SIGBUS. What is dirty in it is written
 * by the caller before the next try.
 */
static bool shrink(struct store *store, u64 size)
{
	u64 end = pages(hm_store_size(store->core));
	u64 block = (size >> HM_BLOCK_SHIFT) << HM_BLOCK_ORDER;
	enum hm_state state;
	struct hm_unit unit;
	bool all = true;
	u64 from;

	if (hm_store_size(store->core) > size) {
		/* Remember how far units may be cached until all are gone. */
		if (store->shrink_end < end)
			store->shrink_end = end;
		hm_store_set_size(store->core, size);
	}
	from = pages(size);
	state = hm_peek(store->core, block, &unit);
	if (size % HM_BLOCK_SIZE && unit.npages > 1 && state != HM_ABSENT) {
		all = drop(store, block, block + 1, false);
		if (hm_peek(store->core, block, &unit) != HM_ABSENT)
			all = false;
		from = block + HM_BLOCK_PAGES;
	} else if (size & PAGE_MASK) {
		all = zero_in_page(store, size >> HM_PAGE_SHIFT, size & PAGE_MASK, HM_PAGE_SIZE);
	}
	all &= drop(store, from, store->shrink_end, true);
	if (all)
		store->shrink_end = 0;
	return all;
}

/* One step towards a new size; maps_lock is held for writing. */
static bool step_to(struct store *store, u64 size)
{
	u64 old_size = hm_store_size(store->core);

	if (size > old_size && !store->shrink_end)
		return grow(store, old_size, size);
	return shrink(store, size < old_size ? size : old_size);
}

/* The file is not as long as we thought; handler 0 will look. */
void resize_noticed(struct store *store)
{
	if (!atomic_exchange(&store->noticed, true))
		handler_kick(&store->pool->handlers[0]);
}

static void follow_file(struct handler *h, struct store *store)
{
	u64 size = store_file_size(store);
	bool done;

	if (atomic_exchange(&store->changed, false))
		drop(store, 0, pages(hm_store_size(store->core)), false);
	if (size == hm_store_size(store->core) && !store->shrink_end) {
		atomic_store(&store->resizing, false);
		atomic_store(&store->noticed, false);
		return;
	}
	atomic_store(&store->resizing, true);
	done = step_to(store, size);
	if (!done) {
		u64 block = (size >> HM_BLOCK_SHIFT) << HM_BLOCK_ORDER;
		struct job job = {
			.type = JOB_BEHIND,
			.store = store,
			.pos = block,
			.end = block + HM_BLOCK_PAGES,
		};

		if (!h->njobs)
			stream_add_job(h, &job);
		h->resizing = true;
		return;
	}
	/* Look once more next time: it may have changed again. */
	h->again = true;
}

/* Deal with what was noticed. No lock is held. */
void resize_run(struct handler *h)
{
	struct pool *pool = h->pool;
	struct store *store;
	bool any = false;

	h->resizing = false;
	pthread_rwlock_rdlock(&pool->maps_lock);
	for (store = pool->stores; store; store = store->next)
		any |= atomic_load(&store->noticed);
	pthread_rwlock_unlock(&pool->maps_lock);
	if (!any)
		return;
	pthread_rwlock_wrlock(&pool->maps_lock);
	for (store = pool->stores; store; store = store->next) {
		if (!atomic_load(&store->noticed))
			continue;
		if (pthread_mutex_trylock(&store->resize_lock)) {
			h->resizing = true; /* a call of the library is at it */
			continue;
		}
		follow_file(h, store);
		pthread_mutex_unlock(&store->resize_lock);
	}
	pthread_rwlock_unlock(&pool->maps_lock);
}

/*
 * Somebody wrote to a file, or changed its length; perhaps we did. If we never
 * write to it, what is cached of it is stale.
 */
void resize_files_changed(struct handler *h)
{
	struct pool *pool = h->pool;
	char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	struct store *store;
	ssize_t n, at;

	while ((n = read(pool->inotify_fd, buffer, sizeof(buffer))) > 0) {
		pthread_rwlock_rdlock(&pool->maps_lock);
		for (at = 0; at < n;) {
			const struct inotify_event *event = (void *)&buffer[at];

			at += (ssize_t)(sizeof(*event) + event->len);
			for (store = pool->stores; store; store = store->next) {
				if (store->watch != event->wd)
					continue;
				if (!store->writable)
					atomic_store(&store->changed, true);
				atomic_store(&store->noticed, true);
			}
		}
		pthread_rwlock_unlock(&pool->maps_lock);
	}
}

/* --- calls of the library ------------------------------------------------- */

static void pause_briefly(void)
{
	const struct timespec wait = { .tv_nsec = 100000 };

	nanosleep(&wait, NULL);
}

static void begin(struct store *store)
{
	pthread_mutex_lock(&store->resize_lock);
	atomic_store(&store->resizing, true);
}

static void end(struct store *store)
{
	atomic_store(&store->resizing, false);
	pthread_mutex_unlock(&store->resize_lock);
	handlers_kick(store->pool);
}

static void step_until_done(struct store *store, u64 size)
{
	u64 block = (size >> HM_BLOCK_SHIFT) << HM_BLOCK_ORDER;
	bool done;

	for (;;) {
		pthread_rwlock_wrlock(&store->pool->maps_lock);
		done = step_to(store, size);
		pthread_rwlock_unlock(&store->pool->maps_lock);
		if (done && hm_store_size(store->core) == size)
			return;
		if (!done) {
			sync_range(store, block, block + HM_BLOCK_PAGES);
			pause_briefly();
		}
	}
}

/**
 * resize_truncate() - ftruncate() of a file that is mapped
 * @store: held by a reference; no lock is held
 */
int resize_truncate(struct store *store, int fd, u64 size)
{
	u64 old_size;
	int err = 0;

	begin(store);
	old_size = hm_store_size(store->core);
	if (size < old_size)
		step_until_done(store, size);
	if (ftruncate(fd, (off_t)size) < 0)
		err = -errno;
	if (!err && size > old_size)
		step_until_done(store, size);
	if (err)
		step_until_done(store, store_file_size(store));
	end(store);
	return err;
}

/* Take the whole pages of a range out of the cache, unwritten. */
static void drop_until_done(struct store *store, u64 pos, u64 last)
{
	bool done;

	for (;;) {
		pthread_rwlock_wrlock(&store->pool->maps_lock);
		done = drop(store, pos, last, true);
		pthread_rwlock_unlock(&store->pool->maps_lock);
		if (done)
			return;
		handlers_kick(store->pool);
		pause_briefly();
	}
}

static void zero_until_done(struct store *store, u64 from, u64 to)
{
	u64 start = from & ~PAGE_MASK;
	bool done;

	if (from >= to)
		return;
	for (;;) {
		pthread_rwlock_wrlock(&store->pool->maps_lock);
		done = zero_in_page(store, from >> HM_PAGE_SHIFT, (u32)(from - start),
				    (u32)(to - start));
		pthread_rwlock_unlock(&store->pool->maps_lock);
		if (done)
			return;
		handlers_kick(store->pool);
		pause_briefly();
	}
}

/*
 * A huge unit that lies in the range in part is written and dropped, so that
 * only whole base pages are left to drop, and parts of two to zero.
 */
static void drop_partial(struct store *store, u64 pos)
{
	u64 block = pos & ~(u64)(HM_BLOCK_PAGES - 1);
	struct hm_unit unit;
	enum hm_state state;

	for (;;) {
		pthread_rwlock_wrlock(&store->pool->maps_lock);
		drop(store, block, block + 1, false);
		state = hm_peek(store->core, block, &unit);
		pthread_rwlock_unlock(&store->pool->maps_lock);
		if (unit.npages == 1 || state == HM_ABSENT)
			return;
		sync_range(store, block, block + HM_BLOCK_PAGES);
		pause_briefly();
	}
}

/**
 * resize_punch() - fallocate(PUNCH_HOLE) of a file that is mapped
 * @store: held by a reference; no lock is held
 */
int resize_punch(struct store *store, int fd, u64 offset, u64 length)
{
	u64 size, last, first_page, last_page, first_block, last_block;
	int err = 0;

	begin(store);
	size = hm_store_size(store->core);
	last = offset + length < size ? offset + length : size;
	first_page = pages(offset);
	last_page = last == size ? pages(size) : last >> HM_PAGE_SHIFT;
	if (offset < last) {
		drop_partial(store, offset >> HM_PAGE_SHIFT);
		drop_partial(store, (last - 1) >> HM_PAGE_SHIFT);
		if (first_page < last_page)
			drop_until_done(store, first_page, last_page);
		if (offset & PAGE_MASK) {
			u64 end_of_page = (offset | PAGE_MASK) + 1;

			zero_until_done(store, offset, last < end_of_page ? last : end_of_page);
		}
		if (last & PAGE_MASK && last != size && (last & ~PAGE_MASK) >= offset)
			zero_until_done(store, last & ~PAGE_MASK, last);
	}
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
		      (off_t)length) < 0)
		err = -errno;
	first_block = (first_page + HM_BLOCK_PAGES - 1) & ~(u64)(HM_BLOCK_PAGES - 1);
	last_block = last_page & ~(u64)(HM_BLOCK_PAGES - 1);
	if (!err && first_block < last_block)
		hm_store_set_hollow(store->core, first_block, last_block - first_block, true);
	end(store);
	return err;
}
