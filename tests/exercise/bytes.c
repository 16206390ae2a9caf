// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * System calls that move bytes into the file or out of it: read and write in all their forms,
 * streams, direct I/O, and copies inside the kernel.
 */
#include "ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef RWF_DSYNC
#define RWF_DSYNC 2
#endif
#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

static void check_write(struct worker *w, const char *how, uint64_t off, uint64_t len, ssize_t n)
{
	if (n < 0)
		fail(w, "%s at %#llx: %s", how, (unsigned long long)off, strerror(errno));
	if ((uint64_t)n != len)
		fail(w, "%s of %llu bytes at %#llx gave %zd", how, (unsigned long long)len,
		     (unsigned long long)off, n);
	model_write(w, off, w->buf, len);
}

void op_read(struct worker *w)
{
	uint64_t off, len;

	pick_range(w, false, &off, &len);
	log_operation(w, "read", off, len, 0);
	if (lseek(w->fd, (off_t)off, SEEK_SET) != (off_t)off)
		fail(w, "lseek: %s", strerror(errno));
	check_read(w, "read", off, len, read(w->fd, w->buf, len));
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

void op_preadv(struct worker *w)
{
	struct iovec iov[5];
	uint64_t off, len;
	ssize_t n;
	int parts;

	pick_range(w, false, &off, &len);
	parts = slices(w, iov, 5, len);
	log_operation(w, "preadv", off, len, (uint64_t)parts);
	/* A read that must not wait may be short, but its bytes must be right. */
	if (random_chance(w, 30)) {
		n = preadv2(w->fd, iov, parts, (off_t)off, RWF_NOWAIT);
		if (n < 0 && errno != EAGAIN && errno != EOPNOTSUPP)
			fail(w, "preadv2(RWF_NOWAIT): %s", strerror(errno));
		if (n > 0)
			model_check(w, "preadv2(RWF_NOWAIT)", off, w->buf, (uint64_t)n);
		return;
	}
	check_read(w, "preadv", off, len, preadv(w->fd, iov, parts, (off_t)off));
}

void op_write(struct worker *w)
{
	uint64_t off, len;

	if (!pick_range(w, true, &off, &len))
		return;
	log_operation(w, "write", off, len, 0);
	fill_random(w, w->buf, len);
	if (lseek(w->fd, (off_t)off, SEEK_SET) != (off_t)off)
		fail(w, "lseek: %s", strerror(errno));
	check_write(w, "write", off, len, write(w->fd, w->buf, len));
}

void op_pwritev(struct worker *w)
{
	int flags = random_chance(w, 5) ? RWF_DSYNC : 0;
	struct iovec iov[5];
	uint64_t off, len;
	int parts;

	if (!pick_range(w, true, &off, &len))
		return;
	parts = slices(w, iov, 5, len);
	log_operation(w, "pwritev", off, len, (uint64_t)flags);
	fill_random(w, w->buf, len);
	check_write(w, "pwritev", off, len, pwritev2(w->fd, iov, parts, (off_t)off, flags));
	if (flags)
		check_lower(w, "after a synchronous write, lower file", off, len);
}

void op_append(struct worker *w)
{
	uint64_t off = w->model->size, len = pick_length(w);

	if (w->opts->threads > 1 || off >= w->opts->size)
		return;
	if (len > w->opts->size - off)
		len = w->opts->size - off;
	log_operation(w, "append", off, len, 0);
	fill_random(w, w->buf, len);
	check_write(w, "append", off, len, write(w->append, w->buf, len));
}

/* A stream long enough for read-ahead to start, by read(2) or by loads. */
void op_stream_read(struct worker *w)
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
	log_operation(w, loads ? "stream-load" : "stream-read", off, end - off, step);
	if (loads) {
		addr = mmap(NULL, end - off, PROT_READ, MAP_SHARED, w->fd, (off_t)off);
		if (addr == MAP_FAILED)
			fail(w, "mmap: %s", strerror(errno));
	}
	for (at = off; at < end; at += step) {
		uint64_t n = end - at < step ? end - at : step;

		if (loads)
			model_check(w, "load from a stream", at, addr + (at - off), n);
		else
			check_read(w, "read from a stream", at, n,
				   pread(w->fd, w->buf, n, (off_t)at));
	}
	if (loads)
		munmap(addr, end - off);
}

/* A stream of writes or stores that extends the file, like a log or a copy. */
void op_stream_write(struct worker *w)
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
	log_operation(w, stores ? "stream-store" : "stream-write", off, len, step);
	fill_random(w, w->buf, len);
	if (stores) {
		if (off + len > w->model->size)
			resize_file(w, off + len);
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
	model_write(w, off, w->buf, len);
	if (stores)
		munmap(addr, len + skip);
}

/* Pick whole pages for direct I/O; false if there are none in the range. */
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

void op_direct_read(struct worker *w)
{
	uint64_t off, len;

	if (!pick_direct(w, false, &off, &len))
		return;
	log_operation(w, "direct-read", off, len, 0);
	check_read(w, "direct read", off, len, read_direct(w, w->direct, len, off));
}

void op_direct_write(struct worker *w)
{
	uint64_t off, len;

	if (!pick_direct(w, true, &off, &len))
		return;
	/* ext4 itself keeps bytes that were stored past the old end. */
	if (!w->lower[0] && w->model->polluted == w->model->size && off + len > w->model->size)
		return;
	log_operation(w, "direct-write", off, len, 0);
	fill_random(w, w->buf, len);
	check_write(w, "direct write", off, len, pwrite(w->direct, w->buf, len, (off_t)off));
}

/* Copy one part of the file to another within the kernel. */
void op_copy_range(struct worker *w)
{
	uint64_t from = pick_offset(w, w->opts->size), to = pick_offset(w, w->opts->size);
	uint64_t len = pick_length(w), done = 0;
	off_t in = (off_t)from, out = (off_t)to;

	if (w->opts->threads > 1)
		return;
	if (len > w->opts->size - to)
		len = w->opts->size - to;
	len = model_available(w, from, len);
	if (!len || (from < to + len && to < from + len))
		return;
	log_operation(w, "copy-range", to, len, from);
	while (done < len) {
		ssize_t n = copy_file_range(w->fd, &in, w->fd, &out, len - done, 0);

		if (n < 0 && !done && (errno == EOPNOTSUPP || errno == EXDEV || errno == EINVAL))
			return;
		if (n <= 0)
			fail(w, "copy_file_range from %#llx: %s", (unsigned long long)from,
			     n ? strerror(errno) : "nothing copied");
		done += (uint64_t)n;
	}
	model_write(w, to, w->model->bytes + from, len);
}

void op_sendfile(struct worker *w)
{
	uint64_t off, len, done = 0;
	off_t at;
	int other;

	pick_range(w, false, &off, &len);
	len = model_available(w, off, len);
	if (!len)
		return;
	at = (off_t)off;
	log_operation(w, "sendfile", off, len, 0);
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
		fail(w, "read after sendfile: %s", strerror(errno));
	close(other);
	model_check(w, "sendfile", off, w->buf, len);
}

/* Splice through a pipe in either direction, which may move the pages themselves. */
void op_splice(struct worker *w)
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
		len = model_available(w, off, len);
	} else {
		if (w->opts->threads > 1 && len > PAGE - off % PAGE)
			len = PAGE - off % PAGE;
		if (len > w->opts->size - off)
			len = w->opts->size - off;
		if (w->opts->threads > 1)
			len = model_available(w, off, len);
	}
	if (!len)
		return;
	if (pipe(fds))
		fail(w, "pipe: %s", strerror(errno));
	at = (off_t)off;
	log_operation(w, in ? "splice-read" : "splice-write", off, len, 0);
	if (in) {
		n = splice(w->fd, &at, fds[1], NULL, len, 0);
		if (n <= 0)
			fail(w, "splice into a pipe: %s", n ? strerror(errno) : "nothing");
		if (read(fds[0], w->buf, (size_t)n) != n)
			fail(w, "read from a pipe: %s", strerror(errno));
		model_check(w, "splice", off, w->buf, (uint64_t)n);
	} else {
		fill_random(w, w->buf, len);
		if (write(fds[1], w->buf, len) != (ssize_t)len)
			fail(w, "write to a pipe: %s", strerror(errno));
		for (n = 0; (uint64_t)n < len; n += moved) {
			moved = splice(fds[0], NULL, w->fd, &at, len - (uint64_t)n, 0);
			if (moved <= 0)
				fail(w, "splice from a pipe: %s",
				     moved ? strerror(errno) : "nothing");
		}
		model_write(w, off, w->buf, len);
	}
	close(fds[0]);
	close(fds[1]);
}
