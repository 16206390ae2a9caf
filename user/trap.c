// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Faults that cannot be served: SIGBUS for data that cannot be read, SIGSEGV for stores to
 * a read-only mapping.
 *
 * SIGBUS comes from UFFDIO_POISON, so that the kernel forces it on the thread (and a
 * system call gets EFAULT). A poisoned page stays so for a moment only, so that the next
 * touch tries again, as with mmap. It is gone earlier if the block is mapped meanwhile.
 */
#include "fault.h"
#include "frames.h"
#include "linux.h"
#include "uffd.h"

#include <sys/mman.h>

#define POISON_MS 100u
#define PROTECT_MS 10u

static char *page_start(uintptr_t addr)
{
	return (char *)(addr & ~(uintptr_t)(HM_PAGE_SIZE - 1));
}

static void heal(struct pool *pool, struct mapping *map, const struct poisoned *poisoned)
{
	u64 pgoff = map_pgoff(map, poisoned->addr);
	pthread_mutex_t *lock = block_lock(map->store, pgoff);
	enum hm_state state;
	struct hm_unit unit;

	pthread_mutex_lock(lock);
	/* Another mapping may have come to be there, of what lies beyond all blocks. */
	state = pgoff < store_limit(map->store) ? hm_peek(map->store->core, pgoff, &unit) :
						  HM_ABSENT;
	if (pgoff >= store_limit(map->store))
		; /* the kernel's by now: a file, whose protection is as it should be */
	else if (poisoned->end)
		sys_mprotect((void *)poisoned->addr, poisoned->end - poisoned->addr,
			     PROT_READ | PROT_WRITE);
	else if (!page_is_mapped(pool, state, &unit, map) &&
		 !uffd_watches(pool->uffd, (void *)poisoned->addr, HM_PAGE_SIZE))
		sys_madvise((void *)poisoned->addr, HM_PAGE_SIZE, MADV_DONTNEED);
	/* else it was read since, and mapping it has zapped the poison */
	pthread_mutex_unlock(lock);
}

/* SIGBUS at an address; the block lock may be held. If there are too many: try again. */
void trap_bus(struct handler *h, uintptr_t addr)
{
	char *page = page_start(addr);

	if (h->npoisoned < MAX_POISONED) {
		h->poisoned[h->npoisoned++] = (struct poisoned){
			.addr = (uintptr_t)page,
			.until_ms = h->now_ms + POISON_MS,
		};
		uffd_poison(h->pool->uffd, page, HM_PAGE_SIZE);
	}
	uffd_wake(h->pool->uffd, page, HM_PAGE_SIZE);
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
		if (map)
			heal(h->pool, map, poisoned);
		*poisoned = h->poisoned[--h->npoisoned];
	}
}

/*
 * A store to a read-only mapping, whose pages must be writable for the kernel
 * so that they can be moved: take that away for a moment, and the kernel does
 * what it does to such a store, from a program or from a system call.
 */
void trap_segv(struct handler *h, struct mapping *map, uintptr_t addr)
{
	uintptr_t start = addr & ~(uintptr_t)(HM_BLOCK_SIZE - 1);
	uintptr_t end = start + HM_BLOCK_SIZE;

	if (h->npoisoned < MAX_POISONED) {
		h->poisoned[h->npoisoned++] = (struct poisoned){
			.addr = start,
			.end = end,
			.until_ms = h->now_ms + PROTECT_MS,
		};
		sys_mprotect((void *)start, end - start, PROT_READ);
	}
	uffd_wake(h->pool->uffd, (void *)start, end - start);
}
