// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Faults that cannot be served: SIGBUS beyond the end of the file and for data
 * that cannot be read, SIGSEGV for stores to a read-only mapping.
 *
 * SIGBUS comes from UFFDIO_POISON, so that the kernel forces it on the thread
 * (and a system call gets EFAULT). A poisoned page stays so until it is zapped:
 * beyond the end of the file when the file grows (resize.c), after a read error
 * a moment later, so that the next touch tries again, as with mmap.
 */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define POISON_MS 100u

static char *page_start(uintptr_t addr)
{
	return (char *)(addr & ~(uintptr_t)(HM_PAGE_SIZE - 1));
}

static void poison_for(struct handler *h, struct mapping *map, uintptr_t addr, u64 until_ms)
{
	char *page = page_start(addr);
	u32 region = (u32)(((uintptr_t)page >> HM_BLOCK_SHIFT) -
			   ((uintptr_t)map->start >> HM_BLOCK_SHIFT));

	hm_bit_set(map->tables, region);
	if (until_ms && h->npoisoned < MAX_POISONED) {
		h->poisoned[h->npoisoned++] =
			(struct poisoned){ .addr = (uintptr_t)page, .until_ms = until_ms };
	} else {
		atomic_store(&map->poisoned, true);
	}
	uffd_poison(h->pool->uffd, page, HM_PAGE_SIZE);
	uffd_wake(h->pool->uffd, page, HM_PAGE_SIZE);
}

/* SIGBUS at an address; the block lock is held. */
void trap_bus(struct handler *h, struct mapping *map, uintptr_t addr, bool for_ever)
{
	poison_for(h, map, addr, for_ever ? 0 : h->now_ms + POISON_MS);
}

/* Let pages be tried again whose time is over. */
void trap_heal(struct handler *h)
{
	u32 i = 0;

	while (i < h->npoisoned) {
		struct poisoned *poisoned = &h->poisoned[i];
		struct mapping *map = map_find(h->pool, (void *)poisoned->addr);

		if (map && h->now_ms < poisoned->until_ms) {
			i++;
			continue;
		}
		if (map) {
			u64 pgoff = map_pgoff(map, poisoned->addr);
			pthread_mutex_t *lock = block_lock(map->store, pgoff);
			struct hm_unit unit;

			/* If it was read since, mapping it has zapped the poison. */
			pthread_mutex_lock(lock);
			if (hm_peek(map->store->core, pgoff, &unit) == HM_ABSENT)
				madvise((void *)poisoned->addr, HM_PAGE_SIZE, MADV_DONTNEED);
			pthread_mutex_unlock(lock);
		}
		*poisoned = h->poisoned[--h->npoisoned];
	}
}

/* A line of a file of a thread of this process, e.g. its "syscall". */
static bool read_task_file(u32 tid, const char *name, char *buffer, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%u/%s", tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, buffer, size - 1);
	close(fd);
	if (n <= 0)
		return false;
	buffer[n] = '\0';
	return true;
}

static bool in_system_call(u32 tid)
{
	char line[128];

	/* "-1 sp pc" if it is blocked, but not in a system call */
	return read_task_file(tid, "syscall", line, sizeof(line)) && line[0] >= '0' &&
	       line[0] <= '9';
}

static bool signal_is_blocked(u32 tid, int sig)
{
	unsigned long long blocked = 0, ignored = 0, bit = 1ull << (sig - 1);
	char status[4096];
	const char *at;

	if (!read_task_file(tid, "status", status, sizeof(status)))
		return false;
	at = strstr(status, "SigBlk:");
	if (at)
		sscanf(at, "SigBlk: %llx", &blocked);
	at = strstr(status, "SigIgn:");
	if (at)
		sscanf(at, "SigIgn: %llx", &ignored);
	return (blocked | ignored) & bit;
}

/* As the kernel does when it must deliver a signal that is blocked. */
static void force_death(int sig)
{
	struct sigaction action = { .sa_handler = SIG_DFL };
	sigset_t set;

	sigaction(sig, &action, NULL);
	sigemptyset(&set);
	sigaddset(&set, sig);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	raise(sig);
}

/*
 * A store to a read-only mapping. In user mode: SIGSEGV for the thread, which
 * the signal takes out of the fault. In a system call: EFAULT, by a page that
 * is poisoned for a moment.
 */
void trap_segv(struct handler *h, struct mapping *map, uintptr_t addr, u32 tid)
{
	siginfo_t info = {
		.si_signo = SIGSEGV,
		.si_code = SEGV_ACCERR,
		.si_addr = (void *)addr,
	};

	if (in_system_call(tid)) {
		u64 pgoff = map_pgoff(map, addr);
		pthread_mutex_t *lock = block_lock(map->store, pgoff);
		struct hm_unit unit;
		enum hm_state state;
		u32 removed;

		pthread_mutex_lock(lock);
		state = hm_peek(map->store->core, pgoff, &unit);
		if (state == HM_WRITING) {
			/* It is being written from where it is: a moment later. */
			pthread_mutex_unlock(lock);
			uffd_wake(h->pool->uffd, page_start(addr), HM_PAGE_SIZE);
			return;
		}
		if ((state == HM_CLEAN || state == HM_DIRTY) && page_mapping(h->pool, &unit) == map)
			page_remove(h->pool, &unit, 1, &removed);
		poison_for(h, map, addr, h->now_ms + POISON_MS);
		pthread_mutex_unlock(lock);
		return;
	}
	if (signal_is_blocked(tid, SIGSEGV))
		force_death(SIGSEGV);
	syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, SIGSEGV, &info);
}
