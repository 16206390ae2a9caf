// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The library's calls on a file that a pool has, limits of this process among them.
 */
#include "pool.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static void put(struct worker *w, const char *how, uint64_t off, uint64_t len, ssize_t n)
{
	if (n != (ssize_t)len)
		fail(w, "%s of %llu bytes at %#llx gave %zd: %s (%s)", how, (unsigned long long)len,
		     (unsigned long long)off, n, n < 0 ? strerror((int)-n) : "short",
		     hugemap_reason());
}

ssize_t read_file(struct worker *w, unsigned char *buf, uint64_t len, uint64_t off)
{
	ssize_t n = hugemap_pread(w->fd, buf, len, (off_t)off);

	if (n < 0)
		put(w, "hugemap_pread", off, len, n);
	return n;
}

/* Somebody else has a page of the block pinned for long: nothing has changed. */
static bool refused(const struct worker *w, ssize_t n)
{
	return n == -EBUSY && w->opts->threads > 1;
}

bool write_file(struct worker *w, const unsigned char *buf, uint64_t len, uint64_t off)
{
	ssize_t n = hugemap_pwrite(w->fd, buf, len, (off_t)off);

	if (refused(w, n))
		return false;
	put(w, "hugemap_pwrite", off, len, n);
	return true;
}

bool punch_file(struct worker *w, uint64_t off, uint64_t len)
{
	int err = hugemap_punch(w->fd, (off_t)off, (off_t)len);

	if (err == -EOPNOTSUPP || refused(w, err))
		return false;
	call(w, "hugemap_punch", err);
	return true;
}

void resize_file(struct worker *w, uint64_t size)
{
	call(w, "hugemap_truncate", hugemap_truncate(w->fd, (off_t)size));
	resized(w, size);
}

/* Afterwards anybody finds in the file what was stored. */
void op_flush(struct worker *w)
{
	uint64_t off, len;

	pick_range(w, false, &off, &len);
	len = available(w, off, len);
	if (!len)
		return;
	note(w, "flush", off, len, 0);
	call(w, "hugemap_flush", hugemap_flush(w->fd, (off_t)off, (off_t)len));
	got(w, "read(2) after a flush", off, len, pread(w->fd, w->buf, len, (off_t)off));
}

static void set_limit(struct worker *w, rlim_t bytes)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit))
		fail(w, "getrlimit: %s", strerror(errno));
	limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
	if (setrlimit(RLIMIT_FSIZE, &limit))
		fail(w, "setrlimit: %s", strerror(errno));
}

/* Until nothing is told any more: each mapping tells an error once. */
static void sync_until_it_works(struct worker *w)
{
	unsigned int i, tries;
	int err = 0;

	for (i = 0; i < KEPT; i++) {
		for (tries = 0; tries < 3 && w->kept[i].addr; tries++) {
			err = hugemap_sync(w->kept[i].addr, w->kept[i].len, MS_SYNC);
			if (!err)
				break;
			if (err != -EFBIG)
				break;
		}
		call(w, "hugemap_sync after RLIMIT_FSIZE is gone", err);
	}
}

/*
 * Files may not be longer than a limit, for a while, of this process and so of the pool's
 * threads. What cannot be written is kept, and written when it can.
 */
void op_limit(struct worker *w)
{
	uint64_t there, off, len, limit;
	struct kept *kept = pick_kept(w, true, &there);
	ssize_t n;
	int err;

	if (!kept || w->opts->threads > 1)
		return;
	off = kept->off + random_below(w, there);
	len = available(w, off, pick_length(w) % (64 << 10) + 1);
	if (len > kept->off + there - off)
		len = kept->off + there - off;
	if (!len)
		return;
	/* Not within a page: of that, direct I/O writes nothing. */
	limit = random_chance(w, 50) ? 0 : round_down(off, PAGE);
	note(w, "limit", off, len, limit);
	sync_until_it_works(w);
	set_limit(w, limit);
	fill(w, w->buf, len);
	memcpy(mapped(kept, off), w->buf, len);
	wrote(w, off, w->buf, len);
	err = hugemap_sync(kept->addr, kept->len, MS_SYNC);
	if (err && err != -EFBIG)
		call(w, "hugemap_sync beyond RLIMIT_FSIZE", err);
	if (!err)
		check_below(w, "after a sync beside RLIMIT_FSIZE, in the file", off, len);
	pick_range(w, true, &off, &len);
	fill(w, w->buf, len);
	n = hugemap_pwrite(w->fd, w->buf, len, (off_t)off);
	if (n > (ssize_t)len || (n < 0 && n != -EFBIG))
		put(w, "hugemap_pwrite beyond RLIMIT_FSIZE", off, len, n);
	if (n > 0)
		wrote(w, off, w->buf, (uint64_t)n);
	set_limit(w, RLIM_INFINITY);
	sync_until_it_works(w);
	check_below(w, "after RLIMIT_FSIZE is gone, in the file", kept->off, there);
}

void open_files(struct worker *w)
{
	w->fd = open(w->path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (w->fd < 0)
		fail(w, "open %s: %s", w->path, strerror(errno));
	w->below = w->direct = w->append = -1;
}

void close_files(struct worker *w)
{
	unmap_all(w);
	if (close(w->fd))
		fail(w, "close: %s", strerror(errno));
	if (w->below >= 0)
		close(w->below);
	w->fd = w->below = -1;
}

void after_operation(struct worker *w)
{
	check_size(w);
}

void after_all(struct worker *w)
{
	verify(w);
}

/* Nothing is mapped: the file has it all, and the pool may be another one. */
void op_anew(struct worker *w)
{
	uint64_t off;

	note(w, "anew", 0, 0, 0);
	close_files(w);
	if (w->opts->threads == 1 && random_chance(w, 50)) {
		pool_end();
		pool_begin(random_next(w));
	}
	open_files(w);
	if (w->opts->threads > 1)
		return;
	for (off = 0; off < w->model->size; off += LARGEST)
		got(w, "read(2) of a file that is not mapped", off, LARGEST,
		    pread(w->fd, w->buf, LARGEST, (off_t)off));
}
