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
/* "threads", or what its workers are */
const char *scenario_workers(const struct scenario *scenario, unsigned int n);

/**
 * scenario_expect() - do what a run did, on the content that we know
 * @run: the run, with its result
 *
 * The generations of written pages are brought up to date.
 *
 * Return: the sum that the run must have got.
 */
uint64_t scenario_expect(const struct run *run);
void worker_init(struct worker *worker, const struct run *run, unsigned int index);

#endif /* BENCH_SCENARIO_H */
