// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Page tables: units are moved from their slots into mappings and back, and
 * protected against stores. Every function here that changes something is
 * called under the unit's block lock.
 *
 * A store must never be lost. A unit that is clean is write-protected, so that
 * the first store to it is a fault that makes it dirty. But UFFDIO_MOVE cannot
 * install a page protected: between the move and the protection there are a few
 * microseconds in which another thread can store unseen. So a unit that is
 * installed clean in a writable mapping is hashed before the move and once more
 * after it is protected. If the hashes differ, a store slipped in, and the unit
 * is dirty.
 */
#include "engine.h"
#include "pagemap.h"
#include "races.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

pthread_mutex_t *block_lock(struct store *store, u64 pgoff)
{
	u64 hash = (pgoff >> HM_BLOCK_ORDER) * 0x9e3779b97f4a7c15ull + (uintptr_t)store / 64;

	return &store->pool->block_locks[(hash >> 20) % BLOCK_LOCKS];
}

static struct place *place_of(struct pool *pool, u32 frame)
{
	return &pool->places[frame];
}

struct mapping *page_mapping(struct pool *pool, const struct hm_unit *unit)
{
	return place_of(pool, unit->frame)->map;
}

/* Is a unit, as hm_peek() found it, mapped in this mapping? */
bool page_is_mapped(struct pool *pool, enum hm_state state, const struct hm_unit *unit,
		    const struct mapping *map)
{
	switch (state) {
	case HM_CLEAN:
	case HM_DIRTY:
	case HM_WRITING:
	case HM_EVICTING:
		return page_mapping(pool, unit) == map;
	default:
		return false;
	}
}

/* Where a unit's data can be read now, and written if it is not protected. */
char *page_data(struct pool *pool, const struct hm_unit *unit)
{
	struct place *place = place_of(pool, unit->frame);

	if (!place->map)
		return slot_of(pool, unit->frame);
	hm_assert(place->pgoff == unit->pgoff);
	return map_addr(place->map, unit->pgoff);
}

static void count_mapped(struct pool *pool, u32 npages, s64 units)
{
	stats_add(pool->stats, npages > 1 ? STATS_HUGE_MAPPED : STATS_BASE_MAPPED, units);
}

/*
 * Must stores to a unit fault? Clean ones must, to be noticed; and all must in
 * a mapping that does not allow them.
 */
bool page_must_protect(const struct mapping *map, const struct hm_unit *unit)
{
	struct hm_unit now;

	return !(map->prot & PROT_WRITE) ||
	       hm_peek(map->store->core, unit->pgoff, &now) != HM_DIRTY;
}

static u32 region_of(const struct mapping *map, const char *addr)
{
	uintptr_t first = (uintptr_t)map->start & ~(uintptr_t)(HM_BLOCK_SIZE - 1);

	return (u32)(((uintptr_t)addr - first) >> HM_BLOCK_SHIFT);
}

/*
 * A region that ever held base pages keeps its page table, and a huge page
 * moved there would be split. Zapping the empty range frees the table. The bit
 * is set and cleared under the lock of the region's block, but shares its long
 * with other regions.
 */
static void region_has_table(struct mapping *map, const char *addr)
{
	hm_bit_set(map->tables, region_of(map, addr));
}

static void region_free_table(struct mapping *map, char *addr)
{
	u32 region = region_of(map, addr);

	if (!(hm_bits_read(map->tables, region / 64) >> (region % 64) & 1))
		return;
	hm_bit_clear(map->tables, region);
	madvise(addr, HM_BLOCK_SIZE, MADV_DONTNEED);
}

/* Move pages to where nothing that counts can be: zap what is in the way. */
static int move_over(struct pool *pool, char *dst, char *src, size_t bytes, bool wake,
		     size_t *moved)
{
	size_t more = 0;
	int err;

	stats_add(pool->stats, STATS_MOVES, 1);
	err = uffd_move(pool->uffd, dst, src, bytes, wake, moved);
	if (err != -EEXIST)
		return err;
	/* A poisoned page, or the zero page of a touch that was not watched. */
	if (madvise(dst + *moved, bytes - *moved, MADV_DONTNEED) < 0)
		return -errno;
	err = uffd_move(pool->uffd, dst + *moved, src + *moved, bytes - *moved, wake, &more);
	*moved += more;
	return err;
}

static XXH128_hash_t hash_of(const char *data, size_t bytes)
{
	XXH128_hash_t hash;

	program_memory_begin();
	hash = XXH3_128bits(data, bytes);
	program_memory_end();
	return hash;
}

/*
 * The hash of a huge unit that is filled is taken then, off the way of any
 * fault, and stays valid while nobody can store to the unit.
 */
void page_hash(struct pool *pool, const struct hm_unit *unit)
{
	struct frame_hash *hash = &pool->hashes[unit->frame];

	if (unit->npages == 1)
		return;
	hash->value = hash_of(slot_of(pool, unit->frame), HM_BLOCK_SIZE);
	hash->valid = true;
}

/* The same for a huge unit that was filled with zeros. */
void page_hash_zero(struct pool *pool, const struct hm_unit *unit)
{
	static _Atomic bool known;
	static XXH128_hash_t zero;

	if (unit->npages == 1)
		return;
	if (!known) {
		zero = hash_of(slot_of(pool, unit->frame), HM_BLOCK_SIZE);
		known = true;
	}
	pool->hashes[unit->frame].value = zero;
	pool->hashes[unit->frame].valid = true;
}

static void hash_forget(struct pool *pool, const struct hm_unit *unit)
{
	if (unit->npages > 1)
		pool->hashes[unit->frame].valid = false;
}

/* The data of a unit in its slot is being changed by ourselves. */
void page_changed(struct pool *pool, const struct hm_unit *unit)
{
	hash_forget(pool, unit);
}

static XXH128_hash_t hash_before(struct pool *pool, const struct hm_unit *first, u32 count)
{
	if (first->npages == 1)
		return hash_of(slot_of(pool, first->frame), unit_bytes(first) * count);
	if (!pool->hashes[first->frame].valid)
		page_hash(pool, first);
	return pool->hashes[first->frame].value;
}

/*
 * A store slipped in before these units were protected: they are dirty. One
 * that another handler is about to evict cannot become dirty now: it is told,
 * when it gets the block lock, by page_take_stored().
 */
static void slipped(struct mapping *map, const struct hm_unit *first, u32 count)
{
	struct pool *pool = map->store->pool;
	u32 i;

	stats_add(pool->stats, STATS_SLIPPED, 1);
	for (i = 0; i < count; i++) {
		u64 pgoff = first->pgoff + (u64)i * first->npages;
		struct hm_unit unit;

		if (hm_fault(map->store->core, pgoff, HM_ACCESS_WRITE, &unit) != HM_HIT)
			place_of(pool, first->frame + i)->stored = true;
	}
}

/* Was this unit, which is claimed for eviction, stored to after all? */
bool page_take_stored(struct pool *pool, const struct hm_unit *unit)
{
	struct place *place = place_of(pool, unit->frame);
	bool stored = place->stored;

	place->stored = false;
	return stored;
}

/*
 * Between the move and the verdict the unit may hold a store although it is
 * clean, so a sync waits for the windows that are open when it begins.
 */
static _Thread_local atomic_uint *my_window;

void page_windows_of(atomic_uint *window)
{
	my_window = window;
}

static void window_step(struct pool *pool, const struct hm_unit *first, u32 count, bool open)
{
	u32 i;

	for (i = 0; i < count; i++)
		place_of(pool, first->frame + i)->verifying = open;
	if (my_window)
		atomic_fetch_add(my_window, 1);
}

/*
 * Is one of these units being written? That write takes its data from where they
 * are now: it may be queued only, or go through the page cache, so that no pin
 * holds the pages there, and nothing but zeros would be left for it.
 */
static bool being_written(const struct store *store, const struct hm_unit *first, u32 count)
{
	struct hm_unit unit;
	u32 i;

	for (i = 0; i < count; i++)
		if (hm_peek(store->core, first->pgoff + (u64)i * first->npages, &unit) ==
		    HM_WRITING)
			return true;
	return false;
}

/**
 * page_install() - map adjacent units whose pages are in their slots
 * @map: where
 * @first: the first unit
 * @count: how many; their frames must be adjacent too
 * @protect: stores must fault
 *
 * Waiters are woken. Return: 0 or a negative errno: some of the units may be
 * mapped nevertheless, which their places tell. -EBUSY: a page is pinned, or a
 * unit is being written.
 */
int page_install(struct mapping *map, const struct hm_unit *first, u32 count, bool protect)
{
	struct pool *pool = map->store->pool;
	char *dst = map_addr(map, first->pgoff);
	char *src = slot_of(pool, first->frame);
	size_t bytes = unit_bytes(first) * count, moved;
	bool verify = protect && (map->prot & PROT_WRITE);
	XXH128_hash_t before = { 0 };
	u32 i, done;
	int err;

	if (being_written(map->store, first, count))
		return -EBUSY;
	if (first->npages > 1)
		region_free_table(map, dst);
	else
		region_has_table(map, dst);
	if (verify)
		before = hash_before(pool, first, count);
	else
		hash_forget(pool, first);
	if (verify)
		window_step(pool, first, count, true);
	err = move_over(pool, dst, src, bytes, !protect, &moved);
	done = (u32)(moved / unit_bytes(first));
	hm_assert(moved % unit_bytes(first) == 0);
	for (i = 0; i < done; i++) {
		struct place *place = place_of(pool, first->frame + i);

		hm_assert(!place->map);
		place->map = map;
		place->pgoff = first->pgoff + (u64)i * first->npages;
	}
	count_mapped(pool, first->npages, done);
	if (!protect)
		return err;
	if (!done)
		goto out;

	stats_add(pool->stats, STATS_PROTECTS, 1);
	uffd_protect(pool->uffd, dst, moved);
	uffd_wake(pool->uffd, dst, bytes);
	/* A hash of more than was moved cannot be compared: be safe. */
	if (verify && (moved < bytes || !XXH128_isEqual(before, hash_of(dst, bytes))))
		slipped(map, first, done);
out:
	if (verify)
		window_step(pool, first, count, false);
	return err;
}

/* Pages that the kernel has swapped out are there, though mincore() does not say so. */
static bool swapped_out(const struct mapping *map, const struct hm_unit *unit)
{
	size_t bytes = unit->npages * sizeof(u64);
	u64 entries[HM_BLOCK_PAGES];
	off_t at = pagemap_offset(map_addr(map, unit->pgoff));

	return pread(map->store->pool->pagemap_fd, entries, bytes, at) == (ssize_t)bytes &&
	       pagemap_all_there(entries, unit->npages);
}

/* Are all pages of a unit where its place says they are? */
bool page_present(const struct mapping *map, const struct hm_unit *unit)
{
	unsigned char present[HM_BLOCK_PAGES];
	u32 i;

	if (mincore(map_addr(map, unit->pgoff), unit_bytes(unit), present))
		return false;
	for (i = 0; i < unit->npages; i++)
		if (!(present[i] & 1))
			return swapped_out(map, unit);
	return true;
}

/* The program has zapped pages of a unit itself: what is left goes too. */
void page_zapped(struct mapping *map, const struct hm_unit *unit)
{
	struct pool *pool = map->store->pool;

	madvise(map_addr(map, unit->pgoff), unit_bytes(unit), MADV_DONTNEED);
	stats_add(pool->stats, STATS_LOST, 1);
	count_mapped(pool, unit->npages, -1);
	place_of(pool, unit->frame)->map = NULL;
}

/* Half of a huge page that had been split was moved: put it back. */
static void move_back(struct pool *pool, struct place *place, char *addr, char *slot, size_t bytes)
{
	size_t moved;
	int err = uffd_move(pool->uffd, addr, slot, bytes, true, &moved);

	hm_assert(!err); /* pages that just moved are not pinned */
	region_has_table(place->map, addr);
}

/**
 * page_remove() - take the pages of adjacent units back into their slots
 * @first: the first unit; all are mapped in the same mapping, or none is
 * @count: how many; their frames must be adjacent too
 * @removed: how many are in their slots now
 *
 * Return: 0; -EBUSY: a page is pinned, or a unit is being written; -ENOENT: the
 * program has zapped a unit itself: it counts as removed, but its data is gone.
 */
int page_remove(struct pool *pool, const struct hm_unit *first, u32 count, u32 *removed)
{
	struct place *place = place_of(pool, first->frame);
	size_t bytes = unit_bytes(first) * count, moved, part;
	char *slot = slot_of(pool, first->frame);
	char *addr;
	int err;
	u32 i;

	*removed = count;
	if (!place->map)
		return 0;
	hm_assert(place->pgoff == first->pgoff);
	if (being_written(place->map->store, first, count)) {
		*removed = 0;
		return -EBUSY;
	}
	addr = map_addr(place->map, first->pgoff);
	err = move_over(pool, slot, addr, bytes, false, &moved);
	/* Pages that were swapped out bring their protection along: it has no reader here. */
	if (moved && atomic_load_explicit(&pool->swap, memory_order_relaxed))
		uffd_unprotect(pool->uffd, slot, moved);
	part = moved % unit_bytes(first);
	if (part)
		move_back(pool, place, addr + (moved - part), slot + (moved - part), part);
	*removed = (u32)(moved / unit_bytes(first));
	if (err && err != -EBUSY) {
		/* The slot gets new, empty memory when it is used again. */
		stats_add(pool->stats, STATS_LOST, 1);
		*removed += 1;
		err = -ENOENT;
	}
	for (i = 0; i < *removed; i++)
		place_of(pool, first->frame + i)->map = NULL;
	count_mapped(pool, first->npages, -(s64)*removed);
	return err;
}

int page_protect(struct mapping *map, u64 pgoff, u32 npages)
{
	struct pool *pool = map->store->pool;

	stats_add(pool->stats, STATS_PROTECTS, 1);
	return uffd_protect(pool->uffd, map_addr(map, pgoff), (size_t)npages << HM_PAGE_SHIFT);
}

/* Allow stores to a unit that is dirty, and wake who waits. */
int page_unprotect(struct mapping *map, const struct hm_unit *unit)
{
	struct pool *pool = map->store->pool;

	hash_forget(pool, unit);
	stats_add(pool->stats, STATS_PROTECTS, 1);
	return uffd_unprotect(pool->uffd, map_addr(map, unit->pgoff), unit_bytes(unit));
}

/*
 * Somebody waits for a unit that was on its way in or out: let them look again,
 * in every mapping. maps_lock is held.
 */
void page_wake(struct store *store, u64 pgoff, u32 npages)
{
	struct pool *pool = store->pool;
	u32 i;

	for (i = 0; i < pool->nmaps; i++) {
		struct mapping *map = pool->maps[i];
		u64 first = pgoff, last = pgoff + npages;

		if (map->store != store)
			continue;
		if (first < map->pgoff)
			first = map->pgoff;
		if (last > map_end_pgoff(map))
			last = map_end_pgoff(map);
		if (first < last)
			uffd_wake(pool->uffd, map_addr(map, first),
				  (size_t)(last - first) << HM_PAGE_SHIFT);
	}
}
