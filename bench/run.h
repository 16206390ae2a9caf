/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A run in a child process: the interface for its parent. */
#ifndef BENCH_RUN_H
#define BENCH_RUN_H

#include <stdbool.h>

struct run;

/* Carry out a run; false: it failed, and result->error has the reason. */
bool run_carry_out(struct run *run);

#endif /* BENCH_RUN_H */
