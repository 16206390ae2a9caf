// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The library's calls on a file that a pool has, limits of this process among them, and
 * the comparison of all of the file by each way there is.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ops.h"
#include "pool.h"

static void put(struct worker *w, const char *how, uint64_t off, uint64_t len, ssize_t n)
{
	if (n != (ssize_t)len)
		fail(w, "%s of %llu bytes at %#llx gave %zd: %s (%s)", how, (unsigned long long)len,
		     (unsigned long long)off, n, n < 0 ? strerror((int)-n) : "short",
		     hugemap_reason());
}

static void got_call(struct worker *w, const char *how, uint64_t off, uint64_t len, ssize_t n)
{
	if (n < 0)
		fail(w, "%s at %#llx: %s (%s)", how, (unsigned long long)off, strerror((int)-n),
		     hugemap_reason());
	got(w, how, off, len, n);
}

void op_pread(struct worker *w)
{
	uint64_t off, len;

	pick_range(w, false, &off, &len);
	note(w, "pread", off, len, 0);
	got_call(w, "hugemap_pread", off, len, hugemap_pread(w->fd, w->buf, len, (off_t)off));
}

/* Somebody else has a page of the block pinned for long: nothing has changed. */
static bool refused(const struct worker *w, ssize_t n)
{
	return n == -EBUSY && w->opts->threads > 1;
}

void op_pwrite(struct worker *w)
{
	uint64_t off, len;
	ssize_t n;

	if (!pick_range(w, true, &off, &len))
		return;
	note(w, "pwrite", off, len, 0);
	fill(w, w->buf, len);
	n = hugemap_pwrite(w->fd, w->buf, len, (off_t)off);
	if (refused(w, n))
		return;
	put(w, "hugemap_pwrite", off, len, n);
	wrote(w, off, w->buf, len);
}

/* A call whose buffer is in a mapping of the same file, where that does not overlap. */
static struct kept *pick_buffer(struct worker *w, bool change, uint64_t limit, uint64_t *in,
				uint64_t *other, uint64_t *len)
{
	uint64_t there;
	struct kept *kept = pick_kept(w, change, &there);

	if (!kept || w->opts->threads > 1)
		return NULL;
	*len = pick_length(w);
	*in = kept->off + random_below(w, there);
	*other = random_below(w, limit);
	*len = available(w, *in, *len);
	if (*len > kept->off + there - *in)
		*len = kept->off + there - *in;
	if (*len > limit - *other)
		*len = limit - *other;
	if (!*len || (*other < *in + *len && *in < *other + *len))
		return NULL;
	return kept;
}

void op_read_self(struct worker *w)
{
	uint64_t to, from, len;
	struct kept *kept = pick_buffer(w, true, w->model->size, &to, &from, &len);

	if (!kept)
		return;
	note(w, "read-self", to, len, from);
	put(w, "hugemap_pread into a mapping", from, len,
	    hugemap_pread(w->fd, kept->addr + (to - kept->off), len, (off_t)from));
	wrote(w, to, w->model->bytes + from, len);
	check(w, "load after a read into the mapping", to, kept->addr + (to - kept->off), len);
}

void op_write_self(struct worker *w)
{
	uint64_t to, from, len;
	struct kept *kept = pick_buffer(w, false, w->opts->size, &from, &to, &len);

	if (!kept)
		return;
	note(w, "write-self", to, len, from);
	put(w, "hugemap_pwrite from a mapping", to, len,
	    hugemap_pwrite(w->fd, kept->addr + (from - kept->off), len, (off_t)to));
	wrote(w, to, w->model->bytes + from, len);
}

void op_truncate(struct worker *w)
{
	uint64_t size = pick_offset(w, w->opts->size + 1);

	if (w->opts->threads > 1)
		return;
	/* Mostly near where it is, lest the file be empty half of the time. */
	if (random_chance(w, 60))
		size = w->model->size - random_below(w, w->model->size / 4 + 1);
	note(w, "truncate", size, 0, 0);
	call(w, "hugemap_truncate", hugemap_truncate(w->fd, (off_t)size));
	resized(w, size);
}

void op_punch(struct worker *w)
{
	uint64_t off, len;
	int err;

	if (!pick_range(w, true, &off, &len))
		return;
	note(w, "punch", off, len, 0);
	err = hugemap_punch(w->fd, (off_t)off, (off_t)len);
	if (err == -EOPNOTSUPP || refused(w, err))
		return;
	call(w, "hugemap_punch", err);
	zeroed(w, off, available(w, off, len));
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
	memcpy(kept->addr + (off - kept->off), w->buf, len);
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

void check_size(struct worker *w)
{
	struct stat st;

	if (fstat(w->fd, &st))
		fail(w, "stat: %s", strerror(errno));
	if ((uint64_t)st.st_size != w->model->size)
		fail(w, "the file has %#llx bytes, expected %#llx", (unsigned long long)st.st_size,
		     (unsigned long long)w->model->size);
}

void after_operation(struct worker *w)
{
	check_size(w);
}

void verify(struct worker *w)
{
	uint64_t len = mapped_end(w), off;
	unsigned char *addr;

	check_size(w);
	if (!len)
		return;
	addr = map_pool(w, 0, 0, PROT_READ | PROT_WRITE);
	check(w, "load, all of the file", 0, addr, len);
	for (off = 0; off < w->model->size; off += LARGEST)
		got_call(w, "hugemap_pread, all of the file", off, LARGEST,
			 hugemap_pread(w->fd, w->buf, LARGEST, (off_t)off));
	call(w, "hugemap_unmap", hugemap_unmap(addr, len));
}

void op_verify(struct worker *w)
{
	note(w, "verify", 0, 0, 0);
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
