/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Pointers to functions of the C library, in the objects of this process.
 *
 * An object, which is a program or a library, calls functions of other objects through pointers
 * that the dynamic linker has set. A pointer to a function that this library replaces is
 * overwritten with this library's function. A pointer that another library has overwritten stays.
 * The C library and the dynamic linker keep their pointers.
 *
 * Only callbacks of loader_each() may call these functions, except replace_find().
 */
#ifndef PRELOAD_REPLACE_H
#define PRELOAD_REPLACE_H

#include <link.h>

/* The C library's function and this library's. */
struct replace_function {
	void *real, *own;
};

enum replace_check {
	REPLACE_NOTHING,
	REPLACE_LIBC, /* this is the C library: replace_in() may be called */
	REPLACE_OTHER, /* the object replaces functions itself, as this library does if preloaded */
};

/*
 * Check an object of the list, from the first one up to the C library. Libraries that replace
 * functions of the C library stand before it. @function: set for REPLACE_OTHER.
 */
enum replace_check replace_check(const struct dl_phdr_info *info, const char **function);

/* Overwrite the pointers of an object. Returns 0, or -errno if one could not be overwritten. */
int replace_in(const struct dl_phdr_info *info);

/* Returns NULL if no function of that name is replaced. */
const struct replace_function *replace_find(const char *name);

/* dlsym() of the other objects: see install.c. */
void install_dlsym(void);

#endif /* PRELOAD_REPLACE_H */
