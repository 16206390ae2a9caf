/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A run, in its own process. */
#ifndef BENCH_CHILD_H
#define BENCH_CHILD_H

struct run;

/* Carry out the run, fill in run->result, and exit. */
_Noreturn void child_main(struct run *run);

#endif /* BENCH_CHILD_H */
