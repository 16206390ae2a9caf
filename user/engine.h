/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The pool engine: carries out what the core decides, with userfaultfd and O_DIRECT, in
 * blocks of 2 MB. This header is what its files share.
 *
 * Where a frame's memory is. The pool is one range of anonymous memory; frame n has its
 * home slot at hm_frame_offset(n). While a block is mapped, its pages have been *moved*
 * (UFFDIO_MOVE, no copy) from the slot to an address in a mapping, and the slot is empty.
 * A block is mapped at one address at a time: a fault in a second mapping of it moves it
 * there. It is written from its slot: see write.c.
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
 *   pool->unmap_lock     one unmapping at a time
 *   store->resize_lock   truncate and punch: one at a time
 *   pools_lock           the list of pools
 *   pool->maps_lock      (rwlock) mappings and stores. Handlers hold it for reading
 *                        while they work, never while they wait.
 *   block_lock()         one of a hashed set: the page tables of a block, i.e. where it
 *                        is mapped (struct place) and how it is protected. One at a time.
 *   handler->lock        requests from other threads
 *   the core's spinlocks
 *
 * The state of a block is the core's. Under the block lock the engine asks for it, then
 * changes the page table; whoever changes the state without the lock (reclaim, write-back,
 * truncate) takes it afterwards to change the page table in turn. So the page table
 * always follows the state:
 *
 *   stores are possible without a fault  =>  dirty
 *   mapped anywhere                      =>  not absent, not filling
 */
#ifndef HM_ENGINE_H
#define HM_ENGINE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include <sys/mman.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cache.h"
#include "hugemap.h"
#include "io.h"
#include "linux.h"
#include "stats.h"
#include "uffd.h"

#define MAX_HANDLERS 16u
#define BLOCK_LOCKS 1024u
#define MAX_PLANS 64u
#define MAX_PENDING 1024u
#define MAX_POISONED 256u
#define ALL_PAGES (HM_STORE_MAX_BLOCKS << HM_BLOCK_ORDER)

struct handler;
struct mapping;
struct pool;
struct store;

/* Of who looks again and again whether others are done; zeros at first. */
struct patience {
	u64 since_ns, pinned_since_ns;
};

/* Where the block in a frame is mapped: NULL = its pages are in the slot. */
struct place {
	struct mapping *map;
	u64 pgoff;
	bool stored; /* a store was found when it was claimed for eviction already */
};

/* What a block's data was when it could not be stored to; see page.c. */
struct frame_hash {
	XXH128_hash_t value;
	bool valid;
};

struct pool {
	struct hugemap_pool_options opts;
	struct hm_cache *cache;
	int uffd;
	struct memory *memory; /* memory.c: everything that was mmapped */
	char *slots; /* the frames, aligned to 2 MB */
	size_t slots_bytes;
	struct place *places; /* one for each frame */
	struct frame_hash *hashes; /* the same */
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
	u64 next_map_id;
	int pagemap_fd; /* see pagemap.h */

	pthread_mutex_t block_locks[BLOCK_LOCKS];

	struct handler *handlers;
	u32 nhandlers;
	atomic_uint next_handler;
	atomic_bool pressed; /* a fault waits for clean frames */
	_Atomic u64 freed_ns; /* when a frame became free, or clean, last */
	atomic_bool swap; /* the machine has some */

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
	atomic_uint refs; /* mappings and callers; the last goes under maps_lock */
	int fd; /* with O_DIRECT, if the file system can */
	int fd_buffered; /* for what direct I/O cannot do; holds the lock on the file */
	u32 align; /* of direct I/O: bytes; 1 = there is none */

	pthread_mutex_t resize_lock;
	atomic_bool resizing; /* faults wait */
	atomic_uint ops; /* I/O under way */

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

/* A fault that could not be served yet: no frame, or the file is changing. */
struct pending {
	uintptr_t addr;
	bool write;
	bool missing; /* not only protected */
	u64 arrived_ns;
};

/* Blocks to bring in, or to write, as operations become free. */
struct job {
	enum job_type {
		JOB_AHEAD, /* a stream's plan */
		JOB_PREFETCH, /* asked for; waits for frames, not for a reader */
		JOB_BEHIND, /* write a range */
	} type;
	struct store *store;
	u64 map_id;
	struct hm_plan plan;
	u64 pos, end;
};

/* A sync, or a flush before something else, asked of a handler. */
struct sync_request {
	struct store *store;
	u64 pos, end; /* base pages */
	u32 ops; /* under way */
	int err;
	bool walked, done;
	u32 windows[MAX_HANDLERS]; /* of the handlers, when it was made; page.c */
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct sync_request *next;
};

struct handler {
	struct pool *pool;
	pthread_t thread;
	u32 index;
	struct io io;
	int event_fd;
	int started; /* 0, 1 = works, or a negative errno; under lock */

	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct sync_request *new_syncs;
	struct job new_jobs[MAX_PLANS];
	u32 nnew_jobs;

	atomic_uint window; /* odd while a block is installed and verified */

	/* this thread's own */
	struct sync_request *syncs;
	struct job jobs[MAX_PLANS];
	u32 njobs;
	struct pending pending[MAX_PENDING];
	u32 npending;
	struct poisoned {
		uintptr_t addr, end; /* end: protected, not poisoned */
		u64 until_ms;
	} poisoned[MAX_POISONED]; /* to be undone; see trap.c */
	u32 npoisoned;
	u32 wb_ops; /* background write-back under way */
	bool reclaim; /* free frames are few */
	bool again; /* there is more to do: do not wait */
	u32 short_waits; /* how many of the last waits were short */
	size_t zeroed; /* bytes, in this round */
	bool faults_left; /* the last read did not get them all */
	u64 now_ms, published_ms;
};

/* --- pool.c, memory.c, populate.c --- */
extern pthread_mutex_t pools_lock;
extern struct pool *pools;
int pool_create(const struct hugemap_pool_options *opts, struct pool **pool);
int pool_destroy(struct pool *pool);
int memory_create(struct pool *pool, const struct hm_options *opts);
void memory_destroy(struct pool *pool);
void *memory_reserve(size_t bytes);
void populate_start(struct pool *pool);
void populate_stop(struct pool *pool);
void populate_frame(struct pool *pool, u32 frame);

/* --- handler.c --- */
int handlers_start(struct pool *pool, u32 n);
void handlers_stop(struct pool *pool);
void handler_kick(struct handler *h);
struct handler *handler_any(struct pool *pool);
bool handler_job(struct handler *h, const struct job *job);
void handlers_kick(struct pool *pool);
void handlers_forget(struct pool *pool, const struct store *store);
bool look_again(struct patience *patience, bool pinned);

/* --- page.c: page tables; the block lock is held unless it says otherwise --- */
pthread_mutex_t *block_lock(struct store *store, u64 pgoff);
void page_windows_of(atomic_uint *window); /* this thread's, from now on */
int page_install(struct mapping *map, const struct hm_unit *unit);
int page_remove(struct pool *pool, const struct hm_unit *unit);
bool page_is_mapped(struct pool *pool, enum hm_state state, const struct hm_unit *unit,
		    const struct mapping *map);
bool page_present(const struct mapping *map, const struct hm_unit *unit);
void page_forget(struct pool *pool, const struct hm_unit *unit);
bool page_take_stored(struct pool *pool, const struct hm_unit *unit);
int page_unprotect(struct mapping *map, const struct hm_unit *unit);
void page_hash(struct pool *pool, const struct hm_unit *unit);
void page_changed(struct pool *pool, const struct hm_unit *unit);
void page_hash_zero(struct pool *pool, const struct hm_unit *unit);
char *page_data(struct pool *pool, const struct hm_unit *unit);
struct mapping *page_mapping(struct pool *pool, const struct hm_unit *unit);
void page_wake(struct store *store, u64 pgoff); /* no lock needed */

/* What became of a fault. */
enum served {
	SERVED,
	SERVE_LATER, /* try again */
	SERVE_NO_FRAME, /* try again if a frame can be freed now */
	SERVE_REFUSED, /* try again, but not for ever: the program is in the way */
	SERVE_GONE, /* the program has unmapped the block itself, or a part of it */
};

/* --- fault.c --- */
void fault_read_all(struct handler *h);
void fault_retry_pending(struct handler *h);
void fault_progress(struct pool *pool);
enum served fault_serve_hit(struct mapping *map, const struct hm_unit *unit, bool write,
			    bool missing);
void fault_lost(struct store *store, const struct hm_unit *unit);
void fault_done(struct handler *h, struct mapping *map, u64 arrived_ns, bool hit);

/* --- trap.c: signals for faults that cannot be served --- */
void trap_bus(struct handler *h, uintptr_t addr);
void trap_segv(struct handler *h, struct mapping *map, uintptr_t addr);
void trap_heal(struct handler *h);

/* --- fill.c --- */
int fill_start(struct handler *h, struct mapping *map, const struct hm_unit *unit,
	       const struct pending *fault);
void fill_complete(struct handler *h, struct io_op *op);
bool fill_is_hollow(struct store *store, const struct hm_unit *unit);
void fill_zero(struct mapping *map, const struct hm_unit *unit);

/* --- stream.c --- */
void stream_hint(struct handler *h, struct mapping *map, u64 pgoff, u32 access);
void stream_give_up(const struct job *job);
void stream_add_job(struct handler *h, const struct job *job);
void stream_run_jobs(struct handler *h);

/* --- evict.c --- */
bool evict_some(struct handler *h);
void evict_background(struct handler *h);

/* --- write.c, sync.c --- */
enum hm_wb write_next(struct handler *h, struct store *store, u64 *pos, u64 end, bool wait,
		      struct sync_request *sync, bool background);
void write_complete(struct handler *h, struct io_op *op);
void write_background(struct handler *h);
void write_works(struct store *store);
int sync_range(struct store *store, u64 pos, u64 end);
void sync_run(struct handler *h);
void sync_op_done(struct sync_request *sync, int err);

/* --- store.c, map.c --- */
int store_get(struct pool *pool, int fd, bool writable, struct store **store);
struct store *store_find(int fd); /* of any pool, with a reference */
int store_put(struct store *store);
int store_check_writable(const struct store *store);
int file_identify(int fd, dev_t *dev, ino_t *ino);
u64 file_size(int fd);
u64 store_file_size(const struct store *store);
int store_add_node(struct store *store, u64 pgoff, enum hm_node_kind kind);
struct mapping *map_find(struct pool *pool, const void *addr); /* maps_lock held */
struct mapping *map_find_next(struct pool *pool, const void *addr); /* the same */
struct mapping *map_by_id(struct pool *pool, u64 id); /* maps_lock held */
int map_make_room(struct pool *pool);
int map_insert(struct pool *pool, struct mapping *map);
void map_remove(struct pool *pool, struct mapping *map);

/* --- resize.c --- */
int resize_truncate(struct store *store, int fd, u64 size, bool again);
int resize_punch(struct store *store, int fd, u64 offset, u64 length, bool again);
void resize_drop_clean(struct store *store, u64 pos, u64 end);

/* --- mapping.c --- */
void *mapping_create(struct pool *pool, int fd, off_t offset, size_t length, int prot,
		     const struct hugemap_options *options);
void mapping_lower_limit(struct mapping *map);
int mapping_unmap(struct pool *pool, char *start, char *end, char **next, int *write_err);
void *mapping_again(struct pool *pool, char *start, char *end, size_t length);

/* --- access.c --- */
ssize_t access_read(struct store *store, char *buffer, size_t count, u64 offset);
ssize_t access_write(struct store *store, const char *buffer, size_t count, u64 offset);

/* --- fork.c --- */
void fork_init(void);

/* --- steered.c: mappings without a pool --- */
/*
 * Of the preload library of `hugemap run`, if it is in the process: it sees our calls of
 * mmap() and munmap() as everybody's, and steers.
 */
extern const char hugemap_run_version[] __attribute__((weak, visibility("default")));
void *steered_map(int fd, off_t offset, size_t length, int prot, int flags);
void *steered_remap(char *start, char *end, size_t new_length);
bool steered_covers(const void *addr);
int steered_forget(char *start, char *end);
bool steered_conflicts(dev_t dev, ino_t ino, bool writable);
int steered_unmap(char *start, char *end, bool *found);
int steered_sync(char *start, char *end, int flags);
int steered_advise(char *start, char *end, enum hugemap_advice advice);
int steered_stat(const void *addr, struct hugemap_stat *stat);
void steered_lock(void);
void steered_unlock(void);

/* --- stat.c --- */
int stats_create(struct pool *pool);
void stats_destroy(struct pool *pool);
void stats_publish(struct pool *pool);
void stats_fill(const struct stats *stats, struct hugemap_stat *stat);

/* --- error.c --- */
int fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));
void reason_clear(void);

/* --- small helpers ----------------------------------------------------------- */

static inline char *slot_of(const struct pool *pool, u32 frame)
{
	return pool->slots + hm_frame_offset(pool->cache, frame);
}

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

#endif /* HM_ENGINE_H */
