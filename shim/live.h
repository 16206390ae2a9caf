/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Calls on descriptors of LIVE files, and those that pass. */
#ifndef SHIM_LIVE_H
#define SHIM_LIVE_H

#include "shim.h"

#define BOUNCE_BYTES (256u << 10)

struct live {
	struct shim_section section;
	struct file *file;
	int fd;
	int mode; /* of the open file */
};

bool live_begin(struct live *live, int fd);
ssize_t live_end(struct live *live, ssize_t result);
bool live_can(const struct live *live, int access);
atomic_int *live_begin_passing(int fd);

/* The result of a call that was left to the kernel, which is over. */
static inline ssize_t live_passed(atomic_int *passing, ssize_t result)
{
	shim_passed(passing);
	return result;
}

#endif /* SHIM_LIVE_H */
