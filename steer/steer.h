/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Linux's page cache, advised automatically.
 *
 * The callers report the mappings of the process as they come and go, with one call for each. The
 * monitor thread (watch.c) scans for touched pages, passes them to the policy (policy.h), and
 * carries the answers out by madvise(2). Advice cannot change a byte of the data.
 *
 * Every call may be made from any thread at any moment, in a signal handler too. No call uses an
 * allocator, looks a symbol up, changes errno or takes a lock. The thread is known to the kernel
 * alone (thread.h): a caller that needs a process without it calls steer_alone() first.
 */
#ifndef HUGEMAP_STEER_H
#define HUGEMAP_STEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The monitor leaves shorter mappings alone: their possible gain is not worth a look. */
#define STEER_LEAST_DEFAULT (16ul << 20)

/**
 * struct steer_settings - settings that a caller may make once, before the first mapping
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
 * @offset: in the file
 *
 * Starts the thread if this is the first mapping that is worth it. Only files on a disk of this
 * machine are steered: see device_is_local().
 */
void steer_mapped(void *addr, size_t length, int prot, int flags, off_t offset);

/**
 * steer_unmapping() - a range is about to be unmapped, or mapped over
 * @addr: where it begins
 * @length: bytes
 *
 * If the range is steered, and advice is being given just now, this waits for that one madvise(),
 * so that no advice reaches the memory that comes next.
 */
void steer_unmapping(void *addr, size_t length);

/**
 * steer_remap() - mremap(2), and a report of it
 * @old: as for mremap(2), like the following
 * @old_length: bytes
 * @length: bytes
 * @flags: MREMAP_*
 * @new: with MREMAP_FIXED
 *
 * Advice for a part splits the kernel's area for a mapping, and mremap(2) takes one area only.
 * If only the monitor has advised there, the mapping is given one advice and the call is repeated.
 *
 * Return: the address, or a negative errno as a pointer.
 */
void *steer_remap(void *old, size_t old_length, size_t length, int flags, void *new);

/* The program has called madvise(2) itself. Its advice counts in that range. */
void steer_hint(void *addr, size_t length, int advice);

/**
 * steer_alone() - the process must have no thread that it did not make itself
 *
 * Returns when the kernel does not count the thread any more, however long that takes. No mapping
 * starts it again until steer_alone_end().
 */
void steer_alone(void);
void steer_alone_end(void);

/* End the thread as steer_alone() does, but for good: no mapping starts it again. */
void steer_never(void);

/**
 * steer_own_page() - the report of the steered mappings and of the advice given (see page.h)
 *
 * Return: memory that the thread writes while others read it; NULL if this process never steered
 * anything.
 */
const struct steer_page *steer_own_page(void);

#endif /* HUGEMAP_STEER_H */
