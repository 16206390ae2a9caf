// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Jobs: what streams and prefetches bring in, and what writing streams leave
 * behind, a few blocks at a time, as frames and operations become free.
 */
#include "evict.h"
#include "fault.h"
#include "frames.h"
#include "store.h"
#include "write.h"

#include <errno.h>

/* Operations that jobs leave to demand faults and syncs. */
#define SPARE_OPS(io) ((io)->depth / 4)

void stream_add_job(struct handler *h, const struct job *job)
{
	h->again = true;
	if (h->njobs < MAX_PLANS) {
		h->jobs[h->njobs++] = *job;
		return;
	}
	job_give_up(job);
}

/* A fault of a mapping may be part of a stream. */
void stream_hint(struct handler *h, struct mapping *map, u64 pgoff, u32 access)
{
	struct job job = { .type = JOB_AHEAD, .store = map->store, .map_id = map->id };

	if (!hm_readahead(map->store->core, pgoff, access, &job.plan))
		return;
	if (job.plan.end > job.plan.start) {
		job.pos = job.plan.start;
		job.end = job.plan.end;
		stream_add_job(h, &job);
	}
	if (job.plan.behind_end > job.plan.behind_start) {
		job.type = JOB_BEHIND;
		job.pos = job.plan.behind_start;
		job.end = job.plan.behind_end;
		stream_add_job(h, &job);
	}
}

enum step {
	STEP_DONE, /* a block further */
	STEP_LATER, /* nothing is free just now */
	STEP_STOP, /* give the job up */
};

/*
 * A block without data, ahead of a writer: it is mapped zeroed and dirty, so that the
 * writer does not fault at all. The one with the marker is protected: the first store to
 * it asks for the next window. (Write-back finds out that a block was never stored to;
 * see write.c.)
 */
static void map_zeroed(struct mapping *map, const struct hm_unit *unit, bool write, bool mark)
{
	fill_zero(map, unit);
	if (hm_fill_done(unit, 0, write && !mark ? HM_FILL_DIRTY : 0))
		page_wake(map->store, unit->pgoff);
	if (write)
		page_install(map, unit);
}

/* For a block that will be mapped dirty. What a full file system has no room for is not. */
static bool has_room(struct handler *h, struct mapping *map, u64 pgoff, bool *write)
{
	struct store *store = map->store;

	if (!store_lacks_room(store, pgoff) || !hm_hollow(store->core, pgoff))
		return true;
	if (h->now_ms < atomic_load(&store->full_until_ms)) {
		*write = false;
		return true;
	}
	room_start(h, map, pgoff, NULL);
	return false;
}

static enum step bring_in(struct handler *h, struct mapping *map, struct job *job)
{
	struct store *store = map->store;
	u32 access = atomic_load(&map->access) | HM_ACCESS_AHEAD;
	pthread_mutex_t *lock = block_lock(store, job->pos);
	bool write = job->plan.access & HM_ACCESS_WRITE && map->prot & PROT_WRITE;
	bool mark = job->type == JOB_AHEAD && job->pos >= job->plan.mark;
	enum step step = STEP_DONE;
	enum hm_outcome outcome;
	bool placed = false;
	struct hm_unit unit;

	if (mark)
		access |= HM_ACCESS_MARK;
	pthread_mutex_lock(lock);
	if (block_is_called(store, job->pos) ||
	    (write && !mark && !has_room(h, map, job->pos, &write))) {
		pthread_mutex_unlock(lock);
		return STEP_LATER;
	}
	do {
		outcome = hm_fault(store->core, job->pos, access, &unit);
	} while (outcome == HM_NO_NODE &&
		 !store_add_node(store, job->pos, (enum hm_node_kind)unit.err));
	if (outcome == HM_ZERO && !fill_is_hollow(store, &unit))
		outcome = HM_FILL;
	switch (outcome) {
	case HM_HIT:
	case HM_BUSY:
		break;
	case HM_FILL:
		if (!fill_start(h, map, &unit, NULL)) {
			placed = mark;
			break;
		}
		if (hm_fill_cancel(&unit))
			page_wake(store, unit.pgoff);
		step = STEP_LATER;
		break;
	case HM_ZERO:
		map_zeroed(map, &unit, write, mark);
		placed = mark;
		h->zeroed += HM_BLOCK_SIZE;
		h->again = true; /* that took time: look for faults */
		break;
	case HM_NO_FRAME:
		h->reclaim = true;
		step = STEP_LATER;
		break;
	default:
		step = STEP_STOP;
		break;
	}
	pthread_mutex_unlock(lock);
	if (outcome == HM_NO_FRAME && !evict_some(h))
		step = STEP_STOP;
	/* The marker is for the first that comes in from there on. */
	if (placed)
		job->plan.mark = UINT64_MAX;
	if (step == STEP_DONE)
		job->pos = block_of(job->pos) + HM_BLOCK_PAGES;
	return step;
}

/* Returns true when the job is over. */
static bool run_ahead(struct handler *h, struct job *job)
{
	struct mapping *map = map_by_id(h->pool, job->map_id);
	enum step step = STEP_DONE;
	u64 end = job->end;

	if (!map) {
		job_give_up(job);
		return true;
	}
	if (atomic_load(&job->store->resizing))
		return false;
	if (end > map_end_pgoff(map))
		end = map_end_pgoff(map);
	if (end > store_limit(map->store))
		end = store_limit(map->store);
	while (job->pos < end) {
		/* Zeros need no operation, however busy write-behind is. */
		if (h->io.nfree <= SPARE_OPS(&h->io) && !hm_hollow(job->store->core, job->pos))
			return false;
		step = bring_in(h, map, job);
		if (step == STEP_STOP)
			break;
		if (step == STEP_LATER || h->zeroed >= HM_BLOCK_SIZE)
			return false; /* see to the faults in between */
	}
	if (step == STEP_STOP)
		job_give_up(job);
	return true;
}

static bool run_behind(struct handler *h, struct job *job)
{
	while (job->pos < job->end) {
		if (atomic_load(&job->store->resizing))
			return false;
		if (h->io.nfree <= SPARE_OPS(&h->io) || !write_may_go_on(h))
			return false;
		if (write_next(h, job->store, &job->pos, job->end, false, NULL, false) ==
		    HM_WB_DONE)
			return true;
	}
	return true;
}

void stream_run_jobs(struct handler *h)
{
	u32 i = 0;

	while (i < h->njobs) {
		struct job *job = &h->jobs[i];
		bool over = false;

		/* The next window of a stream waits for the one before it. */
		if (job->type == JOB_BEHIND)
			over = run_behind(h, job);
		else if (h->zeroed < HM_BLOCK_SIZE)
			over = run_ahead(h, job);
		if (over) {
			h->njobs--;
			memmove(job, job + 1, (h->njobs - i) * sizeof(*job));
		} else {
			i++;
		}
	}
}
