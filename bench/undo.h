/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the benchmark makes on a machine is taken away again: by whoever made it, or by
 * the guard (guard.h). Each may take a moment.
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
