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

/* One access to a page of one store. */
struct access {
	u32 page;
	bool store;
};

struct trace {
	const char *name;
	struct access *access;
	u64 n, second; /* where the second half begins, if it is counted apart */
	u32 pages; /* of the store */
};

/* Of a trace, or a part of it; in pages, but for the counts of faults. */
struct result {
	u64 hits; /* accesses that waited for no read */
	u64 faults;
	u64 read;
	u64 read_second; /* of that, since trace->second */
	u64 written;
	u64 promoted;
	u64 beyond; /* the most that was read for one of them */
	double huge; /* of what is cached in the end, how much in huge units */
};

struct limits {
	u32 frames; /* the pool, in blocks */
	u64 accesses; /* about as many for a trace */
};

/* trace.c */
extern const char *const trace_names[];
struct trace trace_make(const char *name, const struct limits *limits);
struct trace trace_read(const char *path);
void trace_free(struct trace *trace);

/* hugemap.c: the core, with an engine that only counts. @size: HM_ACCESS_AUTO, _BASE or 0. */
struct result run_core(const struct trace *trace, const struct limits *limits, u32 size);

/* textbook.c: pages of 4 KB, by the book, written when they are evicted. */
struct result run_lru(const struct trace *trace, const struct limits *limits);
struct result run_oracle(const struct trace *trace, const struct limits *limits);

#endif /* POLICY_H */
