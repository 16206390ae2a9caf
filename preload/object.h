/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The dynamic section of a loaded object: a program or a library. */
#ifndef PRELOAD_OBJECT_H
#define PRELOAD_OBJECT_H

#include <link.h>
#include <stddef.h>

/* These functions use only l_addr and l_ld of @map. */

/* The value of an entry, or 0. */
size_t object_value(const struct link_map *map, ElfW(Sxword) tag);
/* The address of a table, or NULL. */
const void *object_table(const struct link_map *map, ElfW(Sxword) tag);
/* The symbol @name that the object defines, or NULL. */
void *object_find(const struct link_map *map, const char *name);

#endif /* PRELOAD_OBJECT_H */
