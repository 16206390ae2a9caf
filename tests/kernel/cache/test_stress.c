// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Stress test: several threads call the cache like an engine. They fault, read ahead, evict,
 * promote, write back, sync, truncate and invalidate, in a pool that is much too small and with
 * occasional device errors.
 *
 * Memory has one number per page, the version of its data. The device is an array of such
 * numbers. Each file has a page table, whose locks (one per block) correspond to the locks that an
 * engine holds while it changes mappings. Every load through the table must return the last stored
 * version. After a sync the device must have it. At the end the audit must find every frame. The
 * test is limited by the number of operations, not by time:
 *
 *	HM_STRESS_OPS=N		operations per thread (default 60000)
 *	HM_STRESS_SEED=N
 */
#include "common.h"

#include <pthread.h>
#include <sched.h>

#define THREADS 4u
#define FILES 3u
#define BLOCKS 40u
#define FRAMES 24u
#define NPAGES ((u32)P(BLOCKS))
#define SIZE (BYTES(BLOCKS - 1) + 5 * (u64)HM_PAGE_SIZE)

struct pte {
	u32 frame; /* index of the page in the pool */
	bool present;
	bool writable;
};

struct stressed {
	struct hm_file *file;
	pthread_mutex_t lock[BLOCKS]; /* guards the page table and the expected versions */
	pthread_mutex_t resize; /* held by resizes, syncs and promotions */
	struct pte pte[P(BLOCKS)];
	u64 expected[P(BLOCKS)];
	u64 device[P(BLOCKS)]; /* atomic, as reads and writes may overlap */
	u64 npages; /* atomic: the expected size */
	u32 write_errors; /* atomic */
};

static struct env env;
static struct stressed files[FILES];
static u64 *memory;
static u32 ops = 60000;

struct thread {
	pthread_t id;
	u32 nr;
	u64 seed;
	u64 waits;
};

static u32 rnd(struct thread *t, u32 n)
{
	t->seed = t->seed * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)(t->seed >> 33) % n;
}

/* cmocka's assertions work only in its own thread. */
#define check(cond) hm_assert(cond)

static u64 device_read(struct stressed *s, u64 page)
{
	return __atomic_load_n(&s->device[page], __ATOMIC_RELAXED);
}

static void device_write(struct stressed *s, u64 page, u64 version)
{
	__atomic_store_n(&s->device[page], version, __ATOMIC_RELAXED);
}

static u64 first_page(const struct hm_unit *unit)
{
	return hm_frame_offset(env.cache, unit->frame) >> HM_PAGE_SHIFT;
}

static pthread_mutex_t *lock_of(struct stressed *s, u64 page)
{
	return &s->lock[hm_block_of(page)];
}

static struct stressed *stressed_of(const struct hm_file *file)
{
	u32 i;

	for (i = 0; files[i].file != file; i++)
		check(i + 1 < FILES);
	return &files[i];
}

static void pause_a_little(struct thread *t)
{
	t->waits++;
	sched_yield();
}

/* --- the engine ---------------------------------------------------------------- */

static void unmap(struct stressed *s, const struct hm_unit *unit)
{
	u64 page;

	for (page = unit->pgoff; page < unit->pgoff + unit->npages; page++)
		s->pte[page] = (struct pte){ 0 };
}

/*
 * A device stores through a pin. The store is atomic because the promoter may be copying the page,
 * which it does without the lock.
 */
static void store_by_device(struct stressed *s, u64 page, u64 cell)
{
	__atomic_store_n(&memory[cell], ++s->expected[page], __ATOMIC_RELAXED);
}

/* Sometimes the unit is pinned and stays in its frame. */
static void move_victim(struct thread *t, const struct hm_victim *victim)
{
	struct hm_unit to = victim->unit;
	bool moved = rnd(t, 50) > 0;

	to.frame = victim->to;
	if (moved)
		__atomic_store_n(&memory[first_page(&to)],
				 __atomic_load_n(&memory[first_page(&victim->unit)],
						 __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
	hm_move_done(&victim->unit, victim->to, moved);
}

static void take_victim(struct thread *t, const struct hm_victim *victim)
{
	const struct hm_unit *unit = &victim->unit;
	struct stressed *s = stressed_of(unit->file);
	enum hm_evict_result result = HM_EVICTED;
	struct hm_unit now;

	pthread_mutex_lock(lock_of(s, unit->pgoff));
	if (victim->evict || (hm_peek(unit->file, unit->pgoff, &now) == HM_CLEAN &&
			      now.frame == unit->frame && !hm_referenced(unit->file, unit->pgoff)))
		unmap(s, unit);
	if (victim->to != HM_NO_FRAME_ID) {
		move_victim(t, victim);
	} else if (victim->evict) {
		u32 chance = rnd(t, 50);

		/* Sometimes the unit is pinned, or was stored to through a pin. */
		if (chance == 0) {
			result = HM_EVICT_BUSY;
		} else if (chance == 1) {
			u64 page = unit->pgoff + rnd(t, unit->npages);

			if (page < __atomic_load_n(&s->npages, __ATOMIC_RELAXED)) {
				store_by_device(s, page, first_page(unit) + page - unit->pgoff);
				result = HM_EVICT_DIRTY;
			}
		}
		hm_evict_done(unit, result);
	}
	pthread_mutex_unlock(lock_of(s, unit->pgoff));
}

static void reclaim_some(struct thread *t, enum hm_kind kind)
{
	struct hm_victim victims[MAX_VICTIMS];
	u32 n = hm_reclaim(env.cache, kind, 1 + rnd(t, 6), victims, MAX_VICTIMS);
	u32 i;

	for (i = 0; i < n; i++)
		take_victim(t, &victims[i]);
}

/* False: the write failed. */
static bool write_run(struct thread *t, struct stressed *s, const struct hm_run *run)
{
	u64 page = run->pgoff, end = run->pgoff + run->npages;
	bool fails = rnd(t, 100) == 0;

	while (page < end) {
		struct hm_unit unit;
		u32 i;

		pthread_mutex_lock(lock_of(s, page));
		check(hm_peek(s->file, page, &unit) == HM_WRITING);
		for (i = 0; i < unit.npages; i++)
			s->pte[page + i].writable = false;
		pthread_mutex_unlock(lock_of(s, page));
		/* Later stores make the unit dirty again, so either version may be written. */
		for (i = 0; i < unit.npages && !fails; i++)
			device_write(s, page + i,
				     __atomic_load_n(&memory[first_page(&unit) + i],
						     __ATOMIC_RELAXED));
		page += unit.npages;
	}
	if (fails)
		__atomic_add_fetch(&s->write_errors, 1, __ATOMIC_RELAXED);
	hm_writeback_done(s->file, run->pgoff, run->npages, fails ? -EIO : 0);
	return !fails;
}

/* False: a write failed, also in another thread. */
static bool write_back(struct thread *t, struct stressed *s, u64 pos, u64 end, bool wait)
{
	u64 since = __atomic_load_n(&s->write_errors, __ATOMIC_RELAXED);
	struct hm_run run;
	bool written = true;

	for (;;) {
		switch (hm_writeback(s->file, &pos, end, 1 + rnd(t, 4 * HM_BLOCK_PAGES), wait,
				     &run)) {
		case HM_WB_DONE:
			return written &&
			       __atomic_load_n(&s->write_errors, __ATOMIC_RELAXED) == since;
		case HM_WB_BUSY:
			pause_a_little(t);
			break;
		case HM_WB_RUN:
			written &= write_run(t, s, &run);
			break;
		}
	}
}

/* Read the data of a unit into its frame. */
static void fill(struct thread *t, struct stressed *s, const struct hm_unit *unit, bool zero,
		 bool dirty)
{
	u32 i, chance = rnd(t, 300);

	if (chance == 0) {
		hm_fill_done(unit, -EIO, false);
		return;
	}
	if (chance == 1) {
		hm_fill_cancel(unit);
		return;
	}
	for (i = 0; i < unit->npages; i++) {
		u64 version = device_read(s, unit->pgoff + i);

		check(!zero || version == 0);
		__atomic_store_n(&memory[first_page(unit) + i], version, __ATOMIC_RELAXED);
	}
	hm_fill_done(unit, 0, dirty);
}

static void add_missing(struct stressed *s, u64 page, const struct hm_unit *unit)
{
	size_t size = (hm_node_bytes((enum hm_node_kind)unit->err) + 63) & ~(size_t)63;
	void *mem = aligned_alloc(64, size);
	unsigned long zero_fill[HM_BITMAP_LONGS(HM_NODE_SLOTS)] = { 0 };

	/* The device is initially empty, so every block is a hole. */
	memset(mem, 0, size);
	hm_file_prepare_node(s->file, page, mem);
	memset(zero_fill, 0xff, sizeof(zero_fill));
	if (!hm_file_add_node(s->file, page, (enum hm_node_kind)unit->err, mem,
			      hm_file_size(s->file), zero_fill, NULL))
		free(mem);
}

static void read_ahead(struct thread *t, struct stressed *s, u64 page, struct hm_access access)
{
	struct hm_plan plan;
	u64 at;

	if (!hm_readahead(s->file, page, access, &plan))
		return;
	access = plan.access;
	access.ahead = true;
	for (at = plan.start; at < plan.end;) {
		struct hm_unit unit;
		enum hm_outcome out;

		access.mark = at == plan.mark;
		pthread_mutex_lock(lock_of(s, at));
		out = hm_fault(s->file, at, access, &unit);
		pthread_mutex_unlock(lock_of(s, at));
		if (out == HM_NO_NODE) {
			add_missing(s, at, &unit);
			continue;
		}
		if (out == HM_BEYOND || out == HM_NO_FRAME || out == HM_ERROR) {
			hm_readahead_stopped(s->file, &plan, at);
			break;
		}
		if (out == HM_FILL || out == HM_ZERO)
			fill(t, s, &unit, out == HM_ZERO, false);
		at = unit.pgoff + unit.npages;
	}
	if (plan.behind_end > plan.behind_start)
		write_back(t, s, plan.behind_start, plan.behind_end, false);
}

/* Access a mapped page. The caller holds its lock. */
static void use_mapped(struct stressed *s, u64 page, bool write)
{
	u64 *cell = &memory[s->pte[page].frame];

	check(__atomic_load_n(cell, __ATOMIC_RELAXED) == s->expected[page]);
	if (write)
		__atomic_store_n(cell, ++s->expected[page], __ATOMIC_RELAXED);
}

/* Map the unit that a fault has returned. */
static void map_unit(struct stressed *s, const struct hm_unit *unit, bool writable)
{
	u32 i;

	for (i = 0; i < unit->npages; i++) {
		struct pte *pte = &s->pte[unit->pgoff + i];
		u32 frame = (u32)first_page(unit) + i;

		/* A page that is already mapped must have the same frame. */
		check(!pte->present || pte->frame == frame);
		pte->present = true;
		pte->frame = frame;
		pte->writable |= writable;
	}
}

static void promote(struct thread *t);

/* One load or store by a program, with the necessary faults. */
static void touch_page(struct thread *t, struct stressed *s, u64 page, struct hm_access access)
{
	bool write = access.write;
	u32 tries = 0;

	for (;;) {
		struct hm_unit unit;
		enum hm_outcome out;

		pthread_mutex_lock(lock_of(s, page));
		if (s->pte[page].present && (!write || s->pte[page].writable)) {
			use_mapped(s, page, write);
			pthread_mutex_unlock(lock_of(s, page));
			return;
		}
		out = hm_fault(s->file, page, access, &unit);
		if (out == HM_HIT) {
			map_unit(s, &unit, write);
			use_mapped(s, page, write);
			if (!write && rnd(t, 4) == 0 && page + 1 < NPAGES &&
			    hm_block_of(page + 1) == hm_block_of(page) &&
			    !s->pte[page + 1].present) {
				struct hm_unit beside;

				if (around(s->file, page + 1, &beside))
					map_unit(s, &beside, false);
			}
		}
		pthread_mutex_unlock(lock_of(s, page));

		switch (out) {
		case HM_HIT:
			if (unit.hints & HM_HINT_READAHEAD)
				read_ahead(t, s, page, access);
			if (unit.hints & HM_HINT_WRITEBACK)
				write_back(t, s, 0, NPAGES, false);
			return;
		case HM_FILL:
		case HM_ZERO:
			fill(t, s, &unit, out == HM_ZERO, write);
			if (unit.hints & HM_HINT_READAHEAD)
				read_ahead(t, s, page, access);
			if (unit.hints & HM_HINT_RECLAIM)
				reclaim_some(t, unit.npages == 1 ? HM_BASE : HM_HUGE);
			if (unit.hints & HM_HINT_PROMOTE && rnd(t, 2))
				promote(t);
			break;
		case HM_BUSY:
			pause_a_little(t);
			break;
		case HM_NO_FRAME:
			reclaim_some(t, unit.npages == 1 ? HM_BASE : HM_HUGE);
			if (++tries % 4 == 0)
				write_back(t, &files[rnd(t, FILES)], 0, NPAGES, false);
			/* Give up if all frames are in use. */
			if (tries > 1000)
				return;
			break;
		case HM_NO_NODE:
			add_missing(s, page, &unit);
			break;
		case HM_ERROR:
			check(unit.err == -EIO);
			return;
		case HM_NEEDS_ALLOC:
		case HM_STABLE:
		case HM_MISS: /* only with cached_only */
		case HM_BEYOND:
			return;
		}
	}
}

/* --- programs -------------------------------------------------------------------- */

/* After a sync the device has all stores from before the sync. */
static void sync_range(struct thread *t, struct stressed *s)
{
	u64 page = rnd(t, NPAGES), end = page + 1 + rnd(t, 2 * HM_BLOCK_PAGES);
	u64 before, npages;

	if (end > NPAGES)
		end = NPAGES;
	pthread_mutex_lock(&s->resize);
	pthread_mutex_lock(lock_of(s, page));
	before = s->expected[page];
	pthread_mutex_unlock(lock_of(s, page));
	npages = __atomic_load_n(&s->npages, __ATOMIC_RELAXED);
	if (write_back(t, s, page, end, true) && page < npages)
		check(device_read(s, page) >= before);
	pthread_mutex_unlock(&s->resize);
}

static void invalidate(struct thread *t, struct stressed *s, u64 pos, u64 end, bool discard)
{
	struct hm_unit unit;

	for (;;) {
		switch (hm_invalidate(s->file, &pos, end, discard, &unit)) {
		case HM_INV_DONE:
			return;
		case HM_INV_BUSY:
			pause_a_little(t);
			break;
		case HM_INV_UNIT:
			pthread_mutex_lock(lock_of(s, unit.pgoff));
			unmap(s, &unit);
			hm_evict_done(&unit, discard ? HM_EVICT_DISCARD : HM_EVICTED);
			pthread_mutex_unlock(lock_of(s, unit.pgoff));
			break;
		case HM_INV_AGAIN:
			break;
		}
	}
}

/* Resize a file. Data beyond the new end is lost and reads as zero. */
static void truncate_file(struct thread *t, struct stressed *s)
{
	u64 old, npages = HM_BLOCK_PAGES + rnd(t, NPAGES - HM_BLOCK_PAGES);
	u64 block = hm_block_start(npages), page;
	u32 i;

	pthread_mutex_lock(&s->resize);
	old = __atomic_load_n(&s->npages, __ATOMIC_RELAXED);
	if (npages < old) {
		__atomic_store_n(&s->npages, npages, __ATOMIC_RELAXED);
		hm_file_set_size(s->file, npages << HM_PAGE_SHIFT);
		/* Wait for the faults that saw the old size. */
		for (i = 0; i < BLOCKS; i++) {
			pthread_mutex_lock(&s->lock[i]);
			pthread_mutex_unlock(&s->lock[i]);
		}
		/* The block in which the file ends must not stay a huge unit. */
		do {
			struct hm_unit unit;
			enum hm_state now = hm_peek(s->file, block, &unit);

			if (unit.npages == 1 || now == HM_ABSENT)
				break;
			write_back(t, s, block, block + HM_BLOCK_PAGES, true);
			invalidate(t, s, block, block + HM_BLOCK_PAGES, false);
		} while (block != npages);
		invalidate(t, s, npages, NPAGES, true);
		for (page = npages; page < NPAGES; page++) {
			pthread_mutex_lock(lock_of(s, page));
			check(!s->pte[page].present);
			s->expected[page] = 0;
			device_write(s, page, 0);
			pthread_mutex_unlock(lock_of(s, page));
		}
	} else {
		/* The old last block may become a huge unit now. */
		hm_file_set_size(s->file, npages << HM_PAGE_SHIFT);
		__atomic_store_n(&s->npages, npages, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&s->resize);
}

/* --- promotion ---------------------------------------------------------------------- */

static u64 place_of(const struct hm_promotion *p, u32 i)
{
	return first_page(&p->unit) + i;
}

static void copy_page(const struct hm_promotion *p, const struct hm_unit *page)
{
	u64 version = __atomic_load_n(&memory[first_page(page)], __ATOMIC_RELAXED);

	__atomic_store_n(&memory[place_of(p, (u32)(page->pgoff - p->unit.pgoff))], version,
			 __ATOMIC_RELAXED);
}

/* Read the missing pages from the device and copy the cached ones. */
static void promote_copy(struct stressed *s, struct hm_promotion *p)
{
	struct hm_unit page;
	u32 at = 0, i;

	for (i = 0; i < HM_BLOCK_PAGES; i++) {
		if (hm_bit_test(p->missing, i))
			__atomic_store_n(&memory[place_of(p, i)], device_read(s, p->unit.pgoff + i),
					 __ATOMIC_RELAXED);
	}
	while (hm_promote_copy(p, &at, &page))
		copy_page(p, &page);
}

/* Unmap the claimed pages, copy stale ones, and commit. False: a page is pinned. */
static bool promote_finish(struct thread *t, struct stressed *s, struct hm_promotion *p)
{
	bool pinned = rnd(t, 8) == 0;
	struct hm_unit page;
	u32 i;

	pthread_mutex_lock(lock_of(s, p->unit.pgoff));
	unmap(s, &p->unit);
	for (i = 0; i < HM_BLOCK_PAGES && !pinned; i++) {
		enum hm_promote_page what = hm_promote_page(p, i, &page);

		if (what == HM_PAGE_READ)
			continue;
		/* Sometimes a device has written to the page. */
		if (rnd(t, 200) == 0) {
			store_by_device(s, page.pgoff, first_page(&page));
			what = HM_PAGE_COPY;
			hm_promote_dirty(p, i);
		}
		if (what == HM_PAGE_COPY)
			copy_page(p, &page);
	}
	if (!pinned)
		hm_promote_commit(p);
	pthread_mutex_unlock(lock_of(s, p->unit.pgoff));
	return !pinned;
}

static void promote(struct thread *t)
{
	bool force = rnd(t, 4) == 0;
	struct hm_promotion p;
	enum hm_promote_result why;
	struct stressed *s;
	u32 tries = 0;

	if (force)
		p = (struct hm_promotion){ .unit = { .file = files[rnd(t, FILES)].file,
						     .pgoff = P(rnd(t, BLOCKS - 1)) } };
	else if (!hm_promote_pick(env.cache, &p))
		return;
	s = stressed_of(p.unit.file);
	if (rnd(t, 2))
		hm_file_set_allocated(p.unit.file, p.unit.pgoff, HM_BLOCK_PAGES);
	pthread_mutex_lock(lock_of(s, p.unit.pgoff));
	why = hm_promote_begin(&p, force);
	pthread_mutex_unlock(lock_of(s, p.unit.pgoff));
	if (why)
		return;
	promote_copy(s, &p);
	if (rnd(t, 20) == 0) {
		hm_promote_abort(&p, HM_PROMOTE_FAILED);
		return;
	}
	if (pthread_mutex_trylock(&s->resize)) {
		hm_promote_abort(&p, HM_PROMOTE_BUSY);
		return;
	}
	do {
		why = hm_promote_claim(&p);
	} while (why == HM_PROMOTE_BUSY && ++tries < 3);
	if (!why && !promote_finish(t, s, &p))
		why = HM_PROMOTE_PINNED;
	if (why)
		hm_promote_abort(&p, why);
	pthread_mutex_unlock(&s->resize);
}

static struct hm_access access_of(struct thread *t)
{
	static const enum hm_size size[] = { HM_SIZE_HUGE, HM_SIZE_BASE, HM_SIZE_AUTO,
					     HM_SIZE_AUTO };
	struct hm_access access = rnd(t, 3) ? HM_ACCESS_READ : HM_ACCESS_WRITE;

	access.size = size[rnd(t, 4)];
	if (rnd(t, 20) == 0)
		access.priority = rnd(t, 2) ? HM_PRIORITY_HIGH : HM_PRIORITY_LOW;
	return access;
}

static void *run_thread(void *arg)
{
	struct thread *t = arg;
	u32 i, j;

	hm_test_cpu = t->nr;
	hm_test_yield = 11 + 4 * t->nr;
	for (i = 0; i < ops; i++) {
		struct stressed *s = &files[rnd(t, FILES)];
		u32 what = rnd(t, 1000);

		if (what < 20) {
			promote(t);
		} else if (what < 900) {
			/* Half of the accesses are in a hot part, so that threads meet. */
			u64 page = rnd(t, 2) ? rnd(t, NPAGES / 8) : rnd(t, NPAGES);

			touch_page(t, s, page, access_of(t));
		} else if (what < 930) {
			u64 page = rnd(t, NPAGES - HM_BLOCK_PAGES);
			struct hm_access access = access_of(t);

			if (access.size == HM_SIZE_BASE)
				access.size = HM_SIZE_HUGE;
			for (j = 0; j < 6; j++)
				touch_page(t, s, (page + j * HM_BLOCK_PAGES) % NPAGES, access);
		} else if (what < 950) {
			reclaim_some(t, rnd(t, 2) ? HM_BASE : HM_HUGE);
		} else if (what < 970) {
			sync_range(t, s);
		} else if (what < 980) {
			bool expired;
			struct hm_file *file = hm_writeback_pick(env.cache, NULL, &expired);

			if (file)
				write_back(t, stressed_of(file), 0, NPAGES, false);
		} else if (what < 990) {
			u64 page = P(rnd(t, BLOCKS));

			invalidate(t, s, page, page + BLOCK, false);
		} else if (what < 992) {
			truncate_file(t, s);
		} else {
			struct hm_unit unit;

			hm_peek(s->file, rnd(t, NPAGES), &unit);
			hm_is_zero_fill(s->file, rnd(t, NPAGES));
			hm_cache_free_pages(env.cache);
			hm_cache_tick(env.cache, i);
			hm_cache_count(env.cache, HM_C_HITS);
		}
	}
	return NULL;
}

static u32 number(const char *name, u32 otherwise)
{
	const char *value = getenv(name);

	return value ? (u32)strtoul(value, NULL, 0) : otherwise;
}

static void test_threads_break_no_invariant(void **state)
{
	struct hm_options opts = options_for(FRAMES, THREADS - 1);
	u32 seed = number("HM_STRESS_SEED", 1);
	struct thread threads[THREADS];
	struct thread last = { .nr = 0, .seed = 1 };
	u32 i, j, page;

	ops = number("HM_STRESS_OPS", ops);
	opts.dirty_expire_ms = 100;
	opts.evict_batch = 4;
	opts.promote_util = 40;
	opts.promote_interval_ms = 1;
	opts.readahead_kb = 8 * HM_BLOCK_SIZE / 1024;
	env_init(&env, &opts);
	memory = calloc(P(FRAMES), sizeof(*memory));
	for (i = 0; i < FILES; i++) {
		files[i].file = env_open(&env, SIZE);
		files[i].npages = SIZE >> HM_PAGE_SHIFT;
		pthread_mutex_init(&files[i].resize, NULL);
		for (j = 0; j < BLOCKS; j++)
			pthread_mutex_init(&files[i].lock[j], NULL);
	}
	for (i = 0; i < THREADS; i++) {
		threads[i] = (struct thread){ .nr = i, .seed = seed * 1000ull + i };
		assert_int_equal(pthread_create(&threads[i].id, NULL, run_thread, &threads[i]), 0);
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i].id, NULL);
		last.waits += threads[i].waits;
	}
	audit(&env);
	for (i = 0; i < FILES; i++) {
		while (!write_back(&last, &files[i], 0, NPAGES, true))
			;
		assert_int_equal(hm_file_dirty_pages(files[i].file), 0);
		for (page = 0; page < NPAGES; page++)
			assert_int_equal(device_read(&files[i], page), files[i].expected[page]);
		invalidate(&last, &files[i], 0, NPAGES, false);
		for (page = 0; page < NPAGES; page++)
			assert_false(files[i].pte[page].present);
	}
	assert_int_equal(hm_cache_free_pages(env.cache), P(FRAMES));
	print_message("faults %llu, fills %llu, zero fills %llu, evicted %llu, reactivated %llu, "
		      "written %llu, splits %llu, joins %llu, ghosts %llu, promoted %llu of %llu, "
		      "waits %llu\n",
		      (unsigned long long)hm_cache_count(env.cache, HM_C_FAULTS),
		      (unsigned long long)hm_cache_count(env.cache, HM_C_FILLS),
		      (unsigned long long)hm_cache_count(env.cache, HM_C_ZERO_FILLS),
		      (unsigned long long)hm_cache_count(env.cache, HM_C_EVICTIONS),
		      (unsigned long long)hm_cache_count(env.cache, HM_C_REACTIVATED),
		      (unsigned long long)hm_cache_count(env.cache, HM_C_WRITTEN),
		      (unsigned long long)hm_cache_count(env.cache, HM_C_SPLITS),
		      (unsigned long long)hm_cache_count(env.cache, HM_C_JOINS),
		      (unsigned long long)hm_cache_count(env.cache, HM_C_GHOSTS),
		      (unsigned long long)hm_cache_count(env.cache, HM_C_PROMOTED),
		      (unsigned long long)(hm_cache_count(env.cache, HM_C_PROMOTED) +
					   hm_cache_count(env.cache, HM_C_NOT_PROMOTED)),
		      (unsigned long long)last.waits);
	/* Each counter must have counted, so that the test covers all paths. */
	for (i = 0; i < HM_COUNTERS; i++)
		assert_int_not_equal(hm_cache_count(env.cache, (enum hm_counter)i), 0);
	env_end(&env);
	free(memory);
}

/* Repeatedly dirty a page on one CPU and clean it on another. */
static void *run_dirtier(void *arg)
{
	bool *stop = arg;
	u32 i;

	for (i = 0; !__atomic_load_n(stop, __ATOMIC_RELAXED); i++) {
		u64 page = P(i % 2), pos = page;
		struct hm_run run;

		hm_test_cpu = i % 3;
		touch(env.file, page, HM_ACCESS_WRITE);
		hm_test_cpu = (i / 3 + 1) % 3;
		check(hm_writeback(env.file, &pos, page + 1, 1, true, &run) == HM_WB_RUN);
		hm_writeback_done(env.file, run.pgoff, run.npages, 0);
	}
	return NULL;
}

/* While one page stays dirty, the dirty counts never drop to 0. */
static void test_dirty_counts_never_drop_to_0_beside_a_dirty_page(void **state)
{
	struct hm_options opts = options_for(FRAMES, 3);
	bool stop = false;
	pthread_t dirtier;
	u32 i;

	env_init(&env, &opts);
	env_open(&env, SIZE);
	for (i = 0; i < 3; i++)
		bring(env.file, P(i), HM_ACCESS(.size = HM_SIZE_BASE, .write = i == 2));
	assert_int_equal(pthread_create(&dirtier, NULL, run_dirtier, &stop), 0);
	for (i = 0; i < ops; i++) {
		assert_true((s64)hm_cache_dirty_pages(env.cache) > 0);
		assert_true((s64)hm_file_dirty_pages(env.file) > 0);
		assert_int_not_equal(hm_atomic_read(&env.file->dirty_since), 0);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(dirtier, NULL);
	assert_int_equal(hm_cache_dirty_pages(env.cache), 1);
	assert_int_equal(hm_file_dirty_pages(env.file), 1);
	env_end(&env);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_dirty_counts_never_drop_to_0_beside_a_dirty_page),
	cmocka_unit_test(test_threads_break_no_invariant),
};

int main(void)
{
	return cmocka_run_group_tests_name("stress", tests, NULL, NULL);
}
