/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * libhugemap: less waiting for memory-mapped files.
 *
 * A program maps a file, or a block device, and uses loads and stores. The mapping is
 * Linux's own: everything that mmap(2) promises holds, for children, other processes,
 * read(2), write(2) and truncation. The library places it where huge pages can map it, and
 * steers it: a monitor thread observes which pages are accessed and advises the kernel's
 * page cache (read-ahead, huge folios, early write-back). Advice cannot change a byte.
 *
 *	void *p = hugemap_map(fd, 0, 0, PROT_READ, 0);
 *	int err = hugemap_error(p);
 *
 *	if (err)
 *		errx(1, "%s (%s)", hugemap_strerror(err), hugemap_reason());
 *
 * Functions return 0 (or an address) on success and a negative errno on failure. They do
 * not change errno. Any thread may call them; signal handlers must not.
 */
#ifndef HUGEMAP_H
#define HUGEMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HUGEMAP_VERSION_MAJOR 0
#define HUGEMAP_VERSION_MINOR 2

/* Flags of hugemap_map(). */
#define HUGEMAP_PRIVATE 0x1 /* stores stay in this process (copy on write) */

/**
 * hugemap_map() - map a file or a block device
 * @fd: open for reading, and also for writing if @prot has PROT_WRITE (unless @flags has
 *	HUGEMAP_PRIVATE). The caller may close it afterwards.
 * @offset: where the mapping starts in the file; bytes; a multiple of 4096
 * @length: bytes; 0 = up to the end of the file. It may reach beyond the end.
 * @prot: PROT_READ, or PROT_READ | PROT_WRITE
 * @flags: HUGEMAP_PRIVATE or 0
 *
 * This is mmap(2) at an address that huge pages need. Mappings of at least 16 MB are
 * steered, unless the file is in memory (tmpfs) or on a hugemap mount, which has a cache of
 * its own.
 *
 * Return: the address, a multiple of 4096, where (address - offset) is a multiple of 2 MB;
 * or an error for hugemap_error(): -EACCES, -EBADF, -EINVAL, -ENODEV (the file cannot be
 * mapped), -ENOMEM, -EOVERFLOW, or another error of mmap(2).
 */
void *hugemap_map(int fd, off_t offset, size_t length, int prot, int flags);

/**
 * hugemap_error() - tell an error from an address
 * @addr: a result of hugemap_map() or hugemap_remap()
 *
 * Return: 0 if it is an address, else the negative errno.
 */
static inline int hugemap_error(const void *addr)
{
	return (uintptr_t)addr >= (uintptr_t)-4095 ? (int)(intptr_t)addr : 0;
}

/**
 * hugemap_unmap() - end a mapping, or a part of it
 * @addr: a multiple of 4096
 * @length: bytes; rounded up to a multiple of 4096
 *
 * This is munmap(2). Stores reach the file, but not necessarily the device: see
 * hugemap_sync().
 *
 * Return: 0; -EINVAL; or -ENOMEM if the kernel allows no more areas to split one.
 */
int hugemap_unmap(void *addr, size_t length);

/**
 * hugemap_remap() - make a mapping longer or shorter
 * @addr: where the mapping begins; a multiple of 4096
 * @old_length: its length in bytes; rounded up to a multiple of 4096
 * @new_length: the length wanted in bytes; rounded up to a multiple of 4096
 *
 * This is mremap(2) with MREMAP_MAYMOVE, except that the alignment to the file is kept.
 *
 * Return: the address from now on; or an error for hugemap_error(): -EINVAL, -ENOMEM, or
 * -EFAULT (the range is not one mapping, or the program has given parts of it different
 * advice).
 */
void *hugemap_remap(void *addr, size_t old_length, size_t new_length);

/**
 * hugemap_sync() - make stores durable
 * @addr: a multiple of 4096
 * @length: bytes; rounded up; the range may include several mappings
 * @flags: MS_SYNC: return when the data survives a power cut; MS_ASYNC: the kernel writes
 *	it in its own time
 *
 * This is msync(2).
 *
 * Return: 0; -EINVAL, also if a part of the range is not mapped; or the errno of a write
 * that failed.
 */
int hugemap_sync(void *addr, size_t length, int flags);

/* Advice for hugemap_advise(). None is needed. */
enum hugemap_advice {
	HUGEMAP_ADVICE_NORMAL, /* the kernel's default */
	HUGEMAP_ADVICE_SEQUENTIAL, /* read ahead from the first access on */
	HUGEMAP_ADVICE_RANDOM, /* do not read ahead */
	HUGEMAP_ADVICE_WILLNEED, /* read the range in the background, now */
	HUGEMAP_ADVICE_DONTNEED, /* reclaim the range; no data is lost */
};

/**
 * hugemap_advise() - say what the program will do
 * @addr: in a mapping
 * @length: bytes; the range may include several mappings
 * @advice: see enum hugemap_advice
 *
 * Steering leaves a range alone after SEQUENTIAL and RANDOM, until the program gives NORMAL
 * for it.
 *
 * Return: 0, -EINVAL, or another error of madvise(2).
 */
int hugemap_advise(void *addr, size_t length, enum hugemap_advice advice);

/**
 * hugemap_prefetch() - read a range into memory and wait for it
 * @addr: in a mapping
 * @length: bytes; the range may include several mappings. Pages beyond the end of a file
 *	are left out.
 *
 * Return: 0; -EINVAL if a part of the range is not mapped; or -EIO if a page cannot be
 * read.
 */
int hugemap_prefetch(void *addr, size_t length);

/**
 * enum hugemap_engine - which cache serves a mapping
 * @HUGEMAP_ENGINE_STEER: Linux's page cache, steered
 * @HUGEMAP_ENGINE_KERNEL: the kernel module: the file is on a hugemap mount
 */
enum hugemap_engine {
	HUGEMAP_ENGINE_STEER = 0,
	HUGEMAP_ENGINE_KERNEL = 1,
};

/**
 * struct hugemap_stat - the state of a mapping, and what steering did for it
 * @size: in: sizeof(struct hugemap_stat)
 * @engine: see enum hugemap_engine
 * @pattern: how the mapping is accessed: "stream", "streams", "backward", "strided",
 *	"chunks", "random", "hinted" (the program gives advice itself), or "unknown"
 * @reason: the last decision of steering, in words; "" = none yet
 * @mapped_bytes: length of the mapping
 * @resident_bytes: bytes of it that this process has mapped now
 * @dirty_bytes: of these, bytes that are not written yet
 * @huge_bytes: of @resident_bytes, bytes that are mapped by 2 MB pages
 * @accessed_bytes: bytes that steering has seen accessed; a page that was reclaimed and
 *	accessed again counts again
 * @random_bytes: bytes that got MADV_RANDOM
 * @hugepage_bytes: bytes that got MADV_HUGEPAGE
 * @normal_bytes: bytes whose advice was taken back
 * @ahead_bytes: bytes that steering requested before the program accessed them
 */
struct hugemap_stat {
	size_t size;
	enum hugemap_engine engine;
	char pattern[16];
	char reason[160];
	uint64_t mapped_bytes;
	uint64_t resident_bytes;
	uint64_t dirty_bytes;
	uint64_t huge_bytes;
	uint64_t accessed_bytes;
	uint64_t random_bytes;
	uint64_t hugepage_bytes;
	uint64_t normal_bytes;
	uint64_t ahead_bytes;
};

/**
 * hugemap_stat() - the state of a mapping, and what steering did for it
 * @addr: an address in a mapping of a file
 * @stat: filled in; set stat->size first. A program built for an older library gets the
 *	fields that it knows; fields that a newer program knows are 0.
 *
 * It reads /proc/self/smaps, which takes about a millisecond for each GB that is mapped by
 * small pages.
 *
 * Return: 0; -EINVAL if no file is mapped at @addr, or stat->size is not set.
 */
int hugemap_stat(const void *addr, struct hugemap_stat *stat);

/**
 * hugemap_strerror() - an error as a sentence that names the remedy
 * @err: a result of this library, negative or positive
 *
 * Return: a constant string; never NULL.
 */
const char *hugemap_strerror(int err);

/**
 * hugemap_reason() - why the last call of this thread failed
 *
 * Return: a sentence; "" if the last call succeeded. Valid until this thread's next call of
 * the library.
 */
const char *hugemap_reason(void);

/**
 * hugemap_version() - the version of the library in use
 *
 * Return: a constant string such as "0.2.0".
 */
const char *hugemap_version(void);

#ifdef __cplusplus
}
#endif

#endif /* HUGEMAP_H */
