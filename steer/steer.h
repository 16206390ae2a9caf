/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Linux's page cache, steered.
 *
 * Whoever sees a process's mappings come and go tells it here, with one call for
 * each; a thread of its own (watch.c) looks at what is touched, asks the policy
 * (policy.h), and carries out what it says by advice: madvise(2) and its kin.
 * Advice has no meaning for the data, so nothing here can lose or change a byte.
 *
 * Every call may be made from any thread at any moment, in a signal handler too. None
 * calls an allocator, looks a symbol up, changes errno or takes a lock; those that wait
 * say for how long at most. The thread is the kernel's alone (thread.h): who changes its
 * user by setuid(2) and its kin calls steer_alone() before.
 */
#ifndef HUGEMAP_STEER_H
#define HUGEMAP_STEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Shorter mappings are left alone: what they could gain is not worth a look. */
#define STEER_LEAST_DEFAULT (16ul << 20)

/**
 * struct steer_settings - what may be chosen, once, before the first mapping
 * @least: shorter mappings are left alone; bytes; 0 = STEER_LEAST_DEFAULT
 * @verbose: a line on standard error for each decision
 */
struct steer_settings {
	uint64_t least;
	bool verbose;
};

void steer_configure(const struct steer_settings *settings);

/**
 * steer_mapped() - a mapping was made
 * @addr: where it begins
 * @length: bytes
 * @prot: as for mmap(2)
 * @flags: as for mmap(2)
 * @fd: of the file, as for mmap(2); it may be closed when this returns
 * @offset: in the file
 *
 * Starts the thread if this is the first mapping that is worth it. For shared writable
 * mappings of 64 MB and more it waits until the thread has opened the file: for 5 ms at
 * most. Only regular files of file systems that are not in memory are steered.
 */
void steer_mapped(void *addr, size_t length, int prot, int flags, int fd, off_t offset);

/**
 * steer_unmapping() - a range is about to be unmapped, or mapped over
 * @addr: where it begins
 * @length: bytes
 *
 * If files are held, it waits until they are not, where their mappings end here: for
 * 100 ms at most. Cheap when nothing is steered.
 */
void steer_unmapping(void *addr, size_t length);

/* mremap(2) has moved a range, or changed its length. */
void steer_moved(void *old, size_t old_length, void *new, size_t new_length);

/**
 * steer_remap() - mremap(2) of what may have been advised in parts
 * @old: as for mremap(2), like what follows
 * @old_length: bytes
 * @new_length: bytes
 * @flags: MREMAP_*
 * @new: with MREMAP_FIXED
 *
 * Advice for a part splits what the kernel has for a mapping, and mremap(2) takes one such
 * piece only. With one advice for all of it they are one again: what the program has
 * advised there stays, and so does the error then. steer_moved() is to follow.
 *
 * Return: the address, or a negative errno as a pointer.
 */
void *steer_remap(void *old, size_t old_length, size_t new_length, int flags, void *new);

/* The program itself has called madvise(2): for that range its word counts. */
void steer_hint(void *addr, size_t length, int advice);

/**
 * steer_alone() - the process must have no threads that it did not make itself
 *
 * Returns when the thread is gone: after 100 ms at the latest. The next mapping starts
 * it again.
 */
void steer_alone(void);

/* The same, for good. */
void steer_never(void);

/**
 * steer_page() - what is steered, and what was done (see page.h)
 *
 * Return: memory that the thread writes to while others read it; NULL if nothing was
 * ever steered.
 */
const struct steer_page *steer_page(void);

#endif /* HUGEMAP_STEER_H */
