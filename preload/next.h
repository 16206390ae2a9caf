/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The functions that this library's own functions replace, and the path of this library.
 *
 * With glibc they are looked up in the list of loaded libraries. dlsym(3) would find them too,
 * but it may allocate memory, a child of vfork() must not call it, and before glibc 2.34 it is
 * in a library that the program may not have loaded.
 */
#ifndef PRELOAD_NEXT_H
#define PRELOAD_NEXT_H

#include <link.h>
#include <stdbool.h>

/* This library, or NULL with another C library than glibc. */
const struct link_map *next_self(void);
/* Returns false with another C library than glibc. */
bool next_is_glibc(void);
/* The path from which this library was loaded, or "". */
const char *next_own_path(void);
/*
 * Search only this library, the C library, from now on: this library was loaded while the program
 * ran, so the C library stands before it in the list. Other threads may change the rest of the list
 * at any time.
 */
void next_use(const struct link_map *library);
/* The function @name of the libraries behind this one, or NULL. */
void *next_function(const char *name);

#endif /* PRELOAD_NEXT_H */
