/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The amount of page cache that a process could have, within the limits of its memory cgroups. */
#ifndef HM_STEER_MEMORY_H
#define HM_STEER_MEMORY_H

#include <stdint.h>

/* Returns bytes; 0 = not known. Opens and closes files of /proc and /sys/fs/cgroup. */
uint64_t memory_for_cache(void);
/* Returns the bytes for another process. @cgroup is its /proc/PID/cgroup. */
uint64_t memory_for_cache_of(const char *cgroup);

#endif /* HM_STEER_MEMORY_H */
