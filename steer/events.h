/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the program's threads tell the watcher: a ring without locks. Many write, one
 * reads. Where it is full, what is told is lost and that is told: the watcher then
 * compares what it knows with what is mapped.
 */
#ifndef HM_STEER_EVENTS_H
#define HM_STEER_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

enum event_kind {
	EVENT_MAPPED,
	EVENT_UNMAPPING,
	EVENT_MOVED,
	EVENT_HINT,
};

struct event {
	enum event_kind kind;
	uint64_t start, bytes;
	uint64_t to, to_bytes; /* MOVED */
	uint64_t offset; /* MAPPED */
	int prot, flags, fd; /* MAPPED */
	uint64_t until; /* MAPPED: the caller waits up to then */
	int advice; /* HINT */
	void *room; /* MAPPED, MOVED: memory for what is to be known of it */
	uint64_t room_bytes;
};

/* Returns the number under which events_done() will tell of it; 0 = it is lost. */
uint64_t event_put(const struct event *event);

/* The watcher's: the next one; false if there is none. */
bool event_take(struct event *event);
/* Is there one? */
bool events_waiting(void);
/* All that were taken are carried out. */
void events_done(void);
/* Since the last call some were lost. */
bool events_lost(void);
/* A child of fork() begins anew. */
void events_clear(void);

/* Wait until an event is carried out; not longer than that, and not if nobody reads. */
void event_wait(uint64_t number, uint64_t ns);

/*
 * Wait for the next event, or until that time is over. The word is where: it changes
 * with each event, so nothing comes in between unseen.
 */
uint32_t events_word(void);
void events_sleep(uint32_t word, uint64_t ns);
void events_wake(void);

#endif /* HM_STEER_EVENTS_H */
