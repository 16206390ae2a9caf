// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Direct I/O of other files, and of this one, into mappings and out of them: a device
 * stores into pages, or reads them, without a fault. Meanwhile somebody else writes the
 * file back and drops what is clean, again and again: what a device stores after a page
 * was written back is to be written again.
 */
#include "ops.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 3 /* each with other bytes, so that none hides what another one lost */
#define MOST (LARGEST / 4) /* bytes of one */
#define SECTOR 512ull

/* Nothing that it does may change a byte. */
struct disturber {
	pthread_t thread;
	int fd;
	uint64_t seed, size;
	atomic_bool stop;
	const char *failed;
	int err;
};

static void *disturb(void *arg)
{
	struct disturber *d = arg;
	uint64_t x = d->seed;
	char byte;

	while (!atomic_load(&d->stop) && !d->failed) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		switch (x >> 61) {
		case 0:
			d->err = posix_fadvise(d->fd, 0, 0, POSIX_FADV_DONTNEED);
			if (d->err)
				d->failed = "fadvise";
			break;
		case 1:
		case 2:
			if (pread(d->fd, &byte, 1, (off_t)((x >> 20) % d->size)) != 1) {
				d->err = errno;
				d->failed = "read";
			}
			break;
		default:
			if (fdatasync(d->fd)) {
				d->err = errno;
				d->failed = "fdatasync";
			}
		}
	}
	return NULL;
}

static void disturb_begin(struct worker *w, struct disturber *d)
{
	*d = (struct disturber){ .fd = w->fd, .seed = random_next(w), .size = w->model->size };
	if (pthread_create(&d->thread, NULL, disturb, d))
		fail(w, "no thread");
}

static void disturb_end(struct worker *w, struct disturber *d)
{
	atomic_store(&d->stop, true);
	pthread_join(d->thread, NULL);
	if (d->failed)
		fail(w, "%s beside direct I/O: %s", d->failed, strerror(d->err));
}

/* Another file for direct I/O: beside this one, or below. -1: there is none. */
static int open_other(struct worker *w, int flags)
{
	const char *path = w->outside[0] && random_chance(w, 60) ? w->outside : w->other;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | flags, 0600);

	if (fd < 0 && errno != EINVAL)
		fail(w, "open %s: %s", path, strerror(errno));
	return fd;
}

/* A part of a kept mapping that is the file's: whole pages, and this worker's own. */
static struct kept *pick_part(struct worker *w, bool change, uint64_t *off, uint64_t *len)
{
	uint64_t there, at;
	struct kept *kept = pick_kept(w, change, &there);

	if (!kept)
		return NULL;
	if (there > w->model->size - kept->off)
		there = w->model->size - kept->off;
	there = round_down(there, PAGE);
	if (!there)
		return NULL;
	at = round_down(random_below(w, there), PAGE);
	*len = round_up(pick_length(w), PAGE);
	if (*len > MOST)
		*len = MOST;
	if (w->opts->threads > 1) {
		at = round_down(kept->off + at, PAGE * w->opts->threads) + PAGE * w->thread;
		if (at < kept->off || at + PAGE > kept->off + there)
			return NULL;
		at -= kept->off;
		*len = PAGE;
	}
	if (*len > there - at)
		*len = there - at;
	/* Not all of a page: what is around it stays. */
	if (change && random_chance(w, 20)) {
		at += SECTOR * random_below(w, PAGE / SECTOR);
		*len = *len > PAGE ? *len - PAGE : SECTOR;
	}
	*off = kept->off + at;
	return kept;
}

/*
 * Where in this file a transfer may go to or come from, if not another file. Where Linux
 * itself serves the file, not within a large folio: it cannot drop what is pinned.
 */
static bool pick_self(struct worker *w, uint64_t off, uint64_t len, uint64_t *self)
{
	uint64_t apart = w->lower[0] ? 0 : 2 * BLOCK;

	*self = round_down(random_below(w, w->model->size), PAGE);
	return w->opts->threads == 1 && w->direct >= 0 &&
	       *self + len <= round_down(w->model->size, PAGE) &&
	       (*self >= off + len + apart || *self + len + apart <= off);
}

static void transfer(struct worker *w, const char *how, uint64_t off, uint64_t len, bool into,
		     int fd, unsigned char *addr, uint64_t at)
{
	ssize_t n = into ? pread(fd, addr, len, (off_t)at) : pwrite(fd, addr, len, (off_t)at);

	if (n != (ssize_t)len)
		fail(w, "%s at %#llx gave %zd of %llu: %s", how, (unsigned long long)off, n,
		     (unsigned long long)len, n < 0 ? strerror(errno) : "short");
}

static void then_sync(struct worker *w, const char *how, uint64_t off, uint64_t len)
{
	if (random_chance(w, 50))
		return;
	if (fdatasync(w->fd))
		fail(w, "fdatasync %s: %s", how, strerror(errno));
	check_below(w, how, off, len);
}

/* A direct read whose buffer is in a mapping of this file. */
void op_direct_into(struct worker *w)
{
	bool own = random_chance(w, 25);
	uint64_t off, len, at = 0, step;
	struct disturber d;
	struct kept *kept = pick_part(w, true, &off, &len);
	unsigned int i;
	int fd = -1;

	if (!kept || (own && !pick_self(w, off, round_up(len, PAGE), &at)))
		return;
	step = own ? 0 : round_up(len, PAGE);
	note(w, own ? "direct-self" : "direct-into", off, len, at);
	if (own) {
		memcpy(w->buf, w->model->bytes + at, len);
	} else {
		fd = open_other(w, O_DIRECT);
		if (fd < 0)
			return;
		fill(w, w->buf, ROUNDS * step);
		transfer(w, "direct write of another file", 0, ROUNDS * step, false, fd, w->buf, 0);
	}
	disturb_begin(w, &d);
	for (i = 0; i < ROUNDS; i++)
		transfer(w, "direct read into a mapping", off, len, true, own ? w->direct : fd,
			 kept->addr + (off - kept->off), at + i * step);
	disturb_end(w, &d);
	memmove(w->buf, w->buf + (ROUNDS - 1) * step, len);
	if (fd >= 0)
		close(fd);
	wrote(w, off, w->buf, len);
	check(w, "load after a direct read into the mapping", off, kept->addr + (off - kept->off),
	      len);
	then_sync(w, "after a direct read into a mapping, below", off, len);
}

/* A direct write whose buffer is in a mapping of this file. */
void op_direct_from(struct worker *w)
{
	bool own = random_chance(w, 25);
	uint64_t off, len, at = 0;
	struct disturber d;
	struct kept *kept = pick_part(w, false, &off, &len);
	int fd = -1;

	if (!kept || (own && !pick_self(w, off, len, &at)))
		return;
	if (own && w->opts->anew && w->model->polluted == w->model->size)
		return;
	note(w, own ? "direct-copy" : "direct-from", own ? at : off, len, off);
	if (!own) {
		fd = open_other(w, O_DIRECT);
		if (fd < 0)
			return;
	}
	disturb_begin(w, &d);
	transfer(w, "direct write from a mapping", off, len, false, own ? w->direct : fd,
		 kept->addr + (off - kept->off), at);
	disturb_end(w, &d);
	if (own) {
		wrote(w, at, w->model->bytes + off, len);
		got(w, "read after a direct write from a mapping", at, len,
		    pread(w->fd, w->buf, len, (off_t)at));
		then_sync(w, "after a direct write from a mapping, below", at, len);
		return;
	}
	transfer(w, "read of what was written directly", off, len, true, fd, w->buf, 0);
	close(fd);
	check(w, "direct write from a mapping", off, w->buf, len);
}
