// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Faults: the userfaultfd tells of a page that is missing, or of a store to one that is
 * protected; ask the core, and carry out its answer.
 */
#include "evict.h"
#include "fault.h"
#include "frames.h"
#include "linux.h"
#include "stats.h"
#include "store.h"
#include "uffd.h"

#include <errno.h>

#define MAX_MESSAGES 64
#define MAX_TRIES 4u
#define HOPELESS_NS 5000000000ull
#define STUCK_NS 30000000000ull
#define HOPELESS_LOOKS 100u

/* A miss: start to read, or fill with zeros. The block lock is held. */
static enum served serve_miss(struct handler *h, struct mapping *map, enum hm_outcome outcome,
			      struct hm_unit *unit, const struct pending *fault)
{
	struct store *store = map->store;

	if (outcome == HM_ZERO && !fill_is_hollow(store, unit))
		outcome = HM_FILL;
	if (outcome == HM_FILL) {
		if (!fill_start(h, map, unit, fault))
			return SERVED;
		if (hm_fill_cancel(unit))
			page_wake(store, unit->pgoff);
		return SERVE_LATER;
	}
	fill_zero(map, unit);
	if (hm_fill_done(unit, 0, fault->write ? HM_FILL_DIRTY : 0))
		page_wake(store, unit->pgoff);
	stats_fault(h->pool, map, fault->arrived_ns, true);
	return hit_serve(map, unit, fault->write, false);
}

/* Is a store about to make a block dirty that may have no room in the file system? */
static bool wants_room(struct store *store, u64 pgoff)
{
	struct hm_unit unit;
	enum hm_state state;

	if (!store_lacks_room(store, pgoff))
		return false;
	state = hm_peek(store->core, pgoff, &unit);
	return state != HM_DIRTY && state != HM_WRITING;
}

/* Ask the core, and carry out its answer, under the block lock. */
static enum served serve_locked(struct handler *h, struct mapping *map, struct pending *fault,
				u32 access, struct hm_unit *unit)
{
	struct store *store = map->store;
	u64 pgoff = map_pgoff(map, fault->addr);
	struct block_call *call = block_call(store, pgoff);
	bool called = block_is_called(store, pgoff);
	enum hm_outcome outcome;
	enum served served;

	if (called || !call->store)
		call->wanted = called;
	if (called)
		return SERVE_LATER;
	/* Not redirtied by a fault that has to wait for the write anyway. */
	if (fault->missing && hm_peek(store->core, pgoff, unit) == HM_WRITING)
		return SERVE_LATER;
	if (fault->write && wants_room(store, pgoff))
		return room_start(h, map, pgoff, fault) ? SERVE_LATER : SERVED;
	do {
		outcome = hm_fault(store->core, pgoff, access, unit);
	} while (outcome == HM_NO_NODE &&
		 !store_add_node(store, pgoff, (enum hm_node_kind)unit->err));
	switch (outcome) {
	case HM_HIT:
		fault->counted = true;
		served = hit_serve(map, unit, fault->write, fault->missing);
		if (served == SERVED)
			stats_fault(h->pool, map, fault->arrived_ns, true);
		return served;
	case HM_FILL:
	case HM_ZERO:
		return serve_miss(h, map, outcome, unit, fault);
	case HM_BUSY: /* who fills or evicts it wakes the thread */
		return SERVED;
	case HM_NO_FRAME:
		return SERVE_NO_FRAME;
	case HM_BEYOND: /* the limit has come down, and the kernel's mapping is there */
		uffd_wake(h->pool->uffd, map_addr(map, block_of(pgoff)), HM_BLOCK_SIZE);
		return SERVED;
	default:
		return SERVE_LATER;
	}
}

static void take_hints(struct handler *h, struct mapping *map, const struct hm_unit *unit,
		       u64 pgoff, u32 access)
{
	if (unit->hints & HM_HINT_RECLAIM)
		h->reclaim = true;
	if (unit->hints & HM_HINT_READAHEAD && !atomic_load(&map->random))
		stream_hint(h, map, pgoff, access);
}

static enum served serve(struct handler *h, struct mapping *map, struct pending *fault)
{
	u64 pgoff = map_pgoff(map, fault->addr);
	u32 access = atomic_load(&map->access) | (fault->write ? HM_ACCESS_WRITE : 0) |
		     (fault->counted ? HM_ACCESS_AGAIN : 0);
	pthread_mutex_t *lock = block_lock(map->store, pgoff);
	struct hm_unit unit = { 0 };
	enum served served;

	pthread_mutex_lock(lock);
	served = serve_locked(h, map, fault, access, &unit);
	pthread_mutex_unlock(lock);
	take_hints(h, map, &unit, pgoff, access);
	return served;
}

/* A fault waits for clean frames: handler 0 writes, whatever the dirty share. */
static void press(struct handler *h)
{
	if (!atomic_exchange(&h->pool->pressed, true) && h->index)
		handler_kick(&h->pool->handlers[0]);
}

/* I/O that brings frames, or makes clean ones: calls that write the file do neither. */
static bool works_for_frames(const struct store *store)
{
	return atomic_load(&store->ops) > atomic_load(&store->writers);
}

/* Every frame is pinned, it seems, perhaps by the thread that waits: nothing goes on. */
static bool stuck(const struct pool *pool, u64 now, u64 arrived_ns)
{
	const struct store *store;

	if (now - arrived_ns < STUCK_NS || atomic_load(&pool->freed_ns) + STUCK_NS > now)
		return false;
	for (store = pool->stores; store; store = store->next)
		if (works_for_frames(store))
			return false; /* a device that takes its time */
	return true;
}

/* By the clock, and by what was seen: the process may have been stopped. */
static bool waits_long(const struct pending *fault)
{
	return fault->looks >= HOPELESS_LOOKS && sys_clock_ns() - fault->arrived_ns >= HOPELESS_NS;
}

/*
 * The pool is full of dirty blocks, and writing them fails (a full file system, say); or
 * of pinned ones. A fault waits for a while, as the cause may go away, but not for ever; nor
 * where frames are on their way, of a store that works.
 */
static bool hopeless(struct handler *h, const struct pending *fault)
{
	u64 now = sys_clock_ns();
	struct store *store;
	bool failing = false;

	if (!waits_long(fault))
		return false;
	if (stuck(h->pool, now, fault->arrived_ns))
		return true;
	for (store = h->pool->stores; store; store = store->next) {
		bool works = !atomic_load(&store->wb_backoff_ms);

		if (works && (hm_store_dirty_pages(store->core) || works_for_frames(store)))
			return false;
		failing |= !works && hm_store_dirty_pages(store->core);
	}
	return failing;
}

/*
 * The program has unmapped a block itself: the thread shall find out. If there is another
 * part of it left, that cannot be served.
 */
static void gone(struct handler *h, uintptr_t addr)
{
	char *page = (char *)(addr & ~(uintptr_t)(HM_PAGE_SIZE - 1));

	if (uffd_watches(h->pool->uffd, page, HM_PAGE_SIZE))
		uffd_wake(h->pool->uffd, page, HM_PAGE_SIZE);
	else
		trap_bus(h, addr);
}

static bool serve_address(struct handler *h, struct pending *fault)
{
	struct mapping *map = map_find(h->pool, (void *)fault->addr);
	u32 tries;

	if (!map) {
		char *page = (char *)(fault->addr & ~(uintptr_t)(HM_PAGE_SIZE - 1));

		/* Unmapped since: let it look again. Our own slots need no protection. */
		if (!page_in_slots(h->pool, page) ||
		    uffd_unprotect(h->pool->uffd, page, HM_PAGE_SIZE))
			uffd_wake(h->pool->uffd, page, HM_PAGE_SIZE);
		return true;
	}
	if (fault->write && !(map->prot & PROT_WRITE)) {
		trap_segv(h, map, fault->addr);
		return true;
	}
	for (tries = 0; tries < MAX_TRIES; tries++) {
		if (atomic_load(&map->store->resizing))
			return false;
		switch (serve(h, map, fault)) {
		case SERVED:
			return true;
		case SERVE_LATER:
			return false;
		case SERVE_REFUSED:
			if (!waits_long(fault))
				return false;
			trap_bus(h, fault->addr);
			return true;
		case SERVE_GONE:
			gone(h, fault->addr);
			return true;
		case SERVE_NO_FRAME:
			h->reclaim = true;
			if (evict_some(h))
				break;
			press(h);
			if (!hopeless(h, fault))
				return false;
			trap_bus(h, fault->addr);
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
	ssize_t n = sys_read(h->pool->uffd, msgs, sizeof(msgs));
	u64 now = sys_clock_ns();
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

		fault.looks++;
		if (!serve_address(h, &fault))
			h->pending[h->npending++] = fault;
	}
}
