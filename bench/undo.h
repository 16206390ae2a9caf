/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Remove the things that the benchmark makes on a machine. The process that made a thing
 * removes it, or the guard does (guard.h). Each removal may take a moment.
 */
#ifndef BENCH_UNDO_H
#define BENCH_UNDO_H

#include <stdbool.h>

#define ZRAM_CONTROL "/sys/class/zram-control/"

/* A memory group; what still runs in it is killed. */
void group_remove(const char *path);
/* A module that was loaded; "" = none. */
void module_remove(const char *module);
/* A zram device; @dir: where it is mounted, or "". */
void zram_remove(int zram, const char *dir);
/* A setting of it. */
bool zram_write(int zram, const char *name, const char *value);

#endif /* BENCH_UNDO_H */
