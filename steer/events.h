/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Events that the program's threads send to the monitor thread: a ring without locks with many
 * writers and one reader. If the ring is full, the event is lost and the loss is recorded: the
 * monitor then compares its table with /proc/self/maps.
 */
#ifndef HM_STEER_EVENTS_H
#define HM_STEER_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

enum event_kind {
	EVENT_MAPPED,
	EVENT_UNMAPPING, /* before munmap() or mmap(MAP_FIXED) */
	EVENT_NOT_UNMAPPED, /* after that, if the call has failed */
	EVENT_MOVING, /* before mremap(), which MOVED or STAYED follows */
	EVENT_MOVED,
	EVENT_STAYED,
	EVENT_HINT,
};

struct event {
	enum event_kind kind;
	uint64_t start, bytes;
	uint64_t to, to_bytes; /* MOVED */
	uint64_t offset; /* MAPPED */
	uint64_t id; /* UNMAPPING, NOT_UNMAPPED: of the call */
	int prot, flags; /* MAPPED; MOVED has flags of mremap() */
	bool existed; /* MAPPED: it was made some time before */
	int advice; /* HINT */
	bool advised; /* MOVED, NOT_UNMAPPED: the range may have advice from the monitor */
	/*
	 * MAPPED, MOVED: memory for the data of the mapping, see map_room(). NULL in MOVED: the new
	 * place is not steered, and the caller takes the advice back.
	 */
	void *room;
	uint64_t room_bytes;
	bool rooms; /* MOVED: the room is for several mappings, and is no slot; see map_rooms() */
};

/* The slots of the ring. */
#define EVENTS_MOST 1024u
/* The reader sleeps no longer while more events wait. */
#define EVENTS_ASLEEP 64u

/* The bits that events_lost() returns. */
#define EVENTS_LOST 1u
#define EVENTS_LOST_MOVE 2u /* the end of a move: MOVED or STAYED */
#define EVENTS_LOST_HINT 4u /* times the kind of the hint: see hint_kind() */

/*
 * Make the ring, inside a call of the program that maps memory. Each process does this before its
 * first event, and only if it may have a monitor. Returns false if there is no memory.
 */
bool events_begin(void);
/* Add an event. Returns false if the ring is full: the event is lost. */
bool event_put(const struct event *event);
/* Report that events of these kinds were lost, and wake the reader. */
void events_lose(unsigned int kinds);

/* For the reader: take the next event. Returns false if there is none. */
bool event_take(struct event *event);
/* For the reader: returns whether an event waits, or was lost. */
bool events_waiting(void);
/* For the reader: all events that it has taken are carried out. */
void events_done(void);
/* Returns whether an event is not carried out yet. */
bool events_pending(void);
/* Returns whether one of these may bring advice to a range that has no entry in the table. */
bool events_bring_advice(void);
/*
 * For a child of fork(), before events_clear(): returns whether the parent had an event in the
 * range that was not carried out yet. If events were lost, each range may have had one.
 */
bool events_inherited(uint64_t start, uint64_t end);
/* Returns how many are not carried out yet. */
uint32_t events_backlog(void);
/*
 * For the reader: returns which kinds of events were lost since the last call. A lost hint is
 * reported when the reader has taken all events that were put before it.
 *
 * CPU 1 (program): takes a slot for MADV_NORMAL, and has not written it yet.
 * CPU 2 (program): fills the ring; loses MADV_RANDOM.
 * CPU 0 (monitor): treats all mappings as hinted; takes MADV_NORMAL. That must not end the lost hint.
 */
unsigned int events_lost(void);
/* Reset the ring in a child of fork(). */
void events_clear(void);

enum sleep {
	SLEEP_UNTIL_EVENT = 1, /* ... or until the time is over */
	SLEEP_WITH_EVENTS, /* only EVENTS_ASLEEP events end it before */
};

/*
 * Sleep for a time. The word changes with each event. The reader reads it before it takes events
 * and passes it to events_sleep(), so that it misses none.
 */
uint32_t events_word(void);
void events_sleep(uint32_t word, uint64_t ns, enum sleep kind);
void events_wake(void);

#endif /* HM_STEER_EVENTS_H */
