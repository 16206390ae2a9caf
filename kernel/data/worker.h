/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* worker.c: run a function in a worker and wait, killably. */
#ifndef HUGEMAP_DATA_WORKER_H
#define HUGEMAP_DATA_WORKER_H

#include "data.h"

typedef int (*hugemap_work_fn)(struct hugemap_inode *hi, u64 pgoff, u64 npages,
			       struct hm_access access);

/*
 * Run @fn in a worker with the credentials of this task, and return its result. After a fatal
 * signal this returns -EINTR while @fn goes on.
 */
int hugemap_by_worker(struct hugemap_inode *hi, hugemap_work_fn fn, u64 pgoff, u64 npages,
		      struct hm_access access);

#endif /* HUGEMAP_DATA_WORKER_H */
