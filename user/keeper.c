// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * See keeper.h. What runs in the keeper (keeper_main and below) has no thread
 * state of the C library: it makes system calls itself, takes no lock, touches
 * no thread-local variable, and is compiled without sanitizers and stack
 * protector. All other threads are dead when it works, perhaps in the middle of
 * anything: it trusts the state words, and looks where the pages really are.
 */
#include "keeper.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine.h"
#include "pagemap.h"

#define STACK_BYTES (64u << 10)
#define TLS_BYTES 4096u

struct keeper {
	pid_t pid;
	struct pool *pool;
	char *memory; /* stack, then what passes for thread-local storage */
	bool watched;
	pthread_mutex_t alive; /* robust; held by handler 0 */
	union {
		unsigned char present[HM_BLOCK_PAGES]; /* for mincore() */
		u64 entries[HM_BLOCK_PAGES];
	};
};

#if defined(__x86_64__)

static long call(long nr, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

#elif defined(__aarch64__)

static long call(long nr, long a, long b, long c, long d)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
}

#endif

/* The word of a robust mutex, as the kernel defines it. */
static u32 *futex_of(struct keeper *keeper)
{
	return (u32 *)&keeper->alive.__data.__lock;
}

/* Sleep until the watched thread has died. True: without giving the lock up. */
static bool wait_for_death(struct keeper *keeper)
{
	u32 *futex = futex_of(keeper);

	for (;;) {
		u32 word = __atomic_load_n(futex, __ATOMIC_ACQUIRE);

		if (word & FUTEX_OWNER_DIED)
			return true;
		if (!(word & FUTEX_TID_MASK))
			return false;
		if (!(word & FUTEX_WAITERS) &&
		    !__atomic_compare_exchange_n(futex, &word, word | FUTEX_WAITERS, false,
						 __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
			continue;
		call(SYS_futex, (long)futex, FUTEX_WAIT, word | FUTEX_WAITERS, 0);
	}
}

/* Are all pages of a unit at this address, in memory or swapped out? */
static bool present(struct keeper *keeper, const char *addr, const struct hm_unit *unit)
{
	long bytes = (long)(unit->npages * sizeof(u64));
	u32 i;

	if (call(SYS_pread64, keeper->pool->pagemap_fd, (long)keeper->entries, bytes,
		 pagemap_offset(addr)) == bytes)
		return pagemap_all_there(keeper->entries, unit->npages);
	if (call(SYS_mincore, (long)addr, (long)unit_bytes(unit), (long)keeper->present, 0))
		return false;
	for (i = 0; i < unit->npages; i++)
		if (!(keeper->present[i] & 1))
			return false;
	return true;
}

/*
 * Where a unit's data is. Its place may be out of date by one move, if a thread
 * died between the move and the note.
 */
static char *find_data(struct keeper *keeper, struct store *store, const struct hm_unit *unit)
{
	struct pool *pool = keeper->pool;
	struct place *place = &pool->places[unit->frame];
	char *slot = slot_of(pool, unit->frame);
	u32 i;

	if (place->map && place->pgoff == unit->pgoff) {
		char *addr = map_addr(place->map, unit->pgoff);

		if (present(keeper, addr, unit))
			return addr;
	}
	for (i = 0; i < pool->nmaps; i++) {
		struct mapping *map = pool->maps[i];
		char *addr = map_addr(map, unit->pgoff);

		if (map->store == store && addr >= map->start &&
		    addr + unit_bytes(unit) <= map->end && present(keeper, addr, unit))
			return addr;
	}
	return present(keeper, slot, unit) ? slot : NULL;
}

static void write_all(int fd, const char *data, u64 bytes, u64 offset)
{
	while (bytes) {
		long n = call(SYS_pwrite64, fd, (long)data, (long)bytes, (long)offset);

		if (n == -EINTR || n == -EAGAIN)
			continue;
		if (n <= 0)
			return;
		data += n;
		offset += (u64)n;
		bytes -= (u64)n;
	}
}

/* The length of the file now: it may have shrunk since. */
static u64 size_now(const struct store *store)
{
	long end = call(SYS_lseek, store->fd_buffered, 0, SEEK_END, 0);

	return end < 0 ? 0 : (u64)end;
}

static void write_unit(struct keeper *keeper, struct store *store, const struct hm_unit *unit)
{
	char *data = find_data(keeper, store, unit);
	u64 offset = unit->pgoff << HM_PAGE_SHIFT;
	u64 bytes = unit_bytes(unit), size = size_now(store), tail;

	if (size > hm_store_size(store->core))
		size = hm_store_size(store->core);
	if (!data || offset >= size)
		return;
	if (bytes > size - offset)
		bytes = size - offset;
	tail = store->direct ? bytes % HM_PAGE_SIZE : 0;
	write_all(store->fd, data, bytes - tail, offset);
	write_all(store->fd_buffered, data + bytes - tail, tail, offset + bytes - tail);
}

static void write_store(struct keeper *keeper, struct store *store)
{
	struct hm_unit unit;
	enum hm_state state;
	u64 at = 0;

	while (hm_scan(store->core, &at, &unit, &state)) {
		const struct place *place = &keeper->pool->places[unit.frame];

		/*
		 * A clean unit may have been stored to just before it was verified, and
		 * one that is claimed for eviction may be known to have been.
		 */
		if (state == HM_DIRTY || state == HM_WRITING || place->verifying || place->stored)
			write_unit(keeper, store, &unit);
	}
}

/* Not used where HM_NO_KEEPER leaves the keeper out. */
__attribute__((unused)) static int keeper_main(void *arg)
{
	struct keeper *keeper = arg;
	struct pool *pool = keeper->pool;
	struct store *store;

	call(SYS_prctl, PR_SET_NAME, (long)"hugemap-keeper", 0, 0);
	/* What is sent to the group of the program is not meant for us. */
	call(SYS_setsid, 0, 0, 0, 0);
	if (wait_for_death(keeper)) {
		/* From now on an empty page is the kernel's business again. */
		call(SYS_close, pool->uffd, 0, 0, 0);
		for (store = pool->stores; store; store = store->next)
			if (store->writable)
				write_store(keeper, store);
	}
	call(SYS_exit_group, 0, 0, 0, 0);
	return 0;
}

/* --- in the program -------------------------------------------------------------- */

static void keeper_free(struct keeper *keeper)
{
	if (keeper->memory)
		munmap(keeper->memory, STACK_BYTES + TLS_BYTES);
	pthread_mutex_destroy(&keeper->alive);
	free(keeper);
}

static struct keeper *keeper_alloc(struct pool *pool)
{
	struct keeper *keeper = calloc(1, sizeof(*keeper));
	pthread_mutexattr_t attr;

	if (!keeper)
		return NULL;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&keeper->alive, &attr);
	pthread_mutexattr_destroy(&attr);
	keeper->pool = pool;
	keeper->memory = mmap(NULL, STACK_BYTES + TLS_BYTES, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (keeper->memory == MAP_FAILED) {
		keeper->memory = NULL;
		keeper_free(keeper);
		return NULL;
	}
	madvise(keeper->memory, STACK_BYTES + TLS_BYTES, MADV_DONTFORK);
	return keeper;
}

void keeper_watch_me(struct pool *pool)
{
	if (!pool->keeper)
		return;
	pthread_mutex_lock(&pool->keeper->alive);
	pool->keeper->watched = true;
}

void keeper_forget_me(struct pool *pool)
{
	if (!pool->keeper || !pool->keeper->watched)
		return;
	pool->keeper->watched = false;
	pthread_mutex_unlock(&pool->keeper->alive);
}

int keeper_start(struct pool *pool)
{
#ifdef HM_NO_KEEPER
	(void)pool;
	return -EOPNOTSUPP; /* a thread sanitizer does not know such a process */
#else
	struct keeper *keeper = pool->keeper;
	int flags = CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_SETTLS;
	sigset_t all, old;
	pid_t pid = 0;

	if (!keeper)
		return -EOPNOTSUPP;
	pthread_mutex_lock(&pools_lock);
	if (!keeper->pid) {
		char *tls = keeper->memory + STACK_BYTES + TLS_BYTES / 2;

		/* No signal may end it, and none is sent when it ends. */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		pid = clone(keeper_main, keeper->memory + STACK_BYTES, flags, keeper, NULL, tls);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		if (pid > 0)
			keeper->pid = pid;
	}
	pthread_mutex_unlock(&pools_lock);
	return pid < 0 ? -errno : 0;
#endif
}

int keeper_create(struct pool *pool)
{
	if (pool->opts.no_keeper)
		return 0;
	pool->keeper = keeper_alloc(pool);
	return pool->keeper ? 0 : -ENOMEM;
}

void keeper_stop(struct pool *pool)
{
	if (!pool->keeper)
		return;
	if (pool->keeper->pid)
		while (waitpid(pool->keeper->pid, NULL, __WALL) < 0 && errno == EINTR)
			;
	keeper_free(pool->keeper);
	pool->keeper = NULL;
}
