// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Filling frames: reads from the store, or zeros where it holds no data. What cannot be
 * read is not cached: the fault that asked for it gets SIGBUS, and the next one tries
 * again.
 */
#include "fault.h"
#include "frames.h"
#include "linux.h"
#include "races.h"
#include "stats.h"

#include <errno.h>
#include <unistd.h>

/*
 * The core was told once that the store holds no data in this block: does it still hold
 * none? hugemap_pwrite() may have written some since. While it writes the kernel may have the
 * file locked, and would let us wait with our locks held: then a block is read, as any other,
 * but that is not an answer.
 */
bool fill_is_hollow(struct store *store, const struct hm_unit *unit)
{
	u64 start = unit->pgoff << HM_PAGE_SHIFT;
	s64 data;

	if (atomic_load(&store->writers))
		return false;
	data = store->block_device ? (s64)start : sys_lseek(store->fd_buffered, start, SEEK_DATA);
	if (data == -ENXIO || (data >= 0 && (u64)data >= start + HM_BLOCK_SIZE))
		return true;
	hm_store_set_hollow(store->core, unit->pgoff, HM_BLOCK_PAGES, false);
	return false;
}

/* Fill a frame with zeros. The block lock is held. */
void fill_zero(struct mapping *map, const struct hm_unit *unit)
{
	struct pool *pool = map->store->pool;

	page_begin(pool, unit);
	populate_frame(pool, unit->frame);
	hm_touch(slot_of(pool, unit->frame), HM_BLOCK_SIZE);
	memset(slot_of(pool, unit->frame), 0, HM_BLOCK_SIZE);
	if (map->prot & PROT_WRITE)
		page_hash_zero(pool, unit);
	else
		page_changed(pool, unit); /* the hash was that of another block */
}

/**
 * fill_start() - read a block
 * @map: the mapping it will be mapped in
 * @fault: what waits for it; NULL: nothing
 *
 * Return: 0, or -EBUSY if no operation is free; the block is the caller's then.
 */
int fill_start(struct handler *h, struct mapping *map, const struct hm_unit *unit,
	       const struct pending *fault)
{
	struct io_op *op = io_take(&h->io, fault ? 0 : h->io.depth / 8);

	if (!op)
		return -EBUSY;
	page_begin(h->pool, unit);
	h->pool->places[unit->frame].guessed = hm_hollow(map->store->core, unit->pgoff);
	populate_frame(h->pool, unit->frame);
	*op = (struct io_op){
		.type = IO_READ,
		.fd = map->store->fd,
		.buffer = slot_of(h->pool, unit->frame),
		.len = HM_BLOCK_SIZE,
		.store = map->store,
		.pgoff = unit->pgoff,
		.frame = unit->frame,
		.map_id = map->id,
		.demand_addr = fault ? fault->addr : 0,
		.demand_write = fault && fault->write,
		.start_ns = fault ? fault->arrived_ns : sys_clock_ns(),
	};
	atomic_fetch_add(&map->store->ops, 1);
	io_queue(&h->io, op);
	return 0;
}

/* The block is read. The block lock is held. */
static void done(struct handler *h, struct io_op *op, struct mapping *map, struct hm_unit *unit)
{
	bool waited, served = false;

	if (map && map->prot & PROT_WRITE && !op->demand_write)
		page_hash(h->pool, unit);
	else
		page_changed(h->pool, unit);
	waited = hm_fill_done(unit, 0, op->demand_write && map ? HM_FILL_DIRTY : 0);
	if (op->demand_addr && map)
		served = hit_serve(map, unit, op->demand_write, false) == SERVED;
	if (waited || (op->demand_addr && !served))
		page_wake(op->store, unit->pgoff);
}

static void finish(struct handler *h, struct io_op *op, int err)
{
	struct mapping *map = map_by_id(h->pool, op->map_id);
	pthread_mutex_t *lock = block_lock(op->store, op->pgoff);
	struct hm_unit unit = {
		.store = op->store->core,
		.pgoff = op->pgoff,
		.npages = HM_BLOCK_PAGES,
		.frame = op->frame,
	};
	bool wake = false;

	pthread_mutex_lock(lock);
	if (err) {
		stats_add(h->pool->stats, STATS_READ_ERRORS, 1);
		wake = hm_fill_cancel(&unit) || (op->demand_addr && !map);
		if (op->demand_addr && map)
			trap_bus(h, op->demand_addr);
	} else {
		stats_add(h->pool->stats, STATS_READ_BYTES, (s64)op->done);
		hm_hist_record(&h->pool->stats->read_ns, sys_clock_ns() - op->start_ns);
		done(h, op, map, &unit);
	}
	pthread_mutex_unlock(lock);
	if (wake)
		page_wake(op->store, op->pgoff);
	if (op->demand_addr)
		stats_fault(h->pool, map, op->start_ns, false);
	atomic_fetch_sub(&op->store->ops, 1);
	io_give(&h->io, op);
}

void fill_complete(struct handler *h, struct io_op *op)
{
	size_t begun, again;

	if (io_again(&h->io, op))
		return;
	if (op->result < 0) {
		finish(h, op, (int)op->result);
		return;
	}
	begun = op->done;
	op->done += (size_t)op->result;
	/* Short: read the rest, from where direct I/O may start. It may be the end of the file. */
	again = op->done - op->done % op->store->align;
	if (op->done < op->len && again > begun) {
		op->done = again;
		io_queue(&h->io, op);
		return;
	}
	/* Somebody has cut the file off, whatever its lock says: zeros, as mmap has. */
	hm_touch(op->buffer + op->done, op->len - op->done);
	memset(op->buffer + op->done, 0, op->len - op->done);
	finish(h, op, 0);
}
