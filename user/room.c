// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Room in the file system. Before a block that has holes in the file becomes dirty, room
 * is made for all of it, once: a full file system is told by SIGBUS at the store, as with
 * plain mmap, not by a sync that comes later. A handler does not wait for that.
 */
#include "evict.h"
#include "fault.h"
#include "frames.h"
#include "io.h"
#include "linux.h"
#include "store.h"

#include <errno.h>
#include <unistd.h>

#define FULL_MS 100u

/**
 * room_start() - make room for a block
 * @fault: what waits for it; NULL: nothing
 *
 * Nobody brings the block in, maps it or writes it meanwhile. Return: 0, or -EBUSY if no
 * operation is free, or another call is under way.
 */
int room_start(struct handler *h, struct mapping *map, u64 pgoff, const struct pending *fault)
{
	struct block_call *call = block_call(map->store, pgoff);
	struct io_op *op;

	if (call->store) {
		call->wanted |= !!fault;
		return -EBUSY;
	}
	op = io_take(&h->io, fault ? 0 : h->io.depth / 8);
	if (!op)
		return -EBUSY;
	*op = (struct io_op){
		.type = IO_ROOM,
		.fd = map->store->fd_buffered,
		.len = HM_BLOCK_SIZE,
		.store = map->store,
		.pgoff = block_of(pgoff),
		.map_id = map->id,
		.demand_addr = fault ? fault->addr : 0,
	};
	block_call_begin(map->store, pgoff);
	atomic_fetch_add(&map->store->ops, 1);
	io_queue(&h->io, op);
	return 0;
}

/*
 * A signal can come only where no page is. A block that is pinned stays where it is, and may
 * be stored to by the device in any case: it is dirty then, and a sync tells. So does one that
 * a sync writes from where it is, as a page of it was pinned. The block lock is held.
 */
static void refuse(struct handler *h, struct io_op *op)
{
	struct mapping *map = map_by_id(h->pool, op->map_id);
	enum hm_state state;
	struct hm_unit unit;
	int err = 0;

	if (!map || !op->demand_addr)
		return;
	state = hm_peek(op->store->core, op->pgoff, &unit);
	if (page_is_mapped(h->pool, state, &unit, map))
		err = state == HM_WRITING ? -EBUSY : page_remove(h->pool, &unit);
	if (err == -ENOENT)
		evict_lost(op->store, &unit);
	if (err == -EBUSY)
		hm_fault(op->store->core, op->pgoff,
			 HM_ACCESS_WRITE | HM_ACCESS_CACHED | HM_ACCESS_AGAIN, &unit);
	if (!err)
		trap_bus(h, op->demand_addr);
}

/*
 * No room, says the file system. Some want room for the whole range before they look what has
 * room already; and that a block has holes is a guess, if a call wrote when it was asked. So it
 * is asked now, when none writes, or has not for long.
 */
static bool asked_again(struct handler *h, struct io_op *op)
{
	u64 start = op->pgoff << HM_PAGE_SHIFT;
	s64 hole;

	if (op->result != -ENOSPC && op->result != -EDQUOT)
		return false;
	if (atomic_load(&op->store->writers) && ++op->tries <= IO_MOST_TRIES) {
		io_queue(&h->io, op);
		return true;
	}
	hole = sys_lseek(op->store->fd_buffered, start, SEEK_HOLE);
	if (hole >= 0 && (u64)hole >= start + HM_BLOCK_SIZE)
		op->result = 0;
	return false;
}

void room_complete(struct handler *h, struct io_op *op)
{
	pthread_mutex_t *lock = block_lock(op->store, op->pgoff);

	if (io_again(&h->io, op) || asked_again(h, op))
		return;
	pthread_mutex_lock(lock);
	block_call_end(op->store, op->pgoff);
	if (store_takes_room(op->store, op->pgoff, (int)op->result)) {
		atomic_store(&op->store->full_until_ms, h->now_ms + FULL_MS);
		refuse(h, op);
	}
	pthread_mutex_unlock(lock);
	page_wake(op->store, op->pgoff);
	atomic_fetch_sub(&op->store->ops, 1);
	io_give(&h->io, op);
}
