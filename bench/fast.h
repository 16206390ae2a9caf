/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A device as fast as memory, for --fast-device. It shows the cost of software, because the device
 * itself costs almost nothing. It is a new zram device with ext4, mounted in the mount name space
 * of this process only. An existing zram device is never touched. The guard removes the device,
 * however the benchmark ends.
 */
#ifndef BENCH_FAST_H
#define BENCH_FAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Call it before guard_start(). Only this process and the guard see later mounts. */
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
