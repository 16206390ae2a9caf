// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * fork(). Mappings of pools are the parent's alone (MADV_DONTFORK): pages that fork()
 * shares could not be moved any more. A child forgets the pools, and gives back what it
 * has inherited of them, above all the locks on files. Other mappings are the kernel's,
 * which a child has as always.
 */
#include "handler.h"
#include "linux.h"
#include "pool.h"
#include "steered.h"

#include <errno.h>

/* Everything at rest, so that the child finds its lists whole. */
static void before_fork(void)
{
	struct pool *pool;

	pthread_mutex_lock(&pools_lock);
	for (pool = pools; pool; pool = pool->next)
		pthread_rwlock_wrlock(&pool->maps_lock);
	steered_lock();
}

static void after_fork_in_parent(void)
{
	struct pool *pool;

	steered_unlock();
	for (pool = pools; pool; pool = pool->next)
		pthread_rwlock_unlock(&pool->maps_lock);
	pthread_mutex_unlock(&pools_lock);
}

static void close_files(const struct store *store)
{
	for (; store; store = store->next) {
		sys_close(store->fd);
		sys_close(store->fd_buffered);
	}
}

static void after_fork_in_child(void)
{
	struct pool *pool;
	u32 i;

	steered_unlock();
	for (pool = pools; pool; pool = pool->next) {
		close_files(pool->stores);
		close_files(pool->closing);
		for (i = 0; i < pool->nhandlers; i++) {
			sys_close(pool->handlers[i].event_fd);
			pool->handlers[i].io.backend->forked(&pool->handlers[i].io);
		}
		sys_close(pool->uffd);
		sys_close(pool->stats_fd);
		sys_close(pool->pagemap_fd);
	}
	pools = NULL;
	pthread_mutex_unlock(&pools_lock);
}

static int registered = -ENOMEM;

static void register_once(void)
{
	registered = -pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int fork_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_once);
	return registered;
}
