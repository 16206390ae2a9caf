// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Stores: the files and devices behind mappings of pools. A file has one store in a
 * process, whatever descriptors it was mapped through, with descriptors of its own: one
 * for direct I/O and one for what direct I/O cannot do. The latter holds the file's lock
 * (F_OFD_SETLK), against all who ask for one: other processes' pools, and programs that
 * lock what they write.
 */
#include "frames.h"
#include "handler.h"
#include "io.h"
#include "linux.h"
#include "reason.h"
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Somebody gives the file back: look again. */
#define LATER 1

static void identify(const struct stat *st, dev_t *dev, ino_t *ino)
{
	bool block = S_ISBLK(st->st_mode);

	*dev = block ? st->st_rdev : st->st_dev;
	*ino = block ? 0 : st->st_ino;
}

/* What a file is known by; 0 or -errno. */
int file_identify(int fd, dev_t *dev, ino_t *ino)
{
	struct stat st;
	int err = sys_fstat(fd, &st);

	if (!err)
		identify(&st, dev, ino);
	return err;
}

/* The length of a file or a block device in bytes. 0 or -errno: a server may not answer. */
int file_size(int fd, u64 *bytes)
{
	struct stat st;
	int err = sys_fstat(fd, &st);

	if (err)
		return err;
	*bytes = (u64)st.st_size;
	err = S_ISBLK(st.st_mode) ? sys_ioctl(fd, BLKGETSIZE64, bytes) : 0;
	return err < 0 ? err : 0;
}

int store_file_size(const struct store *store, u64 *bytes)
{
	return file_size(store->fd_buffered, bytes);
}

/*
 * The device has not kept what was written, or the kernel not what is in the page cache,
 * and neither will try again: what is cached here is written once more.
 */
static void make_dirty(struct store *store)
{
	u64 pos, end = store_limit(store);
	struct pool *pool = store->pool;

	for (pos = 0; pos < end; pos += HM_BLOCK_PAGES) {
		pthread_mutex_t *lock = block_lock(store, pos);
		struct patience patience = { 0 };
		struct hm_unit unit;
		bool later;

		do {
			pthread_rwlock_rdlock(&pool->maps_lock);
			pthread_mutex_lock(lock);
			later = block_is_called(store, pos);
			/*
			 * Also where there are holes: hugemap_pwrite() may have written beside
			 * them. What then finds no room is told by a sync.
			 */
			if (!later && hm_peek(store->core, pos, &unit) != HM_ABSENT)
				hm_fault(store->core, pos,
					 HM_ACCESS_WRITE | HM_ACCESS_CACHED | HM_ACCESS_AGAIN,
					 &unit);
			pthread_mutex_unlock(lock);
			pthread_rwlock_unlock(&pool->maps_lock);
		} while (later && look_again(&patience, false));
	}
	handler_news(pool);
}

/* flush_lock is held, but for the call itself. */
static void flush(struct store *store)
{
	u64 number = ++store->flushes_begun;
	int err;

	pthread_mutex_unlock(&store->flush_lock);
	err = sys_fdatasync(store->fd_buffered);
	if (err) {
		err = io_error(err);
		hm_store_error(store->core, err);
		make_dirty(store);
	}
	pthread_mutex_lock(&store->flush_lock);
	store->flushes_ended = number;
	if (err) {
		store->flush_failed = number;
		store->flush_err = err;
	}
	pthread_cond_broadcast(&store->flush_cond);
}

/* How many flushes have ended: to be asked before what store_flush() is for is written. */
u64 store_flushes(struct store *store)
{
	u64 ended;

	pthread_mutex_lock(&store->flush_lock);
	ended = store->flushes_ended;
	pthread_mutex_unlock(&store->flush_lock);
	return ended;
}

/**
 * store_flush() - what has been written is to survive a power cut
 * @store: held by a reference
 * @since: what store_flushes() was before that was written
 *
 * The kernel tells a failure once. So every mapping is to know, and all whose data it may
 * have been: what they had written by then may be lost. One flush that begins after they
 * have asked does for all of them.
 */
int store_flush(struct store *store, u64 since)
{
	u64 wanted;
	int err;

	pthread_mutex_lock(&store->flush_lock);
	wanted = store->flushes_begun + 1;
	while (store->flushes_ended < wanted) {
		if (store->flushes_begun == store->flushes_ended)
			flush(store);
		else
			pthread_cond_wait(&store->flush_cond, &store->flush_lock);
	}
	err = store->flush_failed > since ? store->flush_err : 0;
	pthread_mutex_unlock(&store->flush_lock);
	return err;
}

/* Which blocks of a leaf's range hold no data in the file, and which not in all of it? */
static void find_holes(const struct store *store, u64 pgoff, unsigned long *hollow,
		       unsigned long *holes)
{
	u64 start = hm_leaf_start(pgoff) << HM_PAGE_SHIFT;
	u64 end = start + ((u64)HM_NODE_SLOTS << HM_BLOCK_SHIFT);
	u64 at = start;
	u32 i;

	if (store->block_device) {
		memset(hollow, 0, HM_BITMAP_LONGS(HM_NODE_SLOTS) * sizeof(*hollow));
		memset(holes, 0, HM_BITMAP_LONGS(HM_NODE_SLOTS) * sizeof(*holes));
		return;
	}
	memset(hollow, 0xff, HM_BITMAP_LONGS(HM_NODE_SLOTS) * sizeof(*hollow));
	memset(holes, 0xff, HM_BITMAP_LONGS(HM_NODE_SLOTS) * sizeof(*holes));
	/* The kernel may answer after that only. Who fills, or finds no room, asks again. */
	if (atomic_load(&store->writers))
		return;
	while (at < end) {
		s64 data = sys_lseek(store->fd_buffered, at, SEEK_DATA), hole;
		u64 last;

		if (data < 0 || (u64)data >= end) {
			if (data < 0 && data != -ENXIO)
				memset(hollow, 0, HM_BITMAP_LONGS(HM_NODE_SLOTS) * sizeof(*hollow));
			return;
		}
		hole = sys_lseek(store->fd_buffered, (u64)data, SEEK_HOLE);
		last = hole < 0 || (u64)hole > end ? end : (u64)hole;
		for (i = (u32)(((u64)data - start) >> HM_BLOCK_SHIFT);
		     i <= (last - 1 - start) >> HM_BLOCK_SHIFT; i++) {
			u64 block = start + ((u64)i << HM_BLOCK_SHIFT);

			hollow[i / 64] &= ~(1ul << (i % 64));
			if ((u64)data <= block && last >= block + HM_BLOCK_SIZE)
				holes[i / 64] &= ~(1ul << (i % 64));
		}
		/* The rest of that block is known not to be hollow. */
		at = start + ((u64)i << HM_BLOCK_SHIFT);
	}
}

/* Give the index what HM_NO_NODE asked for. 0, or -ENOMEM. */
int store_add_node(struct store *store, u64 pgoff, enum hm_node_kind kind)
{
	unsigned long hollow[HM_BITMAP_LONGS(HM_NODE_SLOTS)];
	unsigned long holes[HM_BITMAP_LONGS(HM_NODE_SLOTS)];
	size_t bytes = (hm_node_bytes(kind) + 63) & ~(size_t)63;
	u64 size = hm_store_size(store->core);
	void *mem = aligned_alloc(64, bytes);

	if (!mem)
		return -ENOMEM;
	memset(mem, 0, bytes);
	if (kind == HM_NODE_LEAF)
		find_holes(store, pgoff, hollow, holes);
	if (!hm_store_add_node(store->core, pgoff, kind, mem, size, hollow,
			       kind == HM_NODE_LEAF ? holes : NULL))
		free(mem);
	return 0;
}

/*
 * Would writing this block need room that the file system may not have? Plain mmap asks
 * for it when a page is stored to for the first time: who has stored is not to hear later
 * that the disk is full.
 */
bool store_lacks_room(struct store *store, u64 pgoff)
{
	enum hm_node_kind kind;

	if (store->block_device || atomic_load(&store->unreserved) || pgoff >= store_limit(store))
		return false;
	while (hm_store_lacks_node(store->core, pgoff, &kind))
		if (store_add_node(store, pgoff, kind))
			return false; /* the fault will find that, too */
	return hm_has_holes(store->core, pgoff);
}

/*
 * What fallocate() has answered for a block. Return: 0: it can be stored to; or why not.
 * Where nobody can say, a sync will.
 */
int store_takes_room(struct store *store, u64 pgoff, int err)
{
	if (err == -ENOSPC || err == -EDQUOT)
		return err;
	if (err == -EOPNOTSUPP)
		atomic_store(&store->unreserved, true);
	hm_store_set_allocated(store->core, block_of(pgoff), HM_BLOCK_PAGES);
	return 0;
}

/* Another descriptor of the file that fd is open on. */
static int file_reopen(int fd, int flags)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return sys_open(path, flags);
}

static u32 direct_alignment(int fd, bool block_device)
{
	struct statx stx;
	int bytes;

	if (block_device)
		return sys_ioctl(fd, BLKSSZGET, &bytes) < 0 ? HM_PAGE_SIZE : (u32)bytes;
#ifdef STATX_DIOALIGN
	if (!sys_statx(fd, STATX_DIOALIGN, &stx) && stx.stx_mask & STATX_DIOALIGN)
		/* A buffer goes on where its offset does; 0: there is no direct I/O. */
		return stx.stx_dio_offset_align &&
				       stx.stx_dio_mem_align > stx.stx_dio_offset_align ?
			       stx.stx_dio_mem_align :
			       stx.stx_dio_offset_align;
#else
	(void)stx;
#endif
	return HM_PAGE_SIZE;
}

/* With O_DIRECT if that is possible in units that suit. */
static int open_direct(struct store *store, int fd, int flags)
{
	int direct = file_reopen(fd, flags | O_DIRECT);

	store->align = direct < 0 ? 0 : direct_alignment(direct, store->block_device);
	if (store->align && store->align <= HM_PAGE_SIZE)
		return direct;
	if (direct >= 0)
		sys_close(direct);
	store->align = 1;
	return file_reopen(fd, flags);
}

static int refuse_locked(bool writable)
{
	return fail(-EBUSY,
		    "somebody has locked the file%s: a pool must have it alone to write it, and "
		    "nobody may write what it reads",
		    writable ? "" : " for writing");
}

/*
 * A record lock of this process would go as soon as we close a descriptor of ours. So
 * who has the file is asked by the caller's, before anything is opened.
 */
static int check_locks(int fd, bool writable)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };

	if (!writable && !sys_fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK)
		return refuse_locked(writable);
	lock = (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET };
	if (sys_fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
		return 0; /* what is wrong is told when it is locked */
	if (writable)
		return refuse_locked(writable);
	return lock.l_pid == sys_pid() ?
		       fail(-EBUSY, "this process has a record lock on the file, "
				    "which a pool would take away: release it, or "
				    "use F_OFD_SETLK") :
		       0;
}

static int lock_file(int fd, bool writable)
{
	struct flock lock = { .l_type = writable ? F_WRLCK : F_RDLCK, .l_whence = SEEK_SET };
	int err = sys_fcntl(fd, F_OFD_SETLK, &lock);

	if (!err)
		return 0;
	if (err == -EAGAIN || err == -EACCES)
		return refuse_locked(writable);
	return fail(err, "the file cannot be locked (%s), so that nobody else may write it",
		    strerror(-err));
}

/* Lock and open the file of a store. */
static int open_all(struct store *store, int fd, bool writable)
{
	int flags = writable ? O_RDWR : O_RDONLY, err = check_locks(fd, writable);

	if (err)
		return err;
	store->fd_buffered = file_reopen(fd, flags);
	if (store->fd_buffered < 0)
		return fail(store->fd_buffered, "the file could not be opened a second time "
						"through /proc");
	err = lock_file(store->fd_buffered, writable);
	if (err)
		return err;
	store->fd = open_direct(store, fd, flags);
	store->writable = writable;
	return store->fd < 0 ? store->fd : 0;
}

/* The reverse of it, also after it has failed: first this. */
static void unlock_file(const struct store *store)
{
	struct flock none = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

	/* Not left to close(): a child that was just made may have the descriptor, too. */
	if (store->fd_buffered >= 0)
		sys_fcntl(store->fd_buffered, F_OFD_SETLK, &none);
}

static void shut(const struct store *store)
{
	if (store->fd >= 0)
		sys_close(store->fd);
	if (store->fd_buffered >= 0)
		sys_close(store->fd_buffered);
}

/* What is left of a store that is empty. */
static void store_free(struct store *store)
{
	void *node;

	if (store->core) {
		while ((node = hm_store_take_node(store->core)))
			free(node);
		free(store->core);
	}
	pthread_mutex_destroy(&store->resize_lock);
	pthread_mutex_destroy(&store->flush_lock);
	pthread_cond_destroy(&store->flush_cond);
	free(store);
}

/* Of a store that nobody has seen. */
static void close_again(struct store *store)
{
	unlock_file(store);
	shut(store);
	store_free(store);
}

/* All of it but what is the core's. @size: of the file. */
static int open_store(struct pool *pool, int fd, const struct stat *st, bool writable,
		      struct store **result, u64 *size)
{
	struct store *store = calloc(1, sizeof(*store));
	int err;

	if (!store)
		return -ENOMEM;
	store->pool = pool;
	store->fd = store->fd_buffered = -1;
	store->block_device = S_ISBLK(st->st_mode);
	identify(st, &store->dev, &store->ino);
	pthread_mutex_init(&store->resize_lock, NULL);
	pthread_mutex_init(&store->flush_lock, NULL);
	pthread_cond_init(&store->flush_cond, NULL);
	err = open_all(store, fd, writable);
	if (!err)
		err = store_file_size(store, size);
	if (err)
		close_again(store);
	else
		*result = store;
	return err;
}

/* In a list of stores. */
static struct store *store_in(struct store *list, dev_t dev, ino_t ino)
{
	while (list && (list->dev != dev || list->ino != ino))
		list = list->next;
	return list;
}

static void unlist(struct store **at, const struct store *store)
{
	while (*at != store)
		at = &(*at)->next;
	*at = store->next;
}

/* Is the file's lock about to be given back? The last one closed comes first. */
static bool is_closing(const struct pool *pool, dev_t dev, ino_t ino)
{
	const struct store *store = store_in(pool->closing, dev, ino);

	return store && !atomic_load(&store->unlocked);
}

/* Has another pool the file? -EBUSY: yes; LATER: not for long. pools_lock is held. */
static int elsewhere(const struct pool *pool, dev_t dev, ino_t ino)
{
	struct pool *p;
	int err = 0;

	for (p = pools; p && !err; p = p->next) {
		if (p == pool)
			continue;
		pthread_rwlock_rdlock(&p->maps_lock);
		if (store_in(p->stores, dev, ino))
			err = fail(-EBUSY,
				   "the file is mapped through another pool of this process");
		else if (is_closing(p, dev, ino))
			err = LATER;
		pthread_rwlock_unlock(&p->maps_lock);
	}
	return err;
}

/*
 * A file that the pool does not have. To open, lock and look at it may take long, as its server
 * is asked: faults are served meanwhile. pools_lock is held, so nobody else adds it.
 */
static int add(struct pool *pool, int fd, const struct stat *st, bool writable,
	       struct store **result)
{
	size_t bytes = (hm_store_bytes() + 63) & ~(size_t)63;
	void *mem = aligned_alloc(64, bytes);
	struct store *store;
	u64 size = 0;
	int err = mem ? open_store(pool, fd, st, writable, &store, &size) : -ENOMEM;

	if (err) {
		free(mem);
		return err;
	}
	memset(mem, 0, bytes);
	pthread_rwlock_wrlock(&pool->maps_lock);
	/* The limit: whole blocks. */
	store->core = hm_store_init(pool->cache, mem, size & ~(u64)(HM_BLOCK_SIZE - 1));
	if (store->core) {
		atomic_init(&store->refs, 1);
		store->next = pool->stores;
		pool->stores = store;
	}
	pthread_rwlock_unlock(&pool->maps_lock);
	if (!store->core) {
		free(mem);
		close_again(store);
		return fail(-EFBIG, "the file is too large, or too many are mapped");
	}
	*result = store;
	return 0;
}

/* pools_lock is held. */
static int get_locked(struct pool *pool, int fd, const struct stat *st, bool writable,
		      struct store **result)
{
	struct store *store;
	dev_t dev;
	ino_t ino;
	int err = 0;

	identify(st, &dev, &ino);
	pthread_rwlock_rdlock(&pool->maps_lock);
	store = store_in(pool->stores, dev, ino);
	if (store && writable)
		err = store_check_writable(store);
	else if (!store && is_closing(pool, dev, ino))
		err = LATER;
	if (store && !err)
		atomic_fetch_add(&store->refs, 1);
	pthread_rwlock_unlock(&pool->maps_lock);
	*result = store;
	return store || err ? err : add(pool, fd, st, writable, result);
}

/**
 * store_get() - the store of a file, with a reference
 * @pool: the pool it is to use
 * @writable: it will be written
 *
 * Return: 0; -ENODEV, -EBUSY (locked, mapped in another way here, or for reading only),
 * -EFBIG, -ENOMEM, or what open() says.
 */
int store_get(struct pool *pool, int fd, bool writable, struct store **result)
{
	struct patience patience = { 0 };
	struct store *store = NULL;
	struct stat st;
	dev_t dev;
	ino_t ino;
	int err = 0;

	err = sys_fstat(fd, &st);
	if (err)
		return fail(err, "the file descriptor is not open");
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return fail(-ENODEV, "only regular files and block devices can be mapped");
	identify(&st, &dev, &ino);
	do {
		pthread_mutex_lock(&pools_lock);
		err = elsewhere(pool, dev, ino);
		if (!err)
			err = get_locked(pool, fd, &st, writable, &store);
		pthread_mutex_unlock(&pools_lock);
	} while (err == LATER && look_again(&patience, false));
	if (!err)
		*result = store;
	return err;
}

/* Mapped for reading, others may read it, too: nobody is to change it. */
int store_check_writable(const struct store *store)
{
	return store->writable ? 0 :
				 fail(-EBUSY, "the file is mapped for reading only: end that "
					      "mapping, or make the first one writable");
}

/**
 * store_find() - the store of a file that is mapped in any pool, with a reference
 * @dev: from file_identify(), as @ino. A file of which these are not known may be mapped:
 *	nothing may be done past what is cached of it.
 *
 * Return: NULL if it is not mapped.
 */
struct store *store_find(dev_t dev, ino_t ino)
{
	struct store *store = NULL;
	struct pool *pool;

	pthread_mutex_lock(&pools_lock);
	for (pool = pools; pool && !store; pool = pool->next) {
		pthread_rwlock_rdlock(&pool->maps_lock);
		store = store_in(pool->stores, dev, ino);
		if (store)
			atomic_fetch_add(&store->refs, 1);
		pthread_rwlock_unlock(&pool->maps_lock);
	}
	pthread_mutex_unlock(&pools_lock);
	return store;
}

/* Nothing is being read or written, and no handler works: nothing can be busy. */
static void empty(struct store *store)
{
	u64 pos = 0, end = ALL_PAGES;
	enum hm_invalidated got;
	struct hm_unit unit;

	hm_assert(!atomic_load(&store->ops));
	while ((got = hm_invalidate(store->core, &pos, end, true, &unit)) == HM_INV_UNIT) {
		hm_assert(!page_mapping(store->pool, &unit));
		page_take_stored(store->pool, &unit);
		hm_evict_done(&unit, HM_EVICT_DISCARD);
	}
	hm_assert(got == HM_INV_DONE);
}

/* To change the lists of stores. */
static void lock_lists(struct pool *pool)
{
	pthread_mutex_lock(&pools_lock);
	pthread_rwlock_wrlock(&pool->maps_lock);
}

static void unlock_lists(struct pool *pool)
{
	pthread_rwlock_unlock(&pool->maps_lock);
	pthread_mutex_unlock(&pools_lock);
}

/*
 * No lock is held: to unlock a file asks its server, and the last close may take long, as it
 * frees what has no name any more, or writes the page cache. Until that is over a child that
 * is made must know the descriptors, and nobody may get their numbers: they become something
 * else first, which closes the file.
 */
static void close_unlisted(struct store *store)
{
	struct pool *pool = store->pool;

	unlock_file(store);
	atomic_store(&store->unlocked, true);
	sys_replace(store->fd, pool->pagemap_fd);
	sys_replace(store->fd_buffered, pool->pagemap_fd);
	lock_lists(pool);
	unlist(&pool->closing, store);
	shut(store);
	unlock_lists(pool);
	store_free(store);
}

/* A reference that is not the last one needs no lock. */
static bool put_early(struct store *store)
{
	unsigned int refs = atomic_load(&store->refs);

	while (refs > 1)
		if (atomic_compare_exchange_weak(&store->refs, &refs, refs - 1))
			return true;
	return false;
}

/*
 * Give a reference back. The last one closes the store. What is still dirty is written
 * once more; what cannot be written is lost.
 *
 * Return: 0, or the errno of that write, which nobody can be told of later: what
 * hugemap_pwrite() has stored since the last unmapping is lost then.
 */
int store_put(struct store *store)
{
	struct pool *pool = store->pool;
	struct patience patience = { 0 };
	int err = 0;

	if (put_early(store))
		return 0;
	for (;;) {
		if (store->writable && !err)
			err = sync_range(store, 0, ALL_PAGES);
		lock_lists(pool);
		if (put_early(store)) {
			unlock_lists(pool);
			return 0;
		}
		/* A call that came and went meanwhile may have left something. */
		if (!atomic_load(&store->ops) && (err || !hm_store_dirty_pages(store->core)))
			break;
		unlock_lists(pool);
		handlers_kick(pool);
		look_again(&patience, false);
	}
	unlist(&pool->stores, store);
	handlers_forget(pool, store);
	empty(store);
	hm_store_destroy(store->core);
	store->next = pool->closing;
	pool->closing = store;
	unlock_lists(pool);
	handler_news(pool);
	close_unlisted(store);
	return err;
}
