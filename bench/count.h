/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What is counted in a run whose cost is looked at; see cost.h. */
#ifndef BENCH_COUNT_H
#define BENCH_COUNT_H

#include <stdbool.h>
#include <stdint.h>

/* Memory of a program's own that comes and goes: page faults which concern no file. */
bool cost_faults(void);

/* Instructions of this process and of what it starts later; -1 = nobody counts them here. */
int counter_open(void);
uint64_t counter_read(int fd);

#endif /* BENCH_COUNT_H */
