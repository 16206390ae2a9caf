// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Filling frames: reads from the store, or zeros where it holds no data.
 * Adjacent base pages that are brought in ahead are put together into one read.
 */
#include "engine.h"

#include <errno.h>
#include <unistd.h>

#define NOBODY (~0u)

static bool map_writable(const struct mapping *map)
{
	return map->prot & PROT_WRITE;
}

/*
 * The core was told once that the store holds no data in this unit: does it
 * still hold none? Somebody may have used write(2) since.
 */
bool fill_is_hollow(struct store *store, const struct hm_unit *unit)
{
	off_t start = (off_t)(unit->pgoff << HM_PAGE_SHIFT);
	off_t data;

	if (store->block_device)
		return false;
	data = lseek(store->fd_buffered, start, SEEK_DATA);
	if (data < 0)
		return errno == ENXIO;
	return data >= start + (off_t)unit_bytes(unit);
}

/* Fill a frame with zeros. The block lock is held, or the unit is not mapped. */
void fill_zero(struct mapping *map, const struct hm_unit *unit)
{
	struct pool *pool = map->store->pool;

	populate_frame(pool, unit->frame, unit->hints & HM_HINT_REFORM);
	memset(slot_of(pool, unit->frame), 0, unit_bytes(unit));
	if (map_writable(map))
		page_hash_zero(pool, unit);
}

/* Send off the read that is being put together. */
void fill_flush(struct handler *h)
{
	struct io_op *op = h->build;

	if (!op)
		return;
	h->build = NULL;
	io_choose(op, 0, op->len);
	h->io.backend->queue(&h->io, op);
}

/* Can a unit join the read that is being put together? Within one block only. */
static bool joins(const struct io_op *op, const struct mapping *map, const struct hm_unit *unit)
{
	return op && op->kind == HM_BASE && unit->npages == 1 && op->map_id == map->id &&
	       op->pgoff + op->npages == unit->pgoff && (unit->pgoff & (HM_BLOCK_PAGES - 1)) != 0;
}

static struct io_op *start_read(struct handler *h, struct mapping *map, const struct hm_unit *unit,
				bool demand)
{
	struct io_op *op = io_take(&h->io, demand ? 0 : h->io.depth / 8);

	if (!op)
		return NULL;
	op->type = IO_READ;
	op->fd = map->store->fd;
	op->store = map->store;
	op->pgoff = unit->pgoff;
	op->npages = 0;
	op->kind = unit->npages > 1 ? HM_HUGE : HM_BASE;
	op->map_id = map->id;
	op->demand = NOBODY;
	op->demand_write = false;
	op->sync = NULL;
	op->len = 0;
	op->done = 0;
	op->start_ns = clock_ns();
	op->nbuffers = 0;
	atomic_fetch_add(&map->store->ops, 1);
	return op;
}

/**
 * fill_start() - read a unit
 * @map: the mapping it will be mapped in
 * @demand: a fault waits for it
 * @write: ... that of a store
 *
 * Return: 0, or -EBUSY if no operation is free; the unit is the caller's then.
 */
int fill_start(struct handler *h, struct mapping *map, const struct hm_unit *unit, bool demand,
	       bool write, u64 arrived_ns)
{
	struct io_op *op = h->build;
	u32 index;

	if (demand || !joins(op, map, unit)) {
		fill_flush(h);
		op = start_read(h, map, unit, demand);
		if (!op)
			return -EBUSY;
	}
	populate_frame(h->pool, unit->frame, unit->hints & HM_HINT_REFORM);
	io_add_buffer(op, slot_of(h->pool, unit->frame), unit_bytes(unit));
	index = op->npages / unit->npages;
	op->frames[index] = unit->frame;
	if (demand) {
		op->demand = index;
		op->demand_write = write;
		op->start_ns = arrived_ns;
	}
	op->npages += unit->npages;
	op->len += unit_bytes(unit);
	h->build = op;
	if (demand || op->kind == HM_HUGE)
		fill_flush(h);
	return 0;
}

/* Bytes past the end of the file read as zero. */
static void zero_rest(struct io_op *op)
{
	u32 i;

	io_choose(op, op->done, op->len);
	for (i = 0; i < op->niov; i++)
		memset(op->iov[i].iov_base, 0, op->iov[i].iov_len);
}

static struct hm_unit unit_of(const struct io_op *op, u32 index)
{
	u32 npages = op->kind == HM_BASE ? 1 : HM_BLOCK_PAGES;

	return (struct hm_unit){
		.store = op->store->core,
		.pgoff = op->pgoff + (u64)index * npages,
		.npages = npages,
		.frame = op->frames[index],
	};
}

/* The unit that a fault waits for is read: serve the fault. */
static void finish_demand(struct handler *h, struct io_op *op, struct mapping *map, int err)
{
	struct hm_unit unit = unit_of(op, op->demand);
	u32 flags = HM_FILL_WAITED;
	bool waited, served;

	if (!err && op->demand_write)
		flags |= HM_FILL_DIRTY;
	waited = hm_fill_done(&unit, err, flags);
	served = map && !err && fault_serve_hit(map, &unit, op->demand_write, false) == SERVED;
	if (waited || !served)
		page_wake(op->store, unit.pgoff, unit.npages);
	fault_done(h, map, op->start_ns, false);
}

/*
 * Units brought in ahead. If somebody waits for one already, it is mapped, with
 * those that follow it. If a read of several pages failed, they are given up:
 * a fault on any of them reads it alone and gets its own result.
 */
static void finish_ahead(struct handler *h, struct io_op *op, struct mapping *map, int err,
			 u64 *around)
{
	u32 count = op->kind == HM_BASE ? op->npages : 1, i;
	bool waited = false;

	for (i = 0; i < count; i++) {
		struct hm_unit unit = unit_of(op, i);
		bool this_waited;

		if (err && count > 1)
			this_waited = hm_fill_cancel(&unit);
		else
			this_waited = hm_fill_done(&unit, err, 0);
		if (this_waited && !waited)
			*around = unit.pgoff;
		waited |= this_waited;
	}
	if (waited && (err || !map))
		page_wake(op->store, op->pgoff, op->npages);
}

static void finish(struct handler *h, struct io_op *op, int err)
{
	struct mapping *map = map_by_id(h->pool, op->map_id);
	pthread_mutex_t *lock = block_lock(op->store, op->pgoff);
	u64 around = ~0ull;

	if (!err) {
		stats_add(h->pool->stats, STATS_READ_BYTES, (s64)op->done);
		hm_hist_record(&h->pool->stats->read_ns, clock_ns() - op->start_ns);
	}
	pthread_mutex_lock(lock);
	if (!err && op->kind == HM_HUGE && map && map_writable(map)) {
		struct hm_unit unit = unit_of(op, 0);

		page_hash(h->pool, &unit);
	}
	if (op->demand != NOBODY)
		finish_demand(h, op, map, err);
	else
		finish_ahead(h, op, map, err, &around);
	pthread_mutex_unlock(lock);
	if (around != ~0ull && map && !err) {
		around_map(h, map, around);
		page_wake(op->store, op->pgoff, op->npages);
	}
	atomic_fetch_sub(&op->store->ops, 1);
	io_give(&h->io, op);
}

void fill_complete(struct handler *h, struct io_op *op)
{
	u64 start = op->pgoff << HM_PAGE_SHIFT;

	if (op->result < 0) {
		finish(h, op, (int)op->result);
		return;
	}
	op->done += (size_t)op->result;
	if (op->done == op->len) {
		finish(h, op, 0);
		return;
	}
	if (op->result == 0 || start + op->done >= store_file_size(op->store)) {
		zero_rest(op);
		finish(h, op, 0);
		return;
	}
	/* Short: read the rest, from where direct I/O may start. */
	op->done -= op->done % op->store->align;
	io_choose(op, op->done, op->len);
	h->io.backend->queue(&h->io, op);
}
