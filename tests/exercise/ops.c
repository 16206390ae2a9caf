// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The operations, and how often each is done.
 */
#include "exercise.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef RWF_DSYNC
#define RWF_DSYNC 2
#endif
#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

void open_files(struct worker *w)
{
	w->fd = open(w->path, O_RDWR | O_CREAT, 0644);
	if (w->fd < 0)
		fail(w, "open %s: %s", w->path, strerror(errno));
	w->append = open(w->path, O_WRONLY | O_APPEND);
	if (w->append < 0)
		fail(w, "open for appending: %s", strerror(errno));
	/* Not every file system has it. */
	w->direct = open(w->path, O_RDWR | O_DIRECT);
	if (w->direct < 0 && errno != EINVAL)
		fail(w, "open for direct I/O: %s", strerror(errno));
	w->below = -1;
}

void close_files(struct worker *w)
{
	unmap_all(w);
	if (close(w->fd) || close(w->append) || (w->direct >= 0 && close(w->direct)))
		fail(w, "close: %s", strerror(errno));
	if (w->below >= 0)
		close(w->below);
	w->fd = w->append = w->direct = w->below = -1;
}

/* Borders of blocks, the end of the file, whole pages, and anywhere at all. */
uint64_t pick_offset(struct worker *w, uint64_t limit)
{
	uint64_t kind = random_below(w, 100), off;

	if (kind < 30) {
		off = BLOCK * random_below(w, limit / BLOCK + 1);
		off += random_below(w, 4 * PAGE);
		off = off > 2 * PAGE ? off - 2 * PAGE : off;
	} else if (kind < 45) {
		off = w->model->size + random_below(w, 2 * PAGE);
		off = off > 2 * PAGE ? off - 2 * PAGE : off;
	} else if (kind < 60) {
		off = PAGE * random_below(w, limit / PAGE + 1);
	} else {
		off = random_below(w, limit);
	}
	return off < limit ? off : limit - 1;
}

uint64_t pick_length(struct worker *w)
{
	uint64_t kind = random_below(w, 200);

	if (kind < 40)
		return 1 + random_below(w, 16);
	if (kind < 100)
		return 1 + random_below(w, PAGE);
	if (kind < 120)
		return PAGE * (1 + random_below(w, 8));
	if (kind < 180)
		return 1 + random_below(w, 64 << 10);
	if (kind < 197)
		return 1 + random_below(w, 256 << 10);
	if (kind < 198)
		return BLOCK;
	return 1 + random_below(w, LARGEST);
}

/*
 * A range to read or, if @change, to write: within the largest size, or within one
 * page of one's own if others work on the same file.
 */
bool pick_range(struct worker *w, bool change, uint64_t *off, uint64_t *len)
{
	*off = pick_offset(w, w->opts->size);
	*len = pick_length(w);
	if (w->opts->threads > 1 && change) {
		uint64_t page = round_down(*off, PAGE * w->opts->threads) + PAGE * w->thread;

		*off = page + *off % PAGE;
		if (*off >= w->model->size)
			return false;
		if (*len > PAGE - *off % PAGE)
			*len = PAGE - *off % PAGE;
		if (*len > w->model->size - *off)
			*len = w->model->size - *off;
		return true;
	}
	if (*len > w->opts->size - *off)
		*len = w->opts->size - *off;
	return true;
}

/* How much of a read at @off the file has. */
static uint64_t available(struct worker *w, uint64_t off, uint64_t len)
{
	if (off >= w->model->size)
		return 0;
	return len < w->model->size - off ? len : w->model->size - off;
}

static void got(struct worker *w, const char *how, uint64_t off, uint64_t len, ssize_t n)
{
	uint64_t there = available(w, off, len);

	if (n < 0)
		fail(w, "%s at %#llx: %s", how, (unsigned long long)off, strerror(errno));
	if ((uint64_t)n != there)
		fail(w, "%s of %llu bytes at %#llx gave %zd, expected %llu", how,
		     (unsigned long long)len, (unsigned long long)off, n,
		     (unsigned long long)there);
	check(w, how, off, w->buf, (uint64_t)n);
}

static void put(struct worker *w, const char *how, uint64_t off, uint64_t len, ssize_t n)
{
	if (n < 0)
		fail(w, "%s at %#llx: %s", how, (unsigned long long)off, strerror(errno));
	if ((uint64_t)n != len)
		fail(w, "%s of %llu bytes at %#llx gave %zd", how, (unsigned long long)len,
		     (unsigned long long)off, n);
	wrote(w, off, w->buf, len);
}

static void op_read(struct worker *w)
{
	uint64_t off, len;

	pick_range(w, false, &off, &len);
	note(w, "read", off, len, 0);
	if (lseek(w->fd, (off_t)off, SEEK_SET) != (off_t)off)
		fail(w, "lseek: %s", strerror(errno));
	got(w, "read", off, len, read(w->fd, w->buf, len));
}

static void op_pread(struct worker *w)
{
	uint64_t off, len;

	pick_range(w, false, &off, &len);
	note(w, "pread", off, len, 0);
	got(w, "pread", off, len, pread(w->fd, w->buf, len, (off_t)off));
}

static int slices(struct worker *w, struct iovec *iov, int most, uint64_t len)
{
	uint64_t done = 0;
	int n = 0;

	while (done < len) {
		uint64_t part = n == most - 1 ? len - done : 1 + random_below(w, len - done);

		iov[n].iov_base = w->buf + done;
		iov[n++].iov_len = part;
		done += part;
	}
	return n;
}

static void op_preadv(struct worker *w)
{
	struct iovec iov[5];
	uint64_t off, len;
	ssize_t n;
	int parts;

	pick_range(w, false, &off, &len);
	parts = slices(w, iov, 5, len);
	note(w, "preadv", off, len, (uint64_t)parts);
	/* A read that must not wait may give less, but what it gives is right. */
	if (random_chance(w, 30)) {
		n = preadv2(w->fd, iov, parts, (off_t)off, RWF_NOWAIT);
		if (n < 0 && errno != EAGAIN && errno != EOPNOTSUPP)
			fail(w, "preadv2(RWF_NOWAIT): %s", strerror(errno));
		if (n > 0)
			check(w, "preadv2(RWF_NOWAIT)", off, w->buf, (uint64_t)n);
		return;
	}
	got(w, "preadv", off, len, preadv(w->fd, iov, parts, (off_t)off));
}

static void op_write(struct worker *w)
{
	uint64_t off, len;

	if (!pick_range(w, true, &off, &len))
		return;
	note(w, "write", off, len, 0);
	fill(w, w->buf, len);
	if (lseek(w->fd, (off_t)off, SEEK_SET) != (off_t)off)
		fail(w, "lseek: %s", strerror(errno));
	put(w, "write", off, len, write(w->fd, w->buf, len));
}

static void op_pwrite(struct worker *w)
{
	uint64_t off, len;

	if (!pick_range(w, true, &off, &len))
		return;
	note(w, "pwrite", off, len, 0);
	fill(w, w->buf, len);
	put(w, "pwrite", off, len, pwrite(w->fd, w->buf, len, (off_t)off));
}

static void op_pwritev(struct worker *w)
{
	int flags = random_chance(w, 5) ? RWF_DSYNC : 0;
	struct iovec iov[5];
	uint64_t off, len;
	int parts;

	if (!pick_range(w, true, &off, &len))
		return;
	parts = slices(w, iov, 5, len);
	note(w, "pwritev", off, len, (uint64_t)flags);
	fill(w, w->buf, len);
	put(w, "pwritev", off, len, pwritev2(w->fd, iov, parts, (off_t)off, flags));
	if (flags)
		check_below(w, "after a synchronous write, below", off, len);
}

static void op_append(struct worker *w)
{
	uint64_t off = w->model->size, len = pick_length(w);

	if (w->opts->threads > 1 || off >= w->opts->size)
		return;
	if (len > w->opts->size - off)
		len = w->opts->size - off;
	note(w, "append", off, len, 0);
	fill(w, w->buf, len);
	put(w, "append", off, len, write(w->append, w->buf, len));
}

/* A stream long enough for read-ahead to start, by read(2) or by loads. */
static void op_stream_read(struct worker *w)
{
	uint64_t step = PAGE << random_below(w, 7);
	uint64_t off = round_down(random_below(w, w->model->size + 1), PAGE);
	uint64_t end = off + 2 * BLOCK;
	bool loads = random_chance(w, 50);
	unsigned char *addr = NULL;
	uint64_t at;

	if (end > w->model->size)
		end = w->model->size;
	if (off >= end)
		return;
	note(w, loads ? "stream-load" : "stream-read", off, end - off, step);
	if (loads) {
		addr = mmap(NULL, end - off, PROT_READ, MAP_SHARED, w->fd, (off_t)off);
		if (addr == MAP_FAILED)
			fail(w, "mmap: %s", strerror(errno));
	}
	for (at = off; at < end; at += step) {
		uint64_t n = end - at < step ? end - at : step;

		if (loads)
			check(w, "load from a stream", at, addr + (at - off), n);
		else
			got(w, "read from a stream", at, n, pread(w->fd, w->buf, n, (off_t)at));
	}
	if (loads)
		munmap(addr, end - off);
}

/* A stream of writes or of stores into new room, as a log or a copy makes it. */
static void op_stream_write(struct worker *w)
{
	uint64_t step = PAGE << random_below(w, 7);
	uint64_t off = pick_offset(w, w->opts->size);
	uint64_t len = 1 + random_below(w, LARGEST);
	bool stores = random_chance(w, 50);
	uint64_t skip = off % PAGE, at;
	unsigned char *addr = NULL;

	if (w->opts->threads > 1)
		return;
	if (len > w->opts->size - off)
		len = w->opts->size - off;
	note(w, stores ? "stream-store" : "stream-write", off, len, step);
	fill(w, w->buf, len);
	if (stores) {
		if (off + len > w->model->size) {
			if (ftruncate(w->fd, (off_t)(off + len)))
				fail(w, "ftruncate: %s", strerror(errno));
			resized(w, off + len);
		}
		addr = mmap(NULL, len + skip, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd,
			    (off_t)(off - skip));
		if (addr == MAP_FAILED)
			fail(w, "mmap: %s", strerror(errno));
	}
	for (at = 0; at < len; at += step) {
		uint64_t n = len - at < step ? len - at : step;

		if (stores)
			memcpy(addr + skip + at, w->buf + at, n);
		else if (pwrite(w->fd, w->buf + at, n, (off_t)(off + at)) != (ssize_t)n)
			fail(w, "pwrite in a stream: %s", strerror(errno));
	}
	wrote(w, off, w->buf, len);
	if (stores)
		munmap(addr, len + skip);
}

/* Whole pages, as direct I/O wants them; false if there are none in the range. */
static bool pick_direct(struct worker *w, bool change, uint64_t *off, uint64_t *len)
{
	uint64_t limit = round_down(w->opts->size, PAGE);

	if (w->direct < 0 || !pick_range(w, change, off, len))
		return false;
	*off = round_down(*off, PAGE);
	*len = round_up(*len, PAGE);
	if (w->opts->threads > 1 && change) {
		*len = PAGE;
		return *off + PAGE <= w->model->size;
	}
	if (*off >= limit)
		return false;
	if (*len > limit - *off)
		*len = limit - *off;
	return true;
}

static void op_direct_read(struct worker *w)
{
	uint64_t off, len;

	if (!pick_direct(w, false, &off, &len))
		return;
	note(w, "direct-read", off, len, 0);
	got(w, "direct read", off, len, read_direct(w, w->direct, len, off));
}

static void op_direct_write(struct worker *w)
{
	uint64_t off, len;

	if (!pick_direct(w, true, &off, &len))
		return;
	note(w, "direct-write", off, len, 0);
	fill(w, w->buf, len);
	put(w, "direct write", off, len, pwrite(w->direct, w->buf, len, (off_t)off));
}

static unsigned char *map_fresh(struct worker *w, uint64_t off, uint64_t len, int prot, int flags,
				uint64_t *skip)
{
	unsigned char *addr;

	/* From the page, from the block's start, or somewhere between. */
	*skip = off % PAGE;
	if (random_chance(w, 40))
		*skip = off % BLOCK;
	else if (random_chance(w, 20))
		*skip += PAGE * random_below(w, off / PAGE % 512 + 1);
	addr = mmap(NULL, len + *skip, prot, flags, w->fd, (off_t)(off - *skip));
	if (addr == MAP_FAILED)
		fail(w, "mmap: %s", strerror(errno));
	return addr;
}

static void op_map_read(struct worker *w)
{
	uint64_t off, len, skip;
	unsigned char *addr;

	pick_range(w, false, &off, &len);
	if (off >= w->model->size)
		return;
	/* To the end of the last page: zeros. */
	if (len > mapped_end(w) - off)
		len = mapped_end(w) - off;
	note(w, "map-read", off, len, 0);
	addr = map_fresh(w, off, len, PROT_READ, MAP_SHARED, &skip);
	check(w, "load from a fresh mapping", off, addr + skip, len);
	munmap(addr, len + skip);
}

static void op_map_write(struct worker *w)
{
	uint64_t off, len, skip;
	unsigned char *addr;

	if (!pick_range(w, true, &off, &len))
		return;
	note(w, "map-write", off, len, 0);
	if (off + len > w->model->size) {
		if (ftruncate(w->fd, (off_t)(off + len)))
			fail(w, "ftruncate: %s", strerror(errno));
		resized(w, off + len);
	}
	fill(w, w->buf, len);
	addr = map_fresh(w, off, len, PROT_READ | PROT_WRITE, MAP_SHARED, &skip);
	memcpy(addr + skip, w->buf, len);
	wrote(w, off, w->buf, len);
	if (random_chance(w, 10) && msync(addr, len + skip, MS_SYNC))
		fail(w, "msync: %s", strerror(errno));
	munmap(addr, len + skip);
}

/* Private: what the file holds, and stores stay here. */
static void op_private(struct worker *w)
{
	uint64_t off, len, skip, at;
	unsigned char *addr;
	bool store = random_chance(w, 30);

	pick_range(w, false, &off, &len);
	if (off >= w->model->size)
		return;
	if (len > mapped_end(w) - off)
		len = mapped_end(w) - off;
	note(w, "map-private", off, len, store);
	addr = map_fresh(w, off, len, PROT_READ | PROT_WRITE, MAP_PRIVATE, &skip);
	check(w, "load from a private mapping", off, addr + skip, len);
	if (store) {
		at = random_below(w, len);
		addr[skip + at] ^= 0xff;
		check(w, "load before a private store", off, addr + skip, at);
		check(w, "load behind a private store", off + at + 1, addr + skip + at + 1,
		      len - at - 1);
		len = available(w, off, len);
		got(w, "read beside a private store", off, len,
		    pread(w->fd, w->buf, len, (off_t)off));
	}
	munmap(addr, len + skip);
}

static void op_truncate(struct worker *w)
{
	uint64_t size = pick_offset(w, w->opts->size + 1);

	if (w->opts->threads > 1)
		return;
	/* Mostly near where it is, lest the file be empty half of the time. */
	if (random_chance(w, 60))
		size = w->model->size - random_below(w, w->model->size / 4 + 1);
	note(w, "truncate", size, 0, 0);
	if (random_chance(w, 50) ? truncate(w->path, (off_t)size) : ftruncate(w->fd, (off_t)size))
		fail(w, "truncate to %#llx: %s", (unsigned long long)size, strerror(errno));
	resized(w, size);
}

static bool supported(struct worker *w, const char *what, int result)
{
	if (!result)
		return true;
	/* EINVAL: its blocks are larger than our pages. */
	if (errno != EOPNOTSUPP && errno != EINVAL)
		fail(w, "fallocate, %s: %s", what, strerror(errno));
	return false;
}

static void op_fallocate(struct worker *w)
{
	bool keep = random_chance(w, 50);
	uint64_t off, len;

	pick_range(w, true, &off, &len);
	if (w->opts->threads > 1)
		return;
	note(w, "fallocate", off, len, keep);
	if (!supported(w, "allocate",
		       fallocate(w->fd, keep ? FALLOC_FL_KEEP_SIZE : 0, (off_t)off, (off_t)len)))
		return;
	if (!keep && off + len > w->model->size)
		resized(w, off + len);
}

static void op_punch(struct worker *w)
{
	uint64_t off, len;

	if (!pick_range(w, true, &off, &len))
		return;
	note(w, "punch", off, len, 0);
	if (supported(w, "punch",
		      fallocate(w->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off,
				(off_t)len)))
		zeroed(w, off, available(w, off, len));
}

static void op_zero_range(struct worker *w)
{
	bool keep = random_chance(w, 50);
	uint64_t off, len;

	if (!pick_range(w, true, &off, &len))
		return;
	note(w, "zero-range", off, len, keep);
	if (!supported(w, "zero range",
		       fallocate(w->fd, FALLOC_FL_ZERO_RANGE | (keep ? FALLOC_FL_KEEP_SIZE : 0),
				 (off_t)off, (off_t)len)))
		return;
	zeroed(w, off, available(w, off, len));
	if (!keep && off + len > w->model->size)
		resized(w, off + len);
}

static void op_collapse(struct worker *w)
{
	uint64_t size = w->model->size, off, len;

	pick_range(w, true, &off, &len);
	off = round_down(off, PAGE);
	len = round_up(len, PAGE);
	if (w->opts->threads > 1 || off + len >= size)
		return;
	note(w, "collapse", off, len, 0);
	if (!supported(w, "collapse",
		       fallocate(w->fd, FALLOC_FL_COLLAPSE_RANGE, (off_t)off, (off_t)len)))
		return;
	memmove(w->model->bytes + off, w->model->bytes + off + len, size - off - len);
	resized(w, size - len);
}

static void op_insert(struct worker *w)
{
	uint64_t size = w->model->size, off, len;

	pick_range(w, true, &off, &len);
	off = round_down(off, PAGE);
	len = round_up(len, PAGE);
	if (w->opts->threads > 1 || off >= size || size + len > w->opts->size)
		return;
	note(w, "insert", off, len, 0);
	if (!supported(w, "insert",
		       fallocate(w->fd, FALLOC_FL_INSERT_RANGE, (off_t)off, (off_t)len)))
		return;
	memmove(w->model->bytes + off + len, w->model->bytes + off, size - off);
	resized(w, size + len);
	zeroed(w, off, len);
}

static void op_fsync(struct worker *w)
{
	bool data = random_chance(w, 50);
	uint64_t off = 0, len = w->model->size;

	note(w, data ? "fdatasync" : "fsync", 0, len, 0);
	if (data ? fdatasync(w->fd) : fsync(w->fd))
		fail(w, "%s: %s", data ? "fdatasync" : "fsync", strerror(errno));
	/* The whole file now and then, a part of it otherwise. */
	if (!random_chance(w, 10))
		pick_range(w, false, &off, &len);
	check_below(w, data ? "after fdatasync, below" : "after fsync, below", off, len);
}

/* Start of write-back, without a promise: nothing but the bytes can be checked. */
static void op_sync_range(struct worker *w)
{
	uint64_t off, len;

	pick_range(w, false, &off, &len);
	note(w, "sync-range", off, len, 0);
	if (sync_file_range(w->fd, (off_t)off, (off_t)len, (unsigned int)random_below(w, 8)) &&
	    errno != ESPIPE)
		fail(w, "sync_file_range: %s", strerror(errno));
}

static void op_fadvise(struct worker *w)
{
	static const int all[] = {
		POSIX_FADV_DONTNEED, POSIX_FADV_DONTNEED,   POSIX_FADV_WILLNEED,
		POSIX_FADV_RANDOM,   POSIX_FADV_SEQUENTIAL, POSIX_FADV_NORMAL,
	};
	int advice = all[random_below(w, sizeof(all) / sizeof(all[0]))];
	uint64_t off, len;
	int error;

	pick_range(w, false, &off, &len);
	if (random_chance(w, 20))
		off = len = 0;
	note(w, "fadvise", off, len, (uint64_t)advice);
	error = posix_fadvise(w->fd, (off_t)off, (off_t)len, advice);
	if (error)
		fail(w, "posix_fadvise(%d): %s", advice, strerror(error));
}

/* From one part of the file to another, in the kernel. */
static void op_copy_range(struct worker *w)
{
	uint64_t from = pick_offset(w, w->opts->size), to = pick_offset(w, w->opts->size);
	uint64_t len = pick_length(w), done = 0;
	off_t in = (off_t)from, out = (off_t)to;

	if (w->opts->threads > 1)
		return;
	if (len > w->opts->size - to)
		len = w->opts->size - to;
	len = available(w, from, len);
	if (!len || (from < to + len && to < from + len))
		return;
	note(w, "copy-range", to, len, from);
	while (done < len) {
		ssize_t n = copy_file_range(w->fd, &in, w->fd, &out, len - done, 0);

		if (n < 0 && !done && (errno == EOPNOTSUPP || errno == EXDEV || errno == EINVAL))
			return;
		if (n <= 0)
			fail(w, "copy_file_range from %#llx: %s", (unsigned long long)from,
			     n ? strerror(errno) : "nothing copied");
		done += (uint64_t)n;
	}
	wrote(w, to, w->model->bytes + from, len);
}

static void op_sendfile(struct worker *w)
{
	uint64_t off, len, done = 0;
	off_t at;
	int other;

	pick_range(w, false, &off, &len);
	len = available(w, off, len);
	if (!len)
		return;
	at = (off_t)off;
	note(w, "sendfile", off, len, 0);
	other = open(w->other, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (other < 0)
		fail(w, "open %s: %s", w->other, strerror(errno));
	while (done < len) {
		ssize_t n = sendfile(other, w->fd, &at, len - done);

		if (n <= 0)
			fail(w, "sendfile: %s", n ? strerror(errno) : "nothing sent");
		done += (uint64_t)n;
	}
	if (pread(other, w->buf, len, 0) != (ssize_t)len)
		fail(w, "read of what sendfile wrote: %s", strerror(errno));
	close(other);
	check(w, "sendfile", off, w->buf, len);
}

/* Through a pipe in both directions: the pages themselves may travel. */
static void op_splice(struct worker *w)
{
	bool in = random_chance(w, 50);
	uint64_t off, len;
	ssize_t n, moved;
	int fds[2];
	off_t at;

	if (!pick_range(w, !in, &off, &len))
		return;
	len = len % (32 << 10) + 1;
	if (in) {
		len = available(w, off, len);
	} else {
		if (w->opts->threads > 1 && len > PAGE - off % PAGE)
			len = PAGE - off % PAGE;
		if (len > w->opts->size - off)
			len = w->opts->size - off;
		if (w->opts->threads > 1)
			len = available(w, off, len);
	}
	if (!len)
		return;
	if (pipe(fds))
		fail(w, "pipe: %s", strerror(errno));
	at = (off_t)off;
	note(w, in ? "splice-read" : "splice-write", off, len, 0);
	if (in) {
		n = splice(w->fd, &at, fds[1], NULL, len, 0);
		if (n <= 0)
			fail(w, "splice into a pipe: %s", n ? strerror(errno) : "nothing");
		if (read(fds[0], w->buf, (size_t)n) != n)
			fail(w, "read from a pipe: %s", strerror(errno));
		check(w, "splice", off, w->buf, (uint64_t)n);
	} else {
		fill(w, w->buf, len);
		if (write(fds[1], w->buf, len) != (ssize_t)len)
			fail(w, "write to a pipe: %s", strerror(errno));
		for (n = 0; (uint64_t)n < len; n += moved) {
			moved = splice(fds[0], NULL, w->fd, &at, len - (uint64_t)n, 0);
			if (moved <= 0)
				fail(w, "splice from a pipe: %s",
				     moved ? strerror(errno) : "nothing");
		}
		wrote(w, off, w->buf, len);
	}
	close(fds[0]);
	close(fds[1]);
}

/* What is called a hole reads as zeros, stores in a mapping included. */
static void op_seek(struct worker *w)
{
	off_t hole, data, size = (off_t)w->model->size;
	uint64_t off = pick_offset(w, w->opts->size);

	if (off >= w->model->size || w->opts->threads > 1)
		return;
	note(w, "seek-hole", off, 0, 0);
	hole = lseek(w->fd, (off_t)off, SEEK_HOLE);
	if (hole < 0 && errno == EINVAL)
		return;
	if (hole < (off_t)off || hole > size)
		fail(w, "SEEK_HOLE from %#llx gave %#llx: %s", (unsigned long long)off,
		     (unsigned long long)hole, hole < 0 ? strerror(errno) : "out of range");
	if (hole == size)
		return;
	data = lseek(w->fd, hole, SEEK_DATA);
	if (data < 0 && errno == ENXIO)
		data = size;
	if (data <= hole || data > size)
		fail(w, "SEEK_DATA from the hole at %#llx gave %#llx", (unsigned long long)hole,
		     (unsigned long long)data);
	if (data - hole > (off_t)LARGEST)
		data = hole + (off_t)LARGEST;
	memset(w->buf, 0, (size_t)(data - hole));
	check(w, "what SEEK_HOLE calls a hole", (uint64_t)hole, w->buf, (uint64_t)(data - hole));
}

static void op_reopen(struct worker *w)
{
	note(w, "reopen", 0, 0, 0);
	close_files(w);
	open_files(w);
}

/* Bytes changed in passing by nobody: size and length as the model has them. */
static void check_size(struct worker *w)
{
	struct stat st;

	if (random_chance(w, 50) ? fstat(w->fd, &st) : stat(w->path, &st))
		fail(w, "stat: %s", strerror(errno));
	if ((uint64_t)st.st_size != w->model->size)
		fail(w, "the file has %#llx bytes, expected %#llx", (unsigned long long)st.st_size,
		     (unsigned long long)w->model->size);
}

static void verify_by(struct worker *w, int fd, const char *how)
{
	uint64_t off;

	for (off = 0; off < w->model->size; off += LARGEST)
		got(w, how, off, LARGEST, read_direct(w, fd, LARGEST, off));
}

/* All of the file, by each way there is. */
void verify(struct worker *w)
{
	uint64_t len = mapped_end(w);
	unsigned char *addr;

	check_size(w);
	if (!len)
		return;
	addr = mmap(NULL, len, PROT_READ, MAP_SHARED, w->fd, 0);
	if (addr == MAP_FAILED)
		fail(w, "mmap: %s", strerror(errno));
	check(w, "load, all of the file", 0, addr, len);
	verify_by(w, w->fd, "read, all of the file");
	if (w->direct >= 0)
		verify_by(w, w->direct, "direct read, all of the file");
	check(w, "load again, all of the file", 0, addr, len);
	munmap(addr, len);
}

static void op_verify(struct worker *w)
{
	note(w, "verify", 0, 0, 0);
	verify(w);
}

static const struct {
	const char *name;
	unsigned int often;
	void (*run)(struct worker *w);
} operations[] = {
	{ "read", 80, op_read },
	{ "pread", 80, op_pread },
	{ "preadv", 40, op_preadv },
	{ "write", 60, op_write },
	{ "pwrite", 80, op_pwrite },
	{ "pwritev", 40, op_pwritev },
	{ "append", 20, op_append },
	{ "stream-read", 6, op_stream_read },
	{ "stream-write", 4, op_stream_write },
	{ "direct-read", 25, op_direct_read },
	{ "direct-write", 25, op_direct_write },
	{ "map-read", 80, op_map_read },
	{ "map-write", 100, op_map_write },
	{ "map-private", 20, op_private },
	{ "keep", 12, op_keep },
	{ "kept-read", 100, op_kept_read },
	{ "kept-write", 150, op_kept_write },
	{ "msync", 12, op_msync },
	{ "madvise", 25, op_madvise },
	{ "madv-remove", 2, op_remove },
	{ "mremap", 6, op_mremap },
	{ "mprotect", 6, op_mprotect },
	{ "munmap", 4, op_munmap },
	{ "fork", 1, op_fork },
	{ "read-self", 4, op_read_self },
	{ "write-self", 4, op_write_self },
	{ "pollute", 6, op_pollute },
	{ "truncate", 15, op_truncate },
	{ "fallocate", 6, op_fallocate },
	{ "punch", 10, op_punch },
	{ "zero-range", 8, op_zero_range },
	{ "collapse", 3, op_collapse },
	{ "insert", 3, op_insert },
	{ "fsync", 6, op_fsync },
	{ "sync-range", 4, op_sync_range },
	{ "fadvise", 12, op_fadvise },
	{ "copy-range", 6, op_copy_range },
	{ "sendfile", 4, op_sendfile },
	{ "splice", 8, op_splice },
	{ "seek-hole", 8, op_seek },
	{ "reopen", 3, op_reopen },
	{ "verify", 1, op_verify },
};

#define OPERATIONS (sizeof(operations) / sizeof(operations[0]))

void list_operations(void)
{
	unsigned int i;

	for (i = 0; i < OPERATIONS; i++)
		printf("%-14s %u\n", operations[i].name, operations[i].often);
}

static bool listed(const char *names, const char *name)
{
	size_t n = strlen(name);
	const char *at;

	for (at = names; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, name, n) && (at[n] == ',' || !at[n]))
			return true;
	}
	return false;
}

/* A misspelt name would leave out nothing, unnoticed. */
bool known_operations(const char *names)
{
	unsigned int i, known = 0, given = 1;
	const char *at;

	for (at = names; *at; at++)
		given += *at == ',';
	for (i = 0; i < OPERATIONS; i++)
		known += listed(names, operations[i].name);
	return known == given;
}

void operate(struct worker *w)
{
	unsigned int i, sum = 0;
	uint64_t pick;

	for (i = 0; i < OPERATIONS; i++)
		sum += operations[i].often;
	pick = random_below(w, sum);
	for (i = 0; pick >= operations[i].often; i++)
		pick -= operations[i].often;
	if (!w->opts->without || !listed(w->opts->without, operations[i].name))
		operations[i].run(w);
	check_size(w);
}
