// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * read() and write() on a file that is mapped: what is cached is copied from or
 * to its frame, anything else is left to the kernel. Each piece, of one unit at
 * most, is handled under the block lock, where the unit cannot come or go. The
 * kernel is asked by the store's own descriptor: the caller's may append, or take
 * whole sectors only.
 */
#include "engine.h"
#include "races.h"

#include <errno.h>
#include <unistd.h>

/*
 * Smaller writes to a clean block go to the file at once, by the page cache: a
 * database that writes one page here and there must not have 2 MB written for
 * each. From here on the frame takes them, and goes to the device as a whole.
 */
#define KEEP_BYTES (HM_BLOCK_SIZE / 4)

struct piece {
	u64 offset;
	size_t count;
	size_t in_unit; /* bytes from the start of the unit */
	struct hm_unit unit;
	enum hm_state state;
	bool cached;
};

/* The block lock is held. -EAGAIN: it is on its way in or out, look again. */
static int find_piece(struct store *store, u64 offset, size_t count, struct piece *piece)
{
	enum hm_state state = hm_peek(store->core, offset >> HM_PAGE_SHIFT, &piece->unit);
	u64 start = piece->unit.pgoff << HM_PAGE_SHIFT;
	u64 left = start + unit_bytes(&piece->unit) - offset;

	piece->offset = offset;
	piece->count = left < count ? left : count;
	piece->in_unit = (size_t)(offset - start);
	piece->state = state;
	piece->cached = state == HM_CLEAN || state == HM_DIRTY || state == HM_WRITING;
	return state == HM_FILLING || state == HM_EVICTING ? -EAGAIN : 0;
}

static void copy(char *to, const char *from, size_t count)
{
	program_memory_begin();
	memcpy(to, from, count);
	program_memory_end();
}

static ssize_t read_piece(struct store *store, char *buffer, const struct piece *piece)
{
	ssize_t n;

	if (piece->cached) {
		copy(buffer, page_data(store->pool, &piece->unit) + piece->in_unit, piece->count);
		return (ssize_t)piece->count;
	}
	n = pread(store->fd_buffered, buffer, piece->count, (off_t)piece->offset);
	return n < 0 ? -errno : n;
}

/* Into its slot, out of a mapping that must not become writable. -EAGAIN: not now. */
static int take_back(struct store *store, const struct hm_unit *unit)
{
	u32 removed;
	int err = page_remove(store->pool, unit, 1, &removed);

	if (err == -ENOENT)
		fault_lost(store, unit); /* what the program has zapped is read again */
	return err ? -EAGAIN : 0;
}

/* Make a cached unit dirty, and its data writable for us. -EAGAIN: not now. */
static int make_storable(struct store *store, struct hm_unit *unit)
{
	struct mapping *map = page_mapping(store->pool, unit);

	if (map && !(map->prot & PROT_WRITE)) {
		if (take_back(store, unit))
			return -EAGAIN;
		map = NULL;
	}
	if (hm_fault(store->core, unit->pgoff, HM_ACCESS_WRITE | HM_ACCESS_BASE, unit) != HM_HIT)
		return -EAGAIN;
	if (map)
		page_unprotect(map, unit);
	else
		page_changed(store->pool, unit);
	return 0;
}

static ssize_t write_file(struct store *store, const char *buffer, const struct piece *piece)
{
	u64 block = (piece->offset >> HM_BLOCK_SHIFT) << HM_BLOCK_ORDER;
	ssize_t n = pwrite(store->fd_buffered, buffer, piece->count, (off_t)piece->offset);

	if (n < 0)
		return -errno;
	hm_store_set_hollow(store->core, block, HM_BLOCK_PAGES, false);
	return n;
}

/* To the file, and to the frame, which stays clean. -EAGAIN: not now. */
static ssize_t write_through(struct store *store, const char *buffer, struct piece *piece)
{
	struct pool *pool = store->pool;
	ssize_t n;

	/* Where it is mapped, a clean page is protected against us, too. */
	if (take_back(store, &piece->unit))
		return -EAGAIN;
	n = write_file(store, buffer, piece);
	if (n > 0) {
		page_changed(pool, &piece->unit);
		copy(slot_of(pool, piece->unit.frame) + piece->in_unit, buffer, (size_t)n);
	}
	return n;
}

static ssize_t write_piece(struct store *store, const char *buffer, struct piece *piece)
{
	int err;

	if (!piece->cached)
		return write_file(store, buffer, piece);
	if (piece->state == HM_CLEAN && piece->unit.npages > 1 && piece->count < KEEP_BYTES)
		return write_through(store, buffer, piece);
	err = make_storable(store, &piece->unit);
	if (err)
		return err;
	copy(page_data(store->pool, &piece->unit) + piece->in_unit, buffer, piece->count);
	return (ssize_t)piece->count;
}

/* Both ways; in pieces, until the end, an error, or a short piece. */
static ssize_t transfer(struct store *store, char *to, const char *from, size_t count, u64 offset)
{
	struct pool *pool = store->pool;
	size_t done = 0;
	u32 looks = 0;

	while (done < count) {
		pthread_mutex_t *lock = block_lock(store, (offset + done) >> HM_PAGE_SHIFT);
		struct piece piece;
		ssize_t n;

		pthread_rwlock_rdlock(&pool->maps_lock);
		pthread_mutex_lock(lock);
		n = find_piece(store, offset + done, count - done, &piece);
		if (!n && to)
			n = read_piece(store, to + done, &piece);
		else if (!n)
			n = write_piece(store, from + done, &piece);
		pthread_mutex_unlock(lock);
		pthread_rwlock_unlock(&pool->maps_lock);
		if (n == -EAGAIN) {
			look_again(&looks);
			continue;
		}
		if (n < 0)
			return done ? (ssize_t)done : n;
		done += (size_t)n;
		if (n == 0 || (size_t)n < piece.count)
			break;
	}
	return (ssize_t)done;
}

/**
 * access_read() - pread() from a store and what is cached of it
 * @store: held by a reference; no lock is held
 */
ssize_t access_read(struct store *store, char *buffer, size_t count, u64 offset)
{
	u64 size = hm_store_size(store->core);

	if (store_file_size(store) != size && !atomic_load(&store->resizing))
		size = store_file_size(store);
	if (offset >= size)
		return 0;
	if (count > size - offset)
		count = size - offset;
	return transfer(store, buffer, NULL, count, offset);
}

/**
 * access_write() - pwrite() to a store and what is cached of it
 * @store: held by a reference; no lock is held
 */
ssize_t access_write(struct store *store, int fd, const char *buffer, size_t count, u64 offset)
{
	int err = store_want_writable(store, fd);

	if (err)
		return err;
	if (!store->block_device && offset + count > hm_store_size(store->core)) {
		u64 size = store_file_size(store);

		/* Grow first, so that every byte has its place in the cache. */
		if (offset + count > size)
			size = offset + count;
		err = resize_truncate(store, fd, size);
		if (err)
			return err;
	}
	return transfer(store, NULL, buffer, count, offset);
}
