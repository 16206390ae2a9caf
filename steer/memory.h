/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The page cache that a process could have within its memory cgroups, and signs of too little. */
#ifndef HM_STEER_MEMORY_H
#define HM_STEER_MEMORY_H

#include <stdint.h>

/*
 * Returns bytes, at most the limit of the memory cgroup; 0 = not known. Opens and closes files of
 * /proc and /sys/fs/cgroup.
 */
uint64_t memory_for_cache(void);
/*
 * Returns how many bytes of files this machine has read again soon after it had evicted them, since
 * it was started; 0 = not known.
 */
uint64_t memory_read_again(void);
/* Returns the bytes for another process. @cgroup is its /proc/PID/cgroup. */
uint64_t memory_for_cache_of(const char *cgroup);

#endif /* HM_STEER_MEMORY_H */
