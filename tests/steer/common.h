/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tests of the watcher, each in a process of its own: a program that maps a file and
 * tells of it, as `hugemap run` and the library do.
 */
#ifndef STEER_TEST_COMMON_H
#define STEER_TEST_COMMON_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "page.h"
#include "steer.h"

#define MB ((size_t)1 << 20)
#define PAGE ((size_t)4096)
#define SIZE (128 * MB) /* of the file */
#define WAIT_S 20

/* What a child says is wrong: a line, and exit status 1. */
#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1);                                                       \
		}                                                                       \
	} while (0)

#define WAIT_FOR(condition)                                 \
	do {                                                \
		time_t until_ = time(NULL) + WAIT_S;        \
		while (!(condition) && time(NULL) < until_) \
			nap();                              \
		CHECK(condition);                           \
	} while (0)

/* Again and again from the start, with all the faults: a busy machine's watcher is late. */
#define IN_ORDER_UNTIL(at, store, condition)                                \
	do {                                                                \
		int round_;                                                 \
		in_order(at, SIZE, store);                                  \
		for (round_ = 0; round_ < 50 && !(condition); round_++) {   \
			CHECK(!madvise((void *)(at), SIZE, MADV_DONTNEED)); \
			in_order(at, SIZE, store);                          \
		}                                                           \
		CHECK(condition);                                           \
	} while (0)

/* One file for all tests of a program. */
int new_group(void **state);
int end_group(void **state);
int open_file(int flags);
unsigned char byte_of(size_t offset);
void forget_cached(int fd);

/* All of it; the watcher is told. */
void *map_file(int fd, int prot, int flags);
void unmap_file(void *at);
/* A byte of each page, as slowly as a disk would have it: stored, or compared. */
void in_order(volatile char *at, size_t size, bool store);

void nap(void); /* 1 ms */
int threads_now(void); /* as the kernel counts them */
/* Flags of the area that an address lies in: two letters each (proc(5)). */
bool has_flag(const void *at, const char *flag);
/* What the watcher tells of a mapping; NULL = nothing. */
const struct steer_map *told_of(const void *at);
bool has_pattern(const void *at, unsigned int pattern);

/* A test runs in a child, so that each begins without a watcher. */
void in_child(void (*test)(void));

#define RUN(name)                             \
	static void name##_test(void **state) \
	{                                     \
		in_child(name);               \
	}

#endif /* STEER_TEST_COMMON_H */
