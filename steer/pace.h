/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How often to look: looks are paid from a credit of a share of a processor's time. */
#ifndef HM_STEER_PACE_H
#define HM_STEER_PACE_H

#include <stdint.h>

#define MS 1000000ull

/* Between two looks, at least; and at most, while there are faults. */
#define PACE_LEAST_NS (MS / 2)
#define PACE_MOST_NS (200 * MS)
/* Without faults it sleeps longer and longer. */
#define PACE_IDLE_NS (20 * MS)
#define PACE_ASLEEP_NS (1000 * MS)
/* After such a pause, something else may begin. */
#define PACE_PAUSE_NS (100 * MS)
/* The share of time that looks may take, and how much of it may be saved up. */
#define PACE_SHARE 100
#define PACE_CREDIT_NS ((int64_t)(4 * MS))
/* So many looks in a row without advice double the time between looks, so many times at most. */
#define PACE_FRUITLESS 4u
#define PACE_FRUITLESS_MOST 6u

/**
 * struct pace - when to look
 * @credit_ns: time that looks may take, of a processor
 * @fruitless: looks since the last look that led to advice, the last event or the last pause
 */
struct pace {
	int64_t credit_ns;
	uint32_t fruitless;
};

#define PACE_BEGIN ((struct pace){ .credit_ns = PACE_CREDIT_NS })

/* Time has passed. */
static inline void pace_earn(struct pace *pace, uint64_t ns)
{
	pace->credit_ns += (int64_t)(ns / PACE_SHARE);
	if (pace->credit_ns > PACE_CREDIT_NS)
		pace->credit_ns = PACE_CREDIT_NS;
}

/* Charge a look with its processor time. */
static inline void pace_spend(struct pace *pace, uint64_t ns)
{
	pace->credit_ns -= (int64_t)ns;
}

/* Until the next look, while there are faults. */
static inline uint64_t pace_wait_ns(const struct pace *pace)
{
	uint32_t times = pace->fruitless / PACE_FRUITLESS;
	uint64_t wait = pace->credit_ns < 0 ? (uint64_t)-pace->credit_ns * PACE_SHARE : 0;
	uint64_t least = PACE_LEAST_NS
			 << (times < PACE_FRUITLESS_MOST ? times : PACE_FRUITLESS_MOST);

	return wait < least ? least : wait > PACE_MOST_NS ? PACE_MOST_NS : wait;
}

/* Without faults for that long: soon again at first, then more and more seldom. */
static inline uint64_t pace_idle_ns(uint64_t quiet)
{
	uint64_t wait = quiet < 100 * MS ? 2 * MS : quiet / 20;
	uint64_t most = quiet < 1000 * MS ? PACE_IDLE_NS : PACE_ASLEEP_NS;

	return wait < most ? wait : most;
}

#endif /* HM_STEER_PACE_H */
