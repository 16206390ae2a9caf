/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The counters of a cache; hm_cache_count() reads them. */
#ifndef HM_COUNTERS_H
#define HM_COUNTERS_H

/* Each counter only grows. */
enum hm_counter {
	HM_C_FAULTS, /* faults without .ahead that were answered HIT, FILL or ZERO */
	HM_C_HITS,
	HM_C_FILLS, /* faults that read a unit, a block or a base page */
	HM_C_ZERO_FILLS, /* faults that zeroed a unit instead of reading it */
	HM_C_AHEAD, /* units brought in by read-ahead */
	HM_C_AHEAD_USED, /* of these, units that were accessed */
	HM_C_AHEAD_WASTED, /* of these, units that were evicted before an access */
	HM_C_DIRTIED, /* clean units that became dirty */
	HM_C_DEACTIVATED, /* units that became inactive */
	HM_C_REACTIVATED, /* units accessed while inactive */
	HM_C_EVICTIONS,
	HM_C_GHOSTS, /* units read again soon after their eviction */
	HM_C_WRITTEN, /* base pages written back */
	HM_C_WRITE_ERRORS, /* runs whose write failed */
	HM_C_READ_ERRORS,
	HM_C_SPLITS, /* blocks split into base pages */
	HM_C_JOINS, /* blocks joined when no base page of them was cached */
	HM_C_FRAMES_SPLIT, /* huge frames split into base frames */
	HM_C_FRAMES_MERGED, /* and merged again */
	HM_C_PROMOTED,
	HM_C_NOT_PROMOTED, /* failed promotions, then one counter per enum hm_promote_result: */
	HM_C_NOT_PROMOTED_COLD,
	HM_C_NOT_PROMOTED_DIRTY,
	HM_C_NOT_PROMOTED_NEEDS_ALLOC,
	HM_C_NOT_PROMOTED_BUSY,
	HM_C_NOT_PROMOTED_NO_FRAME,
	HM_C_NOT_PROMOTED_PINNED,
	HM_C_NOT_PROMOTED_FAILED,
	HM_COUNTERS,
};

#endif /* HM_COUNTERS_H */
