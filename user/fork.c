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
#include "races.h"
#include "signals.h"
#include "steered.h"

#include <errno.h>

/* Of the thread that forks; guarded by pools_lock. */
static sigset_t signals;

/*
 * The lists of pools and stores at rest, so that the child finds them whole. Nothing that a
 * fault needs is held: other libraries' handlers come after this one, and may wait for a
 * thread that waits for a fault.
 */
static void before_fork(void)
{
	sigset_t old;

	signals_hold(&old);
	pthread_rwlock_wrlock(&fork_lock);
	pthread_mutex_lock(&pools_lock);
	steered_lock();
	signals = old;
}

static void after_fork_in_parent(void)
{
	sigset_t old = signals;

	steered_unlock();
	pthread_mutex_unlock(&pools_lock);
	pthread_rwlock_unlock(&fork_lock);
	signals_release(&old);
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
	sigset_t old = signals;
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
	/* The C library takes who is to unlock it for another thread: it has another number. */
	lock_is_forgotten(&fork_lock);
	pthread_rwlock_init(&fork_lock, NULL);
	signals_release(&old);
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
