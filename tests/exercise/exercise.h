/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The exerciser: random operations on a file, each byte of each answer compared
 * with a copy in memory. Its sources:
 *
 *	main.c	options, processes and threads, pauses for a hook command
 *	model.c	the copy in memory, the comparison, the log of what was done
 *	table.c	the operations by name, and how often each is done
 *	ops.c	which operation is next, and where
 *	file.c	operations by calls on the file, and the comparison of all of it
 *	kept.c	those by way of mappings, some kept over many operations
 *	dma.c	direct I/O into mappings and out of them, beside write-back
 *	bytes.c	those that read and write
 *	room.c	those on the file's size and its holes
 *	maps.c	those of mmap(2) and its kin
 *	pipes.c	pipes that hold pages while other things are done
 *	limits.c those of a process that may not make files long
 *	still.c	those that change nothing
 *	exec.c	those that other programs do; child.c is such a program
 *	apart.c	those for which this worker lets the file go
 *
 * A worker is a thread with its own descriptors, mappings and random numbers, so
 * that its operations are the same in every run with the same options. With one
 * thread it owns the whole file. With more it owns every n-th page: pages of
 * different owners share 2 MB blocks, and nobody changes the file's size.
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
#define MAPPINGS 8u /* mappings that a worker keeps */
#define LOG 4096u /* operations that it remembers */
#define PIPES 3u /* pipes that it keeps, with pages in them */
#define VERSIONS 32u /* of what is in one of them */
#define POLLUTION 0xee /* what is stored past the end of the file */
#define LARGEST (4ull << 20) /* bytes that one operation moves at most */

struct options {
	const char *path;
	const char *lower; /* directory of the same file below, or NULL */
	const char *hook;
	const char *without; /* names of operations, with commas */
	const char *rarely;
	uint64_t seed;
	uint64_t ops;
	uint64_t size;
	uint64_t processes;
	uint64_t threads;
	uint64_t hook_every;
	uint64_t unmap_every; /* operations; 0: never is everything unmapped at once */
	uint64_t log; /* operations printed on a failure */
	bool hook_open; /* the hook runs with files open and mapped */
	bool pollute; /* store past the end of the file too */
	bool keep_files; /* leave the files */
	bool verbose;
};

/* What the file should hold. All bytes from @size on are zero. */
struct model {
	unsigned char *bytes;
	uint64_t size;
	uint64_t polluted; /* size of the file when its last page was stored to past the end */
};

struct entry {
	const char *name;
	uint64_t op;
	uint64_t off, len;
	uint64_t arg;
	uint64_t size; /* of the file, before */
};

struct map {
	unsigned char *addr; /* NULL: none */
	uint64_t off;
	uint64_t len; /* whole pages */
	bool writable;
};

/* A pipe with a part of the file in it: see pipes.c. */
struct pipe_pages {
	int fds[2];
	uint64_t off, len; /* 0: there is none */
	uint64_t since; /* the operation that made it */
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
	char lower[512]; /* "" if there is none to compare with */
	char other[512]; /* a second file, to copy to and from */
	char outside[512]; /* another one, not served by whoever serves these; or "" */
	int fd, lower_fd;
	int direct, append; /* -1: the program has none */
	struct map maps[MAPPINGS];
	struct pipe_pages pipes[PIPES];
	unsigned char *buf; /* LARGEST bytes and a page, page-aligned */
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

/* maps.c; these functions fail by themselves */
struct map map_fresh(struct worker *w, uint64_t off, uint64_t len, bool change);
void unmap_range(struct worker *w, unsigned char *addr, uint64_t len);
void sync_mapped(struct worker *w, unsigned char *addr, uint64_t len, int flags);

/* still.c */
void open_files(struct worker *w);
void close_files(struct worker *w);
void after_operation(struct worker *w);
void after_all(struct worker *w); /* the files are still open */

/* child.c: the main function of a child, for --child */
int child_main(int argc, char **argv);

/* Where in memory a byte of the file is. */
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
