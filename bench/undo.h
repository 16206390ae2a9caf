/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Remove the things that the benchmark makes on a machine. The process that made a thing
 * removes it, or the guard does (guard.h). Each removal may take a moment.
 */
#ifndef BENCH_UNDO_H
#define BENCH_UNDO_H

#include <stdbool.h>

#define ZRAM_CONTROL "/sys/class/zram-control/"

/* Remove a memory group, after its remaining processes were killed. */
void group_remove(const char *path);
/* Remove a module that the benchmark has loaded; "" = none. */
void module_remove(const char *module);
/* Remove a directory with all that it contains. */
void tree_remove(const char *path);
/* Remove a zram device, after @dir was unmounted; "" = it is not mounted. */
void zram_remove(int zram, const char *dir);
/* Write a setting of a zram device. */
bool zram_write(int zram, const char *name, const char *value);

#endif /* BENCH_UNDO_H */
