/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Frames: their memory (memory.c, populate.c), and the page tables (page.c).
 *
 * Where a frame's memory is. The pool is one range of anonymous memory; frame n has its
 * home slot at hm_frame_offset(n). While a block is mapped, its pages have been *moved*
 * (UFFDIO_MOVE, no copy) from the slot to an address in a mapping, and the slot is empty.
 * A block is mapped at one address at a time: a fault in a second mapping of it moves it
 * there. It is written from its slot: see write.c.
 *
 * Owns: the slots; of each frame where its pages are (struct place), and what they were
 * when nobody could store to them (struct frame_hash); how a mapping's pages are protected.
 * Locks: block_lock() is found here, and held by whoever calls what changes a page table.
 * Takes none itself, but fork_lock where it can be had at once.
 */
#ifndef HM_FRAMES_H
#define HM_FRAMES_H

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "objects.h"

/* Where the block in a frame is mapped: NULL = its pages are in the slot. */
struct place {
	struct mapping *map;
	u64 pgoff;
	bool stored; /* a store was found when it was claimed for eviction already */
	bool guessed; /* it was read, as nobody could say whether the file holds data there */
	bool lost; /* the program has zapped the pages: there are none in the slot either */
};

/* What a block's data was when it could not be stored to; see page.c. */
struct frame_hash {
	XXH128_hash_t value;
	bool valid;
};

static inline char *slot_of(const struct pool *pool, u32 frame)
{
	return pool->slots + hm_frame_offset(pool->cache, frame);
}

/* --- memory.c, populate.c ------------------------------------------------------- */
int memory_create(struct pool *pool, const struct hm_options *opts);
void memory_destroy(struct pool *pool);
void *memory_reserve(size_t bytes);
int populate_start(struct pool *pool);
void populate_stop(struct pool *pool);
void populate_frame(struct pool *pool, u32 frame);

/* --- page.c: the block lock is held unless it says otherwise --------------------- */
pthread_mutex_t *block_lock(struct store *store, u64 pgoff);
struct block_call *block_call(struct store *store, u64 pgoff);
bool block_is_called(struct store *store, u64 pgoff);
void block_call_begin(struct store *store, u64 pgoff);
bool block_call_end(struct store *store, u64 pgoff);
int page_install(struct mapping *map, const struct hm_unit *unit);
int page_remove(struct pool *pool, const struct hm_unit *unit);
int page_prove(struct store *store, u64 pgoff);
bool page_is_mapped(struct pool *pool, enum hm_state state, const struct hm_unit *unit,
		    const struct mapping *map);
bool page_present(const struct mapping *map, const struct hm_unit *unit);
void page_forget(struct pool *pool, const struct hm_unit *unit);
void page_begin(struct pool *pool, const struct hm_unit *unit);
bool page_is_lost(struct pool *pool, const struct hm_unit *unit);
bool page_take_stored(struct pool *pool, const struct hm_unit *unit);
int page_unprotect(struct mapping *map, const struct hm_unit *unit);
void page_hash(struct pool *pool, const struct hm_unit *unit);
void page_changed(struct pool *pool, const struct hm_unit *unit);
void page_init(struct pool *pool);
void page_hash_zero(struct pool *pool, const struct hm_unit *unit);
char *page_data(struct pool *pool, const struct hm_unit *unit);
struct mapping *page_mapping(struct pool *pool, const struct hm_unit *unit);
bool page_in_slots(const struct pool *pool, const char *at); /* no lock */
void page_wake(struct store *store, u64 pgoff); /* under maps_lock alone */

#endif /* HM_FRAMES_H */
