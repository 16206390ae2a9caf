// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The expected content of the file, the comparison with the bytes that were read, and the
 * log of operations, which is printed when the two differ.
 */
#include "exercise.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* splitmix64: any seed is as good as any other. */
uint64_t random_next(struct worker *w)
{
	uint64_t z = w->rng += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

uint64_t random_below(struct worker *w, uint64_t n)
{
	return n ? random_next(w) % n : 0;
}

bool random_chance(struct worker *w, unsigned int percent)
{
	return random_below(w, 100) < percent;
}

/* The bytes that one operation writes; a child of exec.c computes the same bytes. */
void fill_from(uint64_t seed, unsigned char *buf, uint64_t len)
{
	uint64_t x = seed;
	uint64_t i;

	for (i = 0; i + 8 <= len; i += 8) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		memcpy(buf + i, &x, 8);
	}
	for (; i < len; i++) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		buf[i] = (unsigned char)(x >> 56);
	}
}

/* No two operations write the same bytes, so stale bytes are detected. */
void fill_random(struct worker *w, unsigned char *buf, uint64_t len)
{
	fill_from(random_next(w), buf, len);
}

bool owns_page(const struct worker *w, uint64_t off)
{
	return off / PAGE % w->opts->threads == w->thread;
}

void log_operation(struct worker *w, const char *name, uint64_t off, uint64_t len, uint64_t arg)
{
	struct entry *entry = &w->log[w->logged++ % LOG];

	entry->name = name;
	entry->op = w->op;
	entry->off = off;
	entry->len = len;
	entry->arg = arg;
	entry->size = w->model->size;
	if (w->opts->verbose)
		fprintf(stderr, "%u.%u %8llu %-12s %#llx + %#llx (%#llx) size %#llx\n", w->process,
			w->thread, (unsigned long long)w->op, name, (unsigned long long)off,
			(unsigned long long)len, (unsigned long long)arg,
			(unsigned long long)entry->size);
}

void model_write(struct worker *w, uint64_t off, const unsigned char *buf, uint64_t len)
{
	memcpy(w->model->bytes + off, buf, len);
	if (off + len > w->model->size)
		model_resize(w, off + len);
}

void model_zero(struct worker *w, uint64_t off, uint64_t len)
{
	memset(w->model->bytes + off, 0, len);
}

void model_resize(struct worker *w, uint64_t size)
{
	if (size < w->model->size)
		memset(w->model->bytes + size, 0, w->model->size - size);
	/*
	 * If the file shrinks or grows beyond the page, the kernel zeroes the bytes past the old
	 * end. If it grows within the page, the bytes past the new end stay polluted.
	 */
	if (w->model->polluted == w->model->size && size > w->model->size &&
	    size <= round_up(w->model->size, PAGE))
		w->model->polluted = size;
	else if (size != w->model->size)
		w->model->polluted = UINT64_MAX;
	w->model->size = size;
}

static void print_log(struct worker *w, uint64_t at)
{
	uint64_t shown = w->opts->log < LOG ? w->opts->log : LOG;
	uint64_t first = w->logged > shown ? w->logged - shown : 0;
	uint64_t i;

	fprintf(stderr, "the last operations of this worker (* touches the offset):\n");
	for (i = first; i < w->logged; i++) {
		const struct entry *entry = &w->log[i % LOG];
		bool touches = at >= entry->off && at - entry->off < entry->len;

		fprintf(stderr,
			"%c %8llu %-12s offset %#10llx length %#9llx arg %#llx size %#llx\n",
			touches ? '*' : ' ', (unsigned long long)entry->op, entry->name,
			(unsigned long long)entry->off, (unsigned long long)entry->len,
			(unsigned long long)entry->arg, (unsigned long long)entry->size);
	}
}

static void print_repeat(struct worker *w)
{
	const struct options *o = w->opts;

	fprintf(stderr, "to repeat: " PROGRAM " --seed %llu --ops %llu --size %llu",
		(unsigned long long)o->seed, (unsigned long long)o->ops,
		(unsigned long long)o->size);
	if (o->processes != 1 || o->threads != 1)
		fprintf(stderr, " --processes %llu --threads %llu",
			(unsigned long long)o->processes, (unsigned long long)o->threads);
	if (o->without)
		fprintf(stderr, " --without %s", o->without);
	if (o->rarely)
		fprintf(stderr, " --rarely %s", o->rarely);
	if (o->unmap_every)
		fprintf(stderr, " --anew %llu", (unsigned long long)o->unmap_every);
	if (o->pollute)
		fprintf(stderr, " --pollute");
	if (o->lower)
		fprintf(stderr, " --verify-lower %s", o->lower);
	if (o->hook)
		fprintf(stderr, " --hook '%s' --hook-every %llu%s", o->hook,
			(unsigned long long)o->hook_every, o->hook_open ? " --hook-open" : "");
	fprintf(stderr, " %s\n", o->path);
}

static pthread_mutex_t failing = PTHREAD_MUTEX_INITIALIZER;

static void fail_at(struct worker *w, uint64_t at) __attribute__((noreturn));
static void fail_at(struct worker *w, uint64_t at)
{
	print_log(w, at);
	print_repeat(w);
	fflush(stderr);
	/* exit() would run handlers beside the other threads; the mutex stays locked. */
	_exit(1);
}

void fail(struct worker *w, const char *format, ...)
{
	va_list ap;

	pthread_mutex_lock(&failing);
	fprintf(stderr, "FAILED: %s, process %u thread %u, operation %llu: ", w->path, w->process,
		w->thread, (unsigned long long)w->op);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	fail_at(w, UINT64_MAX);
}

static void print_bytes(const char *what, const unsigned char *bytes, uint64_t len)
{
	uint64_t i;

	fprintf(stderr, "  %-9s", what);
	for (i = 0; i < len && i < 32; i++)
		fprintf(stderr, "%s%02x", i % 8 ? "" : " ", bytes[i]);
	fputc('\n', stderr);
}

static bool all_zero(const unsigned char *bytes, uint64_t len)
{
	return !len || (!bytes[0] && !memcmp(bytes, bytes + 1, len - 1));
}

/* Report if the bytes belong to another offset of the file, which hints at the defect. */
static void print_origin(struct worker *w, uint64_t at, const unsigned char *found, uint64_t len)
{
	const unsigned char *bytes = w->model->bytes;
	const unsigned char *hit;

	if (all_zero(found, len)) {
		fprintf(stderr, "  found only zeros\n");
		return;
	}
	if (len < 16)
		return;
	hit = memmem(bytes, w->model->size, found, len < 64 ? len : 64);
	if (hit)
		fprintf(stderr, "  these bytes belong at %#llx, %+lld bytes from there\n",
			(unsigned long long)(hit - bytes),
			(long long)(hit - bytes) - (long long)at);
	else
		fprintf(stderr, "  these bytes are nowhere in the file now: old or foreign\n");
}

static void fail_difference(struct worker *w, const char *how, uint64_t off,
			    const unsigned char *found, uint64_t len)
{
	const unsigned char *expected = w->model->bytes + off;
	uint64_t first = 0, last, at, wrong = 0, i;

	while (expected[first] == found[first] || !owns_page(w, off + first))
		first++;
	for (last = i = first; i < len; i++) {
		if (owns_page(w, off + i) && expected[i] != found[i]) {
			last = i;
			wrong++;
		}
	}
	at = off + first;

	pthread_mutex_lock(&failing);
	fprintf(stderr,
		"FAILED: %s, process %u thread %u, operation %llu: %s: a byte differs\n"
		"  offset %#llx (block %llu + %#llx, page %llu + %#llx); size %#llx\n"
		"  %llu bytes differ, the last at %#llx; compared were %#llx to %#llx\n",
		w->path, w->process, w->thread, (unsigned long long)w->op, how,
		(unsigned long long)at, (unsigned long long)(at / BLOCK),
		(unsigned long long)(at % BLOCK), (unsigned long long)(at / PAGE),
		(unsigned long long)(at % PAGE), (unsigned long long)w->model->size,
		(unsigned long long)wrong, (unsigned long long)(off + last),
		(unsigned long long)off, (unsigned long long)(off + len));
	print_bytes("expected", expected + first, len - first);
	print_bytes("found", found + first, len - first);
	print_origin(w, at, found + first, last - first + 1);
	fail_at(w, at);
}

/* Compare bytes past the end of the file too: they are zero in the model. */
void model_check(struct worker *w, const char *how, uint64_t off, const unsigned char *found,
		 uint64_t len)
{
	const unsigned char *expected = w->model->bytes + off;
	uint64_t i, n;

	if (w->model->polluted == w->model->size && off + len > w->model->size)
		len = off < w->model->size ? w->model->size - off : 0;
	if (w->opts->threads == 1) {
		if (memcmp(expected, found, len))
			fail_difference(w, how, off, found, len);
		return;
	}
	for (i = 0; i < len; i += n) {
		n = PAGE - (off + i) % PAGE;
		if (n > len - i)
			n = len - i;
		if (owns_page(w, off + i) && memcmp(expected + i, found + i, n))
			fail_difference(w, how, off, found, len);
	}
}

/* The bytes that the file has of a range. */
uint64_t model_available(struct worker *w, uint64_t off, uint64_t len)
{
	if (off >= w->model->size)
		return 0;
	return len < w->model->size - off ? len : w->model->size - off;
}

/* Check the result @n of a read into w->buf: its length and its bytes. */
void check_read(struct worker *w, const char *how, uint64_t off, uint64_t len, ssize_t n)
{
	uint64_t there = model_available(w, off, len);

	if (n < 0)
		fail(w, "%s at %#llx: %s", how, (unsigned long long)off, strerror(errno));
	if ((uint64_t)n != there)
		fail(w, "%s of %llu bytes at %#llx gave %zd, expected %llu", how,
		     (unsigned long long)len, (unsigned long long)off, n,
		     (unsigned long long)there);
	model_check(w, how, off, w->buf, (uint64_t)n);
}

/*
 * A direct read may fail with EIO while another thread stores into a hole of the range (see
 * iomap_dio_iter() in Linux). Write the dirty pages back, and repeat the read.
 */
ssize_t read_direct(struct worker *w, int fd, uint64_t len, uint64_t off)
{
	unsigned int tries;
	ssize_t n;

	for (tries = 0; tries < 100; tries++) {
		n = pread(fd, w->buf, len, (off_t)off);
		if (n >= 0 || errno != EIO || w->opts->threads == 1)
			break;
		if (fdatasync(w->fd))
			fail(w, "fdatasync: %s", strerror(errno));
	}
	return n;
}

/*
 * Compare the file in the lower file system after a sync: its size, and its bytes on the
 * device instead of those in the page cache.
 */
void check_lower(struct worker *w, const char *how, uint64_t off, uint64_t len)
{
	uint64_t end = round_up(off + len, PAGE);
	struct stat st;

	if (!w->lower[0] || off >= w->model->size)
		return;
	if (w->lower_fd < 0) {
		w->lower_fd = open(w->lower, O_RDONLY | O_DIRECT);
		if (w->lower_fd < 0)
			w->lower_fd = open(w->lower, O_RDONLY);
		if (w->lower_fd < 0)
			fail(w, "cannot open %s: %s", w->lower, strerror(errno));
	}
	if (fstat(w->lower_fd, &st))
		fail(w, "fstat of %s: %s", w->lower, strerror(errno));
	if ((uint64_t)st.st_size != w->model->size)
		fail(w, "%s: the lower file has %#llx bytes, expected %#llx", how,
		     (unsigned long long)st.st_size, (unsigned long long)w->model->size);
	if (!(fcntl(w->lower_fd, F_GETFL) & O_DIRECT))
		posix_fadvise(w->lower_fd, 0, 0, POSIX_FADV_DONTNEED);
	off = round_down(off, PAGE);
	while (off < end && off < w->model->size) {
		uint64_t want = end - off < LARGEST ? end - off : LARGEST;
		uint64_t there = w->model->size - off;
		ssize_t n = read_direct(w, w->lower_fd, want, off);

		if (n < 0)
			fail(w, "%s: read of %s: %s", how, w->lower, strerror(errno));
		if ((uint64_t)n < want && (uint64_t)n < there)
			fail(w, "%s: read of %s at %#llx gave %zd bytes, expected %llu", how,
			     w->lower, (unsigned long long)off, n,
			     (unsigned long long)(want < there ? want : there));
		model_check(w, how, off, w->buf, (uint64_t)n);
		off += (uint64_t)n;
	}
}
