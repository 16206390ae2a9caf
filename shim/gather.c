// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * --user-mode: a system call that reads a page of the engine's which is not mapped
 * just then fails with EFAULT, or stops before it. What is mapped may be evicted
 * at any time, so that a call can never be made sure to succeed. This is done:
 *
 *   1. the pages are brought in and mapped, as many as the pool holds, and the
 *      call is made as it is (calls with lists of buffers are made first, and
 *      looked at if they fail);
 *   2. what it did not take is copied, in pieces of bounded size, and the call
 *      is made with the copies.
 *
 * The copies are read from the file by the engine, not from the mapping: where
 * the program's call would fail with EFAULT, beyond the end of the file or after
 * a read error, a load of ours would kill it. Files here are SETTLED: the bytes
 * are the same.
 */
#include "gather.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define COPY_BYTES ((size_t)256 << 10)
#define MOST_BYTES ((size_t)0x7ffff000) /* no call takes more at once */
#define LIST_BYTES (IOV_MAX * sizeof(struct iovec))
#define AHEAD_BYTES ((size_t)128 << 10) /* sockets copy 64 KB at a time, or nothing */

static char *page_of(const void *addr)
{
	return (char *)((uintptr_t)addr & ~(PAGE_BYTES - 1));
}

/* The first part of a range that the engine serves. */
static bool first_part(const char *start, const char *end, char **from, char **to)
{
	struct shim_section section;
	struct map *map;

	shim_enter(&section);
	pthread_rwlock_rdlock(&shim_lock);
	map = map_first(start, end, true);
	if (map) {
		*from = map->start > start ? map->start : (char *)start;
		*to = map->end < end ? map->end : (char *)end;
	}
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&section);
	return map;
}

/* Bring in what the engine serves of a range. What cannot be read is left out. */
void gather_fetch(const void *addr, size_t length)
{
	char *start = (char *)addr, *end = start + length, *from, *to;
	struct shim_section section;

	while (start < end && first_part(start, end, &from, &to)) {
		shim_enter(&section);
		hugemap_prefetch(from, (size_t)(to - from));
		shim_leave(&section);
		start = to;
	}
}

/* Can we look at what a failed call was given? */
bool gather_there(const void *addr, size_t length)
{
	char *start = page_of(addr);
	size_t bytes = (size_t)((const char *)addr + length - start);

	if (!length)
		return true;
	if (shim_concerns(addr, length))
		gather_fetch(addr, length);
	bytes = (bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	if (!real->madvise(start, bytes, MADV_POPULATE_READ))
		return true;
	errno = EFAULT;
	return false;
}

static size_t bytes_of(const struct iovec *iov, int n)
{
	size_t bytes = 0;
	int i;

	for (i = 0; i < n && bytes < MOST_BYTES; i++)
		bytes += iov[i].iov_len < MOST_BYTES ? iov[i].iov_len : MOST_BYTES;
	return bytes < MOST_BYTES ? bytes : MOST_BYTES;
}

bool gather_concerns(const struct iovec *iov, int n)
{
	int i;

	for (i = 0; i < n; i++)
		if (shim_concerns(iov[i].iov_base, iov[i].iov_len))
			return true;
	return false;
}

/* Is a page missing of what the engine serves in a range? *any: it serves some of it. */
static bool is_missing(const char *start, const char *end, bool *any)
{
	unsigned char pages[AHEAD_BYTES / PAGE_BYTES + 1];
	size_t n, i;
	char *from, *to;

	while (start < end && first_part(start, end, &from, &to)) {
		*any = true;
		n = (size_t)(to - page_of(from) + (ptrdiff_t)PAGE_BYTES - 1) / PAGE_BYTES;
		if (real->mincore(page_of(from), n * PAGE_BYTES, pages) < 0)
			return true;
		for (i = 0; i < n; i++)
			if (!(pages[i] & 1))
				return true;
		start = to;
	}
	return false;
}

/*
 * A call has taken less than it was given. Was it a page that is not there, of what
 * the kernel would have copied next? If not, the program must learn of it, as
 * something else has ended the call. A page may be back already; for a file that
 * does not matter, as there is no harm in going on.
 */
static bool stopped_by_fault(const struct gather *gather, const struct iovec *iov, int n,
			     size_t done)
{
	size_t left = AHEAD_BYTES, length;
	struct rlimit limit;
	bool any = false;
	struct stat st;
	int i;

	for (i = 0; i < n && left; i++) {
		char *at = iov[i].iov_base;

		if (done >= iov[i].iov_len) {
			done -= iov[i].iov_len;
			continue;
		}
		length = iov[i].iov_len - done;
		if (length > left)
			length = left;
		if (is_missing(at + done, at + done + length, &any))
			return true;
		left -= length;
		done = 0;
	}
	return any && gather->fd >= 0 && !fstat(gather->fd, &st) && S_ISREG(st.st_mode) &&
	       !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur == RLIM_INFINITY;
}

/* --- copies --- */

/* What a call is given in the place of the program's memory. */
struct copies {
	char *memory;
	size_t bytes;
	struct iovec *iov; /* at the start of the memory */
	int n;
	char *free, *end;
	size_t total; /* bytes of the list */
};

static bool copies_new(struct copies *copies, size_t bytes)
{
	copies->bytes = LIST_BYTES + bytes;
	copies->memory = real->mmap(NULL, copies->bytes, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (copies->memory == MAP_FAILED) {
		copies->memory = NULL;
		return false;
	}
	copies->iov = (struct iovec *)copies->memory;
	return true;
}

/*
 * Read from the file what a mapping shows. Less than asked for: it cannot be read,
 * or the file ends; the rest of its last page is zero. shim_lock is held.
 */
static size_t copy(const struct map *map, const char *from, size_t length, char *to)
{
	off_t offset = map->offset + (from - map->start), end;
	size_t done = 0, zeros;
	struct stat st;
	ssize_t n = 1;

	while (done < length) {
		n = hugemap_pread(map->fd, to + done, length - done, offset + (off_t)done);
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	if (done == length || n < 0 || fstat(map->fd, &st) < 0)
		return done;
	end = (st.st_size + (off_t)PAGE_BYTES - 1) & ~((off_t)PAGE_BYTES - 1);
	if (offset + (off_t)done >= end)
		return done;
	zeros = (size_t)(end - offset) - done;
	if (zeros > length - done)
		zeros = length - done;
	memset(to + done, 0, zeros);
	return done + zeros;
}

/*
 * One more entry of the list: a copy, or as it is what the engine does not serve,
 * or cannot read, so that the call fails there. Copies begin with a page and
 * are cut at whole ones: direct I/O may want that. Returns how many bytes; 0: no
 * room is left.
 */
static size_t add(struct copies *copies, char *at, char *end)
{
	struct iovec *entry = &copies->iov[copies->n];
	char *to = copies->free, *next;
	struct shim_section section;
	struct map *map;
	size_t n;

	if (copies->n == IOV_MAX || to >= copies->end)
		return 0;
	shim_enter(&section);
	pthread_rwlock_rdlock(&shim_lock);
	map = map_first(at, end, true);
	if (!map || map->start > at) {
		*entry = (struct iovec){ at, (size_t)((map ? map->start : end) - at) };
	} else {
		n = (size_t)((map->end < end ? map->end : end) - at);
		if (n > (size_t)(copies->end - to))
			n = (size_t)(copies->end - to);
		n = copy(map, at, n, to);
		next = page_of(at) + PAGE_BYTES < end ? page_of(at) + PAGE_BYTES : end;
		*entry = n ? (struct iovec){ to, n } : (struct iovec){ at, (size_t)(next - at) };
		if (n)
			copies->free = page_of(to + n + PAGE_BYTES - 1);
	}
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&section);
	copies->n++;
	copies->total += entry->iov_len;
	return entry->iov_len;
}

/* A list of what follows the first @done bytes. */
static void make_list(struct copies *copies, const struct iovec *iov, int n, size_t done,
		      size_t total)
{
	size_t left = total - done, skip = done, added;
	int i;

	copies->n = 0;
	copies->total = 0;
	copies->free = copies->memory + LIST_BYTES;
	copies->end = copies->memory + copies->bytes;
	for (i = 0; i < n && left; i++) {
		size_t length = iov[i].iov_len;
		char *at = iov[i].iov_base;

		if (skip >= length) {
			skip -= length;
			continue;
		}
		at += skip;
		length -= skip;
		skip = 0;
		if (length > left)
			length = left;
		left -= length;
		for (; length; length -= added, at += added) {
			added = add(copies, at, at + length);
			if (!added)
				return;
		}
	}
}

/* Does one call make one message, which must not become several? */
static bool is_message(const struct gather *gather)
{
	socklen_t length = sizeof(int);
	int type;

	return gather->fd >= 0 && !getsockopt(gather->fd, SOL_SOCKET, SO_TYPE, &type, &length) &&
	       type != SOCK_STREAM;
}

/* The call with copies, until all is done or it takes less than it was given. */
static ssize_t with_copies(const struct gather *gather, const struct iovec *iov, int n,
			   size_t total, size_t done)
{
	struct copies copies = {};
	size_t room = COPY_BYTES;
	ssize_t got = -1;
	int saved;

	if (is_message(gather))
		room = total + ((size_t)n + 8) * PAGE_BYTES;
	while (done < total) {
		if (!copies.memory && !copies_new(&copies, room)) {
			errno = ENOMEM;
			return done ? (ssize_t)done : -1;
		}
		make_list(&copies, iov, n, done, total);
		got = gather->call(gather, copies.iov, copies.n, done);
		if (got > 0)
			done += (size_t)got;
		if (got <= 0 || (size_t)got < copies.total)
			break;
		if (gather->keeps) {
			real->munmap(copies.memory, copies.bytes);
			copies.memory = NULL;
		}
	}
	saved = errno;
	if (copies.memory)
		real->munmap(copies.memory, copies.bytes);
	errno = saved;
	return done ? (ssize_t)done : got;
}

/* --- the calls --- */

/* A call has given a result: is there more to do? */
static bool is_over(const struct gather *gather, const struct iovec *iov, int n, size_t total,
		    ssize_t result)
{
	if (result < 0)
		return errno != EFAULT;
	return (size_t)result >= total || !stopped_by_fault(gather, iov, n, (size_t)result);
}

/**
 * gather_rest() - see to the result of a call that was made as it is
 * @iov: what it was given, by the program: it may not be there
 * @result: of the call, with errno
 *
 * Return: as the call's, if the kernel could fault.
 */
ssize_t gather_rest(const struct gather *gather, const struct iovec *iov, int n, ssize_t result)
{
	int saved = errno, i;
	size_t total;

	if (n <= 0 || n > IOV_MAX || (result < 0 && errno != EFAULT))
		return result;
	if (result < 0 &&
	    (!gather_there(iov, (size_t)n * sizeof(*iov)) || !gather_concerns(iov, n))) {
		errno = EFAULT;
		return result;
	}
	errno = saved;
	total = bytes_of(iov, n);
	if (is_over(gather, iov, n, total, result)) {
		errno = saved;
		return result;
	}
	if (result < 0) {
		for (i = 0; i < n; i++)
			if (shim_concerns(iov[i].iov_base, iov[i].iov_len))
				gather_fetch(iov[i].iov_base, iov[i].iov_len);
		result = gather->call(gather, iov, n, 0);
		if (is_over(gather, iov, n, total, result))
			return result;
	}
	return with_copies(gather, iov, n, total, result < 0 ? 0 : (size_t)result);
}

/**
 * gather_from() - make a call with one buffer, which concerns the engine
 *
 * Return: as the call's, if the kernel could fault.
 */
ssize_t gather_from(const struct gather *gather, const void *buffer, size_t count)
{
	struct iovec iov = { (void *)buffer, count < MOST_BYTES ? count : MOST_BYTES };
	ssize_t result;

	gather_fetch(buffer, iov.iov_len);
	result = gather->call(gather, &iov, 1, 0);
	if (is_over(gather, &iov, 1, iov.iov_len, result))
		return result;
	return with_copies(gather, &iov, 1, iov.iov_len, result < 0 ? 0 : (size_t)result);
}
