/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tests that run with the library of `hugemap run` loaded: programs that know nothing
 * of HugeMap.
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
#define SIZE (8 * MB + 5000) /* of files; all are worth a look: HUGEMAP_RUN_MIN_SIZE=1M */

/* In a child: a failed assertion would return to the parent's. */
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
char *map_shared(const struct file *file, int prot); /* all of SIZE */

int end_of(pid_t pid); /* exit status, or 128 + signal */
unsigned int watchers(void); /* threads that look at the mappings: 0 or 1 */
bool wait_for_watchers(unsigned int n); /* false: they did not come, or go, in 10 s */

/* Fails if the library is not loaded. */
int run_group(const struct CMUnitTest *tests, size_t n);
#define RUN(tests) run_group((tests), sizeof(tests) / sizeof((tests)[0]))

#endif /* SHIM_TEST_COMMON_H */
