// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "steer.h"

#include "act.h"
#include "call.h"
#include "events.h"
#include "map.h"
#include "record.h"
#include "room.h"
#include "thread.h"
#include "types.h"
#include "watch.h"

#include <pthread.h>
#include <sys/mman.h>

static u64 steer_least = STEER_LEAST_DEFAULT;
static pid_t steer_owner; /* the process that may have a monitor; 0 = steering is off */
static bool steer_is_over; /* steer_never() was called, and no thread may start any more */

/*
 * All ranges that were ever steered lie between these two addresses. The first one only falls and
 * the second one only rises.
 */
static uintptr_t steer_lowest = UINTPTR_MAX, steer_highest;

static void steer_widen(uintptr_t start, uintptr_t end)
{
	uintptr_t seen = __atomic_load_n(&steer_lowest, __ATOMIC_RELAXED);

	while (start < seen && !__atomic_compare_exchange_n(&steer_lowest, &seen, start, true,
							    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
	seen = __atomic_load_n(&steer_highest, __ATOMIC_RELAXED);
	while (end > seen && !__atomic_compare_exchange_n(&steer_highest, &seen, end, true,
							  __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
}

/* If no monitor can start, no range is near: an event may wait for ever then. */
static bool steer_is_near(const void *addr, size_t length)
{
	uintptr_t start = (uintptr_t)addr;

	return start < __atomic_load_n(&steer_highest, __ATOMIC_RELAXED) &&
	       start + length > __atomic_load_n(&steer_lowest, __ATOMIC_RELAXED) &&
	       !watch_is_impossible();
}

/* pthread_atfork(3) runs this in each child of fork(). */
static void steer_child(void)
{
	watch_forget();
	steer_owner = (pid_t)call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

void steer_configure(const struct steer_settings *chosen)
{
	if (chosen->least)
		steer_least = chosen->least;
	watch_verbose = chosen->verbose;
	act_override_hints = chosen->override_hints;
	record_rank = chosen->rank ? chosen->rank : "";
	/* Without the handler, a child of fork() would take itself for its parent. */
	if (!steer_owner && pthread_atfork(NULL, NULL, steer_child))
		return;
	steer_owner = (pid_t)call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

/*
 * Return whether this process owns the monitor. A child of vfork(), clone() or a raw fork does not:
 * the handler of pthread_atfork(3) has not run in it.
 */
static bool steer_is_owner(void)
{
	return steer_owner && call(SYS_getpid, 0, 0, 0, 0, 0, 0) == steer_owner;
}

/*
 * Return whether the monitor must get an event about a range: it steers a mapping there, or it may
 * steer one when it has taken all waiting events.
 */
static bool steer_concerns(const void *addr, size_t length)
{
	return steer_is_near(addr, length) &&
	       (events_pending() || map_overlaps((uintptr_t)addr, length)) && steer_is_owner();
}

/* In the program's own call: see watch_own in watch.c. */
static bool steer_take_room(struct event *event, uint64_t start, uint64_t bytes)
{
	event->room_bytes = map_room(start, bytes);
	event->room = room_take(event->room_bytes);
	return event->room;
}

/* If there is no memory for it, the mapping is not steered. */
static void steer_grow_table(uint32_t n)
{
	struct map_block *block = map_is_full(n) ? room_map(sizeof(*block)) : NULL;

	if (block && !map_add_block(block))
		room_unmap(block, sizeof(*block));
}

/* Returns false if the event is lost. */
static bool steer_put(const struct event *event)
{
	bool put = event_put(event);

	if (!put && event->room)
		room_give_back(event->room, event->room_bytes, 0);
	return put;
}

static uint64_t steer_pages(size_t length)
{
	return (length + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
}

/* @existed: the program has made the mapping some time before */
static void steer_put_mapped(void *addr, size_t length, int prot, int flags, off_t offset,
			     bool existed)
{
	struct event event = {
		.kind = EVENT_MAPPED,
		.start = (uintptr_t)addr,
		.bytes = steer_pages(length),
		.offset = (uint64_t)offset,
		.prot = prot,
		.flags = flags,
		.existed = existed,
	};

	/*
	 * A child of vfork() shares the memory of its parent, and must not start a thread there.
	 * The ring may be missing while another thread starts the monitor.
	 */
	if (steer_is_over || watch_is_impossible() || length < steer_least ||
	    flags & MAP_ANONYMOUS || prot & PROT_EXEC || !(prot & (PROT_READ | PROT_WRITE)) ||
	    !steer_is_owner() || !watch_start() || !events_begin() ||
	    !steer_take_room(&event, event.start, event.bytes))
		return;
	steer_grow_table(1);
	steer_widen(event.start, event.start + event.bytes);
	steer_put(&event);
	/*
	 * The thread may have ended since the first watch_start(), and some thread must take the
	 * event.
	 */
	watch_start();
}

void steer_mapped(void *addr, size_t length, int prot, int flags, off_t offset)
{
	steer_put_mapped(addr, length, prot, flags, offset, false);
}

void steer_adopt(void *addr, size_t length, int prot, int flags, off_t offset)
{
	steer_put_mapped(addr, length, prot, flags, offset, true);
}

/* Returns false if the range is not mapped. */
static bool steer_take_back(long start, size_t length)
{
	if (call(SYS_madvise, start, (long)length, MADV_NORMAL, 0, 0, 0))
		return false;
	/*
	 * A kernel without huge pages refuses this advice, but then the monitor has not given it
	 * either.
	 */
	call(SYS_madvise, start, (long)length, MADV_NOHUGEPAGE, 0, 0, 0);
	return true;
}

static bool steer_find_advised(struct steer_removal *removal, const struct event *event)
{
	return map_find_advised(event->start, event->start + event->bytes, &removal->advised,
				&removal->advised_bytes);
}

/*
 * Find the advice in a range that the program is about to unmap. Return the same as
 * steer_concerns(), with one pass over the table.
 *
 * CPU 0 (monitor): takes MAPPED, adds the mapping to the table; the event waits no more.
 * CPU 1 (program): sees that the event waits, or finds the mapping, as it looks at the table last.
 */
static bool steer_is_removal(struct steer_removal *removal, const struct event *event)
{
	bool waits;

	if (!steer_is_near((void *)event->start, event->bytes))
		return false;
	waits = events_pending();
	return (steer_find_advised(removal, event) || waits) && steer_is_owner();
}

struct steer_removal steer_unmapping(void *addr, size_t length)
{
	static uint64_t last_id;
	struct steer_removal removal = { .ends = watch_ends() };
	struct event event = {
		.kind = EVENT_UNMAPPING,
		.start = (uintptr_t)addr,
		.bytes = steer_pages(length),
	};
	uint32_t changes = map_changes();

	/* The program's call fails if the address is not that of a page. */
	if (!length || event.start % PAGE_BYTES || !steer_is_removal(&removal, &event))
		return (struct steer_removal){};
	removal.id = event.id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
	removal.lost = !event_put(&event);
	watch_wait_advice(event.start, event.bytes);
	/* The monitor may have given its first advice between these steps. */
	if (!removal.advised_bytes && map_changes() != changes)
		steer_find_advised(&removal, &event);
	return removal;
}

/*
 * CPU 0 (monitor): takes UNMAPPING, forgets the mapping, and ends for setuid() of a third thread.
 * CPU 1 (program): munmap() fails; puts NOT_UNMAPPED, which no monitor takes.
 * The ring may also be full, and then the event is lost.
 */
static void steer_not_unmapped(struct steer_removal removal)
{
	const struct event event = {
		.kind = EVENT_NOT_UNMAPPED,
		.id = removal.id,
		.advised = removal.advised_bytes,
	};
	bool put = event_put(&event);

	if (removal.advised_bytes && (!put || watch_may_end_since(removal.ends)))
		steer_take_back((long)removal.advised, removal.advised_bytes);
}

/*
 * CPU 1 (program): puts UNMAPPING, which is lost.
 * CPU 0 (monitor): takes all events, and compares its table with the kernel's areas. The range is
 * still mapped, so its entry stays.
 * CPU 1 (program): munmap(); maps other memory there. The monitor would advise that memory.
 * So the loss is reported again, and the monitor compares again. If the call has failed, the entry
 * is right.
 */
void steer_unmapped(struct steer_removal removal, bool done)
{
	if (removal.lost)
		events_lose(EVENTS_LOST);
	else if (removal.id && !done)
		steer_not_unmapped(removal);
}

/* Add the parts of a range that mremap() is to move. */
static void steer_find_parts(struct map_parts *parts, const struct event *range)
{
	map_find_parts(parts, range->start, range->start + range->bytes);
}

/* Returns false if the part is not mapped. */
static bool steer_take_back_part(const struct map_part *part)
{
	return steer_take_back((long)part->start, part->end - part->start);
}

/*
 * Give all parts the same advice, so that the kernel joins their areas. Returns false if a part is
 * not mapped.
 */
static bool steer_join(const struct map_parts *parts)
{
	uint32_t i;

	for (i = 0; i < parts->n; i++)
		if (!steer_take_back_part(&parts->part[i]))
			return false;
	return true;
}

/*
 * Take back the advice that splits the range, and call mremap(2) again. The monitor repeats its
 * advice, perhaps even between these calls.
 */
static long steer_remap_again(const struct event *range, size_t length, int flags, void *new,
			      struct map_parts *parts)
{
	long at = -EFAULT, tries;

	for (tries = 0; tries < 3 && at == -EFAULT; tries++) {
		steer_find_parts(parts, range);
		if (!map_parts_advised(parts) || !steer_join(parts))
			break;
		at = call(SYS_mremap, (long)range->start, (long)range->bytes, (long)length, flags,
			  (long)new, 0);
	}
	return at;
}

/* Take the advice of the monitor in a range back, which mremap() has not moved. */
static void steer_take_back_parts(const struct map_parts *parts)
{
	uint32_t i;

	for (i = 0; i < parts->n; i++)
		if (parts->part[i].advised)
			steer_take_back_part(&parts->part[i]);
}

/* Take the advice of a part back at its new place. The call may have changed the length. */
static void steer_take_back_moved(const struct map_part *part, const struct event *moved)
{
	uint64_t start = part->start - moved->start, end = part->end - moved->start;

	if (end == moved->bytes || end > moved->to_bytes)
		end = moved->to_bytes;
	if (part->advised && start < end)
		steer_take_back((long)(moved->to + start), end - start);
}

/*
 * Report a range before mremap(), and find its parts that may have advice of the monitor. Return
 * whether the monitor gets the event.
 */
static bool steer_put_moving(const struct event *event, struct map_parts *parts)
{
	bool put;

	steer_find_parts(parts, event);
	put = event_put(event);
	watch_wait_advice(event->start, event->bytes);
	/* If the monitor ends now, the table is empty afterwards. */
	steer_find_parts(parts, event);
	return put;
}

/* Take memory for the data of all mappings that have moved. */
static bool steer_take_rooms(struct event *event)
{
	uint64_t end = event->start + event->bytes;

	event->room_bytes = map_rooms(event->start, end, event->to, event->to_bytes);
	event->rooms = event->room_bytes;
	if (!event->rooms)
		return steer_take_room(event, event->to, event->to_bytes);
	event->room = room_map(event->room_bytes);
	return event->room;
}

/*
 * Report the result of mremap(). Return whether the monitor will know the new place. @advised: the
 * monitor is to take the advice back if it does not know the move
 */
static bool steer_put_moved(struct event *event, long at, size_t length, int flags, bool advised)
{
	uint32_t entries;

	event->kind = call_failed(at) ? EVENT_STAYED : EVENT_MOVED;
	if (event->kind == EVENT_MOVED) {
		event->to = (uint64_t)at;
		event->to_bytes = steer_pages(length);
		event->flags = flags;
		steer_widen(event->to, event->to + event->to_bytes);
		/* A move may cut a mapping at each end of its range, and one at its new place. */
		entries = map_count_in(event->start, event->start + event->bytes) + 2;
		steer_grow_table(entries);
		event->advised = map_has_entries(entries) && steer_take_rooms(event) && advised;
	}
	return steer_put(event) && event->room;
}

/* This call of mremap() changes nothing. */
static bool steer_is_mapped(uint64_t page)
{
	return call(SYS_mremap, (long)page, PAGE_BYTES, PAGE_BYTES, 0, 0, 0) != -EFAULT;
}

/*
 * Since Linux 6.17, mremap() to an address may move the first mappings of a range and fail then.
 * The monitor does not know which, so it compares its table with the kernel's areas.
 */
static void steer_partly_moved(const struct map_parts *parts, struct event *event, uint64_t to,
			       size_t length)
{
	uint32_t i;

	event->to = to;
	event->to_bytes = steer_pages(length);
	for (i = 0; i < parts->n; i++)
		if (!steer_is_mapped(parts->part[i].start))
			steer_take_back_moved(&parts->part[i], event);
	events_lose(EVENTS_LOST);
}

/* Call mremap(2) for a range that the monitor must get events about. */
static long steer_remap_steered(struct event *event, size_t length, int flags, void *new)
{
	uint32_t ends = watch_ends(), changes = map_changes(), i;
	struct map_parts parts = {};
	bool put = steer_put_moving(event, &parts);
	long at = call(SYS_mremap, (long)event->start, (long)event->bytes, (long)length, flags,
		       (long)new, 0);

	/* If an event was lost, the monitor may have given first advice just before mremap(). */
	if (map_changes() != changes)
		steer_find_parts(&parts, event);
	if (at == -EFAULT)
		at = steer_remap_again(event, length, flags, new, &parts);
	/* Before STAYED: the monitor may give advice at the old place after that event. */
	if (call_failed(at) && flags & MREMAP_FIXED)
		steer_partly_moved(&parts, event, (uintptr_t)new, length);
	put &= steer_put_moved(event, at, length, flags, put && map_parts_advised(&parts));
	/*
	 * CPU 0 (monitor): takes MOVING; ends for setuid() of a third thread, without advice there.
	 * CPU 1 (program): puts MOVING; mremap(); puts MOVED, which no monitor takes. The third
	 * thread may have called setuid() before CPU 1 puts MOVING.
	 * The monitor does not know the new place either if an event is lost.
	 */
	if ((put || call_failed(at)) && !watch_may_end_since(ends))
		return at;
	for (i = 0; i < parts.n && !call_failed(at); i++)
		steer_take_back_moved(&parts.part[i], event);
	if (call_failed(at) || flags & MREMAP_DONTUNMAP)
		steer_take_back_parts(&parts);
	return at;
}

void *steer_remap(void *old, size_t old_length, size_t length, int flags, void *new)
{
	struct event event = {
		.kind = EVENT_MOVING,
		.start = (uintptr_t)old,
		.bytes = steer_pages(old_length),
	};
	uint64_t signals;
	long at;

	/*
	 * With an old length of 0, mremap() makes a second mapping and leaves the old one in place.
	 */
	if (!old_length || event.start % PAGE_BYTES || !steer_concerns(old, old_length))
		return (void *)call(SYS_mremap, (long)old, (long)old_length, (long)length, flags,
				    (long)new, 0);
	/*
	 * The handler of a signal may leave the call by longjmp(), or end the thread. No event would
	 * end the move then, and the mapping would count as moving for ever.
	 */
	signals = thread_block_signals(THREAD_OWN_SIGNALS);
	at = steer_remap_steered(&event, length, flags, new);
	thread_restore_signals(signals);
	return (void *)at;
}

void steer_hint(void *addr, size_t length, int advice)
{
	const struct event event = {
		.kind = EVENT_HINT,
		.start = (uintptr_t)addr,
		.bytes = steer_pages(length),
		.advice = advice,
	};

	if (length && steer_concerns(addr, length))
		event_put(&event);
}

void steer_alone(void)
{
	if (steer_is_owner())
		watch_stop();
}

void steer_alone_end(void)
{
	if (steer_is_owner() && !steer_is_over)
		watch_allow();
}

void steer_never(void)
{
	/* A child of vfork() must not decide for its parent. */
	if (!steer_is_owner() || steer_is_over)
		return;
	__atomic_store_n(&steer_is_over, true, __ATOMIC_SEQ_CST);
	watch_stop();
}

bool steer_is_monitor(pid_t thread)
{
	return thread > 0 && watch_is_thread(thread) && steer_is_owner();
}

const struct steer_page *steer_own_page(void)
{
	/* A child of a raw fork does not have the page. */
	return steer_is_owner() ? __atomic_load_n(&record_page, __ATOMIC_ACQUIRE) : NULL;
}
