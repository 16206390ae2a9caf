// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Faults: the userfaultfd tells of a page that is missing, or of a store to one
 * that is protected; ask the core, and carry out its answer.
 */
#include "engine.h"

#include <errno.h>
#include <unistd.h>

#define MAX_MESSAGES 64
#define MAX_TRIES 4u
#define HOPELESS_NS 5000000000ull

/* @map: NULL if it is gone meanwhile */
void fault_done(struct handler *h, struct mapping *map, u64 arrived_ns, bool hit)
{
	u64 ns = clock_ns() - arrived_ns;

	hm_hist_record(&h->pool->stats->fault_ns, ns);
	if (!map)
		return;
	atomic_fetch_add_explicit(&map->faults, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&map->wait_ns, ns, memory_order_relaxed);
	if (hit)
		atomic_fetch_add_explicit(&map->hits, 1, memory_order_relaxed);
}

/*
 * The program has zapped the pages of a unit itself, with munmap or madvise.
 * A clean unit can be read again; the stores to a dirty one are lost, which the
 * next sync reports. The block lock is held.
 */
void fault_lost(struct store *store, const struct hm_unit *unit)
{
	u64 pos = unit->pgoff;
	struct hm_unit gone;

	if (hm_invalidate(store->core, &pos, pos + 1, false, &gone) == HM_INV_UNIT) {
		hm_evict_done(&gone, HM_EVICT_DISCARD);
		return;
	}
	pos = unit->pgoff;
	if (hm_invalidate(store->core, &pos, pos + 1, true, &gone) == HM_INV_UNIT) {
		hm_evict_done(&gone, HM_EVICT_DISCARD);
		hm_store_error(store->core, -EIO);
	}
}

/*
 * A page is missing where its unit is mapped: zapped by the program, unless the
 * message is old. While it is being written, it is left to the writer, which
 * may be the one who touches it.
 */
static enum served serve_missing(struct mapping *map, const struct hm_unit *unit)
{
	struct store *store = map->store;
	struct hm_unit now;

	if (!page_present(map, unit)) {
		if (hm_peek(store->core, unit->pgoff, &now) == HM_WRITING)
			return SERVE_LOST;
		page_zapped(map, unit);
		fault_lost(store, unit);
	}
	uffd_wake(store->pool->uffd, map_addr(map, unit->pgoff), unit_bytes(unit));
	return SERVED;
}

/* Take a unit from the mapping that it is in, for another one. */
static enum served take_over(struct store *store, const struct hm_unit *unit)
{
	u32 removed;

	switch (page_remove(store->pool, unit, 1, &removed)) {
	case 0:
		return SERVED;
	case -EBUSY:
		return SERVE_LATER;
	default:
		return SERVE_LOST;
	}
}

/*
 * Map a unit that is cached, or allow stores to it, and wake who waits. The
 * block lock is held, and hm_fault() has said HM_HIT under it (or the unit was
 * filled under it). @missing: the fault was for a page that is not there.
 */
enum served fault_serve_hit(struct mapping *map, const struct hm_unit *unit, bool write,
			    bool missing)
{
	struct store *store = map->store;
	struct mapping *at = page_mapping(store->pool, unit);
	enum served served;
	int err;

	if (at == map && write && !missing) {
		page_unprotect(map, unit);
		return SERVED;
	}
	if (at == map)
		return serve_missing(map, unit);
	if (at) {
		served = take_over(store, unit);
		if (served == SERVE_LOST)
			fault_lost(store, unit); /* and fault again */
		if (served != SERVED)
			return SERVE_LATER;
	}
	err = page_install(map, unit, 1, page_must_protect(map, unit));
	if (err != -ENOENT)
		return err ? SERVE_LATER : SERVED;
	/* The program has unmapped it itself: let the thread find out. */
	uffd_wake(store->pool->uffd, map_addr(map, unit->pgoff), unit_bytes(unit));
	return SERVED;
}

/* A miss: start to read, or fill with zeros. The block lock is held. */
static enum served serve_miss(struct handler *h, struct mapping *map, enum hm_outcome outcome,
			      struct hm_unit *unit, bool write, u64 arrived_ns)
{
	struct store *store = map->store;

	if (outcome == HM_ZERO && !fill_is_hollow(store, unit)) {
		u64 block = unit->pgoff & ~(u64)(HM_BLOCK_PAGES - 1);

		hm_store_set_hollow(store->core, block, HM_BLOCK_PAGES, false);
		outcome = HM_FILL;
	}
	if (outcome == HM_FILL) {
		if (!fill_start(h, map, unit, true, write, arrived_ns))
			return SERVED;
		if (hm_fill_cancel(unit))
			page_wake(store, unit->pgoff, unit->npages);
		return SERVE_LATER;
	}
	fill_zero(map, unit);
	if (hm_fill_done(unit, 0, write ? HM_FILL_DIRTY : 0))
		page_wake(store, unit->pgoff, unit->npages);
	fault_done(h, map, arrived_ns, true);
	return fault_serve_hit(map, unit, write, false);
}

/*
 * The rest of the block that holds the end of the file comes in with one read:
 * it is in base pages only for the sake of SIGBUS, not because access is random.
 */
static void bring_tail(struct handler *h, struct mapping *map, const struct hm_unit *unit)
{
	u64 block = unit->pgoff & ~(u64)(HM_BLOCK_PAGES - 1);
	struct job job = {
		.type = JOB_PREFETCH,
		.store = map->store,
		.map_id = map->id,
		.pos = block,
		.end = block + HM_BLOCK_PAGES,
	};
	u64 end = (hm_store_size(map->store->core) + HM_PAGE_SIZE - 1) >> HM_PAGE_SHIFT;

	if (block + HM_BLOCK_PAGES <= end)
		return;
	job.end = end;
	stream_add_job(h, &job);
}

static void take_hints(struct handler *h, struct mapping *map, const struct hm_unit *unit,
		       u64 pgoff, u32 access)
{
	if (unit->hints & HM_HINT_RECLAIM)
		h->reclaim[unit->npages == 1 ? HM_BASE : HM_HUGE] = true;
	if (!(unit->hints & HM_HINT_READAHEAD))
		return;
	if (unit->npages == 1 && map->page == HUGEMAP_PAGE_2M)
		bring_tail(h, map, unit);
	else if (!atomic_load(&map->random))
		stream_hint(h, map, pgoff, access);
}

/* Nothing is there: has the file grown? */
static enum served beyond(struct handler *h, struct mapping *map, uintptr_t addr)
{
	if (store_file_size(map->store) > hm_store_size(map->store->core)) {
		resize_noticed(map->store);
		return SERVE_LATER;
	}
	trap_bus(h, map, addr, true);
	return SERVED;
}

/*
 * A block that is cached whole, because another mapping has all of it, cannot be
 * mapped where a mapping has only a part: it is written and given up, and comes
 * back in base pages. The block lock is held.
 */
static enum served break_whole(struct handler *h, struct mapping *map, u64 pgoff)
{
	struct store *store = map->store;
	struct hm_unit unit, gone;
	enum hm_state state = hm_peek(store->core, pgoff, &unit);
	u64 pos = unit.pgoff;
	u32 removed;

	if (unit.npages == 1 || state == HM_ABSENT)
		return SERVED;
	if (state == HM_DIRTY) {
		struct job job = {
			.type = JOB_BEHIND,
			.store = store,
			.pos = unit.pgoff,
			.end = unit.pgoff + unit.npages,
		};

		if (!h->njobs)
			stream_add_job(h, &job);
	}
	if (state != HM_CLEAN ||
	    hm_invalidate(store->core, &pos, pos + 1, false, &gone) != HM_INV_UNIT)
		return SERVE_LATER;
	if (page_remove(store->pool, &gone, 1, &removed) == -EBUSY) {
		hm_evict_done(&gone, HM_EVICT_BUSY);
		return SERVE_LATER;
	}
	if (hm_evict_done(&gone, HM_EVICT_DISCARD))
		page_wake(store, gone.pgoff, gone.npages);
	return SERVED;
}

/* Ask the core, and carry out its answer, under the block lock. */
static enum served serve_locked(struct handler *h, struct mapping *map, const struct pending *fault,
				u32 access, enum hm_outcome *outcome, struct hm_unit *unit)
{
	struct store *store = map->store;
	u64 pgoff = map_pgoff(map, fault->addr);
	enum served served = SERVED;

	if (map->page == HUGEMAP_PAGE_2M && !map_has_block(map, pgoff)) {
		served = break_whole(h, map, pgoff);
		*outcome = HM_BEYOND; /* the core has not been asked */
		if (served != SERVED)
			return served;
	}
	do {
		*outcome = hm_fault(store->core, pgoff, access, unit);
	} while (*outcome == HM_NO_NODE &&
		 !store_add_node(store, pgoff, (enum hm_node_kind)unit->err));
	switch (*outcome) {
	case HM_HIT:
		served = fault_serve_hit(map, unit, fault->write, fault->missing);
		if (served == SERVED)
			fault_done(h, map, fault->arrived_ns, true);
		break;
	case HM_FILL:
	case HM_ZERO:
		return serve_miss(h, map, *outcome, unit, fault->write, fault->arrived_ns);
	case HM_BUSY: /* who fills or evicts it wakes the thread */
		break;
	case HM_NO_FRAME:
		return SERVE_NO_FRAME;
	case HM_NO_NODE:
		return SERVE_LATER;
	case HM_ERROR:
		served = SERVE_LOST;
		break;
	case HM_BEYOND:
		return beyond(h, map, fault->addr);
	case HM_MISS:
		hm_assert(!"HM_ACCESS_CACHED was not given");
	}
	if (served != SERVE_LOST)
		return served;
	trap_bus(h, map, fault->addr, false);
	return SERVED;
}

static enum served serve(struct handler *h, struct mapping *map, const struct pending *fault,
			 enum hm_kind *kind)
{
	u64 pgoff = map_pgoff(map, fault->addr);
	u32 access = map_access(map, pgoff) | (fault->write ? HM_ACCESS_WRITE : 0);
	pthread_mutex_t *lock = block_lock(map->store, pgoff);
	struct hm_unit unit = { .npages = 1 };
	enum hm_outcome outcome;
	enum served served;

	pthread_mutex_lock(lock);
	served = serve_locked(h, map, fault, access, &outcome, &unit);
	pthread_mutex_unlock(lock);
	*kind = unit.npages == 1 ? HM_BASE : HM_HUGE;
	if (outcome == HM_NO_FRAME || outcome == HM_BEYOND)
		return served;
	take_hints(h, map, &unit, pgoff, access);
	if (outcome == HM_HIT && served == SERVED && !fault->write && !atomic_load(&map->random))
		around_map(h, map, unit.pgoff + unit.npages);
	return served;
}

/* A fault waits for clean frames: handler 0 writes, whatever the dirty share. */
static void press(struct handler *h)
{
	if (!atomic_exchange(&h->pool->pressed, true) && h->index)
		handler_kick(&h->pool->handlers[0]);
}

/*
 * The pool is full of dirty units, and writing them fails (a full file system,
 * say). A fault waits for a while, as the cause may go away, but not for ever.
 */
static bool hopeless(struct handler *h, const struct pending *fault)
{
	struct store *store;
	bool failing = false;

	if (clock_ns() - fault->arrived_ns < HOPELESS_NS)
		return false;
	for (store = h->pool->stores; store; store = store->next) {
		if (!hm_store_dirty_pages(store->core))
			continue;
		if (!atomic_load(&store->wb_backoff_ms))
			return false;
		failing = true;
	}
	return failing;
}

static bool serve_address(struct handler *h, const struct pending *fault)
{
	struct mapping *map = map_find(h->pool, (void *)fault->addr);
	u32 tries;

	if (!map) {
		/* Unmapped since, or one of our own slots: let it look again. */
		uffd_wake(h->pool->uffd, (void *)(fault->addr & ~(uintptr_t)(HM_PAGE_SIZE - 1)),
			  HM_PAGE_SIZE);
		return true;
	}
	if (fault->write && !(map->prot & PROT_WRITE)) {
		trap_segv(h, map, fault->addr);
		return true;
	}
	for (tries = 0; tries < MAX_TRIES; tries++) {
		enum hm_kind kind;

		if (atomic_load(&map->store->resizing))
			return false;
		switch (serve(h, map, fault, &kind)) {
		case SERVED:
		case SERVE_LOST:
			return true;
		case SERVE_LATER:
			return false;
		case SERVE_NO_FRAME:
			h->reclaim[kind] = true;
			if (evict_some(h, kind))
				break;
			press(h);
			if (!hopeless(h, fault))
				return false;
			trap_bus(h, map, fault->addr, false);
			return true;
		}
	}
	return false;
}

static void pend(struct handler *h, const struct pending *fault)
{
	/*
	 * One entry a waiting thread; if there are more threads than entries,
	 * some are woken to fault again.
	 */
	if (h->npending < MAX_PENDING) {
		h->pending[h->npending++] = *fault;
		return;
	}
	uffd_wake(h->pool->uffd, (void *)(fault->addr & ~(uintptr_t)(HM_PAGE_SIZE - 1)),
		  HM_PAGE_SIZE);
}

void fault_read_all(struct handler *h)
{
	struct uffd_msg msgs[MAX_MESSAGES];
	ssize_t n = read(h->pool->uffd, msgs, sizeof(msgs));
	u64 now = clock_ns();
	ssize_t i;

	h->faults_left = n == (ssize_t)sizeof(msgs);
	for (i = 0; i < n / (ssize_t)sizeof(msgs[0]); i++) {
		__u64 flags = msgs[i].arg.pagefault.flags;
		struct pending fault = {
			.addr = (uintptr_t)msgs[i].arg.pagefault.address,
			.write = flags & (UFFD_PAGEFAULT_FLAG_WRITE | UFFD_PAGEFAULT_FLAG_WP),
			.missing = !(flags & UFFD_PAGEFAULT_FLAG_WP),
			.arrived_ns = now,
		};

		if (msgs[i].event != UFFD_EVENT_PAGEFAULT)
			continue;
		if (!serve_address(h, &fault))
			pend(h, &fault);
	}
}

void fault_retry_pending(struct handler *h)
{
	u32 n = h->npending, i;

	h->npending = 0;
	for (i = 0; i < n; i++) {
		struct pending fault = h->pending[i];

		if (!serve_address(h, &fault))
			h->pending[h->npending++] = fault;
	}
}
