/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Checks whether a program that is about to be started can load this library, and then starts as it
 * does without it. Otherwise the dynamic linker of the C library would report an error on standard
 * error, and a program with the address sanitizer or with another C library would end. So `hugemap
 * run` and the functions that replace exec*() check each program first.
 */
#ifndef PRELOAD_TARGET_H
#define PRELOAD_TARGET_H

#include <limits.h>
#include <stdbool.h>

enum target {
	TARGET_LOADS, /* it loads the library, or cannot be started */
	TARGET_GO, /* it loads the library, but only its C code calls the C library */
	TARGET_UNAFFECTED, /* it calls no function that maps a file or starts a program */
	TARGET_STATIC, /* it has no dynamic linker: it is linked statically */
	TARGET_MACHINE, /* it is of another class (32 bits) or machine */
	TARGET_LIBC, /* it has another dynamic linker than glibc's */
	TARGET_SANITIZER, /* the library of a sanitizer must be its first */
	TARGET_SECURE, /* another user's rights: the dynamic linker drops LD_PRELOAD */
	TARGET_UNREADABLE,
};

static inline bool target_loads(enum target target)
{
	return target == TARGET_LOADS || target == TARGET_GO;
}

/* Completes "PROGRAM ...": why it is not steered. NULL: it is steered, or needs no library. */
const char *target_reason(enum target target);

/* Checks the program at @path. A relative path begins at the directory @dir, as for openat(2). */
enum target target_check(int dir, const char *path);

/*
 * Finds the file that execvp(3) starts for @name, with @search being $PATH, or NULL. Returns
 * NULL if there is none, or else @name or @path.
 */
const char *target_find(const char *name, const char *search, char path[PATH_MAX]);

#endif /* PRELOAD_TARGET_H */
