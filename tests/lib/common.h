/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Shared by the tests of libhugemap: files with known contents, and signals as results.
 *
 *	HM_TEST_ONLY=PATTERN	run tests whose names match; * and ? are wildcards
 *	HM_TEST_DIR=DIR		where the files are (default: /var/tmp)
 */
#ifndef HM_TEST_COMMON_H
#define HM_TEST_COMMON_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <cmocka.h>

#include "hugemap.h"

#define MB(n) ((size_t)(n) << 20)
#define PAGE ((size_t)4096)
#define BLOCK MB(2)

/* A temporary file; file_close() removes it. */
struct file {
	char path[256];
	int fd;
};

void file_pattern(struct file *file, size_t size, uint64_t seed);
void file_close(struct file *file);

/* The byte of a pattern at an offset. */
static inline unsigned char pattern_byte(uint64_t seed, size_t offset)
{
	uint64_t word = (offset / 8 + 1) * 0x9e3779b97f4a7c15ull + seed;

	return (unsigned char)(word >> (offset % 8 * 8));
}

/* The offset of the first byte that differs from the pattern, or @size. */
size_t pattern_differs(const void *data, uint64_t seed, size_t offset, size_t size);

/* The signal that reading a byte raises; 0 = none. */
int signal_of_read(const volatile char *addr);

struct hugemap_stat stat_of(const void *addr);

/* Assert that a call of the library succeeded; print its reason if it failed. */
#define ok(call) check_ok((call), #call, __FILE__, __LINE__)
void check_ok(long result, const char *what, const char *file, int line);

/* A small generator, so that tests are repeatable. */
static inline uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* In a child: exit with status 1 unless the condition holds. */
#define must(cond) check_in_child((cond), #cond)
void check_in_child(bool good, const char *what);
/* Run @work in a child. Return: its exit status, or 128 + the signal that ended it. */
int status_of_child(void (*work)(void *arg), void *arg);

/*
 * In a child: from now on system call @nr fails with @err if argument @arg has @value
 * (0 = always).
 */
void forbid(unsigned int nr, unsigned int arg, unsigned int value, int err);

int run_group(const struct CMUnitTest *tests, size_t n);
#define RUN(tests) run_group((tests), sizeof(tests) / sizeof((tests)[0]))

#endif /* HM_TEST_COMMON_H */
