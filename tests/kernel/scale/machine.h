/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A machine that is not there: processors with a clock of their own each, in
 * nanoseconds, on nodes; cache lines that are in one processor's cache or in
 * several; spinlocks whose waiters stand in a queue. Whose clock is lowest goes
 * on next, so the same program gives the same numbers on any machine.
 *
 * A line that another processor has changed is transferred, one transfer at a
 * time; reading one that others only read is not held up by them. Caches are of
 * any size. Reads that follow each other without waiting for one another's
 * value overlap. Instructions cost nothing but for the memory that they touch.
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
	u64 memory; /* in nobody's cache */
	u64 overlap; /* how many independent reads are under way at a time */
};
extern struct machine_prices machine_prices;

/* What lies at an offset of a structure, up to the next one, and who waited for it. */
struct machine_member {
	size_t offset;
	const char *name;
	u64 line_ns, lock_ns;
};

/* Forget everything; processors are spread evenly over the nodes, in order. */
void machine_reset(u32 cpus, u32 nodes);

/*
 * Zeroed memory that is modelled, for elements of @stride bytes; @members ends
 * with a NULL name. All other memory is a processor's own.
 */
void *machine_alloc(size_t bytes, size_t stride, struct machine_member *members);

/* What follows in a piece of it is something else. */
void machine_name(void *start, size_t stride, struct machine_member *members);

/* Each processor does @work until it returns. Returns the sum of their times. */
u64 machine_run(void (*work)(u32 cpu));

/* Before machine_run(): which processor prepares what follows, at no cost. */
void machine_set_cpu(u32 cpu);

u64 machine_now(void);
void machine_work(u64 ns); /* outside the core */
void machine_wait_turn(void); /* returns when nobody is earlier */

/* Off: what is done costs nothing and takes no time, as a look from outside. What was it? */
bool machine_charge(bool on);

#endif /* SCALE_MACHINE_H */
