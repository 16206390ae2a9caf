/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The library that `hugemap run` loads before a program. It reports large mappings of files
 * to the monitor thread in steer/ when the program makes, moves or ends them, and does nothing
 * else with them.
 *
 * mmap(), munmap(), mremap() and madvise() make the system call directly. They look up no
 * symbol and allocate nothing, so an allocator, code that runs before main() and a signal
 * handler may call them. A call that succeeds does not change errno.
 */
#ifndef SHIM_H
#define SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define SHIM_EXPORT __attribute__((visibility("default")))

/**
 * struct preload_settings - HUGEMAP_RUN_*, read once
 * @on: the settings were read, and HUGEMAP_RUN_OFF is not set
 * @summary: print a summary when the program ends
 * @least: mappings of fewer bytes are not reported
 * @include: globs, separated by colons; "" = all files
 * @exclude: globs, separated by colons; "" = no files
 */
struct preload_settings {
	bool on;
	bool summary;
	uint64_t least;
	char include[4096];
	char exclude[4096];
};

extern struct preload_settings preload;

/* If libhugemap finds this symbol in its process, it starts no monitor thread of its own. */
extern const char hugemap_run_version[] SHIM_EXPORT;
/* For hugemap_stat() of libhugemap: the statistics; NULL if nothing was ever steered. */
const struct steer_page *hugemap_run_page(void) SHIM_EXPORT;

/* --- config.c --- */
void config_read(void);
/* Returns whether --include and --exclude select the file of @fd. */
bool config_wants(int fd);

/* --- report.c --- */
void report_open(void);

/* --- the system calls --- */

static inline void *raw_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	return (void *)syscall(SYS_mmap, addr, length, prot, flags, fd, offset);
}

static inline int raw_munmap(void *addr, size_t length)
{
	return (int)syscall(SYS_munmap, addr, length);
}

static inline int raw_madvise(void *addr, size_t length, int advice)
{
	return (int)syscall(SYS_madvise, addr, length, advice);
}

static inline void *raw_mremap(void *old, size_t old_length, size_t length, int flags, void *new)
{
	return (void *)syscall(SYS_mremap, old, old_length, length, flags, new);
}

#endif /* SHIM_H */
