// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap-direct make FILE BYTES
 * hugemap-direct read FILE TARGET BLOCK DEPTH plain|registered SECONDS
 *
 * Make a file, or read it again and again by asynchronous direct I/O into 64 MB of memory, and
 * print the result as JSON. TARGET is "small", "thp" or "hugetlb", or a file whose mapping is the
 * memory. `hugemap bench direct` starts it.
 */
#include "random.h"
#include "usage.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define AREA (64u << 20)
#define HUGE (2u << 20)
#define NO_BLOCK UINT64_MAX

/**
 * struct transfer - a read that is in flight
 * @place: where it reads to, as a multiple of the block in the area
 * @block: the number of the block of the file
 */
struct transfer {
	uint64_t place, block;
};

/**
 * struct reader - the reads of a run
 * @ring: of io_uring
 * @fd: the file
 * @area: the memory that is read to
 * @block: bytes of a read
 * @blocks: of the file
 * @next: number of the next read
 * @places: blocks of the area
 * @held: the block of the file that each place holds, or NO_BLOCK
 * @transfers: as many as there are reads in flight
 * @depth: number of @transfers
 * @registered: the area is registered with the ring
 */
struct reader {
	struct io_uring ring;
	int fd;
	char *area;
	uint64_t block, blocks, next, places;
	uint64_t *held;
	struct transfer *transfers;
	unsigned int depth;
	bool registered;
};

static void *main_alloc(size_t n, size_t size)
{
	void *at = calloc(n, size);

	if (!at)
		errx(1, "too little memory");
	return at;
}

/* The words of the file are different, so that a block at a wrong place is noticed. */
static uint64_t main_word(uint64_t index)
{
	return random_mix(index + 1);
}

static void main_fill(uint64_t *words, uint64_t from, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes / 8; i++)
		words[i] = main_word(from / 8 + i);
}

static void main_make(const char *path, uint64_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600);
	uint64_t *piece = aligned_alloc(HUGE, HUGE), at;

	if (!piece)
		errx(1, "too little memory");
	if (fd < 0)
		err(1, "%s", path);
	for (at = 0; at < bytes; at += HUGE) {
		main_fill(piece, at, HUGE);
		if (pwrite(fd, piece, HUGE, (off_t)at) != HUGE)
			err(1, "%s", path);
	}
	if (fsync(fd) < 0 || close(fd) < 0)
		err(1, "%s", path);
	free(piece);
}

/* --- the memory --- */

/* The mapping of a new file whose space is reserved. */
static char *main_map_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	char *at;

	if (fd < 0)
		err(1, "%s", path);
	errno = posix_fallocate(fd, 0, AREA);
	if (errno)
		err(1, "%s", path);
	at = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at != MAP_FAILED)
		madvise(at, AREA, MADV_HUGEPAGE);
	close(fd);
	return at;
}

/* Returns NULL, with errno, if the memory cannot be mapped. */
static char *main_map(const char *target)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *at;

	if (strchr(target, '/'))
		at = main_map_file(target);
	else if (!strcmp(target, "hugetlb"))
		at = mmap(NULL, AREA, PROT_READ | PROT_WRITE, flags | MAP_HUGETLB, -1, 0);
	else
		at = mmap(NULL, AREA, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	if (!strcmp(target, "small"))
		madvise(at, AREA, MADV_NOHUGEPAGE);
	if (!strcmp(target, "thp"))
		madvise(at, AREA, MADV_HUGEPAGE);
	memset(at, 0, AREA);
	return at;
}

/* --- the reads --- */

static void main_submit(struct reader *reader, struct transfer *transfer)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&reader->ring);
	char *to = reader->area + transfer->place * reader->block;
	uint64_t from;

	transfer->block = reader->next++ % reader->blocks;
	from = transfer->block * reader->block;
	reader->held[transfer->place] = NO_BLOCK;
	if (reader->registered)
		io_uring_prep_read_fixed(sqe, reader->fd, to, (unsigned int)reader->block, from, 0);
	else
		io_uring_prep_read(sqe, reader->fd, to, (unsigned int)reader->block, from);
	io_uring_sqe_set_data(sqe, transfer);
}

/* Wait for a read. Its place holds the block then. */
static struct transfer *main_complete(struct reader *reader)
{
	struct transfer *transfer;
	struct io_uring_cqe *cqe;
	int res = io_uring_submit_and_wait(&reader->ring, 1);

	if (res >= 0)
		res = io_uring_wait_cqe(&reader->ring, &cqe);
	if (res < 0)
		errx(1, "io_uring: %s", strerror(-res));
	transfer = io_uring_cqe_get_data(cqe);
	if (cqe->res < 0)
		errx(1, "read: %s", strerror(-cqe->res));
	if ((uint64_t)cqe->res != reader->block)
		errx(1, "read: %d bytes of %llu", cqe->res, (unsigned long long)reader->block);
	io_uring_cqe_seen(&reader->ring, cqe);
	reader->held[transfer->place] = transfer->block;
	return transfer;
}

/* Returns the number of reads. Each transfer has places of its own. */
static uint64_t main_read(struct reader *reader, double seconds)
{
	uint64_t end = usage_now() + (uint64_t)(seconds * 1e9), reads = 0;
	unsigned int i, left = reader->depth;
	struct transfer *transfer;

	for (i = 0; i < reader->depth; i++) {
		reader->transfers[i].place = i;
		main_submit(reader, &reader->transfers[i]);
	}
	while (left) {
		transfer = main_complete(reader);
		reads++;
		transfer->place += reader->depth;
		if (transfer->place >= reader->places)
			transfer->place = (uint64_t)(transfer - reader->transfers);
		if (usage_now() < end)
			main_submit(reader, transfer);
		else
			left--;
	}
	return reads;
}

static void main_check(const struct reader *reader)
{
	uint64_t *right = main_alloc(1, reader->block), place;

	for (place = 0; place < reader->places; place++) {
		if (reader->held[place] == NO_BLOCK)
			continue;
		main_fill(right, reader->held[place] * reader->block, reader->block);
		if (memcmp(right, reader->area + place * reader->block, reader->block))
			errx(1, "wrong data in block %llu",
			     (unsigned long long)reader->held[place]);
	}
	free(right);
}

/* The kernel does not give this memory, or does not register it. */
static bool main_refuse(int error)
{
	printf("{\"refused\": \"%s\"}\n", strerror(error));
	return false;
}

/* Open the file, and prepare the ring. Returns false if the memory is refused. */
static bool main_prepare(struct reader *reader, const char *path, const char *target)
{
	struct iovec area = { .iov_len = AREA };
	struct stat st;
	uint64_t i;
	int res;

	reader->fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (reader->fd < 0 || fstat(reader->fd, &st) < 0)
		err(1, "%s", path);
	reader->blocks = (uint64_t)st.st_size / reader->block;
	reader->places = AREA / reader->block;
	reader->held = main_alloc(reader->places, sizeof(*reader->held));
	for (i = 0; i < reader->places; i++)
		reader->held[i] = NO_BLOCK;
	reader->transfers = main_alloc(reader->depth, sizeof(*reader->transfers));
	reader->area = main_map(target);
	if (!reader->area)
		return main_refuse(errno);
	res = io_uring_queue_init(reader->depth, &reader->ring, 0);
	if (res < 0)
		errx(1, "io_uring: %s", strerror(-res));
	area.iov_base = reader->area;
	res = reader->registered ? io_uring_register_buffers(&reader->ring, &area, 1) : 0;
	return res == 0 || main_refuse(-res);
}

static void main_run(struct reader *reader, double seconds)
{
	struct usage_counts before, after;
	uint64_t start, reads;
	double took;

	usage_read(&before);
	start = usage_now();
	reads = main_read(reader, seconds);
	took = (double)(usage_now() - start) / 1e9;
	usage_read(&after);
	main_check(reader);
	printf("{\"bytes\": %llu, \"seconds\": %.6f, ", (unsigned long long)(reads * reader->block),
	       took);
	usage_print(&before, &after);
	printf("}\n");
}

int main(int argc, char **argv)
{
	struct reader reader = {};

	if (argc == 4 && !strcmp(argv[1], "make")) {
		main_make(argv[2], strtoull(argv[3], NULL, 10));
		return 0;
	}
	if (argc != 8 || strcmp(argv[1], "read")) {
		fputs("hugemap-direct is started by `hugemap bench direct`\n", stderr);
		return 2;
	}
	reader.block = strtoull(argv[4], NULL, 10);
	reader.depth = (unsigned int)strtoul(argv[5], NULL, 10);
	reader.registered = !strcmp(argv[6], "registered");
	if (main_prepare(&reader, argv[2], argv[3]))
		main_run(&reader, strtod(argv[7], NULL));
	return fflush(stdout) ? 1 : 0;
}
