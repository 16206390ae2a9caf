// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Stepping aside: a mapping is given over to the kernel, at the same address,
 * while the program uses it. For what the engine cannot keep coherent.
 */
#include "engine.h"
#include "races.h"

#include <errno.h>

/*
 * Put the kernel's mapping in the place of ours; no unit is mapped there.
 * @claim: it keeps the store's claim while it is writable
 */
void aside_replace(struct mapping *map, const char *why, bool claim)
{
	struct store *store = map->store;
	size_t bytes = (size_t)(map->asked_end - map->asked);
	off_t offset = (off_t)(map_pgoff(map, (uintptr_t)map->asked) << HM_PAGE_SHIFT);
	void *at;

	if (map->start < map->asked)
		munmap(map->start, (size_t)(map->asked - map->start));
	if (map->end > map->asked_end)
		munmap(map->asked_end, (size_t)(map->end - map->asked_end));
	program_memory_begin();
	at = mmap(map->asked, bytes, map->prot, MAP_SHARED | MAP_FIXED, store->fd_buffered, offset);
	program_memory_end();
	if (at == MAP_FAILED)
		return; /* a touch raises SIGSEGV: better than wrong bytes */
	if (map->page == HUGEMAP_PAGE_2M)
		madvise(map->asked, bytes, MADV_HUGEPAGE);
	if (map->flags & HUGEMAP_HANDOVER)
		return;
	kernel_add(
		&(struct kernel_mapping){
			.start = map->asked,
			.end = map->asked_end,
			.dev = store->dev,
			.ino = store->ino,
			.shared = true,
			.writable = map->prot & PROT_WRITE,
			.claim_fd = claim && map->prot & PROT_WRITE ? claim_share(store) : -1,
		},
		why);
}

/* Nothing of a store is dirty or on its way, and nothing is mapped. */
static bool settle(struct store *store)
{
	struct pool *pool = store->pool;
	bool all = !atomic_load(&store->ops) && !hm_store_dirty_pages(store->core);
	u32 i;

	for (i = 0; all && i < pool->nmaps; i++)
		if (pool->maps[i]->store == store)
			all = mapping_take_out(pool, pool->maps[i], pool->maps[i]->pgoff,
					       map_end_pgoff(pool->maps[i]));
	/* A store may have come before its page was taken out. */
	return all && !hm_store_dirty_pages(store->core);
}

static struct mapping *any_mapping(struct store *store)
{
	struct pool *pool = store->pool;
	u32 i;

	for (i = 0; i < pool->nmaps; i++)
		if (pool->maps[i]->store == store)
			return pool->maps[i];
	return NULL;
}

/**
 * aside_store() - give all mappings of a store over to the kernel
 * @store: held by a reference; no lock is held
 * @why: for hugemap_stat()
 *
 * What is dirty is written first. While that is done, faults wait, so that the
 * writing ends.
 *
 * Return: 0, or the errno of a write that failed: the engine keeps the store.
 */
int aside_store(struct store *store, const char *why)
{
	struct pool *pool = store->pool;
	struct mapping *map;
	u32 given = 0, looks = 0;
	int err;

	pthread_mutex_lock(&store->resize_lock);
	atomic_store(&store->resizing, true);
	for (;;) {
		err = sync_range(store, 0, HM_STORE_MAX_BLOCKS << HM_BLOCK_ORDER);
		pthread_rwlock_wrlock(&pool->maps_lock);
		if (err || settle(store))
			break;
		pthread_rwlock_unlock(&pool->maps_lock);
		look_again(&looks);
	}
	store->aside |= !err;
	while (!err && (map = any_mapping(store))) {
		mapping_take_out(pool, map, map->pgoff, map_end_pgoff(map));
		map_remove(pool, map);
		aside_replace(map, why, true);
		/* Threads that wait for a page of ours find the kernel's. */
		uffd_wake(pool->uffd, map->start, (size_t)(map->end - map->start));
		mapping_free(map);
		given++;
	}
	atomic_store(&store->resizing, false);
	pthread_rwlock_unlock(&pool->maps_lock);
	pthread_mutex_unlock(&store->resize_lock);
	handlers_kick(pool);
	while (given--)
		store_put(store);
	return err;
}
