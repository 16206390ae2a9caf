/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The library that `hugemap run` loads into a program. It reports large mappings of files to
 * the monitor thread in steer/ when the program makes, moves or ends them. It starts other
 * programs without itself if they cannot load it.
 *
 * The library needs no other library and no version of a symbol, so any glibc can load it. The
 * few functions of the C library that it calls are named in tests/preload/test_start.py. The
 * monitor thread calls none of them.
 *
 * The functions here that replace functions of the C library make the system call directly
 * where they can. They allocate nothing and take no lock, so an allocator, code that runs
 * before main(), a signal handler and a child of vfork() may call them. A call that succeeds
 * does not change errno.
 */
#ifndef PRELOAD_H
#define PRELOAD_H

#include <errno.h>
#include <string.h>

#include "call.h"

#define PRELOAD_EXPORT __attribute__((visibility("default")))

/* Converts the result of a system call to the C library's: -1 and errno. */
static inline long preload_result(long result)
{
	if (!call_failed(result))
		return result;
	errno = (int)-result;
	return -1;
}

/* "/proc/self/fd/17" */
#define PRELOAD_FD "/proc/self/fd/"
#define PRELOAD_FD_PATH (sizeof(PRELOAD_FD) + 10)

/* Writes the path to the end of @path, and returns its first byte. */
static inline const char *preload_fd_path(char path[PRELOAD_FD_PATH], int fd)
{
	char *at = path + PRELOAD_FD_PATH - 1;

	*at = '\0';
	do
		*--at = (char)('0' + fd % 10);
	while ((fd /= 10) > 0);
	at -= sizeof(PRELOAD_FD) - 1;
	return memcpy(at, PRELOAD_FD, sizeof(PRELOAD_FD) - 1);
}

#endif /* PRELOAD_H */
