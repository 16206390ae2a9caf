// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* What other threads ask of the handlers, and how they wait for it. */
#include "handler.h"
#include "linux.h"

#include <errno.h>

#define YIELD_NS 20000u
#define LOOK_PAUSE_NS 50000
#define PATIENCE_NS 5000000000ull
#define PATIENCE_LOOKS 100u

/* A look, and the pause after it: false if that was enough. */
static u64 begin_look(struct patience *patience)
{
	u64 now = sys_clock_ns();

	if (!patience->since_ns)
		patience->since_ns = now;
	return now;
}

static bool end_look(const struct patience *patience, u64 now)
{
	if (now - patience->since_ns < YIELD_NS)
		sys_yield();
	else
		sys_sleep_ns(LOOK_PAUSE_NS);
	return patience->looks < PATIENCE_LOOKS || now - patience->pinned_since_ns < PATIENCE_NS;
}

/*
 * Before somebody looks again whether others are done: they may need this CPU, or wait
 * for the device. Who only yields all the time while the others wake up and yield, too,
 * can keep what their I/O needs from running, for a minute on Linux 6.18.
 *
 * @pinned: what keeps it from going on is direct I/O of the program's, not a device that
 *	takes its time. Return: false if that has been so for long enough, and whenever it
 *	looked: it may have been stopped itself.
 */
bool look_again(struct patience *patience, bool pinned)
{
	u64 now = begin_look(patience);

	if (!pinned)
		patience->looks = 0;
	else if (!patience->looks++)
		patience->pinned_since_ns = now;
	return end_look(patience, now);
}

/*
 * The same of a block that is being written, from where it is, perhaps, as it was pinned: a
 * look at it then neither counts nor says that it is not pinned any more.
 */
bool look_again_unsure(struct patience *patience)
{
	return end_look(patience, begin_look(patience));
}

void handler_kick(struct handler *h)
{
	uint64_t one = 1;
	ssize_t n = sys_write(h->event_fd, &one, sizeof(one));

	hm_assert(n > 0 || n == -EAGAIN);
}

void handlers_kick(struct pool *pool)
{
	u32 i;

	for (i = 0; i < pool->nhandlers; i++)
		handler_kick(&pool->handlers[i]);
}

/*
 * Something has changed, or become dirty: handler 0, which sleeps while nothing does, is to
 * publish it, and to write it in time.
 */
void handler_news(struct pool *pool)
{
	atomic_store(&pool->news, true);
	if (atomic_load(&pool->asleep) && atomic_exchange(&pool->asleep, false))
		handler_kick(&pool->handlers[0]);
}

struct handler *handler_any(struct pool *pool)
{
	return &pool->handlers[atomic_fetch_add(&pool->next_handler, 1) % pool->nhandlers];
}

/* Ask for a job; false if too many are waiting. */
bool handler_job(struct handler *h, const struct job *job)
{
	bool taken = false;

	pthread_mutex_lock(&h->lock);
	if (h->nnew_jobs < MAX_PLANS) {
		h->new_jobs[h->nnew_jobs++] = *job;
		taken = true;
	}
	pthread_mutex_unlock(&h->lock);
	handler_kick(h);
	return taken;
}

/* What was not brought in of a stream's plan may be planned again. */
void job_give_up(const struct job *job)
{
	if (job->type == JOB_AHEAD)
		hm_readahead_stopped(job->store->core, &job->plan, job->pos);
}

static u32 forget_jobs(struct job *jobs, u32 n, const struct store *store)
{
	u32 kept = 0, i;

	for (i = 0; i < n; i++) {
		if (jobs[i].store != store)
			jobs[kept++] = jobs[i];
		else
			job_give_up(&jobs[i]);
	}
	return kept;
}

/* A store is mapped no more. maps_lock is held for writing: no handler works. */
void handlers_forget(struct pool *pool, const struct store *store)
{
	u32 i;

	for (i = 0; i < pool->nhandlers; i++) {
		struct handler *h = &pool->handlers[i];

		h->njobs = forget_jobs(h->jobs, h->njobs, store);
		pthread_mutex_lock(&h->lock);
		h->nnew_jobs = forget_jobs(h->new_jobs, h->nnew_jobs, store);
		pthread_mutex_unlock(&h->lock);
	}
}

/**
 * sync_range() - write what is dirty in a range, and wait for it
 * @store: held by a reference
 * @pos: first page
 * @end: the page after the last one
 *
 * No lock may be held. Return: 0 or the errno of a write that failed.
 */
int sync_range(struct store *store, u64 pos, u64 end)
{
	struct handler *h = handler_any(store->pool);
	struct sync_request sync = {
		.store = store,
		.proved = block_of(pos),
		.pos = pos,
		.end = end,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.cond = PTHREAD_COND_INITIALIZER,
	};

	pthread_mutex_lock(&h->lock);
	sync.next = h->new_syncs;
	h->new_syncs = &sync;
	pthread_mutex_unlock(&h->lock);
	handler_kick(h);

	pthread_mutex_lock(&sync.lock);
	while (!sync.done)
		pthread_cond_wait(&sync.cond, &sync.lock);
	pthread_mutex_unlock(&sync.lock);
	return sync.err;
}
