// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * fork() and exit().
 *
 * A child does not get our mappings: pages that fork() shares could not be
 * moved any more, in the parent either. It gets the kernel's mapping of the
 * same file at the same address instead. If the program may write through the
 * mapping, parent and child must see each other's stores, so the parent's
 * mapping is given over to the kernel too (unless it was made with
 * HUGEMAP_NOFORK: then the child has nothing there).
 *
 * At exit, what is dirty is written; what is stored later, and what a signal or
 * _exit() leaves, is the keeper's.
 */
#include "engine.h"

#include <stdlib.h>
#include <unistd.h>

static bool shared_with_children(const struct mapping *map)
{
	return map->prot & PROT_WRITE && !(map->flags & HUGEMAP_NOFORK) && !atomic_load(&map->kept);
}

/* What cannot be written stays with the engine, in the parent. */
static void keep_all(struct store *store, bool keep)
{
	struct pool *pool = store->pool;
	u32 i;

	for (i = 0; i < pool->nmaps; i++)
		if (pool->maps[i]->store == store)
			atomic_store(&pool->maps[i]->kept, keep);
}

/* A store whose mappings must be given over before a fork, with a reference. */
static struct store *next_to_give(void)
{
	struct store *store = NULL;
	struct pool *pool;
	u32 i;

	pthread_mutex_lock(&pools_lock);
	for (pool = pools; pool && !store; pool = pool->next) {
		pthread_rwlock_rdlock(&pool->maps_lock);
		for (i = 0; i < pool->nmaps && !store; i++)
			if (shared_with_children(pool->maps[i]))
				store = pool->maps[i]->store;
		if (store)
			atomic_fetch_add(&store->refs, 1);
		pthread_rwlock_unlock(&pool->maps_lock);
	}
	pthread_mutex_unlock(&pools_lock);
	return store;
}

static void before_fork(void)
{
	struct store *store;
	struct pool *pool;

	while ((store = next_to_give())) {
		if (aside_store(store, "the program has called fork() with a writable mapping")) {
			pthread_rwlock_rdlock(&store->pool->maps_lock);
			keep_all(store, true);
			pthread_rwlock_unlock(&store->pool->maps_lock);
		}
		store_put(store);
	}
	/* Everything at rest, so that the child finds its lists whole. */
	pthread_mutex_lock(&default_pool_lock);
	pthread_mutex_lock(&pools_lock);
	for (pool = pools; pool; pool = pool->next)
		pthread_rwlock_wrlock(&pool->maps_lock);
	kernel_lock();
}

static void after_fork_in_parent(void)
{
	struct store *store;
	struct pool *pool;

	kernel_unlock();
	for (pool = pools; pool; pool = pool->next) {
		for (store = pool->stores; store; store = store->next)
			keep_all(store, false);
		pthread_rwlock_unlock(&pool->maps_lock);
	}
	pthread_mutex_unlock(&pools_lock);
	pthread_mutex_unlock(&default_pool_lock);
}

/* The pools are the parent's: the child keeps none of them. */
static void after_fork_in_child(void)
{
	struct store *store;
	struct pool *pool;
	u32 i;

	kernel_unlock();
	for (pool = pools; pool; pool = pool->next) {
		for (i = 0; i < pool->nmaps; i++) {
			struct mapping *map = pool->maps[i];

			if (!(map->flags & HUGEMAP_NOFORK))
				aside_replace(map, "a child of the process that mapped it", false);
		}
		for (store = pool->stores; store; store = store->next) {
			close(store->fd);
			close(store->fd_buffered);
			if (store->claim_fd >= 0)
				close(store->claim_fd);
		}
		for (i = 0; i < pool->nhandlers; i++) {
			close(pool->handlers[i].event_fd);
			pool->handlers[i].io.backend->forked(&pool->handlers[i].io);
		}
		close(pool->uffd);
		close(pool->stats_fd);
		pool_close_files(pool);
	}
	pools = NULL;
	default_pool = NULL;
	pthread_mutex_unlock(&pools_lock);
	pthread_mutex_unlock(&default_pool_lock);
}

/* At exit: nothing that was stored may be lost. */
static void write_everything(void)
{
	struct pool *pool;
	struct store *store;

	pthread_mutex_lock(&pools_lock);
	for (pool = pools; pool; pool = pool->next) {
		for (store = pool->stores; store; store = store->next)
			if (store->writable)
				sync_range(store, 0, HM_STORE_MAX_BLOCKS << HM_BLOCK_ORDER);
	}
	pthread_mutex_unlock(&pools_lock);
}

static void register_once(void)
{
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
	atexit(write_everything);
}

void fork_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_once);
}
