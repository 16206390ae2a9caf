/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The cost of monitoring for a program that gains nothing from it. */
#ifndef BENCH_COST_H
#define BENCH_COST_H

#include <stdbool.h>

struct bench;
struct group;

/**
 * struct cost - how many times what plain mmap takes; each of the same turn, the median
 * @time: by the clock
 * @cpu: of the processor
 * @faults: as the kernel counts them
 * @instructions: 0 = unknown
 */
struct cost {
	double time, cpu, faults, instructions;
};

/* False: this group does not tell. */
bool cost_find(const struct group *group, struct cost *cost);
/* The most that is wanted of instructions; where they are unknown, of the time. */
double cost_max(const struct cost *cost);
bool cost_met(const struct cost *cost);
void cost_print(const struct bench *bench);

#endif /* BENCH_COST_H */
