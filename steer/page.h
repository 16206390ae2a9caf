/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The report of the monitor thread: a memfd in the thread's own table of descriptors, which the
 * program does not see. `hugemap stat PID` finds it in /proc/PID/task/TID/fd. There is one
 * writer. A reader may find a line half written, but never an address to follow.
 */
#ifndef HUGEMAP_STEER_PAGE_H
#define HUGEMAP_STEER_PAGE_H

#include <stdint.h>

#define STEER_MEMFD_NAME "hugemap-steer"
/* The name of the monitor thread. A reader can find the thread by nothing else. */
#define STEER_THREAD_NAME "hugemap"
#define STEER_MAGIC 0x48554d53u
#define STEER_VERSION 4u
#define STEER_PAGE_MAPS 256u

/* The pattern of accesses to a mapping, as far as the looks have shown it. */
enum steer_pattern {
	STEER_UNKNOWN, /* too little was touched to tell */
	STEER_STREAM, /* in order */
	STEER_STREAMS, /* several streams at a time */
	STEER_BACKWARD,
	STEER_STRIDED,
	STEER_CHUNKS, /* here and there, in runs */
	STEER_RANDOM, /* here and there, single pages */
	STEER_HINTED, /* the program gives advice itself */
	STEER_PATTERNS,
};

/* Kinds of advice. The page counts the calls and the bytes of each kind. */
enum steer_act {
	STEER_ACT_RANDOM, /* MADV_RANDOM */
	STEER_ACT_HUGE, /* MADV_HUGEPAGE */
	STEER_ACT_NORMAL, /* advice taken back */
	STEER_ACT_AHEAD, /* MADV_WILLNEED */
	STEER_ACT_POPULATE, /* MADV_POPULATE_READ */
	STEER_ACTS,
};

struct steer_map {
	uint64_t id; /* 0 = free; the first one is 1 */
	uint64_t start, bytes, offset; /* offset: in the file */
	uint32_t ended; /* unmapped; used again when there is no other entry */
	uint32_t writable, private;
	uint32_t pattern; /* enum steer_pattern: now */
	uint32_t huge_works; /* 0 = not known, 1 = huge folios came, 2 = they did not */
	uint64_t touched; /* bytes that were seen mapped for the first time */
	uint64_t huge; /* bytes that are mapped by huge pages now */
	uint64_t count[STEER_ACTS], amount[STEER_ACTS]; /* calls, bytes */
	uint64_t dev, ino;
	char path[160]; /* the end of it, if it is longer */
	char why[120]; /* the last decision, in words */
};

struct steer_page {
	uint32_t magic, version;
	uint32_t pid;
	uint32_t running; /* the thread is there */
	uint32_t missed; /* mappings that had no room here */
	uint32_t pad;
	uint64_t looks, look_ns; /* number of looks, and their processor time */
	uint64_t act_ns; /* time in the calls that carried advice out */
	uint64_t minflt, majflt; /* of the process, at the last look */
	uint64_t read_bytes; /* of the process (/proc/self/io), at the last look */
	struct steer_map maps[STEER_PAGE_MAPS];
};

static const char *const __attribute__((unused)) steer_pattern_names[STEER_PATTERNS] = {
	[STEER_UNKNOWN] = "unknown",   [STEER_STREAM] = "stream",   [STEER_STREAMS] = "streams",
	[STEER_BACKWARD] = "backward", [STEER_STRIDED] = "strided", [STEER_CHUNKS] = "chunks",
	[STEER_RANDOM] = "random",     [STEER_HINTED] = "hinted",
};

static const char *const __attribute__((unused)) steer_act_names[STEER_ACTS] = {
	[STEER_ACT_RANDOM] = "random",	   [STEER_ACT_HUGE] = "huge",
	[STEER_ACT_NORMAL] = "normal",	   [STEER_ACT_AHEAD] = "ahead",
	[STEER_ACT_POPULATE] = "populate",
};

#endif /* HUGEMAP_STEER_PAGE_H */
