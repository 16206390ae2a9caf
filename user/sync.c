// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Syncs: a look at what is clean in a range, and may not be, and one pass in offset order
 * over what is dirty. Each block is written once; one that somebody else is writing is
 * waited for, since a store may have come after that write began.
 */
#include "evict.h"
#include "frames.h"
#include "write.h"

#include <errno.h>

/* In a round, before the handler looks for faults again: blocks, and what costs as much. */
#define MOST_PROVED 16u
#define LOOKS_PER_PROOF 1024u

static void tell(struct sync_request *sync)
{
	pthread_mutex_lock(&sync->lock);
	sync->done = true;
	pthread_cond_signal(&sync->cond);
	pthread_mutex_unlock(&sync->lock);
}

/* As page_prove(). */
static int prove_block(struct store *store, u64 pgoff)
{
	pthread_mutex_t *lock = block_lock(store, pgoff);
	struct hm_unit unit;
	int got;

	pthread_mutex_lock(lock);
	got = page_prove(store, pgoff);
	if (got == -ENOENT) {
		hm_peek(store->core, pgoff, &unit);
		evict_lost(store, &unit);
	}
	pthread_mutex_unlock(lock);
	return got;
}

/*
 * What is clean may hold a store that nobody knows of yet: see page.c. All of the range is
 * looked at once. True: that is done.
 */
static bool prove(struct handler *h, struct sync_request *sync)
{
	struct store *store = sync->store;
	u64 end = store_limit(store);
	struct hm_unit unit;
	u32 cost = 0;
	int got = 0;

	if (sync->end < end)
		end = sync->end;
	while (store->writable && sync->proved < end) {
		enum hm_state state = hm_peek(store->core, sync->proved, &unit);

		if (state == HM_CLEAN || state == HM_EVICTING)
			got = prove_block(store, sync->proved);
		if (got != -EAGAIN)
			sync->proved += HM_BLOCK_PAGES;
		cost += got > 0 ? LOOKS_PER_PROOF : 1;
		if (got == -EAGAIN || cost >= MOST_PROVED * LOOKS_PER_PROOF) {
			h->again = true;
			return false;
		}
		got = 0;
	}
	return true;
}

/* Returns true when the request is over (and no longer ours). */
static bool advance(struct handler *h, struct sync_request *sync)
{
	if (!prove(h, sync))
		return false;
	while (!sync->walked && h->io.nfree > 0 && write_may_go_on(h)) {
		switch (write_next(h, sync->store, &sync->pos, sync->end, true, sync, false)) {
		case HM_WB_RUN:
			break;
		case HM_WB_BUSY:
			return false;
		case HM_WB_DONE:
			sync->walked = true;
			break;
		}
	}
	if (!sync->walked || sync->ops)
		return false;
	tell(sync);
	return true;
}

void sync_run(struct handler *h)
{
	struct sync_request **at = &h->syncs;

	while (*at) {
		struct sync_request *sync = *at;
		struct sync_request *next = sync->next;

		if (advance(h, sync))
			*at = next;
		else
			at = &sync->next;
	}
}
