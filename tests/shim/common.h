/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tests that run under the shim: the program knows nothing of HugeMap, but for
 * the page that `hugemap stat` reads, which tells the rung of each mapping.
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

#include "run.h"

#define PAGE ((size_t)4096)
#define BLOCK ((size_t)2 << 20)
#define SIZE (4 * BLOCK + 5000)

struct file {
	char path[256];
	int fd; /* O_RDWR | O_CLOEXEC */
};

void file_new(struct file *file, size_t size);
void file_end(struct file *file);
unsigned char byte_of(size_t offset);

/* Map a whole file and assert that the engine serves it. */
char *map_live(const struct file *file);
char *map_settled(struct file *file); /* for reading; file->fd is O_RDONLY from now on */
const struct run_map *entry_of(const void *addr); /* NULL: not told */
enum run_rung rung_of(const void *addr);
const char *why_of(const void *addr);

/* A process that was started before anything was mapped, and does what it is told. */
struct helper {
	pid_t pid;
	int to, from;
};

enum order {
	OPEN_READ, /* returns 0 */
	OPEN_WRITE,
	READ_BYTE, /* at @at; returns the byte */
	WRITE_BYTE, /* 'W' at @at */
	TRY_LOCK, /* a record lock on the byte at @at; returns 1 if it is had */
	CLOSE,
	QUIT,
};

void helper_start(struct helper *helper, const struct file *file);
int helper_do(struct helper *helper, enum order order, size_t at);
void helper_end(struct helper *helper);

int end_of(pid_t pid); /* exit status, or 128 + signal */
int signal_of_read(const volatile char *addr);

int run_group(const struct CMUnitTest *tests, size_t n);
#define RUN(tests) run_group((tests), sizeof(tests) / sizeof((tests)[0]))

#endif /* SHIM_TEST_COMMON_H */
