/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Does the program wait for the pages that it reads, or does it compute in the meantime? A device
 * that costs by the request makes it wait. A device in memory, such as zram, does not: the fault
 * itself copies the page.
 */
#ifndef HM_STEER_WAIT_H
#define HM_STEER_WAIT_H

#include <stdbool.h>
#include <stdint.h>

/* The program is judged after so many major faults. */
#define WAIT_FAULTS 32u
/* A judgement counts for this time. Then the program may read from another device. */
#define WAIT_NS 10000000000ull
/* In an interval with fewer major faults for its length, the program rests. */
#define WAIT_FAULT_NS 20000000ull

/**
 * struct wait - the time of the program between its reads
 * @at: time of the last call of wait_count()
 * @cpu: processor time of the program up to @at
 * @major: its major faults up to @at
 * @ns: time since the last judgement, without rests
 * @cpu_ns: processor time in @ns
 * @faults: major faults in @ns
 * @waits: the last judgement
 * @judged: its time
 */
struct wait {
	uint64_t at, cpu, major;
	uint64_t ns, cpu_ns, faults;
	bool waits;
	uint64_t judged;
};

/*
 * The program has used @cpu ns of processor time, and made @major major faults, until @at. Several
 * threads that wait use little processor time, too.
 */
static inline void wait_count(struct wait *wait, uint64_t at, uint64_t cpu, uint64_t major)
{
	uint64_t ns = at - wait->at, faults = major - wait->major;

	/* The time before the first call does not count. */
	if (wait->at && faults && ns / WAIT_FAULT_NS <= faults) {
		wait->ns += ns;
		wait->cpu_ns += cpu - wait->cpu;
		wait->faults += faults;
	}
	wait->at = at;
	wait->cpu = cpu;
	wait->major = major;
	wait->waits &= at - wait->judged < WAIT_NS;
	if (wait->faults < WAIT_FAULTS)
		return;
	wait->judged = at;
	wait->waits = 2 * wait->cpu_ns < wait->ns;
	wait->ns = wait->cpu_ns = wait->faults = 0;
}

#endif /* HM_STEER_WAIT_H */
