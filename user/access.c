// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap_pread() and hugemap_pwrite() on a file that is mapped through a pool: what is
 * cached is copied from or to its frame, anything else is left to the kernel. Each piece,
 * of one block at most, is handled under the block lock, where the block cannot come or
 * go. The program's memory is touched without any lock: it may be in a mapping itself.
 *
 * The kernel is asked by the store's own descriptor: the caller's may append, or take
 * whole sectors only.
 */
#include "evict.h"
#include "frames.h"
#include "handler.h"
#include "linux.h"
#include "mapping.h"
#include "races.h"
#include "reason.h"
#include "store.h"

#include <errno.h>
#include <stdlib.h>

/*
 * Smaller writes to a clean block go to the file at once, by the page cache: a database
 * that writes one page here and there must not have 2 MB written for each. From here on
 * the frame takes them, and goes to the device as a whole. (A buffer is as large.)
 */
#define KEEP_BYTES (HM_BLOCK_SIZE / 4)

struct piece {
	u64 offset;
	size_t count;
	size_t in_block; /* bytes from the start of the block */
	struct hm_unit unit;
	enum hm_state state;
};

/*
 * The block lock is held. -EAGAIN: it is on its way in or out, look again. (-EBUSY, from
 * the functions below: the same, but a page of it is pinned.)
 */
static int find_piece(struct store *store, u64 offset, size_t count, bool write,
		      struct piece *piece)
{
	size_t in_block = (size_t)offset & (HM_BLOCK_SIZE - 1), left = HM_BLOCK_SIZE - in_block;

	piece->offset = offset;
	piece->count = left < count ? left : count;
	piece->in_block = in_block;
	piece->state = HM_ABSENT;
	if (offset < hm_store_size(store->core))
		piece->state = hm_peek(store->core, offset >> HM_PAGE_SHIFT, &piece->unit);
	switch (piece->state) {
	case HM_FILLING:
	case HM_EVICTING:
		return -EAGAIN;
	case HM_WRITING:
		return write ? -EAGAIN : 0;
	default:
		return 0;
	}
}

static void copy(char *to, const char *from, size_t count)
{
	program_memory_begin();
	hm_copy(to, from, count);
	program_memory_end();
}

/*
 * Nobody could serve a fault here: what the program has zapped, which it should not, is
 * not touched, but given up, and read again.
 */
static ssize_t read_cached(struct store *store, char *buffer, const struct piece *piece)
{
	const struct mapping *map = page_mapping(store->pool, &piece->unit);

	if (map && !page_present(map, &piece->unit)) {
		int err = piece->state == HM_WRITING ? -EAGAIN :
						       page_remove(store->pool, &piece->unit);

		if (err == -ENOENT)
			evict_lost(store, &piece->unit);
		return err == -EBUSY ? err : -EAGAIN;
	}
	copy(buffer, page_data(store->pool, &piece->unit) + piece->in_block, piece->count);
	return (ssize_t)piece->count;
}

static ssize_t read_file(struct store *store, char *buffer, const struct piece *piece)
{
	return sys_pread(store->fd_buffered, buffer, piece->count, piece->offset);
}

static ssize_t write_file(struct store *store, const char *buffer, const struct piece *piece)
{
	ssize_t n = sys_pwrite(store->fd_buffered, buffer, piece->count, piece->offset);

	if (n >= 0 && piece->offset < hm_store_size(store->core))
		hm_store_set_hollow(store->core, block_of(piece->offset >> HM_PAGE_SHIFT),
				    HM_BLOCK_PAGES, false);
	return n;
}

/*
 * To a block that is cached: it is taken back into its slot first, so that nobody can
 * store to it at the same time. A clean one may take a small piece and stay clean.
 */
static ssize_t write_cached(struct store *store, const char *buffer, struct piece *piece)
{
	struct pool *pool = store->pool;
	ssize_t n = (ssize_t)piece->count;
	struct hm_unit now;
	int err = page_remove(pool, &piece->unit);

	if (err == -ENOENT)
		evict_lost(store, &piece->unit); /* what the program has zapped is read again */
	if (err)
		return err == -EBUSY ? err : -EAGAIN;
	if (hm_peek(store->core, piece->unit.pgoff, &now) == HM_CLEAN && piece->count < KEEP_BYTES)
		n = write_file(store, buffer, piece);
	else if (hm_fault(store->core, piece->unit.pgoff, HM_ACCESS_WRITE, &now) != HM_HIT)
		return -EAGAIN;
	if (n > 0) {
		page_changed(pool, &piece->unit);
		copy(slot_of(pool, piece->unit.frame) + piece->in_block, buffer, (size_t)n);
	}
	return n;
}

/*
 * One piece, between the file and a buffer of ours. What is not cached is read without a
 * lock: it is in the file if it was stored before. It is written under the block's, so
 * that nobody reads it into a frame meanwhile; faults elsewhere do not wait for that.
 */
static ssize_t transfer_once(struct store *store, char *buffer, size_t count, u64 offset,
			     bool write)
{
	pthread_mutex_t *lock = block_lock(store, offset >> HM_PAGE_SHIFT);
	struct pool *pool = store->pool;
	struct piece piece;
	bool cached;
	ssize_t n;

	pthread_rwlock_rdlock(&pool->maps_lock);
	pthread_mutex_lock(lock);
	n = find_piece(store, offset, count, write, &piece);
	cached = piece.state != HM_ABSENT;
	if (!n && cached)
		n = write ? write_cached(store, buffer, &piece) :
			    read_cached(store, buffer, &piece);
	pthread_rwlock_unlock(&pool->maps_lock);
	if (!n && !cached && write)
		n = write_file(store, buffer, &piece);
	pthread_mutex_unlock(lock);
	if (!n && !cached && !write)
		n = read_file(store, buffer, &piece);
	return n;
}

/* The same; waits for what is on its way. */
static ssize_t transfer_piece(struct store *store, char *buffer, size_t count, u64 offset,
			      bool write)
{
	struct patience patience = { 0 };
	ssize_t n;

	for (;;) {
		n = transfer_once(store, buffer, count, offset, write);
		if (n != -EAGAIN && n != -EBUSY)
			return n;
		if (!look_again(&patience, n == -EBUSY))
			return fail(-EBUSY, "a page of the file is pinned by direct I/O: wait for "
					    "that to end");
	}
}

/* In pieces, until the end, an error, or a short one. */
static ssize_t transfer(struct store *store, char *to, const char *from, size_t count, u64 offset)
{
	size_t room = count < KEEP_BYTES ? count : KEEP_BYTES, done = 0;
	char *buffer = malloc(room);
	ssize_t n = 0;

	if (!buffer)
		return count ? -ENOMEM : 0;
	while (done < count) {
		size_t want = count - done < room ? count - done : room;

		if (from)
			copy(buffer, from + done, want);
		n = transfer_piece(store, buffer, want, offset + done, from);
		if (n <= 0)
			break;
		if (to)
			copy(to + done, buffer, (size_t)n);
		done += (size_t)n;
	}
	free(buffer);
	return done ? (ssize_t)done : n;
}

/**
 * access_read() - pread() from a store and what is cached of it
 * @store: held by a reference; no lock is held
 */
ssize_t access_read(struct store *store, char *buffer, size_t count, u64 offset)
{
	return transfer(store, buffer, NULL, count, offset);
}

/**
 * access_write() - pwrite() to a store and what is cached of it
 * @store: held by a reference; no lock is held
 */
ssize_t access_write(struct store *store, const char *buffer, size_t count, u64 offset)
{
	int err = store_check_writable(store);

	return err ? err : transfer(store, NULL, buffer, count, offset);
}
