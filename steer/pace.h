/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The time between two looks. Looks are paid from a credit, which earns a share of the time of one
 * processor. Events cannot wait for a credit: the monitor takes them, and their time is owed. At
 * most half of each share pays for them, so a program with many events does not stop the looks.
 */
#ifndef HM_STEER_PACE_H
#define HM_STEER_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define MS 1000000ull

/* The shortest and the longest time between two looks while there are page faults. */
#define PACE_LEAST_NS (MS / 2)
#define PACE_MOST_NS (200 * MS)
/* The longest time between two looks without page faults: in the first second, and after it. */
#define PACE_IDLE_NS (20 * MS)
#define PACE_ASLEEP_NS (1000 * MS)
/* After a pause of this length the program may begin another phase. */
#define PACE_PAUSE_NS (100 * MS)
/* Looks may take 1/PACE_SHARE of the time of a processor. The credit stops at PACE_CREDIT_NS. */
#define PACE_SHARE 100
#define PACE_CREDIT_NS ((int64_t)(4 * MS))
/*
 * The credit of a process that begins. A child of fork() begins without a credit, as a server may
 * make many children of a few milliseconds each.
 */
#define PACE_FIRST_NS ((int64_t)MS)
/*
 * After each PACE_FRUITLESS looks without advice the time between looks doubles,
 * PACE_FRUITLESS_MOST times at most.
 */
#define PACE_FRUITLESS 4u
#define PACE_FRUITLESS_MOST 6u

/**
 * struct pace - when to look
 * @credit_ns: processor time that looks may take now
 * @owed_ns: processor time of events that no share has paid yet
 * @fruitless: looks since the last look that led to advice, the last event or the last pause
 */
struct pace {
	int64_t credit_ns;
	uint64_t owed_ns;
	uint32_t fruitless;
};

#define PACE_BEGIN ((struct pace){ .credit_ns = PACE_FIRST_NS })

static inline uint64_t pace_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Divide the share of a period of time between events and looks. A full credit leaves all of it to
 * events. Return the part of looks.
 */
static inline int64_t pace_earn(struct pace *pace, uint64_t ns)
{
	uint64_t share = ns / PACE_SHARE, paid = pace_min(share / 2, pace->owed_ns);
	int64_t earned = (int64_t)(share - paid), over;

	pace->owed_ns -= paid;
	pace->credit_ns += earned;
	over = pace->credit_ns - PACE_CREDIT_NS;
	if (over > 0) {
		pace->credit_ns = PACE_CREDIT_NS;
		pace->owed_ns -= pace_min((uint64_t)over, pace->owed_ns);
	}
	return earned;
}

/* Charge a look with its processor time. */
static inline void pace_spend(struct pace *pace, uint64_t ns)
{
	pace->credit_ns -= (int64_t)ns;
}

/* Charge events with their processor time. */
static inline void pace_owe(struct pace *pace, uint64_t ns)
{
	pace->owed_ns += ns;
}

/* Return whether looks or events have taken more time than they may. */
static inline bool pace_is_overdrawn(const struct pace *pace)
{
	return pace->credit_ns < 0 || pace->owed_ns > (uint64_t)PACE_CREDIT_NS;
}

/*
 * Return the time until the next look while there are page faults: until the debt is paid.
 * @times: looks earn this many times the usual share
 */
static inline uint64_t pace_wait_ns(const struct pace *pace, uint32_t times)
{
	uint32_t doubled = pace->fruitless / PACE_FRUITLESS;
	uint64_t debt = pace->credit_ns < 0 ? (uint64_t)-pace->credit_ns : 0;
	uint64_t wait = (debt + pace_min(debt, pace->owed_ns)) * PACE_SHARE / times;
	uint64_t least = PACE_LEAST_NS
			 << (doubled < PACE_FRUITLESS_MOST ? doubled : PACE_FRUITLESS_MOST);

	return wait < least ? least : wait > PACE_MOST_NS ? PACE_MOST_NS : wait;
}

/*
 * Return the time until the next look, after @quiet ns without a page fault. It grows with @quiet.
 */
static inline uint64_t pace_idle_ns(uint64_t quiet)
{
	uint64_t wait = quiet < 100 * MS ? 2 * MS : quiet / 20;
	uint64_t most = quiet < 1000 * MS ? PACE_IDLE_NS : PACE_ASLEEP_NS;

	return wait < most ? wait : most;
}

#endif /* HM_STEER_PACE_H */
