// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap_pread() and hugemap_pwrite() on a file that is mapped through a pool: what is
 * cached is copied from or to its frame under the block lock, a block at a time, anything
 * else is left to the kernel. Neither the kernel is asked nor the program's memory touched
 * while a lock is held: a device may take its time, and the memory may be in a mapping.
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
#include <fcntl.h>
#include <stdlib.h>

/*
 * Smaller writes to a clean block go to the file at once, by the page cache: a database
 * that writes one page here and there must not have 2 MB written for each. From here on
 * the frame takes them, and goes to the device as a whole. (A buffer is as large.)
 */
#define KEEP_BYTES (HM_BLOCK_SIZE / 4)

/* What is appended is written in one piece, so that nobody else's comes in between. */
#define APPEND_BYTES (32u << 20)

/* Calls that follow each other let a fault in between, if it comes within this time. */
#define GIVE_WAY_NS 2000000u

struct piece {
	u64 offset;
	size_t count;
	size_t in_block; /* bytes from the start of the block */
	struct hm_unit unit;
	enum hm_state state;
	bool wants_room; /* before the block may be dirty */
};

/*
 * The block lock is held. -EAGAIN: it is on its way in or out, look again. (-EBUSY, from
 * the functions below: a page of it is pinned; -EINPROGRESS: it is being written from where
 * it is mapped, as it was pinned.)
 */
static int find_piece(struct store *store, u64 offset, size_t count, bool write,
		      struct piece *piece)
{
	size_t in_block = (size_t)offset & (HM_BLOCK_SIZE - 1), left = HM_BLOCK_SIZE - in_block;

	piece->offset = offset;
	piece->count = left < count ? left : count;
	piece->in_block = in_block;
	piece->state = HM_ABSENT;
	piece->wants_room = false;
	if (offset < hm_store_size(store->core))
		piece->state = hm_peek(store->core, offset >> HM_PAGE_SHIFT, &piece->unit);
	switch (piece->state) {
	case HM_FILLING:
	case HM_EVICTING:
		return -EAGAIN;
	case HM_WRITING:
		if (!write)
			return 0;
		return page_mapping(store->pool, &piece->unit) ? -EINPROGRESS : -EAGAIN;
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

	if (page_is_lost(store->pool, &piece->unit) || (map && !page_present(map, &piece->unit))) {
		int err = piece->state == HM_WRITING ? -EAGAIN :
						       page_remove(store->pool, &piece->unit);

		if (err == -ENOENT)
			evict_lost(store, &piece->unit);
		return err == -EBUSY ? err : -EAGAIN;
	}
	copy(buffer, page_data(store->pool, &piece->unit) + piece->in_block, piece->count);
	return (ssize_t)piece->count;
}

/* What a file system says with an errno that means something else here. */
static ssize_t of_kernel(ssize_t n)
{
	return n == -EAGAIN || n == -EBUSY || n == -EINPROGRESS ? -EIO : n;
}

static ssize_t read_file(struct store *store, char *buffer, const struct piece *piece)
{
	return of_kernel(sys_pread(store->fd_buffered, buffer, piece->count, piece->offset));
}

/* The block lock is held. What is written to the file is written to the frame, too. */
static void file_is_written(struct store *store, const char *buffer, const struct piece *piece,
			    ssize_t n)
{
	u64 pgoff = piece->offset >> HM_PAGE_SHIFT;
	struct hm_unit now;

	if (n < 0 || piece->offset >= hm_store_size(store->core))
		return;
	hm_store_set_hollow(store->core, block_of(pgoff), HM_BLOCK_PAGES, false);
	if (hm_peek(store->core, pgoff, &now) != HM_CLEAN)
		return; /* it was dropped meanwhile; nobody has read it again */
	hm_assert(!page_mapping(store->pool, &now));
	page_changed(store->pool, &now);
	copy(slot_of(store->pool, now.frame) + piece->in_block, buffer, (size_t)n);
}

/*
 * To the file, for a block that is not cached, or clean and in its slot, and stays so:
 * the call keeps others from it meanwhile.
 */
static ssize_t write_file(struct store *store, const char *buffer, const struct piece *piece)
{
	u64 pgoff = piece->offset >> HM_PAGE_SHIFT;
	pthread_mutex_t *lock = block_lock(store, pgoff);
	struct pool *pool = store->pool;
	bool wanted;
	ssize_t n;

	n = of_kernel(sys_pwrite(store->fd_buffered, buffer, piece->count, piece->offset));
	pthread_rwlock_rdlock(&pool->maps_lock);
	pthread_mutex_lock(lock);
	file_is_written(store, buffer, piece, n);
	wanted = block_call_end(store, pgoff);
	pthread_mutex_unlock(lock);
	pthread_rwlock_unlock(&pool->maps_lock);
	if (wanted)
		handlers_kick(pool);
	return n;
}

/*
 * Before a block becomes dirty. -EAGAIN: it may now. Where there is no room for all of it
 * the piece goes to the file as a small one does: it may need less, or none.
 */
static ssize_t make_room(struct store *store, const char *buffer, const struct piece *piece)
{
	u64 pgoff = block_of(piece->offset >> HM_PAGE_SHIFT);
	pthread_mutex_t *lock = block_lock(store, pgoff);
	bool wanted;
	int err;

	err = sys_fallocate(store->fd_buffered, FALLOC_FL_KEEP_SIZE, pgoff << HM_PAGE_SHIFT,
			    HM_BLOCK_SIZE);
	if (err == -ENOSPC || err == -EDQUOT)
		return write_file(store, buffer, piece);
	pthread_mutex_lock(lock);
	store_takes_room(store, pgoff, err);
	wanted = block_call_end(store, pgoff);
	pthread_mutex_unlock(lock);
	if (wanted)
		handlers_kick(store->pool);
	return -EAGAIN;
}

/*
 * To a block that is cached: it is taken back into its slot first, so that nobody can
 * store to it at the same time. A clean one may take a small piece and stay clean: then
 * this returns 0, and the file is to be written; or room to be made in it.
 */
static ssize_t write_cached(struct store *store, const char *buffer, struct piece *piece)
{
	struct pool *pool = store->pool;
	struct hm_unit now;
	int err = page_remove(pool, &piece->unit);

	if (err == -ENOENT)
		evict_lost(store, &piece->unit); /* what the program has zapped is read again */
	if (err)
		return err == -EBUSY ? err : -EAGAIN;
	if (hm_peek(store->core, piece->unit.pgoff, &now) == HM_CLEAN) {
		if (piece->count < KEEP_BYTES)
			return 0;
		piece->wants_room = store_lacks_room(store, piece->unit.pgoff);
		if (piece->wants_room)
			return 0;
	}
	hm_cache_tick(pool->cache, sys_clock_ns() / 1000000);
	if (hm_fault(store->core, piece->unit.pgoff, HM_ACCESS_WRITE, &now) != HM_HIT)
		return -EAGAIN;
	page_changed(pool, &piece->unit);
	copy(slot_of(pool, piece->unit.frame) + piece->in_block, buffer, piece->count);
	return (ssize_t)piece->count;
}

/* The block lock is held. May this call write there now? */
static bool may_write(struct block_call *call, bool gives_way)
{
	if (call->store || (call->wanted && gives_way))
		return false;
	call->wanted = false;
	return true;
}

/*
 * One piece, between the file or the cache and a buffer of ours. What is not cached is in
 * the file if it was stored before.
 */
static ssize_t transfer_once(struct store *store, char *buffer, size_t count, u64 offset,
			     bool write, bool gives_way)
{
	struct block_call *call = block_call(store, offset >> HM_PAGE_SHIFT);
	pthread_mutex_t *lock = block_lock(store, offset >> HM_PAGE_SHIFT);
	struct pool *pool = store->pool;
	struct piece piece;
	ssize_t n;

	pthread_rwlock_rdlock(&pool->maps_lock);
	pthread_mutex_lock(lock);
	n = find_piece(store, offset, count, write, &piece);
	/* Else a resize would wait for ever: it wants a moment without any. */
	if (!n && write && atomic_load(&store->resizing))
		n = -EAGAIN;
	if (!n && write && !may_write(call, gives_way))
		n = -EAGAIN;
	if (!n && piece.state != HM_ABSENT)
		n = write ? write_cached(store, buffer, &piece) :
			    read_cached(store, buffer, &piece);
	if (!n && write) {
		block_call_begin(store, offset >> HM_PAGE_SHIFT);
		atomic_fetch_add(&store->ops, 1);
		atomic_fetch_add(&store->writers, 1);
	}
	pthread_mutex_unlock(lock);
	pthread_rwlock_unlock(&pool->maps_lock);
	/* A block that was taken out may be dirty, too. */
	if (write || n < 0)
		handler_news(pool);
	if (n)
		return n;
	if (!write)
		return read_file(store, buffer, &piece);
	n = piece.wants_room ? make_room(store, buffer, &piece) : write_file(store, buffer, &piece);
	atomic_fetch_sub(&store->writers, 1);
	atomic_fetch_sub(&store->ops, 1);
	/* What is told of it ends, too. */
	handler_news(pool);
	return n;
}

/* The same; waits for what is on its way. */
static ssize_t transfer_piece(struct store *store, char *buffer, size_t count, u64 offset,
			      bool write)
{
	struct patience patience = { 0 };
	bool gives_way = true;
	ssize_t n;

	for (;;) {
		n = transfer_once(store, buffer, count, offset, write, gives_way);
		if (n != -EAGAIN && n != -EBUSY && n != -EINPROGRESS)
			return n;
		if (!(n == -EINPROGRESS ? look_again_unsure(&patience) :
					  look_again(&patience, n == -EBUSY)))
			return fail(-EBUSY, "a page of the file is pinned by direct I/O: wait for "
					    "that to end");
		gives_way = sys_clock_ns() - patience.since_ns < GIVE_WAY_NS;
	}
}

/* Of a store, or of a file that no pool has: in pieces, until the end, or an error. */
static ssize_t transfer(struct store *store, int fd, char *to, const char *from, size_t count,
			size_t room, u64 offset)
{
	/* Aligned: the file may be open for direct I/O. */
	char *buffer = aligned_alloc(HM_PAGE_SIZE,
				     (room + HM_PAGE_SIZE - 1) & ~(size_t)(HM_PAGE_SIZE - 1));
	size_t done = 0;
	ssize_t n = 0;

	if (!buffer)
		return count ? -ENOMEM : 0;
	while (done < count) {
		size_t want = count - done < room ? count - done : room;

		if (from)
			copy(buffer, from + done, want);
		if (store)
			n = transfer_piece(store, buffer, want, offset + done, from);
		else if (from)
			n = sys_pwrite(fd, buffer, want, offset + done);
		else
			n = sys_pread(fd, buffer, want, offset + done);
		if (n <= 0)
			break;
		if (to)
			copy(to + done, buffer, (size_t)n);
		done += (size_t)n;
		if (!store && (size_t)n < want)
			break; /* as the kernel's own call: no second one appends behind others' */
	}
	free(buffer);
	return done ? (ssize_t)done : n;
}

static size_t piece_of(size_t count)
{
	return count < KEEP_BYTES ? count : KEEP_BYTES;
}

/**
 * access_read() - pread() from a store and what is cached of it
 * @store: held by a reference; no lock is held
 */
ssize_t access_read(struct store *store, char *buffer, size_t count, u64 offset)
{
	return transfer(store, -1, buffer, NULL, count, piece_of(count), offset);
}

/**
 * access_write() - pwrite() to a store and what is cached of it
 * @store: held by a reference; no lock is held
 */
ssize_t access_write(struct store *store, const char *buffer, size_t count, u64 offset)
{
	int err = store_check_writable(store);

	return err ? err : transfer(store, -1, NULL, buffer, count, piece_of(count), offset);
}

/**
 * access_plain_read() - pread() where no pool has the file, but one may have the buffer
 *
 * The kernel holds a lock of the file while it touches the buffer. A handler that is to
 * serve that may ask where the file has holes, and wait for that lock.
 */
ssize_t access_plain_read(int fd, char *buffer, size_t count, u64 offset)
{
	return transfer(NULL, fd, buffer, NULL, count, piece_of(count), offset);
}

/*
 * The same for pwrite(). What is appended stays in one piece: of more than we copy at once
 * that is a part, as from a kernel that writes no more than 2 GB.
 */
ssize_t access_plain_write(int fd, const char *buffer, size_t count, u64 offset, bool append)
{
	if (append && count > APPEND_BYTES)
		count = APPEND_BYTES;
	return transfer(NULL, fd, NULL, buffer, count, append ? count : piece_of(count), offset);
}
