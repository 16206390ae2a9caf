/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The report of the monitor thread. It lies in a memfd in the thread's own table of descriptors,
 * which the program does not see. `hugemap stat PID` finds it in /proc/PID/task/TID/fd. Only the
 * monitor writes it. A reader may find an entry half written, but never an address to follow.
 */
#ifndef HUGEMAP_STEER_PAGE_H
#define HUGEMAP_STEER_PAGE_H

#include <stdint.h>

#define STEER_MEMFD_NAME "hugemap-steer"
/* The name of the monitor thread, by which readers in other processes find the thread. */
#define STEER_THREAD_NAME "hugemap"
#define STEER_MAGIC 0x48554d53u
#define STEER_VERSION 5u
#define STEER_PAGE_MAPS 256u

/* The pattern of accesses to a mapping that the policy has found in its looks. */
enum steer_pattern {
	STEER_UNKNOWN, /* the program has touched too little */
	STEER_STREAM, /* in ascending order */
	STEER_STREAMS, /* several streams at a time */
	STEER_BACKWARD,
	STEER_STRIDED,
	STEER_CHUNKS, /* at scattered places, in runs of pages */
	STEER_RANDOM, /* at scattered places, single pages */
	STEER_HINTED, /* the program gives advice itself */
	STEER_PATTERNS,
};

/* Kinds of advice. The page counts the calls and the bytes of each kind. */
enum steer_act {
	STEER_ACT_RANDOM, /* MADV_RANDOM */
	STEER_ACT_HUGE, /* MADV_HUGEPAGE */
	STEER_ACT_NORMAL, /* MADV_NORMAL or MADV_NOHUGEPAGE, which take advice back */
	STEER_ACT_AHEAD, /* MADV_WILLNEED */
	STEER_ACTS,
};

#define STEER_NOT_STEERED 2u

struct steer_map {
	uint64_t id; /* 0 = the entry is free; the first mapping has 1 */
	uint64_t start, bytes, offset; /* offset: in the file */
	/*
	 * 1 = the mapping was unmapped; STEER_NOT_STEERED = it is not steered, and @why has the
	 * reason. The monitor reuses the entry if no other is free.
	 */
	uint32_t ended;
	uint32_t writable, private;
	uint32_t pattern; /* enum steer_pattern of the last look */
	uint32_t huge_works; /* 0 = unknown, 1 = the kernel mapped huge folios, 2 = it did not */
	uint64_t touched; /* bytes of pages that a look found mapped for the first time */
	uint64_t huge; /* bytes that huge pages map now */
	uint64_t count[STEER_ACTS], amount[STEER_ACTS]; /* calls, bytes */
	uint64_t dev, ino;
	char path[160]; /* only the end of a longer path */
	char why[120]; /* the last decision and its reason, in words */
};

struct steer_page {
	uint32_t magic, version;
	uint32_t pid;
	uint32_t running; /* the monitor thread runs */
	uint32_t missed; /* mappings for which no entry was free */
	uint32_t refused; /* the kernel refused scans or advice: the process has a filter */
	uint64_t looks, look_ns; /* number of looks, and their processor time */
	uint64_t act_ns; /* time of the system calls that gave advice */
	uint64_t minflt, majflt; /* page faults of the process, at the last look */
	uint64_t read_bytes; /* read_bytes of the process (/proc/self/io), at the last look */
	struct steer_map maps[STEER_PAGE_MAPS];
};

static const char *const __attribute__((unused)) steer_pattern_names[STEER_PATTERNS] = {
	[STEER_UNKNOWN] = "unknown",   [STEER_STREAM] = "stream",   [STEER_STREAMS] = "streams",
	[STEER_BACKWARD] = "backward", [STEER_STRIDED] = "strided", [STEER_CHUNKS] = "chunks",
	[STEER_RANDOM] = "random",     [STEER_HINTED] = "hinted",
};

static const char *const __attribute__((unused)) steer_act_names[STEER_ACTS] = {
	[STEER_ACT_RANDOM] = "random",
	[STEER_ACT_HUGE] = "huge",
	[STEER_ACT_NORMAL] = "normal",
	[STEER_ACT_AHEAD] = "ahead",
};

#endif /* HUGEMAP_STEER_PAGE_H */
