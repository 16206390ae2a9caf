/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tests of the monitor thread, each in a process of its own: a program that maps a file and reports
 * the mapping, as `hugemap run` and the library do.
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
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SIZE (128 * MB) /* of the file */
#define WAIT_S 20

/* Check a condition in a child. If it fails, print a line and exit with status 1. */
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

/*
 * Touch all pages in order, with all page faults, until a condition holds. On a busy machine the
 * monitor may need several rounds.
 */
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

/* All tests of a program share one file. */
int new_group(void **state);
int end_group(void **state);
int open_file(int flags);
unsigned char byte_of(size_t offset);
void forget_cached(int fd);

/* Map the whole file, and report the mapping to the monitor. */
void *map_file(int fd, int prot, int flags);
void unmap_file(void *at);
/* Store or compare a byte of each page, as slowly as a disk would deliver the pages. */
void in_order(volatile char *at, size_t size, bool store);

/* The next number of a fixed sequence, of which each program has one. */
static inline uint64_t random_number(void)
{
	static uint64_t state = 88172645463325252ull;

	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

/* Install a filter that returns @answer for one kind of madvise(). */
void filter_advice(unsigned int advice, unsigned int answer);
/*
 * Install a filter in all threads that ends the process for calls of the monitor. The caller has
 * set PR_SET_NO_NEW_PRIVS. Returns false if the kernel refuses that.
 */
bool filter_all_threads(void);

void nap(void); /* 1 ms */
int threads_now(void); /* number of threads, as the kernel counts them */
/* Does the area that contains an address have a flag? Flags have two letters (proc(5)). */
bool has_flag(const void *at, const char *flag);
/* The monitor's report of a mapping; NULL = none. */
const struct steer_map *told_of(const void *at);
bool has_pattern(const void *at, unsigned int pattern);

/* Run a test in a child, so that each test begins without a monitor. */
void in_child(void (*test)(void));

#define RUN(name)                             \
	static void name##_test(void **state) \
	{                                     \
		in_child(name);               \
	}

#endif /* STEER_TEST_COMMON_H */
