/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The memory limit and the read-ahead setting of a run. Each run gets a memory control group of its
 * own, so that the page cache that Linux uses for it counts, too. A run may change read_ahead_kb of
 * the device; limits_restore_read_ahead() sets it to the old value.
 */
#ifndef BENCH_LIMITS_H
#define BENCH_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

struct limits;
struct volume;

/*
 * If no hierarchy of control groups is mounted, as in a small virtual machine, mount one that only
 * this process sees. Call this before guard_start().
 */
void limits_prepare(void);
/*
 * Wait until no other benchmark changes read_ahead_kb of this device, and keep others out until
 * this process and its guard have ended. Call this before guard_start().
 */
void limits_lock(const struct volume *volume);
/* Find out which limits this machine allows; NULL = out of memory. */
struct limits *limits_create(const struct volume *volume);
void limits_destroy(struct limits *limits);

/* Return "cgroup v1", "cgroup v2" or "none"; limits_why() returns the reason of "none". */
const char *limits_kind(const struct limits *limits);
const char *limits_why(const struct limits *limits);
bool limits_work(const struct limits *limits);

/* Make a group for one run, if any can be made. @swap: its memory may be swapped. */
bool limits_begin(struct limits *limits, uint64_t bytes, bool swap);
/* In the child: enter the group. */
bool limits_join(const struct limits *limits);
/* The most memory that the processes of the group used; 0 = unknown. */
uint64_t limits_peak(const struct limits *limits);
void limits_end(struct limits *limits);

#define STOCK_READ_AHEAD_KB 128u /* the value of most distributions */

/* The device's read_ahead_kb: as found (0 = unknown), and can it be changed? */
unsigned int limits_read_ahead(const struct limits *limits);
bool limits_can_read_ahead(const struct limits *limits);
/* Is plain Linux mmap also measured with STOCK_READ_AHEAD_KB? */
bool limits_try_stock(const struct limits *limits);
bool limits_set_read_ahead(struct limits *limits, unsigned int kb);
void limits_restore_read_ahead(struct limits *limits);

#endif /* BENCH_LIMITS_H */
