// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Pools: a cache, its memory, its userfaultfd and its handlers. */
#include "fault.h"
#include "frames.h"
#include "linux.h"
#include "pool.h"
#include "reason.h"
#include "stats.h"
#include "uffd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_QUEUE_DEPTH 32u
#define MAX_QUEUE_DEPTH 256u
#define LEAST_DEFAULT_POOL (64ull << 20)
#define MOST_DEFAULT_POOL (4ull << 30)
#define CPUS_PER_HANDLER 8u
#define MAX_DEFAULT_HANDLERS 4u

static u32 default_handlers(void)
{
	u32 n = (sys_cpus() + CPUS_PER_HANDLER - 1) / CPUS_PER_HANDLER;

	return n < MAX_DEFAULT_HANDLERS ? n : MAX_DEFAULT_HANDLERS;
}

static int check_options(const struct hugemap_pool_options *given,
			 struct hugemap_pool_options *opts, struct hm_options *core)
{
	u64 available = sys_memory_available();
	const char *wrong;

	*opts = *given;
	if (!opts->bytes) {
		opts->bytes = available / 4;
		if (opts->bytes > MOST_DEFAULT_POOL)
			opts->bytes = MOST_DEFAULT_POOL;
		if (opts->bytes < LEAST_DEFAULT_POOL)
			opts->bytes = LEAST_DEFAULT_POOL;
	}
	if (opts->bytes > available)
		return fail(-ENOMEM,
			    "a pool of %llu MB was asked for, but only %llu MB of memory "
			    "are available",
			    (unsigned long long)(opts->bytes >> 20),
			    (unsigned long long)(available >> 20));
	if (!opts->queue_depth)
		opts->queue_depth = DEFAULT_QUEUE_DEPTH;
	if (opts->queue_depth < 4 || opts->queue_depth > MAX_QUEUE_DEPTH)
		return fail(-EINVAL, "queue_depth must be between 4 and 256");
	if (!opts->handlers)
		opts->handlers = default_handlers();
	if (opts->handlers > MAX_HANDLERS)
		return fail(-EINVAL, "handlers must be between 1 and 16");
	if (opts->io > HUGEMAP_IO_THREADS)
		return fail(-EINVAL, "io is not one of enum hugemap_io");

	hm_options_init(core);
	core->pool_frames = (u32)(opts->bytes >> HM_BLOCK_SHIFT);
	if (opts->bytes >> HM_BLOCK_SHIFT > ~0u)
		core->pool_frames = ~0u;
	/* Handlers take frames, whatever CPU they are on: what one gave back comes next. */
	core->cpus = opts->handlers;
	core->dirty_ratio = opts->dirty_ratio;
	core->evict_batch = opts->evict_batch;
	if (opts->dirty_expire_ms)
		core->dirty_expire_ms = opts->dirty_expire_ms;
	if (opts->readahead_kb)
		core->readahead_kb = opts->readahead_kb;
	if (opts->no_readahead)
		core->readahead_kb = core->readahead_base_kb = 0;
	wrong = hm_options_check(core);
	return wrong ? fail(-EINVAL, "%s", wrong) : 0;
}

static void init_locks(struct pool *pool)
{
	pthread_rwlockattr_t attr;
	u32 i;

	pthread_rwlockattr_init(&attr);
	/* Handlers read all the time: who wants to write must get a turn. */
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&pool->maps_lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	pthread_mutex_init(&pool->unmap_lock, NULL);
	for (i = 0; i < BLOCK_LOCKS; i++)
		pthread_mutex_init(&pool->block_locks[i], NULL);
}

static void destroy_locks(struct pool *pool)
{
	u32 i;

	pthread_rwlock_destroy(&pool->maps_lock);
	pthread_mutex_destroy(&pool->unmap_lock);
	for (i = 0; i < BLOCK_LOCKS; i++)
		pthread_mutex_destroy(&pool->block_locks[i]);
}

/* Its memory and threads. pools_lock is held: a child gets all of it or nothing. */
static int start(struct pool *pool, const struct hm_options *core)
{
	struct uffd_caps caps;
	int err;

	pool->uffd = uffd_open(&caps);
	if (pool->uffd < 0)
		return fail(pool->uffd, "%s", caps.why);
	err = stats_create(pool);
	if (err)
		goto close_uffd;
	err = memory_create(pool, core);
	if (err)
		goto destroy_stats;
	init_locks(pool);
	err = pool->pagemap_fd = sys_open("/proc/self/pagemap", O_RDONLY);
	if (err < 0) {
		fail(err, "/proc/self/pagemap cannot be opened: without it a page that was "
			  "swapped out would pass for one that is gone");
		goto destroy_memory;
	}
	err = handlers_start(pool, pool->opts.handlers);
	if (err) {
		fail(err, "the handler threads could not start their I/O");
		goto close_files;
	}
	pool->next = pools;
	pools = pool;
	return 0;

close_files:
	sys_close(pool->pagemap_fd);
destroy_memory:
	destroy_locks(pool);
	memory_destroy(pool);
destroy_stats:
	stats_destroy(pool);
close_uffd:
	sys_close(pool->uffd);
	return err;
}

int pool_create(const struct hugemap_pool_options *given, struct pool **result)
{
	struct pool *pool = calloc(1, sizeof(*pool));
	struct hm_options core;
	int err;

	if (!pool)
		return -ENOMEM;
	err = check_options(given, &pool->opts, &core);
	if (!err)
		err = fork_init();
	if (!err) {
		pthread_mutex_lock(&pools_lock);
		err = start(pool, &core);
		pthread_mutex_unlock(&pools_lock);
	}
	if (err) {
		free(pool);
		return err;
	}
	err = populate_start(pool);
	if (err) {
		pool_destroy(pool);
		return fail(err, "the pool's memory cannot be had (%s)", strerror(-err));
	}
	*result = pool;
	return 0;
}

int pool_check(const struct pool *pool)
{
	struct pool *known;

	pthread_mutex_lock(&pools_lock);
	for (known = pools; known && known != pool; known = known->next)
		;
	pthread_mutex_unlock(&pools_lock);
	return known ? 0 :
		       fail(-EINVAL, "there is no such pool in this process (a child has none "
				     "of its parent's)");
}

/*
 * Take a pool out of the list. -EAGAIN: a call has a file of it that is mapped no more, or
 * closes it.
 * pools_lock is held.
 */
static int unlist(struct pool *pool)
{
	struct pool **at;
	int err = 0;

	pthread_rwlock_rdlock(&pool->maps_lock);
	if (pool->nmaps)
		err = -EBUSY;
	else if (pool->stores || pool->closing)
		err = -EAGAIN;
	pthread_rwlock_unlock(&pool->maps_lock);
	if (!err) {
		for (at = &pools; *at != pool; at = &(*at)->next)
			;
		*at = pool->next;
	}
	return err;
}

/* The reverse of start(); pools_lock is held. */
static void stop(struct pool *pool)
{
	atomic_store(&pool->stopping, true);
	populate_stop(pool);
	handlers_stop(pool);
	sys_close(pool->pagemap_fd);
	destroy_locks(pool);
	memory_destroy(pool);
	stats_destroy(pool);
	sys_close(pool->uffd);
}

int pool_destroy(struct pool *pool)
{
	struct patience patience = { 0 };
	int err = pool_check(pool);

	if (err)
		return err;
	do {
		pthread_mutex_lock(&pools_lock);
		err = unlist(pool);
		/* Until there is nothing a child must know of it, to give it back. */
		if (!err)
			stop(pool);
		pthread_mutex_unlock(&pools_lock);
	} while (err == -EAGAIN && look_again(&patience, false));
	if (err)
		return fail(err, "the pool is still used by mappings");
	free(pool->maps);
	free(pool);
	return 0;
}
