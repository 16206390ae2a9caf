/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the policy simulator's parts share: traces of accesses, and what a policy
 * makes of one.
 */
#ifndef POLICY_H
#define POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache.h"

/* Accesses to pages of one store. A page, times two, plus one for a store. */
struct trace {
	const char *name;
	u32 *access;
	u64 n, second; /* where the second half begins, if it is counted apart */
	u64 total; /* accesses in all: from the start again after n of them */
	u32 pages; /* of the store */
	u32 touched; /* of them, how many are accessed at all; see trace_count() */
	u32 stored; /* and how many are stored to */
	bool recorded;
};

/* Of a trace, or a part of it; in pages, but for the counts of faults. */
struct result {
	u64 hits; /* accesses that waited for no read */
	u64 huge; /* accesses by a huge page */
	u64 faults;
	u64 read;
	u64 read_second; /* of that, since trace->second, the first time */
	u64 written;
	u64 promoted;
	u64 beyond; /* the most that was read for one of them */
	u64 beyond_all; /* ... and for all of them */
	u64 held; /* what is cached in the end */
};

struct limits {
	u32 frames; /* the pool, in blocks */
	u32 util; /* promote_util */
	u64 accesses; /* about as many for a trace */
};

/* What the next access of a trace is, once and again. */
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

/* hugemap.c: the core, with an engine that only counts. @size: HM_ACCESS_AUTO, _BASE or 0. */
struct result run_core(const struct trace *trace, const struct limits *limits, u32 size);

/* textbook.c: pages of 4 KB, by the book, written when they are evicted. */
struct result run_lru(const struct trace *trace, const struct limits *limits);
struct result run_oracle(const struct trace *trace, const struct limits *limits);

#endif /* POLICY_H */
