/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How much page cache a process could have: a memory cgroup's limit is seen. */
#ifndef HM_STEER_MEMORY_H
#define HM_STEER_MEMORY_H

#include <stdint.h>

/* Bytes; 0 if it cannot be told. Opens and closes files of /proc and /sys/fs/cgroup. */
uint64_t memory_for_cache(void);
/* The same of another process, of which @cgroup is /proc/PID/cgroup. */
uint64_t memory_for_cache_of(const char *cgroup);

#endif /* HM_STEER_MEMORY_H */
