/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The library that `hugemap run` loads before a program: it sees mappings come, move
 * and go, tells the watcher in steer/ of the large ones of files, and has no other part
 * in them. Every call for memory is the system call itself: none looks a symbol up or
 * allocates, so that it may come from within an allocator, before main() and in a signal
 * handler; and one that succeeds leaves errno as it was.
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
#define PAGE_BYTES ((size_t)4096)

/**
 * struct shim_settings - HUGEMAP_RUN_*, read once
 * @on: they were read, and the library is not switched off
 * @summary: print what was done at the end
 * @least: smaller mappings are left alone; bytes
 * @include: globs with colons between them; "" = all files
 * @exclude: the same; "" = none
 */
struct shim_settings {
	bool on;
	bool summary;
	uint64_t least;
	char include[4096];
	char exclude[4096];
};

extern struct shim_settings shim;

/* Tells libhugemap, in the same process, that the mappings are steered already. */
extern const char hugemap_run_version[] SHIM_EXPORT;

/* --- config.c --- */
void config_read(void);
/* Is the file one of those that --include and --exclude leave? */
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
