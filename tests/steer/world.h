/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A model of Linux's page cache for the tests of the policy. The mode of a page determines which
 * pages a fault on it reads. Reads take as long as on a fast disk. After page faults, looks follow
 * a millisecond apart.
 */
#ifndef STEER_TEST_WORLD_H
#define STEER_TEST_WORLD_H

#include "common.h"

#include "policy.h"

#define REGION ((u64)REGION_PAGES)
#define PAGES (1024 * REGION) /* of the mapping */
#define AROUND 16u

struct world {
	struct hm_advisor a;
	struct hm_region *region;
	struct hm_advice advice[HM_ADVICES];
	u8 *mode; /* of each page: enum hm_mode */
	u8 *cached, *mapped, *seen;
	u64 pages, memory;
	u32 window; /* pages that the kernel reads ahead by its own guess */
	u64 wanted, read, faults; /* accesses, pages, waits for a read */
	u64 held, ahead;
	u32 *fifo; /* cached pages, the oldest first */
	u64 in, out;
	u64 now_ns, looked_ns, period_ns;
	bool faulted;
	bool holes; /* the file is sparse: nothing is read from a device */
	u32 looks, modes; /* @modes: changes of the mode of the whole mapping */
};

void world_make(struct world *w, u64 pages, u64 memory, bool writable);
void world_end(struct world *w);
/* Access a page. If it was not mapped, that is a page fault, and a look may follow. */
void world_access(struct world *w, u64 page);

static inline u64 any_page(u64 below)
{
	return random_number() % below;
}

#endif /* STEER_TEST_WORLD_H */
