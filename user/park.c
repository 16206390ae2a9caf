// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Parking: what is cached of a file stays cached when its last mapping ends, as in
 * the page cache, for programs that map their files again and again. A parked
 * store has nothing open and no claim. Its units are clean and in their slots, and
 * evicted like all others.
 *
 * It is taken up again if the file has not been changed since. A stamp tells: its
 * length, its change time (ctime, which cannot be set), and when it was made, since
 * a number of a file may be used again. That asks for two things.
 *  - Nobody may change the file without changing ctime. A page that is mapped for
 *    writing can be stored to unnoticed once that has been noticed, so a store is
 *    parked only if nobody has the file open for writing when the stamp is taken. A
 *    lease shows that, and keeps them away.
 *  - Two changes must not have the same ctime. Since Linux 6.13 the times of these
 *    file systems tell a change after a look from one before it; older ones have
 *    the granularity of a timer tick, so that a time must be older than some.
 */
#include "engine.h"
#include "for_run.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define MOST_PARKED 256u
#define TICKS_NS 100000000ll /* ten, of the slowest timers */

atomic_bool hugemap_files_are_guarded;

static bool kernel_is_at_least(int major, int minor)
{
	struct utsname name;
	int a, b;

	return !uname(&name) && sscanf(name.release, "%d.%d", &a, &b) == 2 &&
	       (a > major || (a == major && b >= minor));
}

static s64 ns_of(s64 seconds, s64 nanoseconds)
{
	return seconds * 1000000000ll + nanoseconds;
}

/* Will the next change of the file have another ctime than this one? */
static bool tells_changes(int fd, const struct statx_timestamp *changed)
{
	struct timespec now;
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0 || !fs_is_local((unsigned long)fs.f_type))
		return false;
	if ((unsigned long)fs.f_type != F2FS_SUPER_MAGIC && kernel_is_at_least(6, 13))
		return true;
	clock_gettime(CLOCK_REALTIME, &now);
	return ns_of(now.tv_sec, now.tv_nsec) - ns_of(changed->tv_sec, changed->tv_nsec) > TICKS_NS;
}

static bool stamp_take(int fd, struct stamp *stamp)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &stx) < 0 ||
	    (stx.stx_mask & (STATX_BASIC_STATS | STATX_BTIME)) != (STATX_BASIC_STATS | STATX_BTIME))
		return false;
	stamp->size = stx.stx_size;
	stamp->changed = stx.stx_ctime;
	stamp->born = stx.stx_btime;
	return stx.stx_nlink;
}

static bool same_time(const struct statx_timestamp *a, const struct statx_timestamp *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool unchanged(const struct store *store)
{
	struct stamp now;

	return stamp_take(store->fd_buffered, &now) && now.size == store->stamp.size &&
	       same_time(&now.changed, &store->stamp.changed) &&
	       same_time(&now.born, &store->stamp.born);
}

/* Is what is cached what the file holds, and all of it known? */
static bool in_order(const struct store *store)
{
	return !store->block_device && !store->aside && !atomic_load(&store->resizing) &&
	       !atomic_load(&store->noticed) && !atomic_load(&store->changed) &&
	       !hm_store_dirty_pages(store->core) && !hm_store_error_sample(store->core);
}

/* What was stored beyond the end of the file is not to be seen again. */
static void forget_tail(struct store *store)
{
	u64 size = hm_store_size(store->core);

	if (store->writable && size % HM_PAGE_SIZE)
		resize_drop_clean(store, size >> HM_PAGE_SHIFT, (size >> HM_PAGE_SHIFT) + 1);
}

static void discard_oldest(struct pool *pool)
{
	struct store **at = &pool->parked;
	struct store *store;
	u32 n = 1;

	if (!*at)
		return;
	for (; (*at)->next; at = &(*at)->next)
		n++;
	if (n < MOST_PARKED)
		return;
	store = *at;
	*at = NULL;
	store_discard(store);
}

/**
 * park() - keep what is cached of a file that nobody maps any more
 * @store: in no list, and nothing of it is being read or written
 *
 * maps_lock is held for writing. Return: false if that would not be right; the
 * store is to be discarded.
 */
bool park(struct store *store)
{
	struct pool *pool = store->pool;
	int fd;

	if (!in_order(store))
		return false;
	fd = file_reopen(store->fd_buffered, O_RDONLY);
	if (fd < 0)
		return false;
	forget_tail(store);
	store_shut(store); /* what is open for writing would forbid the lease */
	if ((!atomic_load(&hugemap_files_are_guarded) && claim_lease(fd)) ||
	    !stamp_take(fd, &store->stamp) || !tells_changes(fd, &store->stamp.changed) ||
	    store->stamp.size != hm_store_size(store->core)) {
		close(fd);
		return false;
	}
	close(fd);
	discard_oldest(pool);
	atomic_store(&store->refs, 0);
	store->next = pool->parked;
	pool->parked = store;
	return true;
}

/**
 * park_take() - take up a store that was parked
 * @fd: open on the file
 * @writable: it is to be written
 *
 * maps_lock is held for writing. Return: the store, open and without a reference;
 * or NULL: there is none, or the file has been changed since.
 */
struct store *park_take(struct pool *pool, int fd, dev_t dev, ino_t ino, bool writable)
{
	struct store *store = store_in(pool->parked, dev, ino);

	if (!store)
		return NULL;
	store_unlist(&pool->parked, store);
	/* Open first: what is done to the file from now on is seen. */
	if (!store_open(store, fd, writable) && unchanged(store))
		return store;
	store_discard(store);
	return NULL;
}

void park_discard_all(struct pool *pool)
{
	struct store *store;

	pthread_rwlock_wrlock(&pool->maps_lock);
	while ((store = pool->parked)) {
		pool->parked = store->next;
		store_discard(store);
	}
	pthread_rwlock_unlock(&pool->maps_lock);
}
