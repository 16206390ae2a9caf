/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How much page cache a process could have: a memory cgroup's limit is seen. */
#ifndef HM_STEER_MEMORY_H
#define HM_STEER_MEMORY_H

#include <stdint.h>

/* Returns bytes; 0 = not known. Opens and closes files of /proc and /sys/fs/cgroup. */
uint64_t memory_for_cache(void);
/* Returns the bytes for another process. @cgroup is its /proc/PID/cgroup. */
uint64_t memory_for_cache_of(const char *cgroup);

#endif /* HM_STEER_MEMORY_H */
