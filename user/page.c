// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Page tables: blocks are moved from their slots into mappings and back, and protected
 * against stores. Every function here that changes something is called under the
 * block's lock.
 *
 * A store must never be lost. A block that is clean is write-protected, so that the first
 * store to it is a fault that makes it dirty. But UFFDIO_MOVE cannot install a page
 * protected: between the move and the protection there are a few microseconds in which
 * another thread can store unseen, or the kernel can pin a page for a device that stores
 * much later. So a block that is installed clean in a writable mapping is hashed before
 * the move, and again when it has been taken out. If the hashes differ, a store slipped in,
 * and the block is dirty. A page that is pinned cannot be moved, which shows that a device
 * may store to it: the block stays where it is. Nothing else shows it.
 *
 * So while a clean block is in a writable mapping it may hold what nobody knows of, and a
 * sync takes it out to see (page_prove()). It is hashed in its slot: what the program does
 * to its mapping meanwhile, with madvise(2) say, would be a fault of the handler's, which
 * nobody could serve. (Where it cannot be taken out it is read as a file, page by page.)
 */
#include "frames.h"
#include "linux.h"
#include "pagemap.h"
#include "races.h"
#include "stats.h"
#include "uffd.h"

#include <errno.h>
#include <fcntl.h>

#define FOLLOW_NS 100000000u

static u32 index_of(const struct store *store, u64 pgoff)
{
	u64 hash = (pgoff >> HM_BLOCK_ORDER) * 0x9e3779b97f4a7c15ull + store->ino * 0xff51afd7ull;

	return (hash >> 20) % BLOCK_LOCKS;
}

pthread_mutex_t *block_lock(struct store *store, u64 pgoff)
{
	return &store->pool->block_locks[index_of(store, pgoff)];
}

struct block_call *block_call(struct store *store, u64 pgoff)
{
	return &store->pool->block_calls[index_of(store, pgoff)];
}

/*
 * Is the file being written there, by a call? Until that ends nothing of the block is mapped
 * or read. Others go on, as long as they need no call of their own: one may hang.
 */
bool block_is_called(struct store *store, u64 pgoff)
{
	const struct block_call *call = block_call(store, pgoff);

	return call->store == store && call->pgoff == block_of(pgoff);
}

void block_call_begin(struct store *store, u64 pgoff)
{
	struct block_call *call = block_call(store, pgoff);

	hm_assert(!call->store);
	call->store = store;
	call->pgoff = block_of(pgoff);
}

/* True: somebody waits for it. */
bool block_call_end(struct store *store, u64 pgoff)
{
	struct block_call *call = block_call(store, pgoff);

	hm_assert(block_is_called(store, pgoff));
	call->store = NULL;
	return call->wanted;
}

struct mapping *page_mapping(struct pool *pool, const struct hm_unit *unit)
{
	return pool->places[unit->frame].map;
}

/* Is a block, as hm_peek() found it, mapped in this mapping? */
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

/* Where a block's data can be read now, and written if it is not protected. */
char *page_data(struct pool *pool, const struct hm_unit *unit)
{
	struct place *place = &pool->places[unit->frame];

	if (!place->map)
		return slot_of(pool, unit->frame);
	hm_assert(place->pgoff == unit->pgoff);
	return map_addr(place->map, unit->pgoff);
}

/* --- hashes -------------------------------------------------------------------- */

static XXH128_hash_t hash_of(const char *data)
{
	XXH128_hash_t hash;

	hm_touch(data, HM_BLOCK_SIZE);
	program_memory_begin();
	hash = XXH3_128bits(data, HM_BLOCK_SIZE);
	program_memory_end();
	return hash;
}

/*
 * The hash of a block that is filled is taken then, off the way of any fault, and stays
 * valid while nobody can store to the block.
 */
void page_hash(struct pool *pool, const struct hm_unit *unit)
{
	struct frame_hash *hash = &pool->hashes[unit->frame];

	hash->value = hash_of(slot_of(pool, unit->frame));
	hash->valid = true;
}

static struct frame_hash *hash_of_zeros(struct pool *pool)
{
	return &pool->hashes[hm_cache_options(pool->cache)->pool_frames];
}

/* The memory is there: what a block of zeros hashes to. */
void page_init(struct pool *pool)
{
	static const char zeros[512]; /* a part of the smallest block */
	XXH3_state_t state;
	u32 i;

	XXH3_128bits_reset(&state);
	for (i = 0; i < HM_BLOCK_SIZE / sizeof(zeros); i++)
		XXH3_128bits_update(&state, zeros, sizeof(zeros));
	*hash_of_zeros(pool) = (struct frame_hash){ XXH3_128bits_digest(&state), true };
}

/* The same for a block that was filled with zeros. */
void page_hash_zero(struct pool *pool, const struct hm_unit *unit)
{
	pool->hashes[unit->frame] = *hash_of_zeros(pool);
}

/* The data of a block is being changed. */
void page_changed(struct pool *pool, const struct hm_unit *unit)
{
	pool->hashes[unit->frame].valid = false;
}

static bool hash_differs(struct pool *pool, const struct hm_unit *unit, const char *data)
{
	return !XXH128_isEqual(pool->hashes[unit->frame].value, hash_of(data));
}

/*
 * A store slipped in: the block is dirty. One that another handler is about to evict
 * cannot become dirty now: it is told, when it has the block lock, by page_take_stored().
 */
static void slipped(struct store *store, const struct hm_unit *unit)
{
	struct pool *pool = store->pool;
	struct hm_unit now;

	page_changed(pool, unit);
	stats_add(pool->stats, STATS_SLIPPED, 1);
	if (hm_fault(store->core, unit->pgoff, HM_ACCESS_WRITE, &now) != HM_HIT)
		pool->places[unit->frame].stored = true;
}

/* Was this block, which is claimed for eviction, stored to after all? */
bool page_take_stored(struct pool *pool, const struct hm_unit *unit)
{
	struct place *place = &pool->places[unit->frame];
	bool stored = place->stored;

	place->stored = false;
	return stored;
}

/* --- moves --------------------------------------------------------------------- */

/*
 * Memory can be moved if it is locked on both sides, or on neither. mlock(2) of a mapping
 * cannot keep more in memory than the pool has: it is undone when it is in the way.
 */
static void unlock(struct mapping *map)
{
	struct pool *pool = map->store->pool;

	sys_munlock(map->start, (size_t)(map_limit(map) - map->start));
	sys_munlock(pool->slots, pool->slots_bytes);
}

bool page_in_slots(const struct pool *pool, const char *at)
{
	return at >= pool->slots && at < pool->slots + pool->slots_bytes;
}

/* The first *n bytes of a block are in @dst; the rest shall follow. */
static int move_on(struct mapping *map, char *dst, char *src, bool wake, size_t *n)
{
	struct pool *pool = map->store->pool;
	size_t more;
	int err = uffd_move(pool->uffd, pool->pagemap_fd, dst + *n, src + *n, HM_BLOCK_SIZE - *n,
			    wake, &more);

	*n += more;
	return err;
}

/*
 * They shall be in @src again, the last one first. A page that the program zaps meanwhile is
 * gone. -EBUSY: one is pinned; *n bytes are still in @dst.
 */
static int move_back(struct mapping *map, char *dst, char *src, size_t *n)
{
	struct pool *pool = map->store->pool;
	char *mapped = page_in_slots(pool, src) ? dst : src;

	while (*n) {
		size_t at = *n - HM_PAGE_SIZE, moved;
		int err = uffd_move(pool->uffd, pool->pagemap_fd, src + at, dst + at, HM_PAGE_SIZE,
				    true, &moved);

		if (err == -EBUSY)
			return err;
		if (err != -EEXIST && err != -EINVAL) {
			*n = at;
			continue;
		}
		unlock(map);
		if (err == -EEXIST) /* a look at an empty slot has left a page of zeros */
			sys_madvise(src + at, HM_PAGE_SIZE, MADV_DONTNEED);
		else
			sys_mprotect(mapped, HM_BLOCK_SIZE, PROT_READ | PROT_WRITE);
	}
	return 0;
}

/*
 * Move a whole block, or nothing. It may be in small pages (the kernel has swapped it
 * out, say), of which some are moved before one turns out to be pinned: then the others
 * go back. Half a block here and half there is none, so this ends when it is a whole one,
 * wherever that is, whatever the program does meanwhile.
 *
 * In a mapping a page may be pinned for as long as the program likes; in a slot only
 * somebody who passes by has one. So what comes from a slot gets a moment to follow, and
 * what can neither follow nor go back tries both in turns.
 *
 * *came_back is set if any did, and left alone otherwise.
 */
static int move_block(struct mapping *map, char *dst, char *src, bool wake, bool *came_back)
{
	struct pool *pool = map->store->pool;
	u64 since = 0;
	size_t n = 0;
	int err;

	stats_add(pool->stats, STATS_MOVES, 1);
	err = move_on(map, dst, src, wake, &n);
	if (err == -EINVAL || err == -EEXIST) {
		unlock(map);
		/* A poisoned page; or the zero page of somebody's look at an empty slot. */
		sys_madvise(dst + n, HM_BLOCK_SIZE - n, MADV_DONTNEED);
		err = move_on(map, dst, src, wake, &n);
	}
	while (err && n) {
		bool follows = err == -EBUSY && page_in_slots(pool, src);

		if (follows && !since)
			since = sys_clock_ns();
		if (!follows || sys_clock_ns() - since > FOLLOW_NS) {
			*came_back = true;
			if (!move_back(map, dst, src, &n))
				break;
		}
		err = move_on(map, dst, src, wake, &n);
	}
	return err;
}

static void count_mapped(struct pool *pool, s64 blocks)
{
	stats_add(pool->stats, STATS_HUGE_MAPPED, blocks);
}

/*
 * Must stores to a block fault? Clean ones must, to be noticed; and all must in a
 * mapping that does not allow them.
 */
static bool must_protect(const struct mapping *map, const struct hm_unit *unit)
{
	struct hm_unit now;

	return !(map->prot & PROT_WRITE) ||
	       hm_peek(map->store->core, unit->pgoff, &now) != HM_DIRTY;
}

/**
 * page_install() - map a block whose pages are in its slot
 * @map: where; nothing that counts is there
 *
 * Waiters are woken. Return: 0; -EBUSY: not now; -ENOENT: the program has unmapped the
 * addresses itself; -EINVAL: it has changed what may be done to them.
 */
int page_install(struct mapping *map, const struct hm_unit *unit)
{
	struct pool *pool = map->store->pool;
	struct place *place = &pool->places[unit->frame];
	char *dst = map_addr(map, unit->pgoff), *slot = slot_of(pool, unit->frame);
	bool protect = must_protect(map, unit);
	bool verify = protect && (map->prot & PROT_WRITE);
	bool came_back = false, open = false;
	int err;

	hm_assert(!place->map);
	if (uffd_watches(pool->uffd, dst, HM_BLOCK_SIZE) == -ENOENT)
		return -ENOENT; /* not one byte of what is there now is touched */
	if (verify && !pool->hashes[unit->frame].valid)
		page_hash(pool, unit);
	if (!verify)
		page_changed(pool, unit);
	/* A page table may be left, in which a huge page would be split. */
	sys_madvise(dst, HM_BLOCK_SIZE, MADV_DONTNEED);
	err = move_block(map, dst, slot, !protect, &came_back);
	if (!err) {
		place->map = map;
		place->pgoff = unit->pgoff;
		count_mapped(pool, 1);
	}
	if (!err && protect) {
		stats_add(pool->stats, STATS_PROTECTS, 1);
		/* It is not ours any more, in part: who knows what is stored there. */
		open = uffd_protect(pool->uffd, dst, HM_BLOCK_SIZE);
		uffd_wake(pool->uffd, dst, HM_BLOCK_SIZE);
	}
	if (verify && (open || (err && came_back && hash_differs(pool, unit, slot))))
		slipped(map->store, unit);
	return err;
}

/* As page_remove(); -EINVAL: the program has changed what may be done to the addresses. */
static int take_back(struct pool *pool, const struct hm_unit *unit)
{
	struct place *place = &pool->places[unit->frame];
	struct mapping *map = place->map;
	char *slot = slot_of(pool, unit->frame);
	bool verify, came_back = false;
	int err;

	if (!map)
		return place->lost ? -ENOENT : 0;
	hm_assert(place->pgoff == unit->pgoff);
	if (uffd_watches_page(pool->uffd, map_addr(map, unit->pgoff)) == -ENOENT) {
		page_forget(pool, unit);
		return -ENOENT;
	}
	verify = map->prot & PROT_WRITE && pool->hashes[unit->frame].valid;
	err = move_block(map, slot, map_addr(map, unit->pgoff), false, &came_back);
	/* What came back is not protected any more. */
	if (came_back && map->prot & PROT_WRITE) {
		slipped(map->store, unit);
		verify = false;
	} else if (came_back) {
		uffd_protect(pool->uffd, map_addr(map, unit->pgoff), HM_BLOCK_SIZE);
	}
	if (err == -ENOENT && !page_present(map, unit)) {
		page_forget(pool, unit);
		return -ENOENT;
	}
	if (err)
		return err == -EINVAL ? err : -EBUSY;
	/*
	 * Pages that were swapped out bring their protection along, and a store to them here would
	 * wait for ever. Not asked whether there is swap: it may come, and go, meanwhile.
	 */
	uffd_unprotect(pool->uffd, slot, HM_BLOCK_SIZE);
	place->map = NULL;
	count_mapped(pool, -1);
	if (verify && hash_differs(pool, unit, slot))
		slipped(map->store, unit);
	return 0;
}

/**
 * page_remove() - take the pages of a block back into its slot
 *
 * Not while it is being written from where it is. Return: 0: it is in its slot; -EBUSY: it
 * stays, as a page is pinned, or the program has changed what may be done to the
 * addresses; -ENOENT: the program has zapped it, or unmapped it itself: the data is gone.
 */
int page_remove(struct pool *pool, const struct hm_unit *unit)
{
	int err = take_back(pool, unit);

	return err == -EINVAL ? -EBUSY : err;
}

static bool hash_by_reads(int fd, uintptr_t at, XXH128_hash_t *hash)
{
	uintptr_t end = at + HM_BLOCK_SIZE;
	char page[HM_PAGE_SIZE];
	XXH3_state_t state;

	XXH3_128bits_reset(&state);
	for (; at < end; at += sizeof(page)) {
		if (sys_pread(fd, page, sizeof(page), at) != (ssize_t)sizeof(page))
			return false;
		XXH3_128bits_update(&state, page, sizeof(page));
	}
	*hash = XXH3_128bits_digest(&state);
	return true;
}

/*
 * The memory of the process as a file: its pages are read without a fault, or not at all.
 * A child must not have the descriptor: no fork() goes on meanwhile, and none is waited for.
 */
static bool hash_in_place(const struct mapping *map, const struct hm_unit *unit,
			  XXH128_hash_t *hash)
{
	bool known = false;
	int fd;

	if (pthread_rwlock_tryrdlock(&fork_lock))
		return false;
	fd = sys_open("/proc/self/mem", O_RDONLY);
	if (fd >= 0) {
		known = hash_by_reads(fd, (uintptr_t)map_addr(map, unit->pgoff), hash);
		sys_close(fd);
	}
	pthread_rwlock_unlock(&fork_lock);
	return known;
}

/*
 * The program has changed what may be done to the addresses, so a block stays there: is it
 * what it was? 0; -ENOENT: it is gone; -EBUSY: it was stored to, as far as one knows.
 */
static int prove_in_place(struct pool *pool, const struct mapping *map, const struct hm_unit *unit)
{
	const struct frame_hash *was = &pool->hashes[unit->frame];
	XXH128_hash_t hash;

	if (!was->valid)
		return 0; /* that was told when it came back */
	if (hash_in_place(map, unit, &hash))
		return XXH128_isEqual(was->value, hash) ? 0 : -EBUSY;
	if (page_present(map, unit))
		return -EBUSY;
	page_forget(pool, unit);
	return -ENOENT;
}

/**
 * page_prove() - is a block that is clean what the file has?
 *
 * It is in its slot then. If it is pinned, it is dirty, as is what was stored to. Where the
 * program has changed what may be done to the addresses it is looked at there. Whoever moves
 * or evicts a block knows what was stored before he gives its lock back, or ends the eviction.
 *
 * Return: 0; 1: that had to be found out; -EAGAIN: it is being evicted; -ENOENT: as
 * page_remove().
 */
int page_prove(struct store *store, u64 pgoff)
{
	struct pool *pool = store->pool;
	struct hm_unit unit, now;
	enum hm_state state = hm_peek(store->core, pgoff, &unit);
	struct mapping *map = state == HM_CLEAN ? page_mapping(pool, &unit) : NULL;
	bool unproved = map && map->prot & PROT_WRITE;
	int err;

	hm_assert(!unproved || pool->hashes[unit.frame].valid);
	err = unproved ? take_back(pool, &unit) : 0;
	if (err == -EINVAL)
		err = prove_in_place(pool, map, &unit);
	if (err == -ENOENT)
		return err;
	if (err == -EBUSY)
		slipped(store, &unit);
	return hm_peek(store->core, pgoff, &now) == HM_EVICTING ? -EAGAIN : unproved;
}

/* The pages of a block are gone, or are not wanted: what is left of them goes, too. */
void page_forget(struct pool *pool, const struct hm_unit *unit)
{
	struct place *place = &pool->places[unit->frame];
	char *at;

	if (!place->map)
		return;
	at = map_addr(place->map, unit->pgoff);
	if (!uffd_watches(pool->uffd, at, HM_BLOCK_SIZE))
		sys_madvise(at, HM_BLOCK_SIZE, MADV_DONTNEED);
	stats_add(pool->stats, STATS_LOST, 1);
	count_mapped(pool, -1);
	page_changed(pool, unit);
	place->map = NULL;
	place->lost = true;
}

/* A frame gets a block, whose pages will be in the slot. */
void page_begin(struct pool *pool, const struct hm_unit *unit)
{
	pool->places[unit->frame].lost = false;
	pool->places[unit->frame].guessed = false;
}

/* Are its pages nowhere? Who finds that may come before who is to do something about it. */
bool page_is_lost(struct pool *pool, const struct hm_unit *unit)
{
	return pool->places[unit->frame].lost;
}

/*
 * Pages that the kernel has swapped out are there, though mincore() does not say so. True also
 * if that cannot be found out: what is lost is thrown away.
 */
static bool swapped_out(const struct mapping *map, const struct hm_unit *unit)
{
	u64 entries[HM_BLOCK_PAGES];
	u64 at = pagemap_offset(map_addr(map, unit->pgoff));

	return sys_pread(map->store->pool->pagemap_fd, entries, sizeof(entries), at) !=
		       (ssize_t)sizeof(entries) ||
	       pagemap_all_there(entries, HM_BLOCK_PAGES);
}

/* Are all pages of a block where its place says they are? As far as one knows. */
bool page_present(const struct mapping *map, const struct hm_unit *unit)
{
	unsigned char present[HM_BLOCK_PAGES];
	int err = sys_mincore(map_addr(map, unit->pgoff), HM_BLOCK_SIZE, present);
	u32 i;

	if (err)
		return err != -ENOMEM; /* which says that nothing is mapped there */
	for (i = 0; i < HM_BLOCK_PAGES; i++)
		if (!(present[i] & 1))
			return swapped_out(map, unit);
	return true;
}

/* Allow stores to a block that is dirty, and wake who waits. */
int page_unprotect(struct mapping *map, const struct hm_unit *unit)
{
	struct pool *pool = map->store->pool;
	int err;

	page_changed(pool, unit);
	stats_add(pool->stats, STATS_PROTECTS, 1);
	err = uffd_unprotect(pool->uffd, map_addr(map, unit->pgoff), HM_BLOCK_SIZE);
	if (err)
		uffd_wake(pool->uffd, map_addr(map, unit->pgoff), HM_BLOCK_SIZE);
	return err;
}

/*
 * Somebody waits for a block that was on its way in or out: let them look again, in
 * every mapping. maps_lock is held.
 */
void page_wake(struct store *store, u64 pgoff)
{
	struct pool *pool = store->pool;
	u32 i;

	pgoff = block_of(pgoff);
	for (i = 0; i < pool->nmaps; i++) {
		struct mapping *map = pool->maps[i];

		if (map->store == store && pgoff >= map->pgoff && pgoff < map_end_pgoff(map))
			uffd_wake(pool->uffd, map_addr(map, pgoff), HM_BLOCK_SIZE);
	}
}
