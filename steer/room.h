/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Memory for the data of a mapping. The program's thread takes it, in its own call, and the
 * monitor gives it back. Most rooms come from memory that is there already, without a system call.
 * No room lies in a hole that the program has made: see room_ranges in room.c.
 */
#ifndef HM_STEER_ROOM_H
#define HM_STEER_ROOM_H

#include "types.h"

/*
 * A slot is large enough for a mapping of 600 MB. While EVENTS_ASLEEP events wait, a program that
 * maps and unmaps a file has taken half as many.
 */
#define ROOM_SLOTS 64u
#define ROOM_SLOT_BYTES (60u << 10)

struct room_slots {
	char slot[ROOM_SLOTS][ROOM_SLOT_BYTES];
};

/* Rooms come from there, too. All zeros. NULL = no more, in a child of fork(). */
void room_use(struct room_slots *slots);

/*
 * Map memory for *@at, which is NULL before the first call. All threads may call it at the same
 * time. It is never unmapped, and a child of fork() has a copy. It makes no other system call: a
 * filter may end the process for madvise(). Returns false if there is no memory.
 */
bool room_map_once(void **at, size_t bytes);

/* Memory that a child of fork() does not have. Returns NULL if there is none. */
void *room_map(size_t bytes);
void room_unmap(void *at, size_t bytes);

/* Returns zeros, or NULL. Any thread may call it. */
void *room_take(size_t bytes);
/* @written: bytes at its start that may be other than zeros. */
void room_give_back(void *at, size_t bytes, size_t written);

#endif /* HM_STEER_ROOM_H */
