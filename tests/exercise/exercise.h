/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The exerciser does random operations on a file and compares each byte that it reads with
 * a model, which is a copy of the file in memory. Its sources:
 *
 *	main.c	options, processes and threads, pauses for a hook command
 *	model.c	the model, the comparison, the log of operations
 *	table.c	the operations by name, and how often each is done
 *	ops.c	choice of the next operation and of its range
 *	file.c	simple calls on the file, and the comparison of the whole file
 *	kept.c	loads and stores in mappings, some of which stay over many operations
 *	dma.c	direct I/O with buffers in mappings, during write-back
 *	bytes.c	system calls that read and write
 *	room.c	the size of the file and its holes
 *	maps.c	mmap(2), mremap(2), madvise(2), mprotect(2)
 *	pipes.c	pipes that hold pages of the file over several operations
 *	limits.c a process with RLIMIT_FSIZE
 *	still.c	operations that change no byte: sync, advice, reopening
 *	exec.c	operations of other programs; child.c is such a program
 *	apart.c	operations for which this worker closes the file
 *
 * A worker is a thread with its own descriptors, mappings and random numbers, so that its
 * operations are the same in every run with the same options. A single thread owns the whole
 * file. Each of n threads owns every n-th page, so that pages of different owners share 2 MB
 * blocks; then no operation changes the size of the file.
 */
#ifndef HUGEMAP_EXERCISE_H
#define HUGEMAP_EXERCISE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROGRAM "hugemap-exercise"
#define PAGE 4096ull
#define BLOCK (2ull << 20)
#define MAPPINGS 8u /* long-lived mappings of a worker */
#define LOG 4096u /* newest operations of a worker */
#define PIPES 3u /* pipes of a worker that hold pages */
#define VERSIONS 32u /* remembered contents of the pages in a pipe */
#define POLLUTION 0xee /* byte that is stored past the end of the file */
#define LARGEST (4ull << 20) /* most bytes of one operation */

struct options {
	const char *path;
	const char *lower; /* directory of the file in the lower file system, or NULL */
	const char *hook;
	const char *without; /* names of operations, separated by commas */
	const char *rarely;
	uint64_t seed;
	uint64_t ops;
	uint64_t size;
	uint64_t processes;
	uint64_t threads;
	uint64_t hook_every;
	uint64_t unmap_every; /* operations between two moments without any mapping; 0: none */
	uint64_t log; /* operations printed on a failure */
	bool hook_open; /* run the hook while files are open and mapped */
	bool pollute; /* store past the end of the file too */
	bool keep_files; /* do not delete the files at the end */
	bool verbose;
};

/* The expected content of the file. All bytes from @size on are zero. */
struct model {
	unsigned char *bytes;
	uint64_t size;
	uint64_t polluted; /* size of the file at the last store past its end; or UINT64_MAX */
};

struct entry {
	const char *name;
	uint64_t op;
	uint64_t off, len;
	uint64_t arg;
	uint64_t size; /* size of the file before the operation */
};

struct map {
	unsigned char *addr; /* NULL: not mapped */
	uint64_t off;
	uint64_t len; /* whole pages */
	bool writable;
};

/* A pipe that holds pages of the file: see pipes.c. */
struct pipe_pages {
	int fds[2];
	uint64_t off, len; /* range of the file; @len is 0 if the pipe is not open */
	uint64_t since; /* operation that filled the pipe */
	unsigned char *version[VERSIONS];
	unsigned int nversions;
};

struct worker {
	const struct options *opts;
	struct model *model;
	unsigned int process, thread;
	uint64_t rng;
	uint64_t op;
	char path[512];
	char lower[512]; /* the file in the lower file system; "": it is not compared */
	char other[512]; /* a second file, to copy to and from */
	char outside[512]; /* a second file in the lower file system, or "" */
	int fd, lower_fd;
	int append;
	int direct; /* -1: the file system has no direct I/O */
	struct map maps[MAPPINGS];
	struct pipe_pages pipes[PIPES];
	unsigned char *buf; /* LARGEST + PAGE bytes, page-aligned */
	struct entry log[LOG];
	uint64_t logged;
};

/* model.c */
uint64_t random_next(struct worker *w);
uint64_t random_below(struct worker *w, uint64_t n);
bool random_chance(struct worker *w, unsigned int percent);
void fill_random(struct worker *w, unsigned char *buf, uint64_t len);
void fill_from(uint64_t seed, unsigned char *buf, uint64_t len);
bool owns_page(const struct worker *w, uint64_t off);
void log_operation(struct worker *w, const char *name, uint64_t off, uint64_t len, uint64_t arg);
void model_write(struct worker *w, uint64_t off, const unsigned char *buf, uint64_t len);
void model_zero(struct worker *w, uint64_t off, uint64_t len);
void model_resize(struct worker *w, uint64_t size);
void model_check(struct worker *w, const char *how, uint64_t off, const unsigned char *found,
		 uint64_t len);
uint64_t model_available(struct worker *w, uint64_t off, uint64_t len);
void check_read(struct worker *w, const char *how, uint64_t off, uint64_t len, ssize_t n);
ssize_t read_direct(struct worker *w, int fd, uint64_t len, uint64_t off);
void check_lower(struct worker *w, const char *how, uint64_t off, uint64_t len);
void fail(struct worker *w, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));

/* table.c */
struct operation {
	const char *name;
	unsigned int often;
	void (*run)(struct worker *w);
};
extern const struct operation operations[];
extern const unsigned int noperations;

/* ops.c */
void list_operations(void);
bool are_operations(const char *names);
void operate(struct worker *w);

/* file.c */
void resize_file(struct worker *w, uint64_t size);
void check_size(struct worker *w);
void verify(struct worker *w);

/* kept.c */
void unmap(struct worker *w, struct map *map);
void unmap_all(struct worker *w);
void map_some(struct worker *w);

/* maps.c: these functions call fail() on an error */
struct map map_fresh(struct worker *w, uint64_t off, uint64_t len, bool change);
void unmap_range(struct worker *w, unsigned char *addr, uint64_t len);
void sync_mapped(struct worker *w, unsigned char *addr, uint64_t len, int flags);

/* still.c */
void open_files(struct worker *w);
void close_files(struct worker *w);
void after_operation(struct worker *w);
void after_all(struct worker *w); /* call it while the files are open */

/* child.c: the main function of a child of exec.c */
int child_main(int argc, char **argv);

/* The address of the byte at @off of the file. */
static inline unsigned char *map_address(const struct map *map, uint64_t off)
{
	return map->addr + (off - map->off);
}

static inline uint64_t round_down(uint64_t x, uint64_t to)
{
	return x - x % to;
}

static inline uint64_t round_up(uint64_t x, uint64_t to)
{
	return round_down(x + to - 1, to);
}

#endif /* HUGEMAP_EXERCISE_H */
