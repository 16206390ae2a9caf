// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "room.h"

#include "call.h"

#include <string.h>
#include <sys/mman.h>

static struct room_slots *room_slots;
static u64 room_free; /* a bit for each slot */

_Static_assert(ROOM_SLOTS == 64, "a bit for each slot");

void room_use(struct room_slots *slots)
{
	room_slots = slots;
	__atomic_store_n(&room_free, slots ? ~0ull : 0, __ATOMIC_RELEASE);
}

static void *room_map_inherited(size_t bytes)
{
	long at = call(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return call_failed(at) ? NULL : (void *)at;
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
