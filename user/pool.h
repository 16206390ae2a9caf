/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Pools are made and destroyed (pool.c), and what fork() does to them (fork.c).
 *
 * Owns: which pools there are, and that the lists are at rest while a child is made.
 * Locks: takes pools_lock and maps_lock; around fork() fork_lock, pools_lock and steered.c's.
 */
#ifndef HM_POOL_H
#define HM_POOL_H

#include "objects.h"

int pool_create(const struct hugemap_pool_options *opts, struct pool **pool);
int pool_destroy(struct pool *pool);
int pool_check(const struct pool *pool); /* 0, or -EINVAL: not one of this process */
int fork_init(void); /* before anything is mapped; 0 or -ENOMEM */

#endif /* HM_POOL_H */
