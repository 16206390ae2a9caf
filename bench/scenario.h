/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The scenarios, and the sums that a run must read. */
#ifndef BENCH_SCENARIO_H
#define BENCH_SCENARIO_H

#include <stdint.h>

#include "workload.h"

struct run;

extern const struct scenario scenarios[];
extern const unsigned int nscenarios;
const struct scenario *scenario_find(const char *name);
/* Return the word for @n workers of the scenario: "thread", "threads", "process" or "processes". */
const char *scenario_workers(const struct scenario *scenario, unsigned int n);

/**
 * scenario_expect() - compute the sum that a run must have read
 * @run: the run, with its result
 *
 * It repeats the operations of the run on the known content. The generations of written pages are
 * updated.
 *
 * Return: the expected sum.
 */
uint64_t scenario_expect(const struct run *run);
void worker_init(struct worker *worker, const struct run *run, unsigned int index);

#endif /* BENCH_SCENARIO_H */
