/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A mount of the kernel engine for one run. */
#ifndef BENCH_KERNEL_MOUNT_H
#define BENCH_KERNEL_MOUNT_H

#include <stddef.h>

#include "engine.h"

struct volume;

/**
 * bench_mount() - mount a directory through the kernel engine, out of sight
 * @dir: the directory
 * @page: the option "page" of the mount
 * @pool_bytes: size of its pool
 * @why: filled in with the error, in words
 * @size: bytes of @why
 *
 * The mount has no mount point: its files are opened relative to the returned descriptor.
 * The kernel unmounts it when that descriptor and the files are closed, however the process
 * ends.
 *
 * Return: the descriptor, or -1.
 */
int bench_mount(const char *dir, enum hugemap_page page, uint64_t pool_bytes, char *why,
		size_t size);
/*
 * Returns the reason why the kernel engine does not work here, in words; NULL = it works. Loads the
 * module.
 */
const char *kernel_unusable(struct result *shared, const struct volume *volume);

#endif /* BENCH_KERNEL_MOUNT_H */
