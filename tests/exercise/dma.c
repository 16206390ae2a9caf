// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Direct I/O whose buffer is a mapping of this file: a device writes into the pages, or reads
 * them, without a fault. At the same time a disturber thread writes the file back and drops
 * clean pages again and again. A page that the device writes after its write-back must be
 * written back again.
 */
#include "ops.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define ROUNDS 3 /* each with other bytes, so that no round hides bytes lost by another */
#define MOST (LARGEST / 4) /* most bytes of one transfer */
#define SECTOR 512ull
#define SLOW (4 * PAGE) /* see read_into() */

/* A thread that writes back, drops and loads during direct I/O, and changes no byte. */
struct disturber {
	pthread_t thread;
	struct worker *w;
	const struct map *map;
	uint64_t there; /* bytes of @map that lie within the file */
	uint64_t size, seed;
	atomic_bool at_work, stop;
};

/* Loads beside DMA are allowed; ThreadSanitizer would report a race. */
__attribute__((no_sanitize("thread"))) static void load(const unsigned char *at)
{
	*(const volatile unsigned char *)at;
}

static void disturb_once(struct disturber *d, uint64_t random)
{
	struct worker *w = d->w;
	unsigned char byte;

	switch (random >> 61) {
	case 1:
		if (posix_fadvise(w->fd, 0, 0, POSIX_FADV_DONTNEED))
			fail(w, "fadvise during direct I/O");
		break;
	case 2:
		if (pread(w->fd, &byte, 1, (off_t)((random >> 20) % d->size)) != 1)
			fail(w, "read during direct I/O: %s", strerror(errno));
		break;
	default:
		if (fdatasync(w->fd))
			fail(w, "fdatasync during direct I/O: %s", strerror(errno));
	}
}

static void *disturb(void *arg)
{
	struct disturber *d = arg;
	uint64_t x = d->seed;

	for (; !atomic_load(&d->stop); atomic_store(&d->at_work, true)) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		if (x >> 61)
			disturb_once(d, x);
		else
			load(d->map->addr + (x >> 20) % d->there);
	}
	return NULL;
}

static void disturb_begin(struct worker *w, struct disturber *d, const struct map *map)
{
	*d = (struct disturber){
		.w = w, .map = map, .size = w->model->size, .seed = random_next(w)
	};
	d->there = model_available(w, map->off, map->len);
	if (pthread_create(&d->thread, NULL, disturb, d))
		fail(w, "no thread");
	while (!atomic_load(&d->at_work))
		sched_yield();
}

static void disturb_end(struct disturber *d)
{
	atomic_store(&d->stop, true);
	pthread_join(d->thread, NULL);
}

/* Open another file for direct I/O, beside this one or in the lower file system; or -1. */
static int open_other(struct worker *w)
{
	const char *path = w->outside[0] && random_chance(w, 60) ? w->outside : w->other;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 0600);

	if (fd < 0 && errno != EINVAL)
		fail(w, "open %s: %s", path, strerror(errno));
	return fd;
}

/* Pick whole pages of a kept mapping that lie within the file and belong to this worker. */
static struct map *pick_part(struct worker *w, bool change, uint64_t *off, uint64_t *len)
{
	uint64_t there, end;
	struct map *map = pick_map(w, change, &there);

	if (!map)
		return NULL;
	end = map->off + round_down(model_available(w, map->off, map->len), PAGE);
	*off = map->off + round_down(random_below(w, there), PAGE);
	/* Mostly long, so that pages are written back while they are pinned. */
	*len = round_up(random_chance(w, 30) ? pick_length(w) : 1 + random_below(w, MOST), PAGE);
	if (*len > MOST)
		*len = MOST;
	if (w->opts->threads > 1) {
		*off = round_down(*off, PAGE * w->opts->threads) + PAGE * w->thread;
		*len = PAGE;
	}
	if (*off < map->off || *off >= end)
		return NULL;
	if (*len > end - *off)
		*len = end - *off;
	/* Sometimes only sectors of a page: the rest of the page must stay. */
	if (change && random_chance(w, 20)) {
		*off += SECTOR * random_below(w, PAGE / SECTOR);
		*len = *len > PAGE ? *len - PAGE : SECTOR;
	}
	return map;
}

/*
 * Pick the other end @self of a transfer within this file. Without a lower file system it must
 * not share a large folio with the buffer, since Linux cannot drop a pinned folio.
 */
static bool pick_self(struct worker *w, uint64_t off, uint64_t len, uint64_t *self)
{
	uint64_t apart = w->lower[0] ? 0 : 2 * BLOCK;

	*self = round_down(random_below(w, w->model->size), PAGE);
	return w->opts->threads == 1 && w->direct >= 0 &&
	       *self + len <= round_down(w->model->size, PAGE) &&
	       (*self >= off + len + apart || *self + len + apart <= off);
}

static void transferred(struct worker *w, const char *how, uint64_t off, uint64_t len, ssize_t n)
{
	if (n != (ssize_t)len)
		fail(w, "%s at %#llx gave %zd of %llu: %s", how, (unsigned long long)off, n,
		     (unsigned long long)len, n < 0 ? strerror(errno) : "short");
}

static void then_sync(struct worker *w, const struct map *map, uint64_t off, uint64_t len)
{
	uint64_t skip = off % PAGE;

	if (random_chance(w, 40))
		return;
	sync_mapped(w, map_address(map, off) - skip, len + skip, MS_SYNC);
	check_lower(w, "after direct I/O into a mapping and a sync, lower file", off, len);
}

/*
 * Read from @fd into the buffer @to. With a @slow offset, the buffer ends with a mapping of
 * that uncached part of @fd: the kernel has pinned the pages of @to, and waits for the fault on
 * the last part. The disturber can write the pinned pages back before the device stores to them.
 */
static void read_into(struct worker *w, int fd, struct iovec to, uint64_t off, uint64_t at,
		      uint64_t slow)
{
	struct iovec iov[2] = { to, { NULL, SLOW } };
	uint64_t len = to.iov_len;

	if (slow) {
		iov[1].iov_base =
			mmap(NULL, SLOW, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, (off_t)slow);
		if (iov[1].iov_base == MAP_FAILED)
			fail(w, "mmap of another file: %s", strerror(errno));
		madvise(iov[1].iov_base, SLOW, MADV_RANDOM);
		len += SLOW;
	}
	transferred(w, "direct read into a mapping", off, len,
		    preadv(fd, iov, slow ? 2 : 1, (off_t)at));
	if (slow)
		munmap(iov[1].iov_base, SLOW);
}

/* A direct read into a mapping of this file. */
void op_direct_into(struct worker *w)
{
	bool own = w->direct >= 0 && random_chance(w, 25);
	uint64_t off, len, at = 0, step, end;
	struct disturber d;
	struct map *map = pick_part(w, true, &off, &len);
	unsigned int i;
	int fd;

	if (!map || (own && !pick_self(w, off, round_up(len, PAGE), &at)))
		return;
	step = own ? 0 : round_up(len, PAGE);
	log_operation(w, own ? "direct-self" : "direct-into", off, len, at);
	if (own) {
		fd = w->direct;
		memcpy(w->buf, w->model->bytes + at, len);
	} else {
		fd = open_other(w);
		if (fd < 0)
			return;
		end = ROUNDS * (step + SLOW);
		fill_random(w, w->buf, end);
		transferred(w, "direct write of another file", 0, end, pwrite(fd, w->buf, end, 0));
	}
	disturb_begin(w, &d, map);
	for (i = 0; i < ROUNDS; i++)
		read_into(w, fd, (struct iovec){ map_address(map, off), len }, off, at + i * step,
			  own ? 0 : ROUNDS * step + i * SLOW);
	disturb_end(&d);
	memmove(w->buf, w->buf + (ROUNDS - 1) * step, len);
	if (!own)
		close(fd);
	model_write(w, off, w->buf, len);
	model_check(w, "load after a direct read into the mapping", off, map_address(map, off),
		    len);
	then_sync(w, map, off, len);
}

/* A direct write from a mapping of this file. */
void op_direct_from(struct worker *w)
{
	bool own = w->direct >= 0 && random_chance(w, 25);
	uint64_t off, len, at = 0;
	struct disturber d;
	struct map *map = pick_part(w, false, &off, &len);
	int fd;

	if (!map || (own && !pick_self(w, off, len, &at)))
		return;
	/* ext4 itself keeps bytes that were stored past the old end. */
	if (own && !w->lower[0] && w->model->polluted == w->model->size)
		return;
	log_operation(w, own ? "direct-copy" : "direct-from", own ? at : off, len, off);
	fd = own ? w->direct : open_other(w);
	if (fd < 0)
		return;
	disturb_begin(w, &d, map);
	transferred(w, "direct write from a mapping", off, len,
		    pwrite(fd, map_address(map, off), len, (off_t)at));
	disturb_end(&d);
	if (own) {
		model_write(w, at, w->model->bytes + off, len);
		check_read(w, "read after a direct write from a mapping", at, len,
			   pread(w->fd, w->buf, len, (off_t)at));
		if (random_chance(w, 50))
			return;
		if (fdatasync(fd))
			fail(w, "fdatasync: %s", strerror(errno));
		check_lower(w, "after a direct write from a mapping, lower file", at, len);
		return;
	}
	transferred(w, "read of the other file", off, len, pread(fd, w->buf, len, 0));
	close(fd);
	model_check(w, "direct write from a mapping", off, w->buf, len);
}
