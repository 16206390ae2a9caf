/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the pool engine is made of: pools, the stores of a pool, the mappings of a store.
 * It carries out what the core decides, with userfaultfd and O_DIRECT, in blocks of 2 MB.
 * Here are the structures, and the lists that they are found in (map.c); what is done with
 * them is in other headers. Each says what it owns and which locks it takes; what belongs
 * to it includes and calls only what is below it here:
 *
 *   api.h               the calls of hugemap.h
 *   pool.h              pools are made and destroyed; fork()
 *   mapping.h           mappings with a pool, and what else is done to their files
 *   steered.h           mappings without one
 *   fault.h             the way of a fault, and the handler threads
 *   write.h             write-back and syncs
 *   evict.h             frames become free
 *   store.h             the files behind mappings
 *   handler.h           what a handler has to do, and how it is asked
 *   frames.h            the memory of the frames, and where their pages are mapped
 *   objects.h, stats.h  what there is, and how much of it
 *   io.h                reads and writes of blocks
 *   signals.h           signals that are held back
 *   linux.h, uffd.h     the seam to Linux
 *
 * Owns: the list of pools, and the sorted list of a pool's mappings.
 * Locks: takes none. Of those below it says which one guards what.
 *
 * The limit of a store. The pool has the whole blocks that the file had when it was
 * mapped first. From there on (its last, partial block; what it grows by) every mapping
 * of it is the kernel's mmap, in the same range of addresses. The limit only ever comes
 * down, when hugemap_truncate() cuts the file off below it.
 *
 * Threads. Handler threads read faults, submit and reap I/O, evict and write back. Calls
 * of the library run in the caller's thread, with its signals held back, and leave I/O to
 * a handler; none touches memory of the program's while it holds a lock. Order of locks:
 *
 *   fork_lock            (rwlock) held for reading while there is what a child must not
 *                        have, and does not know; fork() waits for that. (Not where the end
 *                        of a file moves: a child may keep the kernel's mapping of its tail.)
 *   pool->unmap_lock     one unmapping at a time
 *   store->resize_lock   truncate and punch: one at a time
 *   pools_lock           the lists of pools, and of their stores; fork() holds it, so nobody
 *                        who serves faults may wait for it
 *   pool->maps_lock      (rwlock) mappings and stores (of which the lists change under both).
 *                        Handlers hold it for reading while they work, never while they
 *                        wait.
 *   block_lock()         one of a hashed set: the page tables of a block, i.e. where it
 *                        is mapped (struct place) and how it is protected. One at a time.
 *   handler->lock        requests from other threads
 *   store->flush_lock    who flushes the device; not while it does
 *   the core's spinlocks
 *
 * The lock of steered.c comes after maps_lock, and is not held with those below that.
 *
 * The state of a block is the core's. Under the block lock the engine asks for it, then
 * changes the page table; whoever changes the state without the lock (reclaim, write-back,
 * truncate) takes it afterwards to change the page table in turn. So the page table
 * always follows the state:
 *
 *   stores are possible without a fault  =>  dirty
 *   mapped anywhere                      =>  not absent, not filling
 */
#ifndef HM_OBJECTS_H
#define HM_OBJECTS_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "cache.h"
#include "hugemap.h"

#ifndef BLOCK_LOCKS
#define BLOCK_LOCKS 1024u
#endif
#define ALL_PAGES (HM_STORE_MAX_BLOCKS << HM_BLOCK_ORDER)

struct frame_hash;
struct handler;
struct mapping;
struct memory;
struct place;
struct stats;
struct store;

struct pool {
	struct hugemap_pool_options opts;
	struct hm_cache *cache;
	int uffd;
	struct memory *memory; /* memory.c: everything that was mmapped */
	char *slots; /* the frames, aligned to 2 MB */
	size_t slots_bytes;
	struct place *places; /* one for each frame */
	struct frame_hash *hashes; /* the same, and that of zeros */
	_Atomic u8 *populated; /* enum populated, the same */
	atomic_uint used_frames; /* that were used at least once */
	atomic_uint populate_from; /* the frame that the thread is to go on from */
	sem_t populate_work;
	pthread_t populate_thread;
	bool populating;
	atomic_bool stopping;

	pthread_mutex_t unmap_lock;
	pthread_rwlock_t maps_lock;
	struct mapping **maps; /* sorted by address */
	u32 nmaps, maps_room;
	struct store *stores;
	struct store *closing; /* in no list but this; see store_put() */
	u64 next_map_id;
	int pagemap_fd; /* see pagemap.h */

	pthread_mutex_t block_locks[BLOCK_LOCKS];
	struct block_call {
		const struct store *store; /* the kernel writes it, or makes room; NULL: no */
		u64 pgoff; /* of the block */
		bool wanted; /* a fault waits for that */
	} block_calls[BLOCK_LOCKS]; /* one at a time of the blocks of each lock, and under it */

	struct handler *handlers;
	u32 nhandlers;
	atomic_uint next_handler;
	atomic_bool pressed; /* a fault waits for clean frames */
	atomic_bool news; /* the numbers have changed since handler 0 has published them */
	atomic_bool asleep; /* handler 0, until it is asked */
	_Atomic u64 freed_ns; /* when a frame became free, or clean, last */

	struct stats *stats; /* shared with `hugemap stat`; see stats.h */
	int stats_fd;
	struct pool *next; /* all pools of the process */
};

struct store {
	struct hm_store *core; /* its size is the limit */
	struct pool *pool;
	struct store *next;
	dev_t dev; /* of a block device: rdev */
	ino_t ino;
	bool block_device;
	bool writable;
	atomic_bool unlocked; /* it is closing, and others may have the file */
	atomic_uint refs; /* mappings and callers; the last goes under maps_lock */
	int fd; /* with O_DIRECT, if the file system can */
	int fd_buffered; /* for what direct I/O cannot do; holds the lock on the file */
	u32 align; /* of direct I/O: bytes; 1 = there is none */
	atomic_bool unreserved; /* room cannot be had before it is written */
	_Atomic u64 full_until_ms; /* what is not asked for needs not try before */

	pthread_mutex_t resize_lock;
	atomic_bool resizing; /* faults wait, and hugemap_pwrite() */
	atomic_uint ops; /* I/O under way */
	atomic_uint writers; /* of these, calls in which the kernel may have the file locked */

	/* flushes of the device, one at a time, counted; see store.c */
	pthread_mutex_t flush_lock;
	pthread_cond_t flush_cond;
	u64 flushes_begun, flushes_ended, flush_failed;
	int flush_err; /* of the one that failed last */

	/* background write-back, by handler 0; see write.c */
	u64 wb_pos;
	atomic_uint wb_asked; /* passes over everything, counted */
	u32 wb_begun, wb_passed; /* asked for when the pass began, and before the last one did */
	_Atomic u64 wb_retry_ms; /* not before, after an error */
	_Atomic u32 wb_backoff_ms; /* 0 = writes work */
	_Atomic u64 wb_bad_pgoff; /* where one failed last */
};

struct mapping {
	u64 id; /* never used twice */
	struct store *store;
	char *start, *end; /* multiples of 4096; whole blocks below the limit */
	u64 pgoff; /* the store's page at start */
	int prot;
	_Atomic u32 access; /* HM_ACCESS_* that go with each fault */
	atomic_bool random; /* no read-ahead */
	pthread_mutex_t error_lock;
	u64 errors_seen; /* see hm_store_error_check() */
	_Atomic u64 faults, hits, wait_ns;
};

/* --- map.c: where they are found ------------------------------------------------ */
extern pthread_rwlock_t fork_lock;
extern pthread_mutex_t pools_lock;
extern struct pool *pools; /* every pool of the process */

/* maps_lock is held, for writing by those that change the list. */
struct mapping *map_find(struct pool *pool, const void *addr);
struct mapping *map_find_next(struct pool *pool, const void *addr);
struct mapping *map_by_id(struct pool *pool, u64 id);
int map_make_room(struct pool *pool);
int map_insert(struct pool *pool, struct mapping *map);
void map_remove(struct pool *pool, struct mapping *map);

/* --- addresses and pages -------------------------------------------------------- */

static inline u64 block_of(u64 pgoff)
{
	return pgoff & ~(u64)(HM_BLOCK_PAGES - 1);
}

/* Where a page of the store is in a mapping (perhaps outside of it). */
static inline char *map_addr(const struct mapping *map, u64 pgoff)
{
	return map->start + ((s64)(pgoff - map->pgoff) << HM_PAGE_SHIFT);
}

/* The store's page at an address (perhaps outside of the mapping). */
static inline u64 map_pgoff(const struct mapping *map, uintptr_t addr)
{
	return map->pgoff + (u64)((s64)(addr - (uintptr_t)map->start) >> HM_PAGE_SHIFT);
}

static inline u64 map_end_pgoff(const struct mapping *map)
{
	return map_pgoff(map, (uintptr_t)map->end);
}

/* The page of a store from which on mappings are the kernel's. */
static inline u64 store_limit(const struct store *store)
{
	return hm_store_size(store->core) >> HM_PAGE_SHIFT;
}

/* The same as an address in a mapping: the end of the pool's part. */
static inline char *map_limit(const struct mapping *map)
{
	u64 limit = store_limit(map->store);

	if (limit <= map->pgoff)
		return map->start;
	return limit < map_end_pgoff(map) ? map_addr(map, limit) : map->end;
}

#endif /* HM_OBJECTS_H */
