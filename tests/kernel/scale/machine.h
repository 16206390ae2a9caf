/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A virtual machine of processors on nodes. Each processor has its own clock, in nanoseconds;
 * cache lines are in the cache of one processor or of several; spinlocks have queues of
 * waiters. The processor with the lowest clock runs next, so the same program gives the same
 * numbers on every real machine.
 *
 * A line that another processor has modified is transferred, one transfer at a time. Readers of
 * an unmodified line do not delay each other. Caches are unlimited. Consecutive reads overlap
 * unless one needs the value of another. Instructions cost only their memory accesses.
 */
#ifndef SCALE_MACHINE_H
#define SCALE_MACHINE_H

#include "port.h"

#define MACHINE_CPUS 130u

struct machine_prices {
	u64 own; /* a line in this processor's cache */
	u64 locked; /* a locked instruction on it */
	u64 near; /* from another cache of this node */
	u64 far; /* from another node */
	u64 memory; /* a line in no cache */
	u64 overlap; /* independent reads in flight at a time */
};
extern struct machine_prices machine_prices;

/* A range of a structure, from @offset to that of the next member, and the waits for it. */
struct machine_member {
	size_t offset;
	const char *name;
	u64 line_ns, lock_ns;
};

/* Reset everything, and spread the processors evenly over the nodes, in order. */
void machine_reset(u32 cpus, u32 nodes);

/*
 * Allocate zeroed memory that is modelled, for elements of @stride bytes. @members ends with
 * a NULL name. Accesses to all other memory cost like a line in the own cache.
 */
void *machine_alloc(size_t bytes, size_t stride, struct machine_member *members);

/* Elements of @stride bytes begin at @start; their members get the names in @members. */
void machine_name(void *start, size_t stride, struct machine_member *members);

/* Run @work on each processor until all have returned. Returns the sum of their times. */
u64 machine_run(void (*work)(u32 cpu));

/* Before machine_run(): choose the processor that does the set-up, at no cost. */
void machine_set_cpu(u32 cpu);

u64 machine_now(void);
void machine_work(u64 ns); /* work outside the cache */
void machine_wait_turn(void); /* return when no other clock is lower */

/* Switch charging on or off, and return the previous setting. While off, accesses are free. */
bool machine_charge(bool on);

#endif /* SCALE_MACHINE_H */
