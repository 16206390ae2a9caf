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

#include <pthread.h>
#include <sys/mman.h>

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

void steer_mapped(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	const struct event event = {
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
	if (!owner || never || length < settings.least || flags & MAP_ANONYMOUS ||
	    prot & PROT_EXEC || !(prot & (PROT_READ | PROT_WRITE)) || getpid() != owner)
		return;
	widen(event.start, event.start + event.bytes);
	number = event_put(&event);
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

	if (!length || !may_be_steered(addr, length))
		return;
	number = event_put(&event);
	/* What is held was settled while the caller of mmap() waited. */
	if (__atomic_load_n(&steer_held, __ATOMIC_SEQ_CST) && watch_is_running())
		event_wait(number, RELEASE_NS);
}

void steer_moved(void *old, size_t old_length, void *new, size_t new_length)
{
	const struct event event = {
		.kind = EVENT_MOVED,
		.start = (uintptr_t)old,
		.bytes = (old_length + 4095) & ~4095ul,
		.to = (uintptr_t)new,
		.to_bytes = (new_length + 4095) & ~4095ul,
	};

	if (!may_be_steered(old, old_length) && !may_be_steered(new, new_length))
		return;
	widen(event.to, event.to + event.to_bytes);
	event_put(&event);
}

void steer_hint(void *addr, size_t length, int advice)
{
	const struct event event = {
		.kind = EVENT_HINT,
		.start = (uintptr_t)addr,
		.bytes = (length + 4095) & ~4095ul,
		.advice = advice,
	};

	if (length && may_be_steered(addr, length))
		event_put(&event);
}

void steer_alone(void)
{
	watch_stop();
}

void steer_never(void)
{
	__atomic_store_n(&never, true, __ATOMIC_SEQ_CST);
	watch_stop();
}

const struct steer_page *steer_page(void)
{
	return __atomic_load_n(&act_page, __ATOMIC_ACQUIRE);
}
