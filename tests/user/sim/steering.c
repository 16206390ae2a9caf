// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* There are no mappings without a pool in the simulated world. */
#include "steered.h"

#include <errno.h>

void *steered_map(int fd, off_t offset, size_t length, int prot, int flags)
{
	return (void *)(intptr_t)-EOPNOTSUPP;
}

void *steered_remap(char *start, char *end, size_t new_length)
{
	return (void *)(intptr_t)-EOPNOTSUPP;
}

bool steered_covers(const void *addr)
{
	return false;
}

int steered_forget(char *start, char *end)
{
	return 0;
}

bool steered_conflicts(dev_t dev, ino_t ino, bool writable)
{
	return false;
}

int steered_unmap(char *start, char *end, bool *found)
{
	return 0;
}

int steered_sync(char *start, char *end, int flags)
{
	return -EINVAL;
}

int steered_advise(char *start, char *end, enum hugemap_advice advice)
{
	return -EINVAL;
}

int steered_prefetch(char *start, char *end)
{
	return -EINVAL;
}

int steered_stat(const void *addr, struct hugemap_stat *stat)
{
	return -EINVAL;
}

void steered_lock(void)
{
}

void steered_unlock(void)
{
}
