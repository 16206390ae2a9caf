/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The time, and the kernel's counters of a program that a benchmark has started. */
#ifndef BENCH_USAGE_H
#define BENCH_USAGE_H

#include <stdint.h>

/* All counters start with the process. */
struct usage_counts {
	double user_s, sys_s;
	uint64_t faults, major_faults, read_bytes, write_bytes;
};

/* In ns, of CLOCK_MONOTONIC. */
uint64_t usage_now(void);
void usage_read(struct usage_counts *usage);
/* Print the differences as members of a JSON object. */
void usage_print(const struct usage_counts *before, const struct usage_counts *after);

#endif /* BENCH_USAGE_H */
