/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Shared code of the cache's unit tests: a cache with some files, the steps of an engine, and
 * an audit of all invariants.
 *
 * Every test runs with the real sizes (512 pages in a block, 512 slots in a node), and again
 * with 8 and 8, so that few pages reach every level. Use BLOCK and P() instead of numbers.
 *
 * Pictures of states have one letter for each unit, in file order, and "|" between blocks. Blocks
 * are drawn with 8 pages.
 *
 *	.  absent	F  filling	C  clean	D  dirty
 *	W  under write-back		E  claimed by eviction or promotion
 *
 * A capital is a huge unit, with "-" for its other pages. A small letter is a base page:
 *
 *	| D - - - - - - - | c . d . . . . . |	a dirty huge unit; two cached pages of a split block
 */
#ifndef HM_TEST_COMMON_H
#define HM_TEST_COMMON_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <cmocka.h>

#include "bits.h"
#include "cache.h"
#include "dirty.h"
#include "dirty_map.h"
#include "evict.h"
#include "fault.h"
#include "file.h"
#include "index.h"
#include "move.h"
#include "pool.h"
#include "promote.h"
#include "promotion.h"
#include "queue.h"
#include "readahead.h"
#include "reclaim.h"
#include "stream.h"
#include "writeback.h"

#define BLOCK ((u64)HM_BLOCK_PAGES)

/* The first page of a block, and the length of some blocks in bytes. */
#define P(block) (BLOCK * (block))
#define BYTES(blocks) ((u64)(blocks) << HM_BLOCK_SHIFT)

#define MAX_VICTIMS 64u

struct env {
	struct hm_cache *cache;
	struct hm_file *file; /* the first one opened */
	struct hm_file *all[16];
	u32 nfiles;
	void *mem;
};

/* Set up a cache of @frames huge frames. A test may change the options before env_init(). */
struct hm_options options_for(u32 frames, u32 cpus);
void env_init(struct env *env, const struct hm_options *opts);
void env_start(struct env *env, u32 frames, u32 cpus, u64 file_bytes);
struct hm_file *env_open(struct env *env, u64 bytes);
void env_close(struct env *env, struct hm_file *file);
/* Audit, empty and close all files. Every frame must be free afterwards. */
void env_end(struct env *env);

/* Check all invariants. The cache must be idle. */
void audit(struct env *env);

/* hm_fault() that adds missing index nodes. */
enum hm_outcome fault(struct hm_file *file, u64 pgoff, struct hm_access access,
		      struct hm_unit *unit);

/* Read a page: the fault must be a miss, and its fill succeeds. */
struct hm_unit bring(struct hm_file *file, u64 pgoff, struct hm_access access);
/* Touch a page that must be cached. */
struct hm_unit touch(struct hm_file *file, u64 pgoff, struct hm_access access);
/* Touch or read a page, and reclaim frames like an engine. True: it was a hit. */
bool use(struct hm_file *file, u64 pgoff, struct hm_access access);

/* hm_fault_around() for one page. */
bool around(struct hm_file *file, u64 pgoff, struct hm_unit *unit);

enum hm_state state_of(struct hm_file *file, u64 pgoff);

/* Run one round of reclaim and evict the claimed units. Returns the result of hm_reclaim(). */
u32 reclaim(struct hm_cache *cache, enum hm_kind kind, u32 want, struct hm_victim *victims,
	    u32 *evicted);
/* Reclaim until @want units are evicted, or none is left. Returns the number of evicted ones. */
u32 evict(struct hm_cache *cache, enum hm_kind kind, u32 want);

/* Write all dirty units in a range. Returns the number of runs. */
u32 write_range(struct hm_file *file, u64 start, u64 end);
u32 write_all(struct hm_file *file);

/* Remove a range from the cache. Returns the number of removed units. */
u32 drop(struct hm_file *file, u64 start, u64 end, bool discard);

/* Let drop(), evict() and reclaim() free index nodes without cached units, until env_end(). */
extern bool frees_nodes;
void add_node(struct hm_file *file, u64 pgoff, enum hm_node_kind kind,
	      const unsigned long *zero_fill, const unsigned long *needs_alloc);

#endif /* HM_TEST_COMMON_H */
