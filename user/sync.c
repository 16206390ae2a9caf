// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Syncs: one pass in offset order over what is dirty in a range. Each block is
 * written once; one that somebody else is writing is waited for, since a store
 * may have come after that write began.
 */
#include "write.h"

#include <errno.h>

static void tell(struct sync_request *sync)
{
	pthread_mutex_lock(&sync->lock);
	sync->done = true;
	pthread_cond_signal(&sync->cond);
	pthread_mutex_unlock(&sync->lock);
}

/*
 * Units that were being installed when the sync was asked for may hold a store
 * that is not known yet: another handler is about to find it.
 */
static bool windows_are_closed(struct handler *h, struct sync_request *sync)
{
	struct pool *pool = h->pool;
	u32 i;

	for (i = 0; i < pool->nhandlers; i++) {
		if (!(sync->windows[i] & 1))
			continue;
		if (atomic_load(&pool->handlers[i].window) == sync->windows[i])
			return false;
		sync->windows[i] = 0;
	}
	return true;
}

/* Returns true when the request is over (and no longer ours). */
static bool advance(struct handler *h, struct sync_request *sync)
{
	if (!windows_are_closed(h, sync)) {
		h->again = true; /* it takes microseconds */
		return false;
	}
	while (!sync->walked && h->io.nfree > 0) {
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
