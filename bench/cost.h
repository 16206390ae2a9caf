/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The cost of monitoring for a program that gains nothing from it. */
#ifndef BENCH_COST_H
#define BENCH_COST_H

#include <stdbool.h>

struct bench;
struct group;

/**
 * struct cost - the cost of steering relative to plain mmap; medians over the turns
 * @time: elapsed time
 * @cpu: CPU time
 * @faults: page faults
 * @instructions: 0 = unknown
 */
struct cost {
	double time, cpu, faults, instructions;
};

/* Returns false if the group does not measure a cost. */
bool cost_find(const struct group *group, struct cost *cost);
/* The largest acceptable ratio of instructions; of times if instructions are unknown. */
double cost_max(const struct cost *cost);
bool cost_met(const struct cost *cost);
void cost_print(const struct bench *bench);

#endif /* BENCH_COST_H */
