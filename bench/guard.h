/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The guard: a process that puts everything back when the benchmark ends,
 * however it ends: files, memory groups, settings of the machine. Shared memory
 * holds the list of the things to put back.
 */
#ifndef BENCH_GUARD_H
#define BENCH_GUARD_H

#include <stdbool.h>

bool guard_start(void);
/* All that is still to be put back is put back now. */
void guard_stop(void);
/* In other children: do not keep the guard from noticing the parent's end. */
void guard_release(void);

/* Delete a file in the end, or do not any more. */
void guard_file(const char *path);
void guard_forget_file(const char *path);
/* A memory group that exists now; NULL = none. */
void guard_group(const char *path);
/* A hierarchy of groups has controllers that it had not; after the group is gone. */
void guard_controllers(const char *path, const char *value);
/* The benchmark loaded the module: remove it again, unless it is in use. */
void guard_module(const char *name);
/* A zram device was made; @dir: where it is mounted, or ""; see fast.h. */
void guard_fast(int zram, const char *dir);
/* A setting that has another value now; NULL = none. */
void guard_setting(const char *path, const char *value);

#endif /* BENCH_GUARD_H */
