/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the tests of the user-space engine share: files with known contents,
 * pools, and signals as results.
 *
 * The same programs run in several settings, by the environment:
 *	HM_TEST_IO=threads	without io_uring
 *	HM_TEST_HANDLERS=2	several handler threads
 *	HM_TEST_ONLY=PATTERN	tests whose names match, * and ? included
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

#define KB(n) ((size_t)(n) << 10)
#define MB(n) ((size_t)(n) << 20)
#define PAGE ((size_t)4096)
#define BLOCK MB(2)

/* Rounds of a long random test: a thread sanitizer makes each many times as slow. */
#ifdef __SANITIZE_THREAD__
#define ROUNDS(n) ((n) / 4)
#else
#define ROUNDS(n) (n)
#endif

/* A file of the test's own, removed when closed by file_close(). */
struct file {
	char path[256];
	int fd;
};

void file_new(struct file *file, size_t size); /* empty: one hole */
void file_pattern(struct file *file, size_t size, uint64_t seed);
void file_close(struct file *file);

/* The byte that a pattern has at an offset. */
static inline unsigned char pattern_byte(uint64_t seed, size_t offset)
{
	uint64_t word = (offset / 8 + 1) * 0x9e3779b97f4a7c15ull + seed;

	return (unsigned char)(word >> (offset % 8 * 8));
}

/* The offset of the first byte that is not the pattern's, or size. */
size_t pattern_differs(const void *data, uint64_t seed, size_t offset, size_t size);
void pattern_fill(void *data, uint64_t seed, size_t offset, size_t size);

/* The whole file, as the kernel sees it. The caller frees it. */
unsigned char *file_read(const struct file *file, size_t *size);
size_t file_length(const struct file *file);

struct hugemap_pool *pool_new(size_t bytes);
struct hugemap_pool *pool_new_options(const struct hugemap_pool_options *options);
void pool_free(struct hugemap_pool *pool);

/* Map a whole file; fails the test if that fails. */
char *map_file(const struct file *file, struct hugemap_pool *pool, int prot);
char *map_range(const struct file *file, off_t offset, size_t length, struct hugemap_pool *pool,
		int prot);

/* The signal that reading (or writing) a byte raises, or 0; *where: si_addr. */
int signal_of_read(const volatile char *addr, void **where);
int signal_of_write(volatile char *addr, void **where);

struct hugemap_stat stat_of(const void *addr);

/* assert that a call of the library succeeded, with its words if not */
#define ok(call) check_ok((call), #call, __FILE__, __LINE__)
void check_ok(long result, const char *what, const char *file, int line);

/* Wait (up to half a minute) until a condition holds; fails the test if not. */
#define eventually(cond)                                              \
	do {                                                          \
		int tries_;                                           \
                                                                      \
		for (tries_ = 0; tries_ < 30000 && !(cond); tries_++) \
			usleep(1000);                                 \
		assert_true(cond);                                    \
	} while (0)

/* A small generator, so that tests are repeatable. */
static inline uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* In a child, whose assertions are its exit status. */
#define must(cond) check_in_child((cond), #cond)
void check_in_child(bool good, const char *what);
int status_of_child(void (*work)(void *arg), void *arg); /* as a shell has it */

/* In a child: a system call (with this value of an argument, if not 0) fails from now on. */
void forbid(unsigned int nr, unsigned int arg, unsigned int value, int err);

/* Run a group of tests; skips all of it (77) where no pool can be made. */
int run_group(const struct CMUnitTest *tests, size_t n);
int run_group_anywhere(const struct CMUnitTest *tests, size_t n);
#define RUN(tests) run_group((tests), sizeof(tests) / sizeof((tests)[0]))
#define RUN_ANYWHERE(tests) run_group_anywhere((tests), sizeof(tests) / sizeof((tests)[0]))

#endif /* HM_TEST_COMMON_H */
