/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tests with the library of `hugemap run` loaded into a program that does not use HugeMap itself.
 */
#ifndef SHIM_TEST_COMMON_H
#define SHIM_TEST_COMMON_H

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
#include <sys/mman.h>
#include <sys/wait.h>
#include <cmocka.h>

#define MB ((size_t)1 << 20)
#define PAGE ((size_t)4096)
#define SIZE (8 * MB + 5000) /* of files, above HUGEMAP_RUN_MIN_SIZE=1M */

/* Use this in a child, where a failed assertion would jump into the parent's test. */
#define CHECK(what)                                                                      \
	do {                                                                             \
		if (!(what)) {                                                           \
			fprintf(stderr, "%s, line %d: %s\n", __FILE__, __LINE__, #what); \
			_exit(1);                                                        \
		}                                                                        \
	} while (0)

struct file {
	char path[256];
	int fd; /* O_RDWR | O_CLOEXEC */
};

void file_new(struct file *file, size_t size);
void file_end(struct file *file);
unsigned char byte_of(size_t offset);
char *map_shared(const struct file *file, int prot); /* maps SIZE bytes */

int end_of(pid_t pid); /* exit status, or 128 + signal */
unsigned int watchers(void); /* number of monitor threads: 0 or 1 */
bool wait_for_watchers(unsigned int n); /* false: the number was not @n within 10 s */

/* Fails if the library is not loaded. */
int run_group(const struct CMUnitTest *tests, size_t n);
#define RUN(tests) run_group((tests), sizeof(tests) / sizeof((tests)[0]))

#endif /* SHIM_TEST_COMMON_H */
