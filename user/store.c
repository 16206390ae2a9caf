// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Stores: the files and devices behind mappings. A file has one store in a
 * process, whatever descriptors it was mapped through, with descriptors of its
 * own: one for direct I/O and one for what direct I/O cannot do.
 */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

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

	if (fstat(fd, &st) < 0)
		return -errno;
	identify(&st, dev, ino);
	return 0;
}

/* The length of a file or a block device in bytes. */
u64 file_size(int fd)
{
	struct stat st;
	u64 bytes;

	if (fstat(fd, &st) < 0)
		return 0;
	if (S_ISBLK(st.st_mode))
		return ioctl(fd, BLKGETSIZE64, &bytes) < 0 ? 0 : bytes;
	return (u64)st.st_size;
}

u64 store_file_size(const struct store *store)
{
	return file_size(store->fd_buffered);
}

/* Which blocks of a leaf's range hold no data in the file? */
static void find_hollow(const struct store *store, u64 pgoff, unsigned long *hollow)
{
	u64 start = hm_leaf_start(pgoff) << HM_PAGE_SHIFT;
	u64 end = start + ((u64)HM_NODE_SLOTS << HM_BLOCK_SHIFT);
	u64 at = start;
	u32 i;

	if (store->block_device) {
		memset(hollow, 0, HM_BITMAP_LONGS(HM_NODE_SLOTS) * sizeof(*hollow));
		return;
	}
	memset(hollow, 0xff, HM_BITMAP_LONGS(HM_NODE_SLOTS) * sizeof(*hollow));
	while (at < end) {
		off_t data = lseek(store->fd_buffered, (off_t)at, SEEK_DATA);
		off_t hole;
		u64 last;

		if (data < 0 || (u64)data >= end) {
			if (data < 0 && errno != ENXIO)
				memset(hollow, 0, HM_BITMAP_LONGS(HM_NODE_SLOTS) * sizeof(*hollow));
			return;
		}
		hole = lseek(store->fd_buffered, data, SEEK_HOLE);
		last = hole < 0 || (u64)hole > end ? end : (u64)hole;
		for (i = (u32)(((u64)data - start) >> HM_BLOCK_SHIFT);
		     i <= (last - 1 - start) >> HM_BLOCK_SHIFT; i++)
			hollow[i / 64] &= ~(1ul << (i % 64));
		/* The rest of that block is known not to be hollow. */
		at = start + ((u64)i << HM_BLOCK_SHIFT);
	}
}

/* Give the index what HM_NO_NODE asked for. 0, or -ENOMEM. */
int store_add_node(struct store *store, u64 pgoff, enum hm_node_kind kind)
{
	unsigned long hollow[HM_BITMAP_LONGS(HM_NODE_SLOTS)];
	size_t bytes = (hm_node_bytes(kind) + 63) & ~(size_t)63;
	void *mem = aligned_alloc(64, bytes);

	if (!mem)
		return -ENOMEM;
	memset(mem, 0, bytes);
	if (kind == HM_NODE_LEAF)
		find_hollow(store, pgoff, hollow);
	if (!hm_store_add_node(store->core, pgoff, kind, mem, hollow, NULL))
		free(mem);
	return 0;
}

/* Another descriptor of the file that fd is open on. */
int file_reopen(int fd, int flags)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static u32 direct_alignment(int fd, bool block_device)
{
	struct statx stx;
	int bytes;

	if (block_device)
		return ioctl(fd, BLKSSZGET, &bytes) < 0 ? HM_PAGE_SIZE : (u32)bytes;
#ifdef STATX_DIOALIGN
	if (!statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) && stx.stx_mask & STATX_DIOALIGN)
		return stx.stx_dio_offset_align;
#else
	(void)stx;
#endif
	return HM_PAGE_SIZE;
}

static int open_files(struct store *store, int fd, bool writable)
{
	int flags = writable ? O_RDWR : O_RDONLY;
	int direct, buffered;

	buffered = file_reopen(fd, flags);
	if (buffered < 0)
		return fail(buffered, "the file could not be opened a second time through /proc");
	direct = file_reopen(fd, flags | O_DIRECT);
	store->align = direct < 0 ? 0 : direct_alignment(direct, store->block_device);
	if (direct >= 0 && (!store->align || store->align > HM_PAGE_SIZE)) {
		close(direct);
		direct = -EINVAL;
	}
	store->direct = direct >= 0;
	if (direct < 0) {
		store->align = 1;
		direct = file_reopen(fd, flags);
		if (direct < 0) {
			close(buffered);
			return direct;
		}
	}
	store->fd = direct;
	store->fd_buffered = buffered;
	return 0;
}

/* A store that was opened for reading is now to be written as well. */
static int make_writable(struct store *store, int fd)
{
	int old_fd = store->fd, old_buffered = store->fd_buffered;
	int err;

	err = claim_take(store, true);
	if (err)
		return err;
	err = open_files(store, fd, true);
	if (err)
		return err;
	/* Reads under way keep using the old descriptors' files. */
	dup3(store->fd, old_fd, O_CLOEXEC);
	dup3(store->fd_buffered, old_buffered, O_CLOEXEC);
	close(store->fd);
	close(store->fd_buffered);
	store->fd = old_fd;
	store->fd_buffered = old_buffered;
	store->writable = true;
	return 0;
}

/* The store is to be written through a descriptor that is open for it. */
int store_want_writable(struct store *store, int fd)
{
	struct pool *pool = store->pool;
	int err = 0;

	pthread_rwlock_wrlock(&pool->maps_lock);
	if (!store->writable)
		err = make_writable(store, fd);
	pthread_rwlock_unlock(&pool->maps_lock);
	return err;
}

static void watch(struct store *store)
{
	char path[32];

	store->watch = -1;
	if (store->pool->inotify_fd < 0 || store->block_device)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", store->fd_buffered);
	store->watch = inotify_add_watch(store->pool->inotify_fd, path, IN_MODIFY);
}

/* Claim and open the file of a store that has nothing open. */
static int open_all(struct store *store, int fd, bool writable)
{
	int err = claim_take(store, writable);

	if (!err)
		err = open_files(store, fd, writable);
	if (err)
		return err;
	store->writable = writable;
	watch(store);
	return 0;
}

/* The reverse of it, also after it has failed. */
static void shut(struct store *store)
{
	if (store->watch >= 0)
		inotify_rm_watch(store->pool->inotify_fd, store->watch);
	if (store->fd >= 0)
		close(store->fd);
	if (store->fd_buffered >= 0)
		close(store->fd_buffered);
	claim_drop(store);
	store->fd = store->fd_buffered = store->watch = -1;
	store->writable = false;
}

/* What is left of a store that is shut and empty. */
static void store_free(struct store *store)
{
	void *node;

	if (store->core) {
		while ((node = hm_store_take_node(store->core)))
			free(node);
		free(store->core);
	}
	pthread_mutex_destroy(&store->resize_lock);
	free(store);
}

static int open_store(struct pool *pool, int fd, const struct stat *st, bool writable,
		      struct store **result)
{
	size_t bytes = (hm_store_bytes() + 63) & ~(size_t)63;
	struct store *store = calloc(1, sizeof(*store));
	void *mem = aligned_alloc(64, bytes);
	int err = -ENOMEM;

	if (!store || !mem) {
		free(store);
		free(mem);
		return err;
	}
	memset(mem, 0, bytes);
	store->pool = pool;
	store->fd = store->fd_buffered = store->claim_fd = store->watch = -1;
	store->block_device = S_ISBLK(st->st_mode);
	identify(st, &store->dev, &store->ino);
	pthread_mutex_init(&store->resize_lock, NULL);
	err = open_all(store, fd, writable);
	if (!err) {
		store->core = hm_store_init(pool->cache, mem, store_file_size(store));
		if (!store->core)
			err = fail(-EFBIG, "the file is too large, or too many are mapped");
	}
	if (err) {
		free(mem);
		shut(store);
		store_free(store);
		return err;
	}
	*result = store;
	return 0;
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

/**
 * store_get() - the store of a file, with a reference
 * @pool: the pool it is to use
 * @writable: it will be written
 *
 * Return: 0; -ENODEV, -EBUSY (mapped in another way, or by another
 * process), -EFBIG, -ENOMEM, or what open()
 * says.
 */
int store_get(struct pool *pool, int fd, bool writable, struct store **result)
{
	struct store *store;
	struct stat st;
	struct pool *p;
	dev_t dev;
	ino_t ino;
	int err = 0;

	if (fstat(fd, &st) < 0)
		return fail(-errno, "the file descriptor is not open");
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return fail(-ENODEV, "only regular files and block devices can be mapped");
	identify(&st, &dev, &ino);
	pthread_mutex_lock(&pools_lock);
	for (p = pools; p && !err; p = p->next) {
		pthread_rwlock_rdlock(&p->maps_lock);
		if (p != pool && store_in(p->stores, dev, ino))
			err = fail(-EBUSY, "the file is mapped through another pool of this "
					   "process, which could not be kept coherent");
		pthread_rwlock_unlock(&p->maps_lock);
	}
	if (err)
		goto out;
	pthread_rwlock_wrlock(&pool->maps_lock);
	store = store_in(pool->stores, dev, ino);
	if (steered_conflicts(dev, ino, writable || (store && store->writable))) {
		err = fail(-EBUSY, "the file is mapped without a pool in this process, which "
				   "would not see what is stored through one");
	} else if (!store) {
		err = open_store(pool, fd, &st, writable, &store);
		if (!err) {
			store->next = pool->stores;
			pool->stores = store;
		}
	} else if (writable && !store->writable) {
		err = make_writable(store, fd);
	}
	if (!err) {
		atomic_fetch_add(&store->refs, 1);
		*result = store;
	}
	pthread_rwlock_unlock(&pool->maps_lock);
out:
	pthread_mutex_unlock(&pools_lock);
	return err;
}

/* The store of a file that is mapped in any pool, with a reference, or NULL. */
struct store *store_find(int fd)
{
	struct store *store = NULL;
	struct pool *pool;
	dev_t dev;
	ino_t ino;

	if (file_identify(fd, &dev, &ino) < 0)
		return NULL;
	pthread_mutex_lock(&pools_lock);
	for (pool = pools; pool && !store; pool = pool->next) {
		pthread_rwlock_wrlock(&pool->maps_lock);
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
	u64 pos = 0, end = HM_STORE_MAX_BLOCKS << HM_BLOCK_ORDER;
	enum hm_invalidated got;
	struct hm_unit unit;

	hm_assert(!atomic_load(&store->ops));
	while ((got = hm_invalidate(store->core, &pos, end, true, &unit)) == HM_INV_UNIT) {
		hm_assert(!page_mapping(store->pool, &unit));
		hm_evict_done(&unit, HM_EVICT_DISCARD);
	}
	hm_assert(got == HM_INV_DONE);
}

/* The end of a store that is in no list; maps_lock is held for writing. */
static void discard(struct store *store)
{
	empty(store);
	hm_store_destroy(store->core);
	shut(store);
	store_free(store);
}

/*
 * Give a reference back. The last one closes the store. What is still
 * dirty is written once more; what cannot be written is lost, which unmapping has
 * told.
 */
void store_put(struct store *store)
{
	struct pool *pool = store->pool;
	u32 looks = 0;

	if (store->writable && atomic_load(&store->refs) == 1)
		sync_range(store, 0, HM_STORE_MAX_BLOCKS << HM_BLOCK_ORDER);
	for (;;) {
		bool last;

		pthread_rwlock_wrlock(&pool->maps_lock);
		last = atomic_load(&store->refs) == 1;
		if (!last)
			atomic_fetch_sub(&store->refs, 1);
		else if (!atomic_load(&store->ops))
			break;
		pthread_rwlock_unlock(&pool->maps_lock);
		if (!last)
			return;
		handlers_kick(pool);
		look_again(&looks);
	}
	unlist(&pool->stores, store);
	handlers_forget(pool, store);
	discard(store);
	pthread_rwlock_unlock(&pool->maps_lock);
}
