// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "room.h"

#include "call.h"

#include <string.h>
#include <sys/mman.h>

#define ROOM_GB (1ull << 30)
/* Places that are tried in each range. */
#define ROOM_TRIES 8u

/*
 * A program may unmap a part of its memory, and map that part again later by MAP_FIXED. If a room
 * lay in this hole, the program would replace it, and the monitor would crash. So rooms lie in two
 * ranges where the kernel places memory only on request, and a room replaces nothing there. The
 * second range is for programs with ThreadSanitizer, which reserves the first one, and for address
 * spaces of 39 bits.
 */
static const struct room_range {
	u64 start, bytes;
} room_ranges[] = {
	{ 64 * 1024 * ROOM_GB, 16 * 1024 * ROOM_GB },
	{ 256 * ROOM_GB, 64 * ROOM_GB },
};
static u64 room_next; /* offset in a range at which the next room may lie; 0 = not chosen yet */

static struct room_slots *room_slots;
static u64 room_free; /* a bit for each slot */

_Static_assert(ROOM_SLOTS == 64, "a bit for each slot");

void room_use(struct room_slots *slots)
{
	room_slots = slots;
	__atomic_store_n(&room_free, slots ? ~0ull : 0, __ATOMIC_RELEASE);
}

/*
 * Return an offset that differs in each process, because addresses must be hard to guess. The
 * kernel has placed the stack and the code at random addresses.
 */
static u64 room_first(void)
{
	u64 seed = ((uintptr_t)&seed / PAGE_BYTES) ^ ((uintptr_t)&room_next << 16);

	return (seed * 0x9e3779b97f4a7c15ull >> 20) / PAGE_BYTES * PAGE_BYTES;
}

/* Return the offset of the next place, and pass @bytes of the range. */
static u64 room_pass(u64 bytes)
{
	u64 none = 0, pages = (bytes + PAGE_BYTES - 1) / PAGE_BYTES;

	if (!__atomic_load_n(&room_next, __ATOMIC_RELAXED))
		__atomic_compare_exchange_n(&room_next, &none, room_first(), false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return __atomic_fetch_add(&room_next, pages * PAGE_BYTES, __ATOMIC_RELAXED);
}

/* Returns an address, -EEXIST if other memory lies there, or another negative errno. */
static long room_map_at(u64 start, size_t bytes)
{
	long at = call(SYS_mmap, (long)start, (long)bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

	if (at == (long)start || call_failed(at))
		return at;
	/* An emulator of Linux may not know MAP_FIXED_NOREPLACE. */
	room_unmap((void *)at, bytes);
	return -EEXIST;
}

/*
 * Other memory may fill a large part of the range, so the tries are spread over all of it. After
 * another error they would fail, too: the limit of the process is reached (-ENOMEM, -EAGAIN), or
 * its addresses end before the range (-ENOMEM).
 */
static void *room_map_in(const struct room_range *range, size_t bytes)
{
	long at = -EEXIST;
	u32 tries;
	u64 into;

	for (tries = 0; tries < ROOM_TRIES; tries++) {
		into = room_pass(bytes) % range->bytes;
		if (bytes <= range->bytes - into)
			at = room_map_at(range->start + into, bytes);
		if (!call_failed(at))
			return (void *)at;
		if (at != -EEXIST)
			break;
		room_pass(range->bytes / ROOM_TRIES);
	}
	return NULL;
}

static void *room_map_inherited(size_t bytes)
{
	void *at = room_map_in(&room_ranges[0], bytes);

	return at ? at : room_map_in(&room_ranges[1], bytes);
}

void *room_map(size_t bytes)
{
	void *at = room_map_inherited(bytes);

	if (at)
		call(SYS_madvise, (long)at, (long)bytes, MADV_DONTFORK, 0, 0, 0);
	return at;
}

void room_unmap(void *at, size_t bytes)
{
	call(SYS_munmap, (long)at, (long)bytes, 0, 0, 0, 0);
}

bool room_map_once(void **at, size_t bytes)
{
	void *none = NULL, *made;

	if (__atomic_load_n(at, __ATOMIC_ACQUIRE))
		return true;
	made = room_map_inherited(bytes);
	if (made && !__atomic_compare_exchange_n(at, &none, made, false, __ATOMIC_SEQ_CST,
						 __ATOMIC_RELAXED))
		room_unmap(made, bytes);
	return made;
}

void *room_take(size_t bytes)
{
	u64 free = __atomic_load_n(&room_free, __ATOMIC_ACQUIRE);

	while (bytes <= ROOM_SLOT_BYTES && free)
		if (__atomic_compare_exchange_n(&room_free, &free, free & (free - 1), true,
						__ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
			return room_slots->slot[__builtin_ctzll(free)];
	return room_map(bytes);
}

void room_give_back(void *at, size_t bytes, size_t written)
{
	size_t into = (uintptr_t)at - (uintptr_t)room_slots;

	if (!room_slots || into >= sizeof(*room_slots)) {
		room_unmap(at, bytes);
		return;
	}
	memset(at, 0, written);
	__atomic_or_fetch(&room_free, 1ull << into / ROOM_SLOT_BYTES, __ATOMIC_RELEASE);
}
