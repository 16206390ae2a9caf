/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A device as fast as memory, for --fast-device: what software costs is seen where the
 * device costs next to nothing. It is a zram device of its own (one that is there is
 * never touched) with ext4, mounted where only this process sees it; the guard takes
 * it away, whatever ends the benchmark.
 */
#ifndef BENCH_FAST_H
#define BENCH_FAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Before guard_start(): mounts made from now on are this process's and the guard's. */
bool fast_apart(char *why, size_t size);

/**
 * fast_create() - make the device, and mount it
 * @bytes: room for files
 * @why: the error, in words
 * @size: bytes of @why
 *
 * Return: the directory; NULL = it did not work.
 */
const char *fast_create(uint64_t bytes, char *why, size_t size);

#endif /* BENCH_FAST_H */
