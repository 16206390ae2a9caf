// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The door: what the program's threads call. Each tells the watcher by one event, if it
 * is about memory that could be steered at all.
 */
#include "steer.h"

#include "act.h"
#include "call.h"
#include "events.h"
#include "watch.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* A caller waits for that long, at most, until its file is held, or is not any more. */
#define HOLD_NS 5000000ull
#define RELEASE_NS 100000000ull

static struct steer_settings settings = { .least = STEER_LEAST_DEFAULT };
static pid_t owner; /* the process that may have a watcher; 0 = steering is off */
static bool never;

/*
 * What could be steered lies between these addresses: so that all other calls are cheap.
 * They only grow apart.
 */
static uintptr_t lowest = UINTPTR_MAX, highest;

static void widen(uintptr_t start, uintptr_t end)
{
	uintptr_t seen = __atomic_load_n(&lowest, __ATOMIC_RELAXED);

	while (start < seen && !__atomic_compare_exchange_n(&lowest, &seen, start, true,
							    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
	seen = __atomic_load_n(&highest, __ATOMIC_RELAXED);
	while (end > seen && !__atomic_compare_exchange_n(&highest, &seen, end, true,
							  __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
}

static bool may_be_steered(const void *addr, size_t length)
{
	uintptr_t start = (uintptr_t)addr;

	return start < __atomic_load_n(&highest, __ATOMIC_RELAXED) &&
	       start + length > __atomic_load_n(&lowest, __ATOMIC_RELAXED);
}

/* Registered with pthread_atfork(3). */
static void child(void)
{
	watch_forget();
	owner = getpid();
}

void steer_configure(const struct steer_settings *chosen)
{
	settings = *chosen;
	if (!settings.least)
		settings.least = STEER_LEAST_DEFAULT;
	watch_settings = settings;
	/* Where it cannot be known that this is a child, there is no watcher in one. */
	if (!owner && pthread_atfork(NULL, NULL, child))
		return;
	owner = getpid();
}

static bool is_owner(void)
{
	return owner && call(SYS_getpid, 0, 0, 0, 0, 0, 0) == owner;
}

/* Reading a hole takes room in file systems that are in memory. */
static bool is_steerable(int fd)
{
	struct statfs fs;
	struct stat st;

	return call(SYS_newfstatat, fd, (long)"", (long)&st, AT_EMPTY_PATH, 0, 0) == 0 &&
	       S_ISREG(st.st_mode) && call(SYS_fstatfs, fd, (long)&fs, 0, 0, 0, 0) == 0 &&
	       fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC && fs.f_type != HUGETLBFS_MAGIC;
}

/* In the program's own call: see watch.c. */
static bool take_room(struct event *event, uint64_t start, uint64_t bytes)
{
	long at;

	event->room_bytes = map_room(start, bytes);
	at = call(SYS_mmap, 0, (long)event->room_bytes, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (call_failed(at))
		return false;
	/* A child of fork() has no watcher that could use it. */
	call(SYS_madvise, at, (long)event->room_bytes, MADV_DONTFORK, 0, 0, 0);
	event->room = (void *)at;
	return true;
}

static uint64_t put_or_forget(const struct event *event)
{
	uint64_t number = event_put(event);

	if (!number)
		call(SYS_munmap, (long)event->room, (long)event->room_bytes, 0, 0, 0, 0);
	return number;
}

void steer_mapped(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	struct event event = {
		.kind = EVENT_MAPPED,
		.start = (uintptr_t)addr,
		.bytes = (length + 4095) & ~4095ul,
		.offset = (uint64_t)offset,
		.prot = prot,
		.flags = flags,
		.fd = fd,
		.until = now_ns() + HOLD_NS,
	};
	uint64_t number;

	/* A child of vfork() has its parent's memory, and must not start a thread there. */
	if (never || watch_is_impossible() || length < settings.least || flags & MAP_ANONYMOUS ||
	    prot & PROT_EXEC || !(prot & (PROT_READ | PROT_WRITE)) || !is_owner() ||
	    !is_steerable(fd) || !take_room(&event, event.start, event.bytes))
		return;
	widen(event.start, event.start + event.bytes);
	number = put_or_forget(&event);
	watch_start();
	if (steer_would_hold(prot, flags, event.bytes) && watch_is_running())
		event_wait(number, HOLD_NS);
}

void steer_unmapping(void *addr, size_t length)
{
	const struct event event = {
		.kind = EVENT_UNMAPPING,
		.start = (uintptr_t)addr,
		.bytes = (length + 4095) & ~4095ul,
	};
	uint64_t number;

	if (!length || !may_be_steered(addr, length) || !watch_is_running() || !is_owner())
		return;
	number = event_put(&event);
	/* What is held was settled while the caller of mmap() waited. */
	if (__atomic_load_n(&steer_held, __ATOMIC_SEQ_CST))
		event_wait(number, RELEASE_NS);
}

void steer_moved(void *old, size_t old_length, void *new, size_t new_length)
{
	struct event event = {
		.kind = EVENT_MOVED,
		.start = (uintptr_t)old,
		.bytes = (old_length + 4095) & ~4095ul,
		.to = (uintptr_t)new,
		.to_bytes = (new_length + 4095) & ~4095ul,
	};

	if ((!may_be_steered(old, old_length) && !may_be_steered(new, new_length)) ||
	    !watch_is_running() || !is_owner() || !take_room(&event, event.to, event.to_bytes))
		return;
	widen(event.to, event.to + event.to_bytes);
	put_or_forget(&event);
}

/* Is a range in a mapping that was advised, and by nobody else? */
static bool has_advised(const void *addr, size_t length)
{
	uint64_t start = (uintptr_t)addr;
	uint32_t i;

	for (i = 0; may_be_steered(addr, length) && i < STEER_PAGE_MAPS; i++) {
		const struct advised *at = &steer_advised[i];

		if (at->start <= start && start + length <= at->start + at->bytes)
			return (at->random || at->huge) && !at->hinted;
	}
	return false;
}

/* The watcher gives its advice anew, perhaps even in between. */
void *steer_remap(void *old, size_t old_length, size_t new_length, int flags, void *new)
{
	long at, tries;

	for (tries = 0; tries < 4; tries++) {
		at = call(SYS_mremap, (long)old, (long)old_length, (long)new_length, flags,
			  (long)new, 0);
		if (at != -EFAULT || !has_advised(old, old_length) ||
		    call(SYS_madvise, (long)old, (long)old_length, MADV_NORMAL, 0, 0, 0) ||
		    call(SYS_madvise, (long)old, (long)old_length, MADV_NOHUGEPAGE, 0, 0, 0))
			break;
	}
	return (void *)at;
}

void steer_hint(void *addr, size_t length, int advice)
{
	const struct event event = {
		.kind = EVENT_HINT,
		.start = (uintptr_t)addr,
		.bytes = (length + 4095) & ~4095ul,
		.advice = advice,
	};

	if (length && may_be_steered(addr, length) && watch_is_running() && is_owner())
		event_put(&event);
}

void steer_alone(void)
{
	if (is_owner())
		watch_stop();
}

void steer_never(void)
{
	/* A child of vfork() does not decide for its parent. */
	if (!is_owner())
		return;
	__atomic_store_n(&never, true, __ATOMIC_SEQ_CST);
	watch_stop();
}

const struct steer_page *steer_page(void)
{
	return __atomic_load_n(&act_page, __ATOMIC_ACQUIRE);
}
