// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Direct I/O of another file into mappings and out of them: a device stores into pages,
 * or reads them, without a fault, and what it has pinned cannot be moved. Meanwhile
 * somebody else writes back, reads and evicts.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ops.h"
#include "pool.h"

#define ROUNDS 3 /* each with other bytes, so that none hides what another one lost */
#define MOST (LARGEST / 4) /* bytes of one */

/* Nothing that it does may change a byte. */
struct disturber {
	pthread_t thread;
	const struct kept *kept;
	uint64_t there; /* bytes of it that the file has */
	uint64_t seed, size;
	int fd;
	atomic_bool stop;
	const char *failed;
	int err;
};

static int disturb_once(struct disturber *d, uint64_t x)
{
	char byte;

	switch (x >> 61) {
	case 0:
		d->failed = "hugemap_advise";
		return hugemap_advise(d->kept->addr, d->there, HUGEMAP_ADVICE_DONTNEED);
	case 1:
	case 2:
		d->failed = "hugemap_pread";
		return (int)hugemap_pread(d->fd, &byte, 1, (off_t)((x >> 20) % d->size)) - 1;
	case 3:
		d->failed = "load";
		*(volatile char *)(d->kept->addr + (x >> 20) % d->there);
		return 0;
	case 4:
		d->failed = "hugemap_flush";
		return hugemap_flush(d->fd, 0, 0);
	default:
		d->failed = "hugemap_sync";
		return hugemap_sync(d->kept->addr, d->there, MS_SYNC);
	}
}

static void *disturb(void *arg)
{
	struct disturber *d = arg;
	uint64_t x = d->seed;

	while (!atomic_load(&d->stop) && !d->err) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		d->err = disturb_once(d, x);
	}
	return NULL;
}

static void disturb_begin(struct worker *w, struct disturber *d, const struct kept *kept)
{
	*d = (struct disturber){
		.kept = kept, .fd = w->fd, .seed = random_next(w), .size = w->model->size
	};
	d->there = d->size - kept->off < kept->len ? d->size - kept->off : kept->len;
	if (pthread_create(&d->thread, NULL, disturb, d))
		fail(w, "no thread");
}

static void disturb_end(struct worker *w, struct disturber *d)
{
	atomic_store(&d->stop, true);
	pthread_join(d->thread, NULL);
	if (d->err)
		fail(w, "%s beside direct I/O: %s", d->failed, strerror(-d->err));
}

/* Whole pages of a kept mapping that are the file's, and this worker's. */
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
	at = kept->off + round_down(random_below(w, there), PAGE);
	*len = round_up(pick_length(w), PAGE);
	if (*len > MOST)
		*len = MOST;
	if (w->opts->threads > 1) {
		at = round_down(at, PAGE * w->opts->threads) + PAGE * w->thread;
		*len = PAGE;
	}
	if (at < kept->off || at + PAGE > kept->off + there)
		return NULL;
	if (*len > kept->off + there - at)
		*len = kept->off + there - at;
	*off = at;
	return kept;
}

static int open_other(struct worker *w)
{
	int fd = open(w->other, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);

	if (fd < 0)
		fail(w, "open %s: %s", w->other, strerror(errno));
	return fd;
}

static void transfer(struct worker *w, const char *how, uint64_t off, uint64_t len, ssize_t n)
{
	if (n != (ssize_t)len)
		fail(w, "%s at %#llx gave %zd of %llu: %s", how, (unsigned long long)off, n,
		     (unsigned long long)len, n < 0 ? strerror(errno) : "short");
}

static void then_sync(struct worker *w, const struct kept *kept, uint64_t off, uint64_t len)
{
	if (random_chance(w, 40))
		return;
	call(w, "hugemap_sync after direct I/O",
	     hugemap_sync(kept->addr + (off - kept->off), len, MS_SYNC));
	check_below(w, "after direct I/O and a sync, in the file", off, len);
}

void op_direct_into(struct worker *w)
{
	uint64_t off, len;
	struct disturber d;
	struct kept *kept = pick_part(w, true, &off, &len);
	unsigned char *addr;
	unsigned int i;
	int fd;

	if (!kept)
		return;
	addr = kept->addr + (off - kept->off);
	note(w, "direct-into", off, len, 0);
	fd = open_other(w);
	fill(w, w->buf, ROUNDS * len);
	transfer(w, "direct write of another file", 0, ROUNDS * len,
		 pwrite(fd, w->buf, ROUNDS * len, 0));
	disturb_begin(w, &d, kept);
	for (i = 0; i < ROUNDS; i++)
		transfer(w, "direct read into a mapping", off, len,
			 pread(fd, addr, len, (off_t)(i * len)));
	disturb_end(w, &d);
	close(fd);
	memmove(w->buf, w->buf + (ROUNDS - 1) * len, len);
	wrote(w, off, w->buf, len);
	check(w, "load after a direct read into the mapping", off, addr, len);
	then_sync(w, kept, off, len);
}

void op_direct_from(struct worker *w)
{
	uint64_t off, len;
	struct disturber d;
	struct kept *kept = pick_part(w, false, &off, &len);
	int fd;

	if (!kept)
		return;
	note(w, "direct-from", off, len, 0);
	fd = open_other(w);
	disturb_begin(w, &d, kept);
	transfer(w, "direct write from a mapping", off, len,
		 pwrite(fd, kept->addr + (off - kept->off), len, 0));
	disturb_end(w, &d);
	transfer(w, "read of what was written directly", off, len, pread(fd, w->buf, len, 0));
	close(fd);
	check(w, "direct write from a mapping", off, w->buf, len);
}

/* By a buffer that io_uring has registered: its pages are pinned until that ends. */
static void read_fixed(struct worker *w, struct io_uring *ring, int fd, unsigned char *addr,
		       uint64_t len)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct io_uring_cqe *cqe;
	int err;

	fill(w, w->buf, len);
	transfer(w, "direct write of another file", 0, len, pwrite(fd, w->buf, len, 0));
	io_uring_prep_read_fixed(sqe, fd, addr, (unsigned int)len, 0, 0);
	err = io_uring_submit_and_wait(ring, 1);
	if (err < 0 || io_uring_wait_cqe(ring, &cqe))
		fail(w, "io_uring: %s", strerror(-err));
	if (cqe->res != (int)len)
		fail(w, "a read into a registered buffer gave %d of %llu", cqe->res,
		     (unsigned long long)len);
	io_uring_cqe_seen(ring, cqe);
}

void op_pin(struct worker *w)
{
	uint64_t off, len;
	struct kept *kept = pick_part(w, true, &off, &len);
	unsigned int rounds = 1 + (unsigned int)random_below(w, 3), i;
	unsigned char *addr;
	struct io_uring ring;
	struct disturber d;
	struct iovec iov;
	int fd;

	if (!kept)
		return;
	addr = kept->addr + (off - kept->off);
	iov = (struct iovec){ addr, len };
	note(w, "pin", off, len, rounds);
	if (io_uring_queue_init(2, &ring, 0))
		return; /* it is not allowed here */
	/* The kernel's part of a mapping cannot be pinned for long. */
	if (io_uring_register_buffers(&ring, &iov, 1)) {
		io_uring_queue_exit(&ring);
		return;
	}
	fd = open_other(w);
	for (i = 0; i < rounds; i++) {
		disturb_begin(w, &d, kept);
		read_fixed(w, &ring, fd, addr, len);
		disturb_end(w, &d);
		wrote(w, off, w->buf, len);
		check(w, "load of what is pinned", off, addr, len);
		then_sync(w, kept, off, len);
	}
	close(fd);
	io_uring_unregister_buffers(&ring);
	io_uring_queue_exit(&ring);
	check(w, "load of what was pinned", off, addr, len);
}
