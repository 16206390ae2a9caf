/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The policy simulator: traces of accesses, and the results of a policy on a trace.
 */
#ifndef POLICY_H
#define POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Accesses to the pages of one file: page * 2 + 1 for a store, page * 2 for a load. */
struct trace {
	const char *name;
	u32 *access;
	u64 n;
	u64 second; /* start of a second half whose reads are counted separately, or 0 */
	u64 total; /* number of accesses to run; the trace repeats after n */
	u32 pages; /* size of the file */
	u32 touched; /* distinct pages that are accessed; see trace_count() */
	u32 stored; /* distinct pages that are stored to */
	bool recorded;
};

/* The results of a trace. Counts are in pages unless they are accesses or faults. */
struct result {
	u64 hits; /* accesses that did not wait for a read */
	u64 huge; /* accesses through a huge page */
	u64 faults;
	u64 read;
	u64 read_second; /* pages read in the second half, in its first run */
	u64 written;
	u64 promoted; /* blocks */
	u64 beyond; /* most pages read to promote one block */
	u64 beyond_all; /* pages read to promote all blocks */
	u64 cached; /* pages in the cache at the end */
};

struct limits {
	u32 frames; /* the pool, in blocks */
	u32 util; /* promote_util */
	u64 accesses; /* approximate length of a made trace */
};

/* The index of the next access; the trace repeats. */
static inline u64 trace_next(const struct trace *trace, u64 at)
{
	return ++at == trace->n ? 0 : at;
}

/* trace.c */
extern const char *const trace_names[];
bool trace_is_made(const char *name);
struct trace trace_make(const char *name, const struct limits *limits);
void trace_add(struct trace *trace, u64 page, bool store);
void trace_count(struct trace *trace, u64 accesses);
void trace_free(struct trace *trace);

/* recorded.c */
const char *trace_parse(struct trace *trace, const u8 *data, size_t length);
struct trace trace_read(const char *path, u32 copies);

/* hugemap.c: the cache, with an engine that only counts. @size: of new units. */
struct result run_core(const struct trace *trace, const struct limits *limits, enum hm_size size);

/* textbook.c: caches of 4 KB pages, which write a dirty page when they evict it. */
struct result run_lru(const struct trace *trace, const struct limits *limits);
struct result run_oracle(const struct trace *trace, const struct limits *limits);

#endif /* POLICY_H */
