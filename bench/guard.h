/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The guard is a process that restores everything when the benchmark ends, for whatever reason. It
 * removes files and memory groups, and restores settings of the machine. A list in shared memory
 * records the work to do.
 */
#ifndef BENCH_GUARD_H
#define BENCH_GUARD_H

#include <stdbool.h>

bool guard_start(void);
/* Restore everything on the list now, and end the guard. */
void guard_stop(void);
/* In other children: close the pipe, so that the guard notices the end of the parent. */
void guard_release(void);

/* Delete a file at the end; or do not delete it any more. */
void guard_file(const char *path);
void guard_forget_file(const char *path);
/* Remove a directory at the end, with all that it contains. */
void guard_tree(const char *path);
/* Remove this memory group at the end; NULL = none. */
void guard_group(const char *path);
/* Restore the controllers of a hierarchy of groups, after the group was removed. */
void guard_controllers(const char *path, const char *value);
/* Remove the module at the end, unless it is in use. The benchmark has loaded it. */
void guard_module(const char *name);
/* Remove a zram device at the end, and unmount @dir unless it is ""; see fast.h. */
void guard_fast(int zram, const char *dir);
/* Restore the value of a setting at the end; NULL = none. */
void guard_setting(const char *path, const char *value);

#endif /* BENCH_GUARD_H */
