/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The events that are counted in a run that measures a cost; see cost.h. */
#ifndef BENCH_COUNT_H
#define BENCH_COUNT_H

#include <stdbool.h>
#include <stdint.h>

/* Take and return memory of the program's own. The page faults concern no file. */
bool cost_faults(void);

/* Instructions of this process and of its later children; -1 = they cannot be counted here. */
int counter_open(void);
uint64_t counter_read(int fd);

#endif /* BENCH_COUNT_H */
