/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * libhugemap: memory-mapped files that need no tuning.
 *
 * A program maps a file, or a block device, and uses loads and stores. The
 * library sees to page size, prefetch, write-back and eviction: by steering Linux's
 * page cache, which changes nothing of what mmap(2) promises; or, if the program
 * makes a pool, with a cache of its own that is strict about what it serves.
 *
 *	void *p = hugemap_map(fd, 0, 0, PROT_READ, 0, NULL);
 *	int err = hugemap_error(p);
 *
 *	if (err)
 *		errx(1, "%s", hugemap_strerror(err));
 *
 * Results are 0 (or a count, or an address) on success and a negative errno on
 * failure; errno itself is left alone. Every function may be called from any
 * thread. None may be called from a signal handler.
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

/**
 * enum hugemap_engine - who serves a mapping
 * @HUGEMAP_ENGINE_STEER: Linux's page cache, steered by the library: the kernel's own
 *	mmap, with all that it promises
 * @HUGEMAP_ENGINE_POOL: a pool that the program made, see hugemap_pool_create()
 * @HUGEMAP_ENGINE_KERNEL: the kernel module: the file is on a hugemap mount
 */
enum hugemap_engine {
	HUGEMAP_ENGINE_STEER = 0,
	HUGEMAP_ENGINE_POOL = 1,
	HUGEMAP_ENGINE_KERNEL = 2,
};

/**
 * enum hugemap_io - how a pool does its I/O
 * @HUGEMAP_IO_AUTO: io_uring if it is allowed, else threads
 * @HUGEMAP_IO_URING: io_uring or fail
 * @HUGEMAP_IO_THREADS: a pool of threads with preadv and pwritev
 */
enum hugemap_io {
	HUGEMAP_IO_AUTO = 0,
	HUGEMAP_IO_URING = 1,
	HUGEMAP_IO_THREADS = 2,
};

/**
 * enum hugemap_priority - which mappings keep their blocks longer
 * @HUGEMAP_PRIORITY_NORMAL: the default
 * @HUGEMAP_PRIORITY_HIGH: evicted last
 * @HUGEMAP_PRIORITY_LOW: evicted first
 */
enum hugemap_priority {
	HUGEMAP_PRIORITY_NORMAL = 0,
	HUGEMAP_PRIORITY_HIGH = 1,
	HUGEMAP_PRIORITY_LOW = 2,
};

/* Flags of hugemap_map(). */
#define HUGEMAP_PRIVATE 0x1 /* stores stay in this process (copy on write) */

struct hugemap_pool;

/**
 * struct hugemap_pool_options - settings of a pool
 * @size: sizeof(struct hugemap_pool_options), for compatibility
 * @bytes: DRAM for cached data; a hard limit, in bytes; 0 = a quarter of the
 *	memory that is available now, at least 64 MB and at most 4 GB
 * @dirty_ratio: write-back starts by itself when more than this share of the
 *	pool is dirty; percent; 0 = 75
 * @dirty_expire_ms: dirty data is written after this time at the latest;
 *	milliseconds; 0 = 5000
 * @evict_batch: units evicted at a time; 0 = 16
 * @readahead_kb: the largest read-ahead window of a stream; KiB; 0 = 32768
 * @no_readahead: true: never read ahead
 * @queue_depth: I/O operations in flight; 0 = 32
 * @handlers: threads that serve faults; 0 = one for every 8 CPUs, at most 4
 * @io: see enum hugemap_io
 * @prefault: true: take all frames before hugemap_pool_create() returns; false:
 *	they are taken as they are used, in the background some ahead of that
 */
struct hugemap_pool_options {
	size_t size;
	uint64_t bytes;
	uint32_t dirty_ratio;
	uint32_t dirty_expire_ms;
	uint32_t evict_batch;
	uint32_t readahead_kb;
	bool no_readahead;
	uint32_t queue_depth;
	uint32_t handlers;
	enum hugemap_io io;
	bool prefault;
};

/**
 * struct hugemap_options - settings of a mapping
 * @size: sizeof(struct hugemap_options), for compatibility
 * @pool: the pool to use; NULL = none: the kernel's mmap, steered
 * @priority: see enum hugemap_priority; for a pool
 */
struct hugemap_options {
	size_t size;
	struct hugemap_pool *pool;
	enum hugemap_priority priority;
};

/**
 * hugemap_pool_create() - take a pool of frames
 * @options: settings, or NULL for all defaults
 * @pool: the new pool
 *
 * A pool is a cache that nobody else touches, with a hard limit. It is strict: see
 * hugemap(7). It needs Linux 6.8 and the right to use userfaultfd; there is nothing that
 * takes its place where that cannot be had.
 *
 * Return: 0; -EINVAL (a setting is out of range), -ENOMEM (less memory is
 * available than asked for), -EPERM, -ENOSYS or -EOPNOTSUPP (userfaultfd cannot
 * be used here: `hugemap doctor` says what would help), -EMFILE, or -E2BIG (@options
 * are a newer library's). hugemap_reason() has the details.
 */
int hugemap_pool_create(const struct hugemap_pool_options *options, struct hugemap_pool **pool);

/**
 * hugemap_pool_destroy() - give a pool back
 * @pool: a pool that no mapping uses any more
 *
 * Return: 0; -EBUSY while mappings use it; or -EINVAL: it is none of this process, but
 * of its parent, say.
 */
int hugemap_pool_destroy(struct hugemap_pool *pool);

/**
 * hugemap_map() - map a file or a block device
 * @fd: open for reading, and for writing too if @prot has PROT_WRITE (unless
 *	HUGEMAP_PRIVATE); it may be closed afterwards
 * @offset: where to start in the file; bytes; a multiple of 4096, or with a pool of
 *	2 MB
 * @length: bytes; 0 = up to the end of the file; may reach beyond it. With a pool, a
 *	multiple of 2 MB, unless it reaches the end
 * @prot: PROT_READ, or PROT_READ | PROT_WRITE
 * @flags: HUGEMAP_PRIVATE or 0
 * @options: settings, or NULL for all defaults
 *
 * Without a pool this is mmap(2), at an address that huge pages need, and the
 * library looks at how the mapping is used and advises the kernel. Everything that
 * mmap(2) promises holds: for children, other processes, read(2) and write(2),
 * truncation.
 *
 * With a pool, all mappings of the file in this process, hugemap_pread() and
 * hugemap_pwrite() see the same bytes, and nobody else does: see hugemap(7).
 *
 * Return: the address, a multiple of 4096, with (address - offset) a multiple
 * of 2 MB; or an error in the sense of hugemap_error(): -EACCES, -EBADF,
 * -EINVAL, -ENODEV (no file to map), -ENOMEM, -EOVERFLOW, -EBUSY (with a pool:
 * somebody else has the file; without one: a pool of this process has it),
 * -EOPNOTSUPP (a private writable mapping of a pool), -E2BIG (@options are a newer
 * library's). With a pool also -EFBIG (a file too large, or too many), -ENOENT (there is
 * no /proc), -ENOLCK, or what open(2) says.
 */
void *hugemap_map(int fd, off_t offset, size_t length, int prot, int flags,
		  const struct hugemap_options *options);

/**
 * hugemap_error() - tell an error from an address
 * @addr: what hugemap_map() returned
 *
 * Return: 0 if it is an address, else the negative errno.
 */
static inline int hugemap_error(const void *addr)
{
	return (uintptr_t)addr >= (uintptr_t)-4095 ? (int)(intptr_t)addr : 0;
}

/**
 * hugemap_unmap() - end a mapping, or a part of it
 * @addr: a multiple of 4096 in mappings of this library
 * @length: bytes; rounded up to a multiple of 4096
 *
 * What was stored reaches the file (its write errors are told here), but not
 * necessarily the device: see hugemap_sync(). Of what a pool has, whole blocks of
 * 2 MB can be unmapped.
 *
 * Return: 0; -EINVAL if the range is not mapped by this library, or would cut a block
 * of a pool; -EBUSY if direct I/O has pages of a pool there pinned; -ENOMEM if the kernel
 * has no areas left to cut one: these change nothing, but where the range has several
 * mappings: the others are unmapped. Or the errno of a failed write, none of these: the
 * range is unmapped nevertheless.
 */
int hugemap_unmap(void *addr, size_t length);

/**
 * hugemap_remap() - make a mapping longer or shorter
 * @addr: where a mapping begins
 * @old_length: its length in bytes; rounded up
 * @new_length: what it shall be; bytes; rounded up
 *
 * As mremap(2) with MREMAP_MAYMOVE, and what is cached stays cached. That of a pool
 * moves unless it becomes shorter; threads must not touch it meanwhile.
 *
 * Return: the address from now on; or an error in the sense of hugemap_error():
 * -ENOMEM, -EOVERFLOW, -EINVAL (a length is 0, or the range is not exactly one mapping,
 * or a pool would have to cut a block), -EBUSY (as hugemap_unmap()), or -EFAULT (without a
 * pool: the program has given parts of it different advice). A write that fails on the way
 * is told by the next hugemap_sync().
 */
void *hugemap_remap(void *addr, size_t old_length, size_t new_length);

/**
 * hugemap_sync() - make stores durable
 * @addr: a multiple of 4096 in a mapping
 * @length: bytes; rounded up; the range may go on in other mappings of this library
 * @flags: MS_SYNC: return when the data survives a power cut; MS_ASYNC: return at
 *	once; a pool starts writing, of a mapping without one the kernel writes in its
 *	own time
 *
 * Return: 0; -EINVAL, also if a part of the range is not mapped; or the errno of a write
 * that failed since the last call on these mappings: what is cached stays so, dirty, and is
 * tried again. What only the device had, or the page cache after hugemap_pwrite(), nobody
 * can try again, as after an fsync(2) that fails.
 */
int hugemap_sync(void *addr, size_t length, int flags);

/* Advice for hugemap_advise(). None is needed; all are honoured. */
enum hugemap_advice {
	HUGEMAP_ADVICE_NORMAL, /* learn from the faults */
	HUGEMAP_ADVICE_SEQUENTIAL, /* read ahead from the first fault on */
	HUGEMAP_ADVICE_RANDOM, /* never read ahead */
	HUGEMAP_ADVICE_WILLNEED, /* bring the range in now, in the background */
	HUGEMAP_ADVICE_DONTNEED, /* drop what is cached and clean of the range */
	HUGEMAP_ADVICE_PRIORITY_HIGH, /* see enum hugemap_priority */
	HUGEMAP_ADVICE_PRIORITY_NORMAL,
	HUGEMAP_ADVICE_PRIORITY_LOW,
};

/**
 * hugemap_advise() - say what the program will do
 * @addr: in a mapping
 * @length: bytes; the range may go on in other mappings of this library. WILLNEED and
 *	DONTNEED apply to it, the others to the mappings of a pool that it touches
 * @advice: see enum hugemap_advice
 *
 * Return: 0 or -EINVAL; or, if another thread unmaps the range meanwhile, the errno of a write
 * that it would have been told.
 */
int hugemap_advise(void *addr, size_t length, enum hugemap_advice advice);

/**
 * hugemap_prefetch() - bring a range into memory and wait until it is there
 * @addr: in a mapping
 * @length: bytes; the range may go on in other mappings of this library; what does not
 *	fit into a pool is left out, and what lies beyond the end of a file
 *
 * Return: 0, -EINVAL, or the errno of a failed read; or of a write, as hugemap_advise().
 */
int hugemap_prefetch(void *addr, size_t length);

/**
 * hugemap_pread() - read a file that may be mapped
 * @fd: open for reading
 * @buffer: where to; may be in a mapping
 * @count: bytes
 * @offset: position in the file
 *
 * As pread(2), but sees what was stored to mappings of the file in this process,
 * those of a pool, too. A @buffer that is not accessible is SIGSEGV where a pool has the
 * file, or a part of the buffer, as for memcpy(). A handler of such a signal must not leave
 * the call by siglongjmp(): the file would stay in use.
 *
 * Return: bytes read, or a negative errno.
 */
ssize_t hugemap_pread(int fd, void *buffer, size_t count, off_t offset);

/**
 * hugemap_pwrite() - write a file that may be mapped
 * @fd: open for writing
 * @buffer: the data; may be in a mapping
 * @count: bytes
 * @offset: position in the file; the file grows if it ends before the end of
 *	the write
 *
 * As pwrite(2), and mappings of the file in this process see it at once, those of a
 * pool, too. A @buffer that is not accessible: see hugemap_pread().
 *
 * Return: bytes written, or a negative errno: -EBUSY if a pool has the file for
 * reading only, or a page of it is pinned.
 */
ssize_t hugemap_pwrite(int fd, const void *buffer, size_t count, off_t offset);

/**
 * hugemap_truncate() - change the length of a file that may be mapped
 * @fd: open for writing
 * @length: the new length
 *
 * As ftruncate(2), of files that a pool has, too: when it returns, pages beyond the
 * new end raise SIGBUS and nothing is written there. What a file that is mapped
 * through a pool grows by is the kernel's, in the same mappings, until the file is
 * mapped anew.
 *
 * Return: 0; or a negative errno, and nothing has changed (but for a file that came to be
 * mapped during the call): -EBUSY as hugemap_pwrite().
 */
int hugemap_truncate(int fd, off_t length);

/**
 * hugemap_punch() - free a range of a file that may be mapped
 * @fd: open for writing
 * @offset: start of the range
 * @length: bytes
 *
 * As fallocate(2) with FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE: the range
 * reads as zeros afterwards, in mappings too.
 *
 * Return: 0; or a negative errno, and nothing has changed (but for a file that came to be
 * mapped during the call): -EBUSY as hugemap_pwrite().
 */
int hugemap_punch(int fd, off_t offset, off_t length);

/**
 * hugemap_flush() - write what is dirty of a file that may be mapped
 * @fd: open on the file
 * @offset: start of the range
 * @length: bytes; 0 = up to the end of the file
 *
 * When it returns, read(2) of any process and sendfile(2) find what was stored
 * before the call. It need not survive a power cut yet: fsync(2) the file for
 * that.
 *
 * Return: 0, -EBADF, -EINVAL, or the errno of a write that failed.
 */
int hugemap_flush(int fd, off_t offset, off_t length);

/**
 * struct hugemap_latency - a latency distribution, in nanoseconds
 * @count: how many were measured
 * @p50: half of them took no longer than this
 * @p90: 90 % of them
 * @p99: 99 % of them
 * @p999: 99.9 % of them
 * @max: the longest
 */
struct hugemap_latency {
	uint64_t count;
	uint64_t p50, p90, p99, p999, max;
};

/**
 * struct hugemap_stat - numbers of a mapping or of a pool
 * @size: in: sizeof(struct hugemap_stat)
 * @engine: who serves it
 * @reason: what was decided for it last, in words; "" = nothing yet
 * @pool_bytes: size of the pool
 * @free_bytes: free frames of the pool
 * @mapped_bytes: length of the mapping, or of all mappings of the pool
 * @resident_bytes: cached data, of the pool
 * @dirty_bytes: of these, not written yet
 * @huge_pages: 2 MB pages mapped now
 * @base_pages: 4 KB pages mapped now
 * @faults: faults served
 * @hits: ... that needed no I/O
 * @fills: ... that had to read
 * @zeros: ... of blocks that hold no data in the file: not read
 * @write_faults: first stores to clean pages
 * @ahead: units read ahead or mapped ahead
 * @ahead_used: ... that were used; @ahead_used / @ahead is the accuracy
 * @ahead_wasted: ... that were evicted unused
 * @evictions: units evicted
 * @rescued: units touched while inactive
 * @read_bytes: read from files
 * @written_bytes: written to files
 * @read_errors: failed reads
 * @write_errors: failed writes
 * @slipped: stores that were caught between mapping and write protection
 * @fault_ns: from the arrival of a fault to its end, I/O included
 * @read_ns: reads
 * @write_ns: writes
 */
struct hugemap_stat {
	size_t size;
	enum hugemap_engine engine;
	char reason[160];
	uint64_t pool_bytes;
	uint64_t free_bytes;
	uint64_t mapped_bytes;
	uint64_t resident_bytes;
	uint64_t dirty_bytes;
	uint64_t huge_pages;
	uint64_t base_pages;
	uint64_t faults;
	uint64_t hits;
	uint64_t fills;
	uint64_t zeros;
	uint64_t write_faults;
	uint64_t ahead;
	uint64_t ahead_used;
	uint64_t ahead_wasted;
	uint64_t evictions;
	uint64_t rescued;
	uint64_t read_bytes;
	uint64_t written_bytes;
	uint64_t read_errors;
	uint64_t write_errors;
	uint64_t slipped;
	struct hugemap_latency fault_ns;
	struct hugemap_latency read_ns;
	struct hugemap_latency write_ns;
};

/**
 * hugemap_stat() - numbers of a mapping and its pool
 * @addr: an address in a mapping
 * @stat: filled in; set stat->size first
 *
 * Without a pool, what is not known is 0: there are @mapped_bytes, and what this
 * process has mapped of them: @resident_bytes, @dirty_bytes, @huge_pages and
 * @base_pages.
 *
 * Return: 0; -EINVAL if @addr is not mapped by this library or @stat->size is not
 * set.
 */
int hugemap_stat(const void *addr, struct hugemap_stat *stat);

/**
 * struct hugemap_map_stat - numbers of one mapping of a pool
 * @size: in: sizeof(struct hugemap_map_stat)
 * @bytes: its length
 * @faults: faults served, first stores included
 * @hits: ... that needed no I/O
 * @wait_ns: how long threads waited for them, added up; nanoseconds
 */
struct hugemap_map_stat {
	size_t size;
	uint64_t bytes;
	uint64_t faults;
	uint64_t hits;
	uint64_t wait_ns;
};

/**
 * hugemap_map_stat() - numbers of one mapping
 * @addr: an address in a mapping
 * @stat: filled in; set stat->size first
 *
 * Return: 0; -EINVAL if @addr is not mapped through a pool or @stat->size
 * is not set.
 */
int hugemap_map_stat(const void *addr, struct hugemap_map_stat *stat);

/**
 * hugemap_strerror() - an error as a sentence that says what to do
 * @err: a result of this library, negative or positive
 *
 * Return: a constant string; never NULL.
 */
const char *hugemap_strerror(int err);

/**
 * hugemap_reason() - what exactly went wrong
 *
 * Return: a sentence on the last call of this thread, if it failed; "" if there is
 * none. Valid until this thread's next call of the library.
 */
const char *hugemap_reason(void);

/**
 * hugemap_version() - the version of the library in use
 *
 * Return: a constant string such as "0.1.0".
 */
const char *hugemap_version(void);

#ifdef __cplusplus
}
#endif

#endif /* HUGEMAP_H */
