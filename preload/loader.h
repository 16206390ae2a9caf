/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The list of objects that the dynamic linker has loaded. */
#ifndef PRELOAD_LOADER_H
#define PRELOAD_LOADER_H

#include <link.h>
#include <stdbool.h>

/*
 * Call dl_iterate_phdr(3). It holds a lock of the dynamic linker, so callbacks of two threads never
 * run at the same time.
 */
int loader_each(int (*each)(struct dl_phdr_info *info, size_t size, void *arg), void *arg);

/* Returns whether objects were loaded or unloaded since the last scan. */
bool loader_has_changed(void);

/*
 * Scan the list: call @visit for each object that it was not called for yet, or, with @all, for
 * each object. Objects that another thread is loading are left for the next scan. Returns 0, or the
 * first other result of @visit.
 */
int loader_scan(int (*visit)(const struct dl_phdr_info *info), bool all);

#endif /* PRELOAD_LOADER_H */
