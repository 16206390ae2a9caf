// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The handler threads: each waits for faults, completions and requests, and
 * does a bounded part of everything else before it looks at the faults again.
 */
#include "evict.h"
#include "fault.h"
#include "frames.h"
#include "linux.h"
#include "stats.h"
#include "write.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

/* How long to wait while something is under way that nobody will tell us of. */
#define POLL_MS 1
#define TICK_MS 100
#define PUBLISH_MS 50u

#define SPIN_NS 100000u
#define SHORT_WAITS 16u

/* True: something was complete. */
static bool complete_all(struct handler *h)
{
	io_inject_fn *inject = atomic_load_explicit(&io_inject, memory_order_acquire);
	bool any = false;
	struct io_op *op;

	while ((op = h->io.backend->reap(&h->io))) {
		if (inject)
			op->result = inject(op, op->result);
		any = true;
		switch (op->type) {
		case IO_READ:
			fill_complete(h, op);
			break;
		case IO_WRITE:
			write_complete(h, op);
			break;
		case IO_ROOM:
			room_complete(h, op);
			break;
		}
	}
	return any;
}

static void take_requests(struct handler *h)
{
	struct sync_request *sync;
	u32 i;

	pthread_mutex_lock(&h->lock);
	while ((sync = h->new_syncs)) {
		h->new_syncs = sync->next;
		sync->next = h->syncs;
		h->syncs = sync;
	}
	for (i = 0; i < h->nnew_jobs; i++)
		stream_add_job(h, &h->new_jobs[i]);
	h->nnew_jobs = 0;
	pthread_mutex_unlock(&h->lock);
}

/* One round of work. maps_lock is held for reading. True: something was complete. */
static bool work(struct handler *h, u32 events)
{
	bool any;

	if (events & IO_EVENT_FAULT || h->faults_left) {
		fault_read_all(h);
		/* The device works on these while we see to the rest. */
		h->io.backend->submit(&h->io);
	}
	any = complete_all(h);
	take_requests(h);
	sync_run(h);
	stream_run_jobs(h);
	evict_background(h);
	if (h->npending)
		fault_retry_pending(h);
	if (h->index == 0)
		write_background(h);
	if (h->npoisoned)
		trap_heal(h);
	h->io.backend->submit(&h->io);
	return any;
}

static int how_long(struct handler *h)
{
	if (h->again || h->faults_left)
		return 0;
	if (h->npending || h->syncs || h->njobs)
		return POLL_MS;
	if (h->index == 0 && hm_cache_dirty_pages(h->pool->cache))
		return TICK_MS;
	return h->npoisoned ? TICK_MS : -1;
}

/* The numbers, for others; not too often. */
static void publish(struct handler *h)
{
	if (h->now_ms < h->published_ms + PUBLISH_MS || !atomic_exchange(&h->pool->news, false))
		return;
	stats_publish(h->pool);
	h->published_ms = h->now_ms;
}

/* Handler 0 has nothing to do: has it, by now? Then not for ever; else it will be asked. */
static int may_sleep(struct handler *h)
{
	struct pool *pool = h->pool;

	atomic_store(&pool->asleep, true);
	if (!atomic_load(&pool->news) && !hm_cache_dirty_pages(pool->cache))
		return -1;
	atomic_store(&pool->asleep, false);
	return TICK_MS;
}

/*
 * Random access waits for one page at a time, and the next fault comes a few
 * microseconds after the last one was served. To sleep and be woken costs more
 * than that, so while waits are that short, the handler looks instead.
 */
static u32 wait_for_work(struct handler *h, int timeout)
{
	u64 start = sys_clock_ns();
	u32 events;

	h->io.spin_ns = h->short_waits >= SHORT_WAITS / 2 ? SPIN_NS : 0;
	events = h->io.backend->wait(&h->io, timeout);
	if (!timeout)
		return events;
	if (sys_clock_ns() - start > SPIN_NS)
		h->short_waits /= 2;
	else if (h->short_waits < SHORT_WAITS)
		h->short_waits++;
	return events;
}

static void run(struct handler *h)
{
	struct pool *pool = h->pool;
	u32 events = IO_EVENT_FAULT;
	int how = 0, timeout;
	bool any;

	while (!atomic_load(&pool->stopping) || h->io.nfree < h->io.depth) {
		h->now_ms = sys_clock_ns() / 1000000;
		h->again = false;
		h->zeroed = 0;
		h->at_once = 0;
		/* The others sleep for as long as they like. */
		hm_cache_tick(pool->cache, h->now_ms);
		pthread_rwlock_rdlock(&pool->maps_lock);
		any = work(h, events);
		/* Also what a round does that was not asked for. */
		if (any || events || how >= 0)
			handler_news(pool);
		if (h->index == 0)
			publish(h);
		how = how_long(h);
		pthread_rwlock_unlock(&pool->maps_lock);
		timeout = how < 0 && h->index == 0 ? may_sleep(h) : how;
		events = wait_for_work(h, timeout);
		if (h->index == 0)
			atomic_store(&pool->asleep, false);
	}
}

static void *handler_main(void *arg)
{
	struct handler *h = arg;
	struct pool *pool = h->pool;
	u32 depth = pool->opts.queue_depth;
	int err;

	/* io_uring wants the thread that will use it. */
	err = io_create(&h->io, (int)pool->opts.io, depth, pool->uffd, h->event_fd);
	pthread_mutex_lock(&h->lock);
	h->started = err ? err : 1;
	pthread_cond_signal(&h->cond);
	pthread_mutex_unlock(&h->lock);
	if (err)
		return NULL;
	run(h);
	io_destroy(&h->io);
	return NULL;
}

static int handler_start(struct handler *h)
{
	sigset_t all, old;
	int err;

	h->event_fd = sys_eventfd();
	if (h->event_fd < 0)
		return h->event_fd;
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->cond, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = -pthread_create(&h->thread, NULL, handler_main, h);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!err) {
		pthread_setname_np(h->thread, "hugemap");
		pthread_mutex_lock(&h->lock);
		while (!h->started)
			pthread_cond_wait(&h->cond, &h->lock);
		err = h->started < 0 ? h->started : 0;
		pthread_mutex_unlock(&h->lock);
		if (err)
			pthread_join(h->thread, NULL);
	}
	if (err)
		sys_close(h->event_fd);
	return err;
}

int handlers_start(struct pool *pool, u32 n)
{
	int err = 0;

	pool->handlers = calloc(n, sizeof(*pool->handlers));
	if (!pool->handlers)
		return -ENOMEM;
	while (pool->nhandlers < n) {
		struct handler *h = &pool->handlers[pool->nhandlers];

		h->pool = pool;
		h->index = pool->nhandlers;
		err = handler_start(h);
		if (err)
			break;
		pool->nhandlers++;
	}
	if (pool->nhandlers)
		return 0; /* fewer than asked for serve as well */
	free(pool->handlers);
	return err;
}

void handlers_stop(struct pool *pool)
{
	u32 i;

	hm_assert(atomic_load(&pool->stopping));
	handlers_kick(pool);
	for (i = 0; i < pool->nhandlers; i++)
		pthread_join(pool->handlers[i].thread, NULL);
	/* Until the last one has ended they ask each other. */
	for (i = 0; i < pool->nhandlers; i++)
		sys_close(pool->handlers[i].event_fd);
	free(pool->handlers);
	pool->handlers = NULL;
	pool->nhandlers = 0;
}
