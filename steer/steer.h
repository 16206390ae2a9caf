/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Steering: automatic advice for Linux's page cache.
 *
 * The callers report the mappings of the process as they come and go, with one call for each. The
 * monitor thread (watch.c) scans for touched pages, passes them to the policy (policy.h), and
 * carries out its answers by madvise(2). Advice cannot change a byte of the data.
 *
 * Any thread may make any of these calls at any moment, also in a signal handler. No call uses an
 * allocator, resolves a symbol, changes errno or takes a lock. Only the kernel knows the thread
 * (thread.h), the C library does not: a caller that needs a process without it calls steer_alone()
 * first.
 */
#ifndef HUGEMAP_STEER_H
#define HUGEMAP_STEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The monitor does not steer shorter mappings: scans of them cost more than advice could gain. */
#define STEER_LEAST_DEFAULT (16ul << 20)

/**
 * struct steer_settings - settings that a caller may make once, before the first mapping
 * @least: bytes of the shortest mapping to steer; 0 = STEER_LEAST_DEFAULT
 * @verbose: print a line on standard error for each decision
 * @override_hints: replace advice of the program that makes it slower
 * @rank: of the process in an MPI program, for these lines; NULL or "" = none
 */
struct steer_settings {
	uint64_t least;
	bool verbose;
	bool override_hints;
	const char *rank;
};

void steer_configure(const struct steer_settings *settings);

/**
 * steer_mapped() - report a new mapping
 * @addr: its first address
 * @length: bytes
 * @prot: as for mmap(2)
 * @flags: as for mmap(2)
 * @offset: in the file
 *
 * This starts the thread if the mapping is the first one that is large enough. Only files on a
 * disk of this machine are steered: see device_is_local().
 */
void steer_mapped(void *addr, size_t length, int prot, int flags, off_t offset);

/*
 * Report a mapping that the program has made some time before. The process may have read pages for
 * it since then.
 */
void steer_adopt(void *addr, size_t length, int prot, int flags, off_t offset);

/**
 * struct steer_removal - a range that the program is about to unmap
 * @id: 0 = the range is not steered
 * @advised: address of the part with advice, in the first mapping that has some
 * @advised_bytes: bytes of that part
 * @ends: monitors that had ended before
 * @lost: the event of the range was lost
 */
struct steer_removal {
	uint64_t id;
	uint64_t advised, advised_bytes;
	uint32_t ends;
	bool lost;
};

/**
 * steer_unmapping() - report a range before the program unmaps it, or maps other memory over it
 * @addr: its first address
 * @length: bytes
 *
 * If the range is steered, and the monitor is giving advice at this moment, the call waits for that
 * one madvise(), so that the advice does not reach the memory that the program maps there next.
 *
 * Return: the range, for steer_unmapped().
 */
struct steer_removal steer_unmapping(void *addr, size_t length);

/*
 * The call has returned. @done: it has succeeded. A call that has failed may have unmapped a part of
 * the range, and advice may be left in the rest. The monitor takes that back, or the caller if the
 * monitor has ended since.
 */
void steer_unmapped(struct steer_removal removal, bool done);

/**
 * steer_remap() - call mremap(2), and report it
 * @old: first address of the old mapping
 * @old_length: bytes of the old mapping
 * @length: bytes of the new one
 * @flags: MREMAP_*
 * @new: first address of the new mapping with MREMAP_FIXED
 *
 * Advice for a part splits the kernel's area of a mapping, and mremap(2) accepts one area only. If
 * the program has given no advice there, this sets one advice for all areas, which joins them, and
 * repeats the call.
 *
 * Return: the address, or a negative errno as a pointer.
 */
void *steer_remap(void *old, size_t old_length, size_t length, int flags, void *new);

/* The program has called madvise(2) itself. The monitor gives no advice in that range. */
void steer_hint(void *addr, size_t length, int advice);

/**
 * steer_alone() - end the monitor thread for a call that needs the process without it
 *
 * This returns when the kernel does not count the thread any more, however long that takes. No
 * mapping starts it again until steer_alone_end().
 */
void steer_alone(void);
void steer_alone_end(void);

/* End the thread as steer_alone() does, but permanently: no mapping starts it again. */
void steer_never(void);

/* Returns whether a thread of this process is the monitor thread. */
bool steer_is_monitor(pid_t thread);

/**
 * steer_own_page() - the report of the steered mappings and of the advice given (see page.h)
 *
 * Return: memory that the thread writes while others read it; NULL if this process never steered
 * anything.
 */
const struct steer_page *steer_own_page(void);

#endif /* HUGEMAP_STEER_H */
